//! One process per store: a lock file beside it that names its holder.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::disk::io_failure;
use crate::error::StoreError;

/// A program that this process starts has its files, this lock too, for the moment between fork and exec: so long a lock that this very
/// process gave back is waited for.
const OWN_CHILDREN: Duration = Duration::from_secs(1);
/// A process that was killed has its files until the last of its threads is gone, which takes a while where one of them waits for the disk; who
/// starts the next one sees it dead before that. So long its lock is waited for.
const DYING: Duration = Duration::from_secs(10);
/// The time between two tries for a lock that is held.
const STEP: Duration = Duration::from_millis(5);

/// Held as long as the store is open; the system releases it when the process dies, however it dies.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// Takes the lock at `path`, a file that is made if it is not there.
///
/// # Errors
/// [`StoreError::InUse`] names the process that has it.
pub fn acquire(path: &Path) -> Result<Lock, StoreError> {
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    let mut file = open.map_err(|error| at(path, &error))?;
    let begun = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) => {
                let pid = holder(&mut file);
                let patience = match pid {
                    Some(pid) if pid == std::process::id() => OWN_CHILDREN,
                    Some(pid) if is_dying(pid) => DYING,
                    _ => Duration::ZERO,
                };
                if begun.elapsed() >= patience {
                    return Err(StoreError::InUse { path: path.to_owned(), pid });
                }
                std::thread::sleep(STEP);
            }
            Err(TryLockError::Error(error)) => return Err(at(path, &error)),
        }
    }
    // The pid is for the message only; on a full disk the lock works without it.
    let _ =
        file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(Lock { _file: file })
}

/// The process that the file names.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    read.ok().and_then(|_| text.trim().parse().ok())
}

/// Whether a process runs no program any more: it is gone, or its first thread is; the state is the first word behind the name (proc(5)).
fn is_dying(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => {
            let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
            matches!(state, Some("Z" | "X"))
        }
        // Without /proc nobody knows.
        Err(error) => error.kind() == std::io::ErrorKind::NotFound && Path::new("/proc/self/stat").exists(),
    }
}

/// A disk failure with the path in its cause.
pub(crate) fn at(path: &Path, error: &std::io::Error) -> StoreError {
    match io_failure(error) {
        StoreError::Full { cause } => StoreError::Full { cause: format!("{}: {cause}", path.display()) },
        StoreError::Io { cause } => StoreError::Io { cause: format!("{}: {cause}", path.display()) },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a program has it that this process starts, between fork and exec.
    #[test]
    fn what_a_child_has_for_a_moment_is_waited_for() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("lock");
        let first = acquire(&path).unwrap();
        let inherited = first._file.try_clone().unwrap();
        drop(first);
        let child = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(inherited);
        });
        acquire(&path).unwrap();
        child.join().unwrap();
    }

    /// As a controller that was killed has it until its last thread is gone.
    #[test]
    fn what_a_process_that_has_ended_still_has_is_waited_for() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("lock");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let held = acquire(&path).unwrap();
        std::fs::write(&path, format!("{}\n", ended.id())).unwrap();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(held);
        });
        acquire(&path).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn who_lives_is_not_waited_for() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("lock");
        let _held = acquire(&path).unwrap();
        let mut lives = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(&path, format!("{}\n", lives.id())).unwrap();
        let begun = Instant::now();
        let error = acquire(&path).unwrap_err();
        let took = begun.elapsed();
        lives.kill().unwrap();
        lives.wait().unwrap();
        assert!(matches!(error, StoreError::InUse { pid, .. } if pid == Some(lives.id())), "{error}");
        assert!(took < DYING, "{took:?}");
    }

    #[test]
    fn who_holds_it_is_named() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("lock");
        let _held = acquire(&path).unwrap();
        let error = acquire(&path).unwrap_err();
        assert!(matches!(error, StoreError::InUse { pid, .. } if pid == Some(std::process::id())), "{error}");
    }
}
