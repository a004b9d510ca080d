//! Known inputs, and what every operation must make of them, computed in whole numbers without the engine.
//!
//! An element's value depends on the rank, the round and the element's place modulo a prime, so blocks and chunks (whose
//! sizes are powers of two) that land in a wrong place are seen. Values are small enough that every partial result is exact in
//! every type, so the right answer does not depend on the order of reduction.

use node_agent_client::{Buffer, Dtype, Error, OpKind, ReduceOp};

/// Elements after which the pattern repeats.
const PERIOD: usize = 997;
/// Repetitions that are copied or compared at a time.
const REPEATS: usize = 16;

/// The inputs of one benchmark.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pattern {
    pub(super) op: OpKind,
    pub(super) dtype: Dtype,
    pub(super) reduce: ReduceOp,
    pub(super) size: u32,
}

impl Pattern {
    /// What `rank` contributes in `round`.
    pub(super) fn input(&self, rank: u32, round: u32) -> Cycle {
        Cycle::new(self.dtype, |at| self.value(rank, at, round))
    }

    /// The reduction of all inputs in `round`.
    pub(super) fn reduced(&self, round: u32) -> Cycle {
        Cycle::new(self.dtype, |at| {
            let values = (0..self.size).map(|rank| self.value(rank, at, round));
            match self.reduce {
                ReduceOp::Sum => values.sum(),
                ReduceOp::Prod => values.product(),
                ReduceOp::Min => values.min().unwrap_or(0),
                ReduceOp::Max => values.max().unwrap_or(0),
            }
        })
    }

    /// What no right result of this pattern consists of.
    pub(super) fn poison(&self) -> Cycle {
        Cycle::new(self.dtype, |_| -255)
    }

    fn value(&self, rank: u32, at: usize, round: u32) -> i64 {
        let reduces = matches!(self.op, OpKind::AllReduce | OpKind::ReduceScatter);
        match self.reduce {
            ReduceOp::Sum if reduces => self.summand(rank, at, round),
            ReduceOp::Prod if reduces => self.factor(rank, at, round),
            _ => mix(rank, at, round) % 251 - 125,
        }
    }

    /// Sums stay below the least whole number that the type cannot hold.
    fn summand(&self, rank: u32, at: usize, round: u32) -> i64 {
        let exact: i64 = match self.dtype {
            Dtype::Bf16 => 256,
            Dtype::F16 => 2048,
            Dtype::F32 | Dtype::F64 | Dtype::I32 | Dtype::I64 => 1 << 24,
        };
        let contributors = i64::from(self.size).min(exact / 2);
        let values = (exact / contributors).min(101);
        if i64::from(rank) < contributors { mix(rank, at, round) % values } else { 0 }
    }

    /// Products are at most 2^5 in size: five ranks give a two, some give a sign.
    fn factor(&self, rank: u32, at: usize, round: u32) -> i64 {
        let place = (u64::from(rank) + at as u64 + u64::from(round)) % u64::from(self.size.max(1));
        let sign = if mix(rank, at, round) % 7 == 0 { -1 } else { 1 };
        if place < 5 { 2 * sign } else { sign }
    }
}

