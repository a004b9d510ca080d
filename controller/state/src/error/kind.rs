//! The kinds of refusals.

/// The kind of a refusal; the API maps it to a gRPC code, an HTTP status and an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The request itself is wrong (exit 2).
    Invalid,
    /// What it names does not exist (exit 3).
    NotFound,
    /// The caller may not (exit 4).
    Denied,
    /// Exists already, or was changed meanwhile (exit 5).
    Conflict,
    /// Right, but not in this state of things (exit 1).
    Precondition,
    /// A limit is reached; later it may work (exit 1).
    Exhausted,
    /// Could never work on this cluster as it is described now (exit 6).
    Infeasible,
}
