//! Numbers that look random and follow from a seed: splitmix64 (Steele, Lea and Flood 2014). Not for secrets.
//!
//! Plans that are recorded, figures that are published and tests name seeds, so a sequence never changes. That is why this is a
//! room of ours and no library of which an upgrade could mean other numbers.

/// What a state grows by: 2^64 over the golden ratio, odd.
pub const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number that follows the state `state`: spreads its bits over all 64, always in the same way.
#[must_use]
#[inline]
pub const fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The sequence of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number of the sequence, any of 64 bits.
    #[inline]
    pub const fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        word
    }

    /// From 0 to below `bound`; 0 where `bound` is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        self.word() % if bound == 0 { 1 } else { bound }
    }

    /// From 0 to below `bound`, for places in lists; 0 where `bound` is 0.
    pub const fn index(&mut self, bound: usize) -> usize {
        // A usize has at most 64 bits, and what is below one fits into one.
        self.below(bound as u64) as usize
    }

    /// From `low` to `high`, both included; the range must not be all of 64 bits.
    pub const fn within(&mut self, low: u64, high: u64) -> u64 {
        low + self.word() % (high - low + 1)
    }

    /// From 0 to below 1, evenly.
    pub const fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From `low` to below `high`.
    pub const fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    /// True once in this many times.
    pub const fn once_in(&mut self, times: f64) -> bool {
        self.unit() * times < 1.0
    }

    /// About 1, with this standard deviation: the sum of four even numbers.
    pub fn about_one(&mut self, deviation: f64) -> f64 {
        let bits = self.word();
        let sum: u64 = (0..4).map(|at| bits >> (16 * at) & 0xffff).sum();
        1.0 + (sum as f64 / 65536.0 - 2.0) * deviation * 1.732
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the authors' own program for the seed 1234567.
    #[test]
    fn a_sequence_is_that_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let words = [(); 5].map(|()| random.word());
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(words, published);
        assert_eq!(mix(1_234_567), published[0]);
    }

    #[test]
    fn what_is_derived_stays_in_its_bounds_and_the_same() {
        let mut random = Random::new(7);
        assert_eq!((random.below(0), random.index(0), random.index(1)), (0, 0, 0));
        for _ in 0..1000 {
            assert!(random.below(10) < 10 && random.index(3) < 3 && (0.0..1.0).contains(&random.unit()));
        }
        let mean = (0..4000).map(|_| random.about_one(0.1)).sum::<f64>() / 4000.0;
        assert!((0.99..1.01).contains(&mean), "{mean}");
        let mut twin = random.clone();
        assert_eq!(twin.word(), random.word());
    }
}
