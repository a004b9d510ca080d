//! Private statistics of a network device (`ethtool -S`): behind a trait, because who reads them needs a socket.

use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf};

use crate::sysfs::Tree;

use super::port::{VALUE_MAX, parse};

/// Private statistics of one network device.
pub trait Statistics: Send {
    /// Their names, in the order of the values.
    fn names(&self) -> &[String];

    /// Only these are wanted from now on: places in [`Statistics::names`].
    fn want(&mut self, places: &[usize]);

    /// Reads what is wanted, into as many values.
    ///
    /// # Errors
    /// The kernel's answer; nothing was read then.
    fn read(&mut self, values: &mut [Option<u64>]) -> io::Result<()>;
}

/// Opens the private statistics of network devices.
pub trait OpenStatistics: Send + Sync {
    /// Those of this device; `None` if it has none that can be read.
    fn open(&self, netdev: &str) -> Option<Box<dyn Statistics>>;
}

/// None are read.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoStatistics;

impl OpenStatistics for NoStatistics {
    fn open(&self, _: &str) -> Option<Box<dyn Statistics>> {
        None
    }
}

/// Recorded ones: a file for each counter, in `sys/class/net/IF/ethtool_statistics` below a root. For recorded servers and
/// benches; no kernel has such a folder.
#[derive(Debug, Clone)]
pub struct FolderStatistics {
    tree: Tree,
}

impl FolderStatistics {
    /// Below this root.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { tree: Tree::new(root) }
    }
}

impl OpenStatistics for FolderStatistics {
    fn open(&self, netdev: &str) -> Option<Box<dyn Statistics>> {
        let folder = format!("sys/class/net/{netdev}/ethtool_statistics");
        let names = self.tree.names(&folder);
        let files: Option<Vec<File>> =
            names.iter().map(|name| File::open(self.tree.at(&format!("{folder}/{name}"))).ok()).collect();
        let wanted = (0..names.len()).collect();
        (!names.is_empty()).then_some(Box::new(Folder { names, files: files?, wanted }))
    }
}

struct Folder {
    names: Vec<String>,
    files: Vec<File>,
    wanted: Vec<usize>,
}

impl Statistics for Folder {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn want(&mut self, places: &[usize]) {
        self.wanted = places.to_vec();
    }

    fn read(&mut self, values: &mut [Option<u64>]) -> io::Result<()> {
        let mut text = [0; VALUE_MAX];
        for (place, value) in self.wanted.iter().zip(values) {
            let Some(file) = self.files.get(*place) else { continue };
            let length = file.read_at(&mut text, 0)?;
            *value = parse(&text[..length]);
        }
        Ok(())
    }
}
