//! Licenses: what the cluster has a number of beside its nodes, such as seats of a program or bandwidth of a file system.

use crate::{LicenseName, Timestamp};

/// A license.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct License {
    /// Its name.
    pub name: LicenseName,
    /// Never reused.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
    /// For people.
    pub description: String,
    /// How many there are in the whole cluster; at most [`Self::MOST`].
    pub total: u32,
}

impl License {
    /// How many there are of one at most.
    pub const MOST: u32 = 1_000_000_000;
    /// Different ones that a job asks for at most.
    pub const PER_JOB: usize = 16;
}
