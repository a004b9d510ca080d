//! Small files: written whole or not at all, read with a bound, locked.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use serde::{Serialize, de::DeserializeOwned};

/// No file of ours is longer.
const FILE_MAX: u64 = 16 * 1024 * 1024;

/// How hard a file must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Survives the end of every process.
    Process,
    /// Survives a power cut too.
    Power,
}

fn name_it(path: &Path, action: &str, source: &io::Error) -> io::Error {
    io::Error::new(source.kind(), format!("cannot {action} {}: {source}", path.display()))
}

/// Replaces a file's content in one step; readable by its user only. Errors name the file.
///
/// # Errors
/// The file cannot be written beside its place or renamed to it.
pub fn write_atomic(path: &Path, content: &[u8], durability: Durability) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(content)?;
        if durability == Durability::Power {
            file.sync_all()?;
        }
        fs::rename(&temporary, path)?;
        if let (Durability::Power, Some(folder)) = (durability, path.parent()) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    };
    write().map_err(|source| name_it(path, "write", &source))
}

/// [`write_atomic`] of a value as JSON.
///
/// # Errors
/// The value cannot be written as JSON; else as of [`write_atomic`].
pub fn write_json(path: &Path, value: &impl Serialize, durability: Durability) -> io::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_atomic(path, &text, durability)
}

/// A file's content; `None` if there is no such file.
///
/// # Errors
/// The file is there and cannot be read.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(name_it(path, "read", &error)),
    };
    let mut content = Vec::new();
    file.take(FILE_MAX).read_to_end(&mut content).map_err(|error| name_it(path, "read", &error))?;
    Ok(Some(content))
}

/// A JSON file's value; `None` if there is no such file.
///
/// # Errors
/// The file is there and cannot be read, or is no JSON of this form.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let Some(content) = read(path)? else { return Ok(None) };
    let value =
        serde_json::from_slice(&content).map_err(|error| name_it(path, "understand", &error.into()))?;
    Ok(Some(value))
}

/// An empty file for writing, readable by its user only.
///
/// # Errors
/// The file cannot be made.
pub fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.map_err(|error| name_it(path, "create", &error))
}

/// Takes a lock file; `None` if another process holds it. The lock goes with the returned file.
///
/// # Errors
/// The file cannot be made or locked, for another reason than that it is held.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let file = file.map_err(|error| name_it(path, "open", &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(name_it(path, "lock", &error)),
    }
}

/// True if some process holds the lock file.
#[must_use]
pub fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    // A shared lock: two that look at once do not see each other.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_whole_and_locks_are_seen() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("a");
        assert_eq!(read_json::<u32>(&path).unwrap(), None);
        write_json(&path, &1u32, Durability::Process).unwrap();
        write_json(&path, &2u32, Durability::Power).unwrap();
        assert_eq!(read_json::<u32>(&path).unwrap(), Some(2));
        assert!(read_json::<String>(&path).unwrap_err().to_string().contains("understand"));
        let error = write_json(&room.path().join("no/a"), &1, Durability::Process).unwrap_err();
        assert!(error.to_string().contains("no/a"), "{error}");
        let held = room.path().join("lock");
        assert!(!is_locked(&held));
        let lock_file = lock(&held).unwrap();
        assert!(lock_file.is_some() && is_locked(&held) && lock(&held).unwrap().is_none());
        drop(lock_file);
        assert!(!is_locked(&held));
    }
}
