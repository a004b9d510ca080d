//! Reductions over regions, in tiles that stay in the first-level cache; what is done to elements is in `fold.rs`. Order:
//! [`crate::order`].

use crate::call::{Dtype, ReduceOp};
use crate::fold::{BATCH, fold_wide, narrow, widen};
use crate::memory::{Memory, Region};

/// Bytes of a tile.
const TILE: usize = 8192;

/// Combines contributions in order and writes the result to every output: each of `groups` is one node's
/// contribution, its regions are the node's ranks in rank order (or one region that was combined elsewhere). All
/// regions have equal lengths, a whole number of elements. An output may be equal to an input, else they are disjoint.
///
/// `None` if a region does not exist.
pub fn reduce(
    memory: &mut impl Memory,
    dtype: Dtype,
    op: ReduceOp,
    groups: &[&[Region]],
    outputs: &[Region],
) -> Option<()> {
    let len = groups.first()?.first()?.len;
    let mut acc = [0u8; TILE];
    let mut part = [0u8; TILE];
    let mut at = 0;
    while at < len {
        let n = TILE.min(len - at);
        let acc = &mut acc[..n];
        for (g, group) in groups.iter().enumerate() {
            match (g, group) {
                (0, [one]) => memory.read(one.part(at, n), acc)?,
                (0, many) => contribution(memory, dtype, op, many, at, acc)?,
                (_, [one]) => memory.fold(dtype, op, acc, check(memory, one.part(at, n), &mut part)?),
                (_, many) => {
                    contribution(memory, dtype, op, many, at, &mut part[..n])?;
                    memory.fold(dtype, op, acc, &part[..n]);
                }
            }
        }
        for output in outputs {
            memory.write(output.part(at, n), acc)?;
        }
        at += n;
    }
    Some(())
}

/// The bytes of a region no longer than a tile: in place, or a copy in `tile` of what can only be read.
fn check<'a>(memory: &'a impl Memory, region: Region, tile: &'a mut [u8]) -> Option<&'a [u8]> {
    if let Some(bytes) = memory.bytes(region) {
        return Some(bytes);
    }
    let tile = &mut tile[..region.len];
    memory.read(region, tile)?;
    Some(tile)
}