/// A number from 0 that looks random but is the same everywhere.
fn mix(rank: u32, at: usize, round: u32) -> i64 {
    let mut x = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= u64::from(rank).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        ^ u64::from(round).wrapping_mul(0x94d0_49bb_1331_11eb);
    x = (x ^ (x >> 31)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    i64::from((x >> 40) as u32 & 0x00ff_ffff)
}

/// Elements that repeat, as the bytes of their type.
pub(super) struct Cycle {
    bytes: Vec<u8>,
    element: usize,
}

impl Cycle {
    fn new(dtype: Dtype, value: impl Fn(usize) -> i64) -> Self {
        let once: Vec<u8> = (0..PERIOD).flat_map(|at| encode(dtype, value(at))).collect();
        // One repetition more, so that a copy of REPEATS may begin anywhere in the first.
        Self { bytes: once.repeat(REPEATS + 1), element: dtype.size() }
    }

    /// The bytes of elements from `first` on, at most REPEATS cycles of them.
    fn part(&self, first: usize, count: usize) -> &[u8] {
        let from = first % PERIOD * self.element;
        &self.bytes[from..from + count.min(PERIOD * REPEATS) * self.element]
    }

    /// Writes `count` elements from element `at` of the buffer on; the first of them is element `first` of the pattern.
    pub(super) fn fill(&self, buffer: &Buffer, at: usize, count: usize, first: usize) -> Result<(), Error> {
        for done in (0..count).step_by(PERIOD * REPEATS) {
            let part = self.part(first + done, count - done);
            buffer.write_bytes((at + done) * self.element, part)?;
        }
        Ok(())
    }

    /// How many of the buffer's elements differ; places as in [`Cycle::fill`].
    pub(super) fn mismatches(
        &self,
        buffer: &Buffer,
        at: usize,
        count: usize,
        first: usize,
    ) -> Result<i64, Error> {
        let mut seen = vec![0; self.element * count.min(PERIOD * REPEATS)];
        let mut wrong = 0;
        for done in (0..count).step_by(PERIOD * REPEATS) {
            let expected = self.part(first + done, count - done);
            let seen = &mut seen[..expected.len()];
            buffer.read_bytes((at + done) * self.element, seen)?;
            if seen != expected {
                let pairs = seen.chunks(self.element).zip(expected.chunks(self.element));
                wrong += pairs.filter(|(seen, expected)| seen != expected).map(|_| 1).sum::<i64>();
            }
        }
        Ok(wrong)
    }
}

/// A whole number in the bytes of a type; all values of the pattern are exact in all types.
fn encode(dtype: Dtype, value: i64) -> Vec<u8> {
    // Values of this module lie far inside i32 and f32.
    let small = value as i32;
    match dtype {
        Dtype::F32 => (small as f32).to_ne_bytes().to_vec(),
        Dtype::F64 => f64::from(small).to_ne_bytes().to_vec(),
        Dtype::I32 => small.to_ne_bytes().to_vec(),
        Dtype::I64 => value.to_ne_bytes().to_vec(),
        Dtype::F16 => half::f16::from_f32(small as f32).to_ne_bytes().to_vec(),
        Dtype::Bf16 => half::bf16::from_f32(small as f32).to_ne_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the number of ranks, results are exact in the narrowest types and never the poison.
    #[test]
    fn results_are_exact_in_every_type() {
        for size in [1, 2, 3, 8, 127, 128, 129, 1024, 4096] {
            for &dtype in Dtype::ALL {
                for &reduce in ReduceOp::ALL {
                    let pattern = Pattern { op: OpKind::AllReduce, dtype, reduce, size };
                    let exact = if dtype == Dtype::Bf16 { 256 } else { 2048 };
                    for at in [0, 1, 7, 996] {
                        let values: Vec<i64> = (0..size).map(|rank| pattern.value(rank, at, 3)).collect();
                        let result = match reduce {
                            ReduceOp::Sum => values.iter().sum::<i64>(),
                            ReduceOp::Prod => values.iter().product(),
                            ReduceOp::Min => *values.iter().min().unwrap(),
                            ReduceOp::Max => *values.iter().max().unwrap(),
                        };
                        assert!(result > -255, "{size} {dtype} {reduce}");
                        if dtype.size() == 2 {
                            assert!(result.abs() <= exact, "{size} {dtype} {reduce}: {result}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rounds_ranks_and_places_differ() {
        let pattern = Pattern { op: OpKind::AllGather, dtype: Dtype::F32, reduce: ReduceOp::Sum, size: 4 };
        let base = pattern.input(0, 0).bytes;
        assert_ne!(base, pattern.input(1, 0).bytes);
        assert_ne!(base, pattern.input(0, 1).bytes);
        let cycle = pattern.input(0, 0);
        assert_ne!(cycle.part(0, 64), cycle.part(64, 64));
        assert_eq!(cycle.part(5, 64), cycle.part(PERIOD + 5, 64));
    }
}
