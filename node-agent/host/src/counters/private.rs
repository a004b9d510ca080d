//! Private statistics of a network device (`ethtool -S`): the kernel's, or recorded ones.

use std::{fs::File, io, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use node_agent_netlink::{
    Kernel, NetlinkError,
    private::{StatisticValues, statistic_names},
};

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

/// The kernel's: one ioctl for all of a device.
#[derive(Clone)]
pub struct KernelStatistics {
    kernel: Arc<dyn Kernel>,
}

impl std::fmt::Debug for KernelStatistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelStatistics").finish_non_exhaustive()
    }
}

impl KernelStatistics {
    /// Of this kernel.
    #[must_use]
    pub fn new(kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel }
    }
}

impl OpenStatistics for KernelStatistics {
    fn open(&self, netdev: &str) -> Option<Box<dyn Statistics>> {
        let names = statistic_names(&*self.kernel, netdev).ok().filter(|names| !names.is_empty())?;
        let wanted: Vec<usize> = (0..names.len()).collect();
        Some(Box::new(Device {
            kernel: Arc::clone(&self.kernel),
            netdev: netdev.to_owned(),
            count: names.len(),
            places: wanted.clone(),
            names,
            wanted,
            values: StatisticValues::default(),
        }))
    }
}

struct Device {
    kernel: Arc<dyn Kernel>,
    netdev: String,
    /// As they were first, which is what places mean to who asks.
    names: Vec<String>,
    wanted: Vec<usize>,
    /// Where what is wanted is now: a driver has more or fewer statistics when its channels change. One that is no more is
    /// at a place where nothing is.
    places: Vec<usize>,
    /// How many there are now.
    count: usize,
    values: StatisticValues,
}

impl Device {
    fn find_again(&mut self) -> Result<(), NetlinkError> {
        let now = statistic_names(&*self.kernel, &self.netdev)?;
        let place = |old: &usize| now.iter().position(|name| Some(name) == self.names.get(*old));
        self.places = self.wanted.iter().map(|old| place(old).unwrap_or(NOWHERE)).collect();
        self.count = now.len();
        Ok(())
    }
}

/// Beyond all values.
const NOWHERE: usize = u32::MAX as usize;

impl Statistics for Device {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn want(&mut self, places: &[usize]) {
        self.wanted = places.to_vec();
        self.places = places.to_vec();
    }

    fn read(&mut self, values: &mut [Option<u64>]) -> io::Result<()> {
        let raw = |error: NetlinkError| match error.errno() {
            Some(errno) => io::Error::from_raw_os_error(errno.0),
            None => io::Error::other(error),
        };
        let mut whole = self.values.read(&*self.kernel, &self.netdev, self.count).map_err(raw)?;
        if !whole {
            self.find_again().map_err(raw)?;
            whole = self.values.read(&*self.kernel, &self.netdev, self.count).map_err(raw)?;
        }
        for (place, value) in self.places.iter().zip(values) {
            // A driver that changes them all the time tells nothing this time.
            *value = if whole { self.values.get(*place) } else { None };
        }
        Ok(())
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
