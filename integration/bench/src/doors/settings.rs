//! What all rows are given.

use std::path::PathBuf;

/// What is measured, and how.
pub struct Bench {
    /// Fewer repetitions.
    pub quick: bool,
    /// Folder with batch scripts of others.
    pub scripts: Option<PathBuf>,
}
