//! Backups: all keys of a store at one revision, in one file that shows every damage.
//!
//! ```text
//! RAILYARD-BACKUP\n | format u32 | revision u64 | time u64 | crc u32
//! 1 | key length u32 | key | value length u32 | value | crc u32        once per key, in key order
//! 0 | number of keys u64 | SHA-256 of everything before
//! ```
//! Numbers are little-endian; each CRC-32 is over what it ends. The file holds secrets, as the store does: mode 0600.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use data_encoding::HEXLOWER;

use crate::embedded::codec::crc32;
use crate::embedded::disk::io_failure;
use crate::error::StoreError;

const MAGIC: &[u8; 16] = b"RAILYARD-BACKUP\n";
/// The format that this release writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// What the name of a backup ends with while it is written.
pub const PART: &str = ".part";
const RECORD: u8 = 1;
const END: u8 = 0;
/// Nothing in a store is longer; a longer length is damage, not a reason to take memory.
const LONGEST: u32 = 128 << 20;

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupSummary {
    /// The store's revision that it shows.
    pub revision: u64,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// The number of keys in the file.
    pub keys: u64,
    /// The file's last 32 bytes, the SHA-256 of all before, in hex.
    pub sha256: String,
}

/// A backup that is being written. Without [`BackupWriter::finish`] nothing appears under its name.
#[derive(Debug)]
pub struct BackupWriter {
    path: PathBuf,
    part: Part,
    out: BufWriter<File>,
    hash: Hash,
    summary: BackupSummary,
}

/// The file under its temporary name. What is not finished is removed.
#[derive(Debug)]
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // After the end it has its own name, and there is nothing of this one.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `Context` says nothing of itself.
struct Hash(Context);

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hash")
    }
}

impl BackupWriter {
    /// Begins a backup of a store at `revision`.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is a file of that name; it is never overwritten.
    pub fn create(path: &Path, revision: u64) -> Result<Self, StoreError> {
        if path.exists() {
            return Err(StoreError::Exists { place: path.display().to_string() });
        }
        let mut part = path.as_os_str().to_owned();
        part.push(PART);
        let part = PathBuf::from(part);
        let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part);
        let out = BufWriter::new(open.map_err(|error| at(&part, &error))?);
        let part = Part(part);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
        let time_ms = u64::try_from(now).unwrap_or(0);
        let summary = BackupSummary { revision, time_ms, keys: 0, sha256: String::new() };
        let mut writer =
            Self { path: path.to_owned(), part, out, hash: Hash(Context::new(&SHA256)), summary };
        let mut head = MAGIC.to_vec();
        head.extend(FORMAT.to_le_bytes());
        head.extend(revision.to_le_bytes());
        head.extend(time_ms.to_le_bytes());
        head.extend(crc32(&[&head]).to_le_bytes());
        writer.write(&head)?;
        Ok(writer)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.hash.0.update(bytes);
        self.out.write_all(bytes).map_err(|error| at(&self.part.0, &error))
    }

    /// Adds one key.
    ///
    /// # Errors
    /// The disk's.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut record = Vec::with_capacity(key.len() + value.len() + 13);
        record.push(RECORD);
        for part in [key, value] {
            record.extend(u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes());
            record.extend(part);
        }
        record.extend(crc32(&[&record]).to_le_bytes());
        self.summary.keys += 1;
        self.write(&record)
    }

    /// Makes it durable, reads all of it again, and gives it its name only then.
    ///
    /// # Errors
    /// The disk's, [`StoreError::Corrupt`] when it is not read as it was written; then there is no file of that name.
    pub fn finish(mut self) -> Result<BackupSummary, StoreError> {
        let mut end = vec![END];
        end.extend(self.summary.keys.to_le_bytes());
        self.write(&end)?;
        let sum = self.hash.0.finish();
        let failed = |error: std::io::Error| at(&self.part.0, &error);
        self.out.write_all(sum.as_ref()).map_err(failed)?;
        let file = self.out.into_inner().map_err(|error| failed(error.into_error()))?;
        file.sync_all().map_err(failed)?;
        let summary = BackupSummary { sha256: HEXLOWER.encode(sum.as_ref()), ..self.summary };
        if BackupReader::check(&self.part.0)? != summary {
            let place = format!("the backup {}", self.part.0.display());
            let reason = "it is not read as it was written".to_owned();
            return Err(StoreError::Corrupt { place, key: "end".to_owned(), reason });
        }
        std::fs::rename(&self.part.0, &self.path).map_err(failed)?;
        let folder = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = File::open(folder.unwrap_or(Path::new("."))).and_then(|folder| folder.sync_all());
        folder.map_err(failed)?;
        Ok(summary)
    }
}

