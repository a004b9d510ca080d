//! What is compared: which library, where, on how many hosts.

/// The library that is measured, with its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// Ours, with so many rails, ranks through the door.
    Ours { rails: usize },
    /// Plain TCP streams, without a library: the most that the rails carry.
    Roof,
    /// Gloo through torch, all interfaces given to it.
    Gloo,
    /// Open MPI's own TCP, as it comes.
    OpenMpi,
    /// The same with the best algorithm that was found for large messages.
    OpenMpiTuned,
    /// Open MPI over UCX over TCP; with a ring for more than two.
    Ucx,
    /// The same with the best algorithm for two as well.
    UcxTuned,
    /// MPICH over UCX over TCP.
    Mpich,
}

/// Where it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Environment {
    /// One host each, on shaped rails.
    Rails,
    /// All in one namespace, TCP over loopback, not shaped.
    Loopback,
    /// All on one host, by shared memory.
    Server,
}

/// One set of programs: who, where, on how many hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The library that is measured.
    pub who: Who,
    /// Where its ranks run.
    pub place: Environment,
    /// The number of ranks.
    pub n: usize,
}
