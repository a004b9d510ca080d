//! Numbers that look random and are the same in every run of a seed.

use proto_random::Random;

/// A source of numbers from a seed; not for secrets.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    /// From a seed; two streams of one seed differ.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Random::new(seed.wrapping_mul(proto_random::STEP) ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03)))
    }

    /// The next 64 bits of the sequence.
    pub fn bits(&mut self) -> u64 {
        self.0.word()
    }

    /// Below `end`, evenly; 0 where `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let wide = u128::from(self.bits()) * (end as u128);
        usize::try_from(wide >> 64).unwrap_or(0)
    }

    /// From 0 (never) to 1 (never), evenly.
    pub fn unit(&mut self) -> f64 {
        ((self.bits() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Normal, mean 0, deviation 1 (Box-Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}
