//! Numbers from a seed (splitmix64), for plans and for the model.

/// A stream of numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits of the sequence.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from 0 to below 1, evenly drawn.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `bound`; 0 of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound.max(1)
    }

    /// About 1, with this deviation: the sum of four even ones.
    pub fn about_one(&mut self, deviation: f64) -> f64 {
        let bits = self.word();
        let sum: u64 = (0..4).map(|at| bits >> (16 * at) & 0xffff).sum();
        1.0 + (sum as f64 / 65536.0 - 2.0) * deviation * 1.732
    }
}