/// A backup that is being read, key by key.
#[derive(Debug)]
pub struct BackupReader {
    path: PathBuf,
    input: BufReader<File>,
    hash: Hash,
    summary: BackupSummary,
    seen: u64,
}

impl BackupReader {
    /// Opens a backup and looks at its head.
    ///
    /// # Errors
    /// [`StoreError::Foreign`], [`StoreError::NewerFormat`], [`StoreError::Corrupt`], the disk's.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(|error| at(path, &error))?;
        let summary = BackupSummary { revision: 0, time_ms: 0, keys: 0, sha256: String::new() };
        let hash = Hash(Context::new(&SHA256));
        let mut reader = Self { path: path.to_owned(), input: BufReader::new(file), hash, summary, seen: 0 };
        let mut head = vec![0; MAGIC.len() + 24];
        let whole = reader.fill(&mut head, "head");
        if !head.starts_with(MAGIC) {
            let found = head.get(..MAGIC.len()).unwrap_or_default().escape_ascii().to_string();
            return Err(StoreError::Foreign {
                path: path.to_owned(),
                found: format!("it begins with {found}"),
            });
        }
        whole?;
        let (body, crc) = head.split_at(head.len() - 4);
        let found = u32::from_le_bytes(bytes_of(&body[16..20]));
        if found > FORMAT {
            return Err(StoreError::NewerFormat { path: path.to_owned(), found, supported: FORMAT });
        }
        if crc32(&[body]).to_le_bytes() != crc {
            return Err(reader.corrupt("head", "wrong checksum"));
        }
        reader.summary.revision = u64::from_le_bytes(bytes_of(&body[20..28]));
        reader.summary.time_ms = u64::from_le_bytes(bytes_of(&body[28..36]));
        Ok(reader)
    }

    /// Reads all of it and answers what it holds.
    ///
    /// # Errors
    /// The first damage, by the key or the number of the record.
    pub fn check(path: &Path) -> Result<BackupSummary, StoreError> {
        let mut reader = Self::open(path)?;
        while reader.next()?.is_some() {}
        Ok(reader.summary)
    }

    /// The store's revision that it shows.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.summary.revision
    }

    /// The next key and its value; `None` after the last one, when the checksum of the whole was right.
    ///
    /// # Errors
    /// The damage.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator that can fail would hide the end from `?`"
    )]
    pub fn next(&mut self) -> Result<Option<(Bytes, Bytes)>, StoreError> {
        let place = format!("record {}", self.seen + 1);
        let mut tag = [0];
        self.fill(&mut tag, &place)?;
        match tag[0] {
            RECORD => {
                let (key_len, key) = self.part(&place)?;
                let (value_len, value) = self.part(&format!("{place}, key {}", key.escape_ascii()))?;
                let crc = crc32(&[&tag, &key_len, &key, &value_len, &value]);
                let mut stored = [0; 4];
                self.fill(&mut stored, &place)?;
                if crc != u32::from_le_bytes(stored) {
                    return Err(self.corrupt(&key.escape_ascii().to_string(), "wrong checksum"));
                }
                self.seen += 1;
                Ok(Some((key.into(), value.into())))
            }
            END => self.end().map(|()| None),
            _ => Err(self.corrupt(&place, "neither a key nor the end")),
        }
    }

    fn part(&mut self, place: &str) -> Result<([u8; 4], Vec<u8>), StoreError> {
        let mut len = [0; 4];
        self.fill(&mut len, place)?;
        let count = u32::from_le_bytes(len);
        if count > LONGEST {
            return Err(self.corrupt(place, "a length that no store has"));
        }
        let mut bytes = vec![0; count as usize];
        self.fill(&mut bytes, place)?;
        Ok((len, bytes))
    }

    fn end(&mut self) -> Result<(), StoreError> {
        let mut count = [0; 8];
        self.fill(&mut count, "end")?;
        let sum = self.hash.0.clone().finish();
        let mut stored = [0; 32];
        self.fill(&mut stored, "end")?;
        if sum.as_ref() != stored {
            return Err(self.corrupt("end", "wrong SHA-256 of the whole"));
        }
        if u64::from_le_bytes(count) != self.seen {
            return Err(self.corrupt("end", "another number of keys than the file holds"));
        }
        if self.input.read(&mut [0]).map_err(|error| at(&self.path, &error))? != 0 {
            return Err(self.corrupt("end", "bytes after the end"));
        }
        self.summary.keys = self.seen;
        self.summary.sha256 = HEXLOWER.encode(&stored);
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8], place: &str) -> Result<(), StoreError> {
        match self.input.read_exact(bytes) {
            Ok(()) => {
                self.hash.0.update(bytes);
                Ok(())
            }
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(self.corrupt(place, "the file ends here"))
            }
            Err(error) => Err(at(&self.path, &error)),
        }
    }

    fn corrupt(&self, key: &str, reason: &str) -> StoreError {
        let place = format!("the backup {}", self.path.display());
        StoreError::Corrupt { place, key: key.to_owned(), reason: reason.to_owned() }
    }
}

