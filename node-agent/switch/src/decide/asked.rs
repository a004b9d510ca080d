//! What can be desired, what happens, and what is to be done about it.

use std::time::Duration;

use super::method::Method;
use crate::files::Files;

/// No trial goes on for longer.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// What is desired of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desired {
    /// Of the rollout.
    pub generation: u64,
    /// What is to be done.
    pub phase: Phase,
    /// Grows whenever this changes.
    pub number: u64,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It stays as it is; a trial is taken back.
    Hold,
    /// These files are tried; taken back unless they are kept within this time.
    Trial {
        /// All files.
        files: Files,
        /// Tables of the switch's database of which nothing stays but what the files have.
        owned: Vec<String>,
        /// From the moment at which the trial is saved.
        within: Duration,
    },
    /// The trial of these files is kept for good.
    Keep {
        /// All files.
        files: Files,
    },
}

/// What happens.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The program has started.
    Started,
    /// Time has passed.
    Tick,
    /// The program ends, because it was asked to.
    Ending,
    /// The controller has answered a report.
    Heard {
        /// Its fencing number.
        epoch: u64,
        /// What it desires.
        desired: Option<&'a Desired>,
        /// What is on the switch; none where not all of it could be read.
        found: Option<&'a Files>,
        /// Ports and addresses with which BGP sessions are established.
        established: &'a [String],
    },
    /// The last action was carried out, or failed in these words.
    Finished(Result<(), &'a str>),
}

/// What is to be done now. The files are those of the trial in the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Put the files that are wanted in place by the trial's method, such that a start of the switch still has the old ones.
    Try,
    /// Put the files from before in place.
    TakeBack(Method),
    /// See to it that the files in place are there after a start of the switch, too.
    Keep {
        /// The switch has started meanwhile: put them in place first, by the trial's method.
        again: bool,
    },
}
