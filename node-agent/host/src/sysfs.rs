//! Small bounded reads below a root, so that tests bring a tree of their own.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

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
        read_text(&self.at(path))
    }

    /// The bytes of a file, as many as any attribute has at most; `None` if it is absent or unreadable.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        fs::File::open(self.at(path)).ok()?.take(ATTRIBUTE_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// An attribute that is a number.
    #[must_use]
    pub fn number<T: std::str::FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// The names in a folder, sorted; empty if it is absent.
    #[must_use]
    pub fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
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

fn read_text(path: &Path) -> Option<String> {
    let mut text = String::new();
    fs::File::open(path).ok()?.take(ATTRIBUTE_MAX).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned())
}

/// True for `dddd:bb:dd.f`, the form of a PCI address in sysfs.
#[must_use]
pub fn is_pci_address(text: &str) -> bool {
    let shape = "hhhh:hh:hh.h".as_bytes();
    text.len() == shape.len()
        && text.bytes().zip(shape).all(|(byte, kind)| match kind {
            b'h' => byte.is_ascii_hexdigit(),
            other => byte == *other,
        })
}

/// A NUMA number as sysfs writes it: -1 means not known.
pub(crate) fn numa(tree: &Tree, path: &str) -> Option<u32> {
    tree.number::<i64>(path).and_then(|number| u32::try_from(number).ok())
}

/// How many are in a list such as `0-3,8`.
pub(crate) fn list_len(text: &str) -> u32 {
    let range = |part: &str| -> Option<u32> {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        high.checked_sub(low)?.checked_add(1)
    };
    text.split(',').filter_map(range).fold(0, u32::saturating_add)
}
