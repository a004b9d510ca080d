//! Licenses: what the cluster has a number of beside its nodes, such as seats of a program or bandwidth of a file system.

use crate::{LicenseName, Timestamp};

/// A license: a number of equal things that jobs hold while they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct License {
    /// Name of the license, unique in the cluster.
    pub name: LicenseName,
    /// Identifier of this very license; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When the license was made.
    pub created: Timestamp,
    /// A text for people; may be empty.
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
