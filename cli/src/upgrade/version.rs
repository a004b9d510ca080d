//! Versions of releases, and which are next to each other.

use std::fmt;

/// `MAJOR.MINOR.PATCH`, and whether it is a build from before that release, which is older than it. Which of several such builds it is tells nothing of
/// what fits together, and is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Goes up where something of the API is taken away.
    pub major: u32,
    /// Counts releases within it.
    pub minor: u32,
    /// Counts corrections of a release, which fit together.
    pub patch: u32,
    /// It is that release; otherwise a build before it, as `-rc1` says.
    pub released: bool,
}

impl Version {
    /// Reads `1.2.3`, also with `-rc1` or `+5` behind it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let version = text.split('+').next()?;
        let (numbers, released) =
            version.split_once('-').map_or((version, true), |(numbers, _)| (numbers, false));
        let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()??, released };
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

/// A build before a release is `1.2.3-pre`, whatever it calls itself.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}{}", self.major, self.minor, self.patch, if self.released { "" } else { "-pre" })
    }
}
