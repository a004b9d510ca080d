//! Chance that can be repeated, and the words that it chooses from.

use proto_random::Random;

/// Words that names, times and expressions are made of: what is there, what could be, and what could never be.
const WORDS: [&str; 64] = [
    "fuzz",
    "dev",
    "n1",
    "train",
    "train-0",
    "sweep",
    "night",
    "matlab",
    "short",
    "chat",
    "nightly",
    "other",
    "a",
    "",
    "A",
    "-",
    ".",
    "..",
    "a.b",
    "a/b",
    "a b",
    "a\u{301}",
    "\u{1f600}",
    "\u{0}",
    "\n",
    "\u{202e}x",
    "../../etc/passwd",
    "%00",
    "%",
    "'",
    "\"",
    "$(x)",
    "n[0-3]",
    "n[0-99999999]",
    "n[",
    "n[3-0]",
    "n[0-3",
    "0-3",
    "0-3%2",
    "0-99999999",
    "0-3%0",
    "4-1",
    "0",
    "1",
    "-1",
    "4294967295",
    "18446744073709551616",
    "1e999",
    "NaN",
    "* * * * *",
    "@yearly",
    "61 25 * * *",
    "Europe/Berlin",
    "Mars/Olympus",
    "2026-08-20T10:00:00Z",
    "+2h",
    "1d",
    "-5s",
    "9999999999999999s",
    "0.0000000001s",
    "SIGUSR1",
    "https://hooks.invalid/x",
    "http://127.0.0.1",
    "key=value",
];

/// A sequence of numbers that follows from its seed.
#[derive(Debug, Clone)]
pub struct Dice(Random);

impl Dice {
    /// Of this seed, as one of many.
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(Random::new(seed ^ stream.wrapping_mul(0xD134_2543_DE82_EF95)))
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0.word()
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.index(end)
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, share: usize) -> bool {
        self.below(100) < share
    }

    /// One of these.
    pub fn of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    /// A whole number, most often one where something ends.
    pub fn number(&mut self) -> i64 {
        match self.below(12) {
            0..=2 => 0,
            3..=5 => 1,
            6 => -1,
            7 => i64::MAX,
            8 => i64::MIN,
            9 => i64::from(i32::MAX) + 1,
            10 => i64::try_from(self.below(100)).unwrap_or(0),
            _ => self.next().cast_signed(),
        }
    }

    /// A text.
    pub fn text(&mut self) -> String {
        let word = (*self.of(&WORDS).unwrap_or(&"")).to_owned();
        match self.below(20) {
            0 => word.repeat(1000),
            1 => "x".repeat(self.below(70_000)),
            2 => format!("{word}{}", (*self.of(&WORDS).unwrap_or(&""))),
            3 => word.chars().rev().collect(),
            _ => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn a_seed_says_all_that_follows() {
        let draw = |seed, stream| {
            let mut dice = Dice::new(seed, stream);
            (0..50).map(|_| (dice.text(), dice.number())).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }
}
