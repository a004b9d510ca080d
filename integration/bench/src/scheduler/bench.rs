//! What the command line chose.

/// What the command line chose.
pub struct Bench {
    /// Whether to make fewer repetitions.
    pub quick: bool,
    /// Random placements of row C4 in place of the usual number.
    pub placements: Option<u64>,
    /// Where the real traces of rows C6 and J2 to J4 are.
    pub traces: std::path::PathBuf,
}
