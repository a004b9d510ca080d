//! Why the lab cannot run on this machine, or what went wrong in it.

use std::process::ExitCode;

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

/// What cannot be had here is exit code 2, with its reason, and no error.
///
/// # Errors
/// Something has failed.
pub(super) fn exit_code(outcome: Result<(), Trouble>) -> crate::process::Result<ExitCode> {
    match outcome {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(trouble @ Trouble::Absent(_)) => {
            eprintln!("{trouble}");
            Ok(ExitCode::from(2))
        }
        Err(Trouble::Failed(why)) => Err(why.into()),
    }
}
