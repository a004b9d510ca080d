//! Output of attempts that have ended: kept for readers after the rest of the attempt is gone, within bounds.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::SystemTime,
};

use node_agent_attempt::layout::{DataDir, JobDir};
use node_agent_core::Key;

/// Tries whose output is kept; the oldest go first.
const ATTEMPTS: usize = 512;
/// Bytes of output that are kept together; the oldest tries go first.
const BYTES: u64 = 1 << 30;

/// Where the output of an attempt is now: with the attempt while there is one, else among what is kept.
#[must_use]
pub fn find(data: &DataDir, key: Key) -> JobDir {
    let live = data.job(key);
    if live.path().exists() { live } else { JobDir::at(data.kept().join(key.to_string())) }
}

/// Opens an attempt's output where it is: once more, if it was put away meanwhile.
pub fn open<T>(data: &DataDir, key: Key, mut open: impl FnMut(&JobDir) -> T) -> (JobDir, T) {
    let dir = find(data, key);
    let opened = open(&dir);
    // What was open before the rename stays so; what was looked for after it was not there.
    if dir.path().exists() {
        return (dir, opened);
    }
    let dir = find(data, key);
    let opened = open(&dir);
    (dir, opened)
}

/// Ends an attempt's directory, but for what its ranks wrote.
///
/// # Errors
/// The first thing that the kernel refused; everything else is done all the same.
pub fn keep(data: &DataDir, key: Key) -> io::Result<()> {
    let kept = data.kept();
    fs::create_dir_all(&kept)?;
    let place = kept.join(key.to_string());
    // One rename, so that a reader finds the whole output here or there.
    match fs::rename(data.job(key).path(), &place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    let emptied = empty(&place);
    emptied.and(prune(&kept, ATTEMPTS, BYTES))
}

/// Removes all but the output.
fn empty(place: &Path) -> io::Result<()> {
    let mut result = Ok(());
    for entry in fs::read_dir(place)?.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            result = result.and(remove_tree(&path));
        } else if !is_output(&path) {
            result = result.and(fs::remove_file(path));
        }
    }
    result
}

/// Removes a folder with all that is in it, also where a rank took its own user the right to (read-only folders, as a
/// module cache has them).
fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(path);
            fs::remove_dir_all(path)
        }
        other => other,
    }
}

/// Makes all folders readable and writable for their user; what refuses shows in the removal that follows.
fn open_up(path: &Path) {
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        if let Ok(meta) = fs::symlink_metadata(&folder) {
            let mode = meta.permissions().mode() | 0o700;
            let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(mode));
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        let inner = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.extend(inner.map(|entry| entry.path()));
    }
}

fn is_output(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("rank-"))
}

/// Removes the oldest tries until what is left is within the bounds. What cannot be removed is passed over, and costs no
/// other attempt its output. The first error is returned.
fn prune(kept: &Path, attempts: usize, bytes: u64) -> io::Result<()> {
    let mut found: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
    for entry in fs::read_dir(kept)?.flatten() {
        let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        let size = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
        let changed = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        found.push((changed, entry.path(), size));
    }
    found.sort();
    let mut result = Ok(());
    let (mut count, mut total) = (found.len(), found.iter().map(|(.., size)| size).sum::<u64>());
    for (_, path, size) in found {
        if count <= attempts && total <= bytes {
            break;
        }
        result = result.and(remove_tree(&path));
        (count, total) = (count - 1, total - size);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_dir(data: &DataDir, number: u8, output: &str) -> Key {
        let key = Key { uid: proto_model::JobUid::from_random([number; 16]), attempt: 1 };
        let dir = data.job(key);
        dir.make().unwrap();
        fs::create_dir_all(dir.path().join("work/deep")).unwrap();
        fs::write(dir.record().now, "").unwrap();
        fs::write(dir.rank_log(0), output).unwrap();
        key
    }

    #[test]
    fn output_outlives_its_try_and_nothing_else_does() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDir::open(home.path()).unwrap();
        let key = try_dir(&data, 1, "O hello\n");
        assert_eq!(find(&data, key), data.job(key));
        keep(&data, key).unwrap();
        assert!(!data.job(key).path().exists());
        let kept = find(&data, key);
        assert_eq!(fs::read_to_string(kept.rank_log(0)).unwrap(), "O hello\n");
        assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 1);
        keep(&data, key).unwrap();
        assert_eq!(data.jobs(), Vec::new());
    }

    #[test]
    fn output_that_is_put_away_while_it_is_opened_is_found() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDir::open(home.path()).unwrap();
        let key = try_dir(&data, 1, "O hello\n");
        let mut opens = 0;
        let (dir, text) = open(&data, key, |dir| {
            if opens == 0 {
                keep(&data, key).unwrap();
            }
            opens += 1;
            fs::read_to_string(dir.rank_log(0)).ok()
        });
        assert_eq!((text.as_deref(), opens), (Some("O hello\n"), 2));
        assert_eq!(dir, find(&data, key));
    }

    #[test]
    fn read_only_folders_go_too() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDir::open(home.path()).unwrap();
        let key = try_dir(&data, 1, "O hello\n");
        let deep = data.job(key).path().join("work/deep");
        fs::write(deep.join("module"), "").unwrap();
        for (folder, mode) in [(deep.clone(), 0o000), (deep.parent().unwrap().into(), 0o555)] {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
        keep(&data, key).unwrap();
        assert_eq!(fs::read_dir(find(&data, key).path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_removed_is_passed_over_and_told() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDir::open(home.path()).unwrap();
        fs::create_dir_all(data.kept()).unwrap();
        // No folder, so it is no attempt and cannot go as one; older than all attempts.
        let stray = fs::File::create(data.kept().join("stray")).unwrap();
        stray.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let (first, second) = (try_dir(&data, 1, "0123456789"), try_dir(&data, 2, "0123456789"));
        for (age, key) in [(1, first), (2, second)] {
            keep(&data, key).unwrap();
            let changed = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age);
            fs::File::open(find(&data, key).path()).unwrap().set_modified(changed).unwrap();
        }
        prune(&data.kept(), 1, 1000).unwrap_err();
        assert!(!find(&data, first).path().exists() && find(&data, second).path().exists());
    }

    #[test]
    fn the_oldest_go_when_there_is_too_much() {
        let home = tempfile::tempdir().unwrap();
        let data = DataDir::open(home.path()).unwrap();
        let keys: Vec<Key> = (1..=4).map(|number| try_dir(&data, number, "0123456789")).collect();
        for (age, key) in keys.iter().enumerate() {
            keep(&data, *key).unwrap();
            let changed = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(age as u64);
            fs::File::open(find(&data, *key).path()).unwrap().set_modified(changed).unwrap();
        }
        prune(&data.kept(), 3, 1000).unwrap();
        assert!(!find(&data, keys[0]).path().exists() && find(&data, keys[1]).path().exists());
        prune(&data.kept(), 3, 10).unwrap();
        assert!(!find(&data, keys[2]).path().exists() && find(&data, keys[3]).path().exists());
    }
}
