//! Versions of Slurm that Railyard is tried beside.

use std::fmt;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// That of Debian 12.
    #[default]
    V22_05,
    /// That of Debian 13.
    V24_11,
}

impl Version {
    /// All of them, from the first.
    pub const ALL: [Self; 2] = [Self::V22_05, Self::V24_11];

    /// The variable that says where its programs are.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::V22_05 => "RAIL_TEST_SLURM_22_05",
            Self::V24_11 => "RAIL_TEST_SLURM_24_11",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V22_05 => "22.05",
            Self::V24_11 => "24.11",
        })
    }
}
