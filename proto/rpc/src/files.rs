//! Reading and writing small files that hold certificates, keys and tokens: bounded, 0600, atomic.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// No certificate, key or token of ours is larger, in bytes.
pub const MAX_FILE_BYTES: u64 = 256 * 1024;

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused the operation.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried: read, write, create, rename.
        action: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Larger than any file of this kind can be.
    #[error("{} is larger than {MAX_FILE_BYTES} bytes; is this the right file?", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file's bytes are not UTF-8.
    #[error("{} is not UTF-8 text; a PEM or token file was expected", path.display())]
    NotText {
        /// Path of the file.
        path: PathBuf,
    },
}

/// Reads a text file of at most [`MAX_FILE_BYTES`].
///
/// # Errors
/// [`FileError`] if the file cannot be read, is larger than that, or is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, FileError> {
    let failed = |source| FileError::Io { action: "read", path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText { path: path.to_owned() })
}

/// Writes a secret so that a reader sees the old or the whole new content, only the owner can read it, and
/// it survives a power cut once this returns.
///
/// # Errors
/// [`FileError::Io`] if the file cannot be written or renamed into its place.
pub fn write_secret(path: &Path, content: &str) -> Result<(), FileError> {
    write_atomic(path, content, 0o600)
}

/// Like [`write_secret`] for what everybody may read (certificates).
///
/// # Errors
/// As [`write_secret`].
pub fn write_public(path: &Path, content: &str) -> Result<(), FileError> {
    write_atomic(path, content, 0o644)
}

fn write_atomic(path: &Path, content: &str, mode: u32) -> Result<(), FileError> {
    let temporary = temporary_beside(path);
    let failed = |action: &'static str| move |source| FileError::Io { action, path: path.to_owned(), source };
    let result = write_and_sync(&temporary, content, mode)
        .map_err(failed("write"))
        .and_then(|()| fs::rename(&temporary, path).map_err(failed("rename")));
    if result.is_err() {
        // The first error is what the caller must see; a leftover temporary file harms nobody.
        let _ = fs::remove_file(&temporary);
        return result;
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync the folder of"))
}

fn write_and_sync(path: &Path, content: &str, mode: u32) -> io::Result<()> {
    // `create_new` follows no symlink that somebody planted under the temporary name.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()
}

fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", uuid::Uuid::new_v4().simple()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_are_private_and_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key.pem");
        write_secret(&path, "one").unwrap();
        write_secret(&path, "two").unwrap();
        assert_eq!(read_text(&path).unwrap(), "two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn errors_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("absent.pem");
        assert!(read_text(&missing).unwrap_err().to_string().contains("absent.pem"));
        let big = folder.path().join("big.pem");
        fs::write(&big, vec![b'a'; MAX_FILE_BYTES as usize + 1]).unwrap();
        assert!(matches!(read_text(&big), Err(FileError::TooLarge { .. })));
        let binary = folder.path().join("binary.pem");
        fs::write(&binary, [0xff, 0xfe]).unwrap();
        assert!(matches!(read_text(&binary), Err(FileError::NotText { .. })));
        assert!(write_secret(&folder.path().join("no/such/key.pem"), "x").is_err());
    }
}