fn bytes_of<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

fn at(path: &Path, error: &std::io::Error) -> StoreError {
    match io_failure(error) {
        StoreError::Full { cause } => StoreError::Full { cause: format!("{}: {cause}", path.display()) },
        StoreError::Io { cause } => StoreError::Io { cause: format!("{}: {cause}", path.display()) },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(folder: &Path) -> (PathBuf, BackupSummary) {
        let path = folder.join("b");
        let mut writer = BackupWriter::create(&path, 77).unwrap();
        for (key, value) in [("a", &b"1"[..]), ("b", b""), ("c", &[0xff; 300])] {
            writer.push(key.as_bytes(), value).unwrap();
        }
        (path, writer.finish().unwrap())
    }

    #[test]
    fn what_was_written_is_read_and_nothing_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let (path, summary) = made(folder.path());
        assert_eq!(BackupReader::check(&path).unwrap(), summary);
        assert_eq!((summary.keys, summary.revision, summary.sha256.len()), (3, 77, 64));
        let mut reader = BackupReader::open(&path).unwrap();
        assert_eq!(reader.next().unwrap(), Some(("a".into(), "1".into())));
        assert!(matches!(BackupWriter::create(&path, 1), Err(StoreError::Exists { .. })));
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no part stays");
        let mut given_up = BackupWriter::create(&folder.path().join("c"), 1).unwrap();
        given_up.push(b"a", b"1").unwrap();
        drop(given_up);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nor one that was given up");
    }

    #[test]
    fn what_is_not_read_as_it_was_written_gets_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b");
        let mut writer = BackupWriter::create(&path, 77).unwrap();
        writer.push(b"a", &[7; 100_000]).unwrap();
        // The disk keeps something else.
        std::os::unix::fs::FileExt::write_all_at(writer.out.get_ref(), b"x", 5000).unwrap();
        assert!(matches!(writer.finish(), Err(StoreError::Corrupt { .. })));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn every_flipped_bit_and_every_missing_end_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = made(folder.path());
        let whole = std::fs::read(&path).unwrap();
        for bit in 0..whole.len() * 8 {
            let mut bad = whole.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            std::fs::write(&path, bad).unwrap();
            assert!(BackupReader::check(&path).is_err(), "bit {bit}");
        }
        for len in 0..whole.len() {
            std::fs::write(&path, &whole[..len]).unwrap();
            assert!(BackupReader::check(&path).is_err(), "{len} bytes");
        }
        std::fs::write(&path, [&whole[..], b"x"].concat()).unwrap();
        assert!(BackupReader::check(&path).is_err());
        let mut newer = whole;
        newer[16] = 2;
        std::fs::write(&path, newer).unwrap();
        assert!(matches!(BackupReader::check(&path), Err(StoreError::NewerFormat { found: 2, .. })));
    }
}
