//! What the command line chose.

/// What the command line chose.
pub struct Bench {
    /// Whether to make fewer repetitions.
    pub quick: bool,
    /// Only things of row Y2 whose id begins so.
    pub only: Option<String>,
}
