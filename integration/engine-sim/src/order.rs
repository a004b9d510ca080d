//! What the fixed order costs: the reduction kernel, which takes all terms of a chunk in the order of its block once they are
//! there, against the better of two that are free to choose: terms as they lie, and terms as they arrive, each added to what
//! is there.

use std::time::Instant;

use node_agent_collective::{Arena, Dtype, Memory, ReduceOp, Region, kernel};

/// Bytes of a chunk, and terms.
const CHUNK: usize = 32 << 10;
const TERMS: usize = 4;
const ROUNDS: usize = 100;
const REPEATS: usize = 100;

/// Nanoseconds for a chunk: in the fixed order, and in the better free one. Best of many, taken in turns.
#[must_use]
pub fn measure() -> (f64, f64) {
    let mut arena = Arena::new();
    let mut region = |byte: u8| arena.insert(vec![byte; CHUNK]);
    let terms: Vec<Region> = (0..TERMS).map(|t| region(t as u8)).collect();
    let output = region(0);
    let (mut fixed, mut free) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..REPEATS {
        fixed = fixed.min(round(&mut arena, &terms, output, |r| r % TERMS));
        free = free.min(round(&mut arena, &terms, output, |_| 0)).min(arriving(&mut arena, &terms, output));
    }
    (fixed, free)
}

fn arriving(memory: &mut impl Memory, terms: &[Region], output: Region) -> f64 {
    let begin = Instant::now();
    for _ in 0..ROUNDS {
        // The own term and the first that came, then one by one.
        let mut before = terms[0];
        for term in &terms[1..] {
            let (a, b) = ([before], [*term]);
            let done = kernel::reduce(memory, Dtype::F32, ReduceOp::Sum, &[&a, &b], &[output]);
            std::hint::black_box(done);
            before = output;
        }
    }
    begin.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
}

fn round(memory: &mut impl Memory, terms: &[Region], output: Region, first: impl Fn(usize) -> usize) -> f64 {
    let begin = Instant::now();
    for round in 0..ROUNDS {
        let order: Vec<[Region; 1]> = (0..TERMS).map(|t| [terms[(first(round) + t) % TERMS]]).collect();
        let order: Vec<&[Region]> = order.iter().map(|t| &t[..]).collect();
        let done = kernel::reduce(memory, Dtype::F32, ReduceOp::Sum, &order, &[output]);
        std::hint::black_box(done);
    }
    begin.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64
}
