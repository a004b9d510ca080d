//! What chance gives, the same in every run of a seed.

use proto_random::Random;

/// Numbers that are the same in every run.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    /// Dice that fall as this seed decides.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }

    /// The next number of the sequence, any of 64 bits.
    pub const fn roll(&mut self) -> u64 {
        self.0.word()
    }

    /// The next number, reduced to less than `end`; 0 where `end` is 0.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// A byte below `end`.
    pub fn byte(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(u64::from(end))).unwrap_or(0)
    }

    /// True or false, each as often as the other.
    pub const fn coin(&mut self) -> bool {
        self.roll() & 1 == 1
    }

    /// One of `all`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap_or(0)]
    }

    /// A byte below `end` that is not `other`.
    pub fn byte_but(&mut self, end: u8, other: u8) -> u8 {
        loop {
            let byte = self.byte(end);
            if byte != other {
                return byte;
            }
        }
    }
}
