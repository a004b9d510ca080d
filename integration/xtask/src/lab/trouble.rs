//! Why the lab cannot run on this machine, or what went wrong in it.

/// Why the lab cannot run on this machine, or what went wrong in it.
#[derive(Debug)]
pub enum Trouble {
    /// It cannot run here: a reason, not a failure.
    Absent(String),
    /// It ran, or should have run, and failed.
    Failed(String),
}

impl Trouble {
    /// As a failure, of whatever kind.
    pub(super) fn failed(error: impl std::fmt::Display) -> Self {
        Trouble::Failed(error.to_string())
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Absent(why) => write!(f, "the lab cannot run here: {why}"),
            Trouble::Failed(why) => f.write_str(why),
        }
    }
}
