//! A generator of its own, so that no upgrade of a dependency changes what a seed means: xoshiro256** by Blackman and
//! Vigna, seeded by splitmix64.

use std::ops::Range;

use proto_random::Random;

/// A stream of numbers that depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut seeds = Random::new(seed);
        Self([(); 4].map(|()| seeds.word()))
    }

    /// The next 64 random bits.
    pub fn draw(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number of a range; its start if the range is empty.
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        let width = range.end.saturating_sub(range.start).max(1);
        range.start + self.draw() % width
    }

    /// An index below `count`.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.draw() % count.max(1) as u64).unwrap_or(0)
    }

    /// True so many times in a thousand.
    pub fn chance(&mut self, per_mille: u64) -> bool {
        self.draw() % 1000 < per_mille
    }

    /// Fills a buffer with random bytes.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
    }
}
