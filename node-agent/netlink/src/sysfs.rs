//! Small bounded reads and writes below a root, so that tests bring a tree of their own.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use crate::kernel::Files;

/// No attribute that is read here is longer.
const ATTRIBUTE_MAX: u64 = 64 * 1024;

/// A tree that looks like `/`: the real one, or a test's.
#[derive(Debug, Clone)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree below `root`.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Where `path` (without a leading '/') is.
    #[must_use]
    pub fn at(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The trimmed text of an attribute; `None` if it is absent, unreadable or not text.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<String> {
        Files::text(self, path)
    }

    /// The bytes of a file, as many as any attribute has at most; `None` if it is absent or unreadable.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.read(path).ok()
    }

    /// An attribute that is a number.
    #[must_use]
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; empty if it is absent.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        Files::names(self, path)
    }

    /// Where a link such as `sys/class/net/X/device` really leads, as components below `sys/devices`: the PCIe path.
    #[must_use]
    pub fn device_path(&self, path: &str) -> Option<Vec<String>> {
        let real = fs::canonicalize(self.at(path)).ok()?;
        let devices = fs::canonicalize(self.at("sys/devices")).ok()?;
        let below = real.strip_prefix(devices).ok()?;
        Some(below.iter().map(|part| part.to_string_lossy().into_owned()).collect())
    }
}

impl Files for Tree {
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        fs::File::open(self.at(path))?.take(ATTRIBUTE_MAX).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> io::Result<()> {
        // An attribute takes one write as one value; a file that is not there is not made.
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.at(path))?;
        let written = file.write(bytes)?;
        if written == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = fs::read_dir(self.at(path))?
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    fn make(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.at(path))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.at(path))
    }

    fn leads_to(&self, path: &str) -> Option<String> {
        let real = fs::canonicalize(self.at(path)).ok()?;
        Some(Path::file_name(&real)?.to_string_lossy().into_owned())
    }
}
