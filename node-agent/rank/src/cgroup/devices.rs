//! Which devices a job's ranks may open, as rules for control groups: what every program needs, and its own GPUs. Never a NIC.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use rustix::fs::{major, minor};

/// null, zero, full, random, urandom, tty, ptmx, and pseudo terminals.
const ALL: [&str; 8] = [
    "c 1:3 rwm",
    "c 1:5 rwm",
    "c 1:7 rwm",
    "c 1:8 rwm",
    "c 1:9 rwm",
    "c 5:0 rwm",
    "c 5:2 rwm",
    "c 136:* rwm",
];

/// The rules for a job whose GPUs have these device files.
#[must_use]
pub fn rules(gpu_files: &[PathBuf]) -> Vec<String> {
    let own = gpu_files.iter().filter_map(|path| rule(path));
    ALL.iter().map(|rule| (*rule).to_owned()).chain(own).collect()
}

/// What a device's file says of it; a plain file is no device.
fn rule(path: &Path) -> Option<String> {
    let number = fs::metadata(path).ok()?.rdev();
    (number != 0).then(|| format!("c {}:{} rwm", major(number), minor(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_may_open_what_every_program_needs_and_its_own_gpus() {
        assert_eq!(rules(&[]), ALL);
        let plain = tempfile::NamedTempFile::new().unwrap();
        let files = [plain.path().to_owned(), "/dev/no-such-device".into(), "/dev/null".into()];
        assert_eq!(rules(&files), [&ALL[..], &["c 1:3 rwm"]].concat());
    }
}
