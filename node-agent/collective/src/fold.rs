//! Element by element: what an operation makes of two contributions. Plain loops over fixed-size chunks, which stable rustc turns into
//! vector code. Rounding: [`crate::order`].

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::call::{Dtype, ReduceOp};

/// Half floats that are converted at once.
pub(crate) const BATCH: usize = 256;

/// Makes the loop of one element type: `acc = f(acc, src)` element by element.
macro_rules! each {
    ($name:ident, $type:ty, $size:literal) => {
        #[inline(always)]
        fn $name(acc: &mut [u8], src: &[u8], f: impl Fn($type, $type) -> $type) {
            let (acc, _) = acc.as_chunks_mut::<$size>();
            let (src, _) = src.as_chunks::<$size>();
            for (a, s) in acc.iter_mut().zip(src) {
                *a = f(<$type>::from_ne_bytes(*a), <$type>::from_ne_bytes(*s)).to_ne_bytes();
            }
        }
    };
}
each!(each_f32, f32, 4);
each!(each_f64, f64, 8);
each!(each_i32, i32, 4);
each!(each_i64, i64, 8);

/// The float functions of [`crate::order`], for one type.
macro_rules! float_fold {
    ($each:ident, $type:ident, $op:expr, $acc:expr, $src:expr) => {{
        let quiet = |r: $type| if r.is_nan() { $type::NAN } else { r };
        match $op {
            ReduceOp::Sum => $each($acc, $src, |a, b| quiet(a + b)),
            ReduceOp::Prod => $each($acc, $src, |a, b| quiet(a * b)),
            ReduceOp::Min => $each($acc, $src, |a, b| {
                let least = if b < a { b } else { a };
                if a.is_nan() | b.is_nan() { $type::NAN } else { least }
            }),
            ReduceOp::Max => $each($acc, $src, |a, b| {
                let greatest = if b > a { b } else { a };
                if a.is_nan() | b.is_nan() { $type::NAN } else { greatest }
            }),
        }
    }};
}

macro_rules! int_fold {
    ($each:ident, $op:expr, $acc:expr, $src:expr) => {
        match $op {
            ReduceOp::Sum => $each($acc, $src, |a, b| a.wrapping_add(b)),
            ReduceOp::Prod => $each($acc, $src, |a, b| a.wrapping_mul(b)),
            ReduceOp::Min => $each($acc, $src, |a, b| a.min(b)),
            ReduceOp::Max => $each($acc, $src, |a, b| a.max(b)),
        }
    };
}

/// `acc = acc op src`, rounded to the dtype. Both hold whole elements and have equal lengths.
///
/// Always inlined, so that a caller can have it compiled for wider vectors; the bits are the same.
#[inline(always)]
pub fn fold(dtype: Dtype, op: ReduceOp, acc: &mut [u8], src: &[u8]) {
    match dtype {
        Dtype::F32 => float_fold!(each_f32, f32, op, acc, src),
        Dtype::F64 => float_fold!(each_f64, f64, op, acc, src),
        Dtype::I32 => int_fold!(each_i32, op, acc, src),
        Dtype::I64 => int_fold!(each_i64, op, acc, src),
        Dtype::Bf16 => float_fold!(each_bf16, f32, op, acc, src),
        Dtype::F16 => {
            let (mut wide, mut next) = ([0f32; BATCH], [0f32; BATCH]);
            for (acc, src) in acc.chunks_mut(2 * BATCH).zip(src.chunks(2 * BATCH)) {
                let n = acc.len() / 2;
                widen(dtype, acc, &mut wide[..n]);
                widen(dtype, src, &mut next[..n]);
                fold_wide(op, &mut wide[..n], &next[..n]);
                narrow(dtype, &wide[..n], acc);
            }
        }
    }
}

/// `acc = f(acc, src)` for bf16, whose conversions are a shift and a rounding: they stay in the loop, in registers.
#[inline(always)]
fn each_bf16(acc: &mut [u8], src: &[u8], f: impl Fn(f32, f32) -> f32) {
    let (acc, _) = acc.as_chunks_mut::<2>();
    let (src, _) = src.as_chunks::<2>();
    for (a, s) in acc.iter_mut().zip(src) {
        *a = rounded_bf16(f(wide_bf16(*a), wide_bf16(*s)));
    }
}

#[inline(always)]
fn wide_bf16(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_ne_bytes(bytes)) << 16)
}

/// To nearest even. Of the NaNs, only the canonical one comes here, because something was combined; so it stays.
#[inline(always)]
fn rounded_bf16(wide: f32) -> [u8; 2] {
    let bits = wide.to_bits();
    ((bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16).to_ne_bytes()
}

#[inline(always)]
fn each_wide(acc: &mut [f32], src: &[f32], f: impl Fn(f32, f32) -> f32) {
    for (a, s) in acc.iter_mut().zip(src) {
        *a = f(*a, *s);
    }
}

#[inline(always)]
pub(crate) fn fold_wide(op: ReduceOp, acc: &mut [f32], src: &[f32]) {
    float_fold!(each_wide, f32, op, acc, src);
}

/// Half floats to f32, exactly.
pub(crate) fn widen(dtype: Dtype, from: &[u8], to: &mut [f32]) {
    let (from, _) = from.as_chunks::<2>();
    if dtype == Dtype::Bf16 {
        to.iter_mut().zip(from).for_each(|(w, h)| *w = wide_bf16(*h));
        return;
    }
    let mut halves = [f16::ZERO; BATCH];
    for (to, from) in to.chunks_mut(BATCH).zip(from.chunks(BATCH)) {
        for (h, b) in halves.iter_mut().zip(from) {
            *h = f16::from_bits(u16::from_ne_bytes(*b));
        }
        halves[..to.len()].convert_to_f32_slice(to);
    }
}

/// f32 to half floats, to nearest even. A NaN is the canonical one, as for [`rounded_bf16`], and stays it.
pub(crate) fn narrow(dtype: Dtype, from: &[f32], to: &mut [u8]) {
    let (to, _) = to.as_chunks_mut::<2>();
    if dtype == Dtype::Bf16 {
        to.iter_mut().zip(from).for_each(|(h, w)| *h = rounded_bf16(*w));
        return;
    }
    let mut halves = [f16::ZERO; BATCH];
    for (to, from) in to.chunks_mut(BATCH).zip(from.chunks(BATCH)) {
        halves[..from.len()].convert_from_f32_slice(from);
        for (b, h) in to.iter_mut().zip(&halves) {
            *b = h.to_bits().to_ne_bytes();
        }
    }
}