/// One tile of one node's contribution: its ranks' inputs, half floats accumulated in f32.
fn contribution(
    memory: &impl Memory,
    dtype: Dtype,
    op: ReduceOp,
    ranks: &[Region],
    at: usize,
    out: &mut [u8],
) -> Option<()> {
    let (first, rest) = ranks.split_first()?;
    let n = out.len();
    if matches!(dtype, Dtype::F16 | Dtype::Bf16) && !rest.is_empty() {
        let (mut acc, mut next) = ([0f32; BATCH], [0f32; BATCH]);
        let mut tile = [0u8; 2 * BATCH];
        for (i, out) in out.chunks_mut(2 * BATCH).enumerate() {
            let (at, n) = (at + i * 2 * BATCH, out.len());
            let (acc, next) = (&mut acc[..n / 2], &mut next[..n / 2]);
            widen(dtype, check(memory, first.part(at, n), &mut tile)?, acc);
            for rank in rest {
                widen(dtype, check(memory, rank.part(at, n), &mut tile)?, next);
                fold_wide(op, acc, next);
            }
            narrow(dtype, acc, out);
        }
        return Some(());
    }
    memory.read(first.part(at, n), out)?;
    let mut tile = [0u8; TILE];
    for rank in rest {
        memory.fold(dtype, op, out, check(memory, rank.part(at, n), &mut tile)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;
    use crate::fold::fold;
    use crate::memory::Arena;
    use half::bf16;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_ne_bytes()).collect()
    }

    #[test]
    fn float_semantics_are_those_of_the_docs() {
        let odd = f32::from_bits(0xffc1_2345);
        for (op, a, b, want) in [
            (ReduceOp::Sum, 1.5, 2.25, 3.75f32),
            (ReduceOp::Sum, odd, 1.0, f32::NAN),
            (ReduceOp::Prod, f32::INFINITY, 0.0, f32::NAN),
            (ReduceOp::Min, odd, 1.0, f32::NAN),
            (ReduceOp::Min, 1.0, odd, f32::NAN),
            (ReduceOp::Max, 1.0, odd, f32::NAN),
            (ReduceOp::Min, 0.0, -0.0, 0.0),
            (ReduceOp::Min, -0.0, 0.0, -0.0),
            (ReduceOp::Max, -0.0, 0.0, -0.0),
            (ReduceOp::Max, 3.0, 4.0, 4.0),
        ] {
            let mut acc = f32s(&[a; 37]);
            fold(Dtype::F32, op, &mut acc, &f32s(&[b; 37]));
            assert_eq!(acc, f32s(&[want; 37]), "{op} {a} {b}");
        }
    }

    #[test]
    fn integers_wrap() {
        let mut acc = i32::MAX.to_ne_bytes().to_vec();
        fold(Dtype::I32, ReduceOp::Sum, &mut acc, &1i32.to_ne_bytes());
        assert_eq!(acc, i32::MIN.to_ne_bytes());
        let mut acc = i64::MAX.to_ne_bytes().to_vec();
        fold(Dtype::I64, ReduceOp::Prod, &mut acc, &2i64.to_ne_bytes());
        assert_eq!(acc, (-2i64).to_ne_bytes());
    }

    /// Every f16 and bf16 bit pattern, against the conversions of the `half` crate.
    #[test]
    fn half_floats_equal_the_reference_for_every_bit_pattern() {
        for op in ReduceOp::ALL {
            let patterns: Vec<u16> = (0..=u16::MAX).collect();
            let bytes: Vec<u8> = patterns.iter().flat_map(|p| p.to_ne_bytes()).collect();
            let other: Vec<u8> = patterns.iter().flat_map(|p| p.wrapping_mul(40503).to_ne_bytes()).collect();
            for dtype in [Dtype::F16, Dtype::Bf16] {
                let mut acc = bytes.clone();
                fold(dtype, *op, &mut acc, &other);
                let wide = |b: u16| {
                    if dtype == Dtype::F16 { f16::from_bits(b).to_f32() } else { bf16::from_bits(b).to_f32() }
                };
                for &p in &patterns {
                    let (a, b) = (wide(p), wide(p.wrapping_mul(40503)));
                    let nan = a.is_nan() || b.is_nan();
                    let r = match op {
                        ReduceOp::Sum => a + b,
                        ReduceOp::Prod => a * b,
                        ReduceOp::Min => {
                            if nan {
                                f32::NAN
                            } else if b < a {
                                b
                            } else {
                                a
                            }
                        }
                        ReduceOp::Max => {
                            if nan {
                                f32::NAN
                            } else if b > a {
                                b
                            } else {
                                a
                            }
                        }
                    };
                    let want = match (dtype, r.is_nan()) {
                        (Dtype::F16, true) => 0x7e00,
                        (_, true) => 0x7fc0,
                        (Dtype::F16, _) => f16::from_f32(r).to_bits(),
                        _ => bf16::from_f32(r).to_bits(),
                    };
                    let at = usize::from(p) * 2;
                    assert_eq!(u16::from_ne_bytes([acc[at], acc[at + 1]]), want, "{dtype} {op} {p:#06x}");
                }
            }
        }
    }

    #[test]
    fn half_floats_of_one_node_round_once() {
        let mut arena = Arena::new();
        // 1 + eps/2 + eps/2 = 1 + eps when rounded once, 1 when rounded after each step.
        let half_eps = f16::from_bits(0x1000);
        let regions: Vec<Region> = [f16::ONE, half_eps, half_eps]
            .iter()
            .map(|v| arena.insert(v.to_bits().to_ne_bytes().to_vec()))
            .collect();
        let out = arena.insert(vec![0; 2]);
        reduce(&mut arena, Dtype::F16, ReduceOp::Sum, &[&regions], &[out]).unwrap();
        assert_eq!(arena.bytes(out).unwrap(), 0x3c01u16.to_ne_bytes());
        let apart: Vec<&[Region]> = regions.iter().map(std::slice::from_ref).collect();
        reduce(&mut arena, Dtype::F16, ReduceOp::Sum, &apart, &[out]).unwrap();
        assert_eq!(arena.bytes(out).unwrap(), 0x3c00u16.to_ne_bytes());
    }

    #[test]
    fn tiles_do_not_show_and_all_outputs_are_written() {
        let mut arena = Arena::new();
        let n = 5000;
        let a = arena.insert(f32s(&(0..n).map(|i| i as f32).collect::<Vec<_>>()));
        let b = arena.insert(f32s(&(0..n).map(|i| 2.0 * i as f32).collect::<Vec<_>>()));
        let out = arena.insert(vec![0; n * 4]);
        reduce(&mut arena, Dtype::F32, ReduceOp::Sum, &[&[a], &[b]], &[a, out]).unwrap();
        let want = f32s(&(0..n).map(|i| 3.0 * i as f32).collect::<Vec<_>>());
        assert_eq!(arena.bytes(out).unwrap(), want);
        assert_eq!(arena.bytes(a).unwrap(), want);
    }
}
