//! What becomes of a setting.

/// What becomes of a setting. The order is that of reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The documents do not say it.
    Lost,
    /// The documents say something near it.
    Differs,
    /// The documents say it.
    Carried,
    /// There is nothing here that it could be said of.
    Meaningless,
}

impl Fate {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] = [Self::Lost, Self::Differs, Self::Carried, Self::Meaningless];

    /// For people.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lost => "not carried over",
            Self::Differs => "carried over with a difference",
            Self::Carried => "carried over",
            Self::Meaningless => "no meaning here",
        }
    }

    /// For programs.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Lost => "NotCarriedOver",
            Self::Differs => "CarriedOverWithDifference",
            Self::Carried => "CarriedOver",
            Self::Meaningless => "NoMeaning",
        }
    }
}
