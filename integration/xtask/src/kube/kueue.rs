//! A real Kueue beside the real Kubernetes: its program and its definitions, built once from its source.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    build::{build, go},
    source,
};
use crate::{
    disk,
    process::{self, Result},
};

/// Bytes that its source, the compiler's cache and the program take while it is built.
const ROOM: u64 = 4 << 30;
/// Where its source has its definitions.
const DEFINITIONS: &str = "config/components/crd/bases";

/// The folder with the program and the definitions: `RAIL_TEST_KUEUE`, or what was built into the target directory.
///
/// # Errors
/// There is none; says what makes it.
pub fn folder() -> Result<PathBuf> {
    let folder = place()?;
    match ["kueue", "crds"].into_iter().find(|name| !folder.join(name).exists()) {
        None => Ok(folder),
        Some(missing) => Err(format!(
            "{} has no {missing}; `cargo xtask lab kube --kueue DIR` builds it",
            folder.display()
        )
        .into()),
    }
}

fn place() -> Result<PathBuf> {
    match std::env::var_os("RAIL_TEST_KUEUE").filter(|folder| !folder.is_empty()) {
        Some(folder) => Ok(std::path::absolute(folder)?),
        None => Ok(process::target_dir()?.join("tools/kueue")),
    }
}

/// Builds the program, and copies the definitions.
///
/// # Errors
/// The source is not Kueue's, there is no Go for it, no room, or the build fails.
pub fn make(sources: &Path) -> Result<()> {
    let folder = place()?;
    let scratch = process::target_dir()?.join("tools/kueue-build");
    fs::create_dir_all(&scratch)?;
    disk::check(&scratch, ROOM)?;
    let source = source::find(&source::KUEUE, sources, &scratch)?;
    let go = go(&source)?;
    println!("    building Kueue (minutes)");
    let definitions = folder.join("crds");
    fs::create_dir_all(&definitions)?;
    for entry in fs::read_dir(source.join(DEFINITIONS))? {
        let path = entry?.path();
        if let (Some(name), Some("yaml")) = (path.file_name(), path.extension().and_then(|e| e.to_str())) {
            fs::copy(&path, definitions.join(name))?;
        }
    }
    let part = folder.join("kueue.part");
    process::run(build(&go, &source, &scratch, "", ("kueue", &part)))?;
    fs::rename(part, folder.join("kueue"))?;
    fs::remove_dir_all(scratch)?;
    Ok(())
}
