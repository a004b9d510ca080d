//! Whether the disk holds what a build writes: a full one fails somewhere else each time, and says so nowhere near its cause.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::process::Result;

/// What a whole build for the tests comes to, with what the tests write beside it, in bytes: 11 GB were measured.
pub const TESTS: u64 = 14_000_000_000;

/// Refuses at once if what is still to be written will not fit.
///
/// # Errors
/// The file system of `target` has less free than `whole` bytes without what `target` holds already, or cannot be asked.
pub fn check(target: &Path, whole: u64) -> Result<()> {
    let there = nearest(target);
    let stat = rustix::fs::statvfs(&there).map_err(|error| format!("{}: {error}", there.display()))?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    // What is there is only counted where it may matter.
    if free >= whole {
        return Ok(());
    }
    let held = held(target, &mut BTreeSet::new());
    let missing = missing(free, held, whole);
    if missing == 0 {
        return Ok(());
    }
    Err(format!(
        "{}: {} free, and the build writes {} more: make room for {}, or name a larger disk with CARGO_TARGET_DIR",
        there.display(),
        gigabytes(free),
        gigabytes(whole.saturating_sub(held)),
        gigabytes(missing),
    )
    .into())
}

/// How many bytes too few are free.
fn missing(free: u64, held: u64, whole: u64) -> u64 {
    whole.saturating_sub(held).saturating_sub(free)
}

/// The folder, or the nearest one above it that is there.
fn nearest(folder: &Path) -> PathBuf {
    folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/")).to_owned()
}

/// Bytes on disk below a folder; a file of several names counts once.
fn held(folder: &Path, seen: &mut BTreeSet<u64>) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, meta)| match (meta.is_dir(), seen.insert(meta.ino())) {
            (true, _) => held(&path, seen),
            (false, true) => meta.blocks().saturating_mul(512),
            (false, false) => 0,
        })
        .sum()
}

fn gigabytes(bytes: u64) -> String {
    format!("{}.{} GB", bytes / 1_000_000_000, bytes / 100_000_000 % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_already_needs_no_room() {
        assert_eq!(missing(5, 0, 14), 9);
        assert_eq!(missing(5, 9, 14), 0);
        assert_eq!(missing(5, 20, 14), 0);
        assert_eq!(gigabytes(14_320_000_000), "14.3 GB");
    }

    #[test]
    fn a_disk_that_is_too_small_is_refused_by_what_is_missing() {
        let folder = std::env::temp_dir().join(format!("railyard-disk-{}", std::process::id()));
        fs::create_dir_all(folder.join("a")).unwrap();
        fs::write(folder.join("a/one"), vec![1; 100_000]).unwrap();
        fs::hard_link(folder.join("a/one"), folder.join("two")).unwrap();
        let bytes = held(&folder, &mut BTreeSet::new());
        assert!((100_000..200_000).contains(&bytes), "{bytes}");
        check(&folder.join("not/yet/there"), 1).unwrap();
        let error = check(&folder, u64::MAX / 2).unwrap_err().to_string();
        assert!(error.contains("make room for") && error.contains("CARGO_TARGET_DIR"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
