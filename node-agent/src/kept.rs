//! Output of tries that have ended: kept for readers after the rest of the try is gone, within bounds.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use node_agent_core::Key;

use crate::layout::{DataDir, JobDir};

/// Tries whose output is kept; the oldest go first.
const TRIES: usize = 512;
/// Bytes of output that are kept together; the oldest tries go first.
const BYTES: u64 = 1 << 30;

/// Where the output of a try is now: with the try while there is one, else among what is kept.
#[must_use]
pub fn find(data: &DataDir, key: Key) -> JobDir {
    let live = data.job(key);
    if live.path().exists() { live } else { JobDir::at(data.kept().join(key.to_string())) }
}

/// Ends a try's directory, but for what its ranks wrote.
///
/// # Errors
/// What the kernel answered; the directory then stays as it is, or partly.
pub fn keep(data: &DataDir, key: Key) -> io::Result<()> {
    let kept = data.kept();
    fs::create_dir_all(&kept)?;
    let place = kept.join(key.to_string());
    // One rename, so that a reader finds the whole output here or there.
    match fs::rename(data.job(key).path(), &place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    }
    for entry in fs::read_dir(&place)?.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            fs::remove_dir_all(path)?;
        } else if !is_output(&path) {
            fs::remove_file(path)?;
        }
    }
    prune(&kept, TRIES, BYTES)
}

fn is_output(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("rank-"))
}

/// Removes the oldest tries until what is left is within the bounds.
fn prune(kept: &Path, tries: usize, bytes: u64) -> io::Result<()> {
    let mut found: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
    for entry in fs::read_dir(kept)?.flatten() {
        let files = fs::read_dir(entry.path()).into_iter().flatten().flatten();
        let size = files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum();
        let changed = entry.metadata().and_then(|meta| meta.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
        found.push((changed, entry.path(), size));
    }
    found.sort();
    let (mut count, mut total) = (found.len(), found.iter().map(|(.., size)| size).sum::<u64>());
    for (_, path, size) in found {
        if count <= tries && total <= bytes {
            return Ok(());
        }
        fs::remove_dir_all(path)?;
        (count, total) = (count - 1, total - size);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn try_dir(data: &DataDir, number: u8, output: &str) -> Key {
        let key = Key { uid: proto_model::JobUid::from_random([number; 16]), attempt: 1 };
        let dir = data.job(key);
        dir.make().unwrap();
        fs::create_dir_all(dir.path().join("work/deep")).unwrap();
        fs::write(dir.record(), "{}").unwrap();
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
