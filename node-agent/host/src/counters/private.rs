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
    /// Their names as they were when it was opened, in the order of the values.
    fn names(&self) -> &[String];

    /// Only these are wanted from now on: places in [`Statistics::names`].
    fn want(&mut self, places: &[usize]);

    /// Reads what is wanted, into as many values. False if the device has others by now, and nothing was read: it is to be opened again.
    ///
    /// # Errors
    /// The kernel's answer; nothing was read then.
    fn read(&mut self, values: &mut [Option<u64>]) -> io::Result<bool>;

    /// Whether the device still has those of [`Statistics::names`], which costs more than to read them. [`Statistics::read`] may not see
    /// that they are others where they are as many.
    ///
    /// # Errors
    /// The kernel's answer.
    fn are_the_same(&mut self) -> io::Result<bool>;
}

/// Opens the private statistics of network devices.
pub trait OpenStatistics: Send + Sync {
    /// Those of this device; `None` if it has none.
    ///
    /// # Errors
    /// The kernel's answer: the device is not there, or not under this name, or it refuses.
    fn open(&self, netdev: &str) -> io::Result<Option<Box<dyn Statistics>>>;
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
    /// Reads private statistics by asking this kernel over ethtool.
    #[must_use]
    pub fn new(kernel: Arc<dyn Kernel>) -> Self {
        Self { kernel }
    }
}

impl OpenStatistics for KernelStatistics {
    fn open(&self, netdev: &str) -> io::Result<Option<Box<dyn Statistics>>> {
        let names = statistic_names(&*self.kernel, netdev).map_err(raw)?;
        if names.is_empty() {
            return Ok(None);
        }
        Ok(Some(Box::new(Device {
            kernel: Arc::clone(&self.kernel),
            netdev: netdev.to_owned(),
            wanted: (0..names.len()).collect(),
            names,
            values: StatisticValues::default(),
        })))
    }
}

/// As the kernel's own error, by which a reader knows what to do.
fn raw(error: NetlinkError) -> io::Error {
    match (&error, error.errno()) {
        (_, Some(errno)) => io::Error::from_raw_os_error(errno.0),
        (NetlinkError::Restless { .. }, None) => rustix::io::Errno::AGAIN.into(),
        _ => io::Error::other(error),
    }
}

struct Device {
    kernel: Arc<dyn Kernel>,
    netdev: String,
    names: Vec<String>,
    wanted: Vec<usize>,
    values: StatisticValues,
}

impl Statistics for Device {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn want(&mut self, places: &[usize]) {
        self.wanted = places.to_vec();
    }

    fn read(&mut self, values: &mut [Option<u64>]) -> io::Result<bool> {
        let whole = self.values.read(&*self.kernel, &self.netdev, self.names.len()).map_err(raw)?;
        if whole {
            for (place, value) in self.wanted.iter().zip(values) {
                *value = self.values.get(*place);
            }
        }
        Ok(whole)
    }

    fn are_the_same(&mut self) -> io::Result<bool> {
        Ok(statistic_names(&*self.kernel, &self.netdev).map_err(raw)? == self.names)
    }
}

/// Recorded ones: a file for each counter, in `sys/class/net/IF/ethtool_statistics` below a root. For recorded servers and
/// benches; no kernel has such a folder.
#[derive(Debug, Clone)]
pub struct FolderStatistics {
    tree: Tree,
}

impl FolderStatistics {
    /// Reads private statistics from files of a recorded server below this root.
    #[must_use]
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { tree: Tree::new(root) }
    }
}

impl FolderStatistics {
    fn folder(netdev: &str) -> String {
        format!("sys/class/net/{netdev}/ethtool_statistics")
    }
}

impl OpenStatistics for FolderStatistics {
    fn open(&self, netdev: &str) -> io::Result<Option<Box<dyn Statistics>>> {
        let folder = Self::folder(netdev);
        let names = self.tree.names(&folder);
        if names.is_empty() {
            return Ok(None);
        }
        let open = |name: &String| File::open(self.tree.at(&format!("{folder}/{name}")));
        let files: Vec<File> = names.iter().map(open).collect::<io::Result<_>>()?;
        let wanted = (0..names.len()).collect();
        Ok(Some(Box::new(Folder { tree: self.tree.clone(), folder, names, files, wanted })))
    }
}

struct Folder {
    tree: Tree,
    folder: String,
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

    fn read(&mut self, values: &mut [Option<u64>]) -> io::Result<bool> {
        let mut text = [0; VALUE_MAX];
        for (place, value) in self.wanted.iter().zip(values) {
            let Some(file) = self.files.get(*place) else { continue };
            let length = file.read_at(&mut text, 0)?;
            *value = parse(&text[..length]);
        }
        Ok(true)
    }

    fn are_the_same(&mut self) -> io::Result<bool> {
        Ok(self.tree.names(&self.folder) == self.names)
    }
}
