//! Versions of releases, and which are next to each other.

use std::fmt;

/// `MAJOR.MINOR.PATCH`. What may stand behind it, of builds before a release, tells nothing of what fits together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Goes up where something of the API is taken away.
    pub major: u32,
    /// Counts releases within it.
    pub minor: u32,
    /// Counts corrections of a release, which fit together.
    pub patch: u32,
}

impl Version {
    /// Reads `1.2.3`, also with `-rc1` or `+5` behind it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }

    /// Whether programs of both work together: they are of one release, or of two that follow each other. The first release of a major version
    /// follows whichever was the last one of the major version before.
    #[must_use]
    pub fn fits(self, other: Self) -> bool {
        let (low, high) = if self <= other { (self, other) } else { (other, self) };
        match high.major - low.major {
            0 => high.minor - low.minor <= 1,
            1 => high.minor == 0,
            _ => false,
        }
    }

    /// Whether both are of one release.
    #[must_use]
    pub fn same_release(self, other: Self) -> bool {
        (self.major, self.minor) == (other.major, other.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
