//! Where labs find what `cargo xtask dist` has made, and how they end.

use std::{path::Path, process::ExitCode};

use super::trouble::{Trouble, exit_code};
use crate::process::{self, Result};

/// Tries what `cargo xtask dist` has made, in the target directory where no folder is named.
///
/// # Errors
/// Something that was tried is not as it should be.
pub fn of_dist(
    dist: Option<&Path>,
    all: impl FnOnce(&Path) -> std::result::Result<(), Trouble>,
) -> Result<ExitCode> {
    let dist = match dist {
        Some(dist) => dist.to_owned(),
        None => process::target_dir()?.join("dist"),
    };
    exit_code(all(&dist))
}
