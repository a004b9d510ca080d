//! What the programs that start ranks are asked to do, as the first word of their command line.

/// Becomes one rank of a job; what is to be run stands on standard input.
pub const EXEC: &str = "rank-exec";
/// Holds an attempt's namespaces.
pub const INIT: &str = "rank-init";
