//! What came of an attempt.

/// The judgement of an attempt's outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The attempt ended as expected: the defence held.
    Held,
    /// Not as expected, and what was seen.
    GaveWay(String),
    /// It could not be tried here, and why.
    NotHere(String),
    /// It should have been tried, and was not: the suite, or what it attacks, does not work.
    NotMade(String),
}

impl Verdict {
    /// As reports name it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::GaveWay(_) => "gave way",
            Self::NotHere(_) => "not possible here",
            Self::NotMade(_) => "not made",
        }
    }

    /// Evidence, or a reason.
    pub fn words(&self) -> &str {
        match self {
            Self::Held => "",
            Self::GaveWay(words) | Self::NotHere(words) | Self::NotMade(words) => words,
        }
    }
}

/// Short for what was seen that must not be.
pub fn gave(words: impl Into<String>) -> Verdict {
    Verdict::GaveWay(words.into())
}

/// Held if the condition is true.
pub fn held_if(condition: bool, words: impl FnOnce() -> String) -> Verdict {
    if condition { Verdict::Held } else { Verdict::GaveWay(words()) }
}
