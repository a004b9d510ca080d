//! The fake kernel's files: a tree in memory, with what configfs does on mkdir.

use std::collections::BTreeMap;

use crate::error::Errno;

/// What a file does when it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The bytes that the file holds.
    pub content: Vec<u8>,
    /// Refuses to be written.
    pub read_only: bool,
    /// Errno for reads, such as of a device whose firmware hangs.
    pub fails: Option<Errno>,
}

/// Files by path, without a leading `/`; folders are what lies before a `/` in some path, and those that were made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Folder {
    files: BTreeMap<String, File>,
    made: BTreeMap<String, ()>,
    links: BTreeMap<String, String>,
    /// RDMA devices that `rdma_cm` in configfs knows, with their number of ports, and what it keeps of them.
    cm: BTreeMap<String, u32>,
    kept: BTreeMap<String, Vec<u8>>,
}

const CM: &str = "sys/kernel/config/rdma_cm";

impl Folder {
    /// A file with this content.
    pub fn put(&mut self, path: &str, content: &str) {
        let file = File { content: content.as_bytes().to_vec(), read_only: false, fails: None };
        self.files.insert(path.to_owned(), file);
    }

    /// A link that leads to something with this last component.
    pub fn link(&mut self, path: &str, to: &str) {
        self.links.insert(path.to_owned(), to.to_owned());
    }

    /// Where a link leads.
    #[must_use]
    pub fn leads_to(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }

    /// The connection manager knows an RDMA device: mkdir below `rdma_cm` works for it.
    pub fn manage(&mut self, device: &str, ports: u32) {
        self.made.insert(CM.to_owned(), ());
        self.cm.insert(device.to_owned(), ports);
    }

    /// A file, to change how it behaves.
    pub fn file(&mut self, path: &str) -> Option<&mut File> {
        self.files.get_mut(path)
    }

    /// Removes a file or a folder with all in it.
    pub fn remove_all(&mut self, path: &str) {
        let below = format!("{path}/");
        self.files.retain(|name, _| name != path && !name.starts_with(&below));
        self.made.retain(|name, ()| name != path && !name.starts_with(&below));
    }

    fn is_folder(&self, path: &str) -> bool {
        let below = format!("{path}/");
        self.made.contains_key(path)
            || self.files.range(below.clone()..).next().is_some_and(|(name, _)| name.starts_with(&below))
    }

    /// As read(2).
    ///
    /// # Errors
    /// `ENOENT`, or what the file fails with.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Errno> {
        let file = self.files.get(path).ok_or(Errno::NOENT)?;
        file.fails.map_or(Ok(()), Err)?;
        // The connection manager answers with a line.
        Ok(file.content.clone())
    }

    /// As write(2).
    ///
    /// # Errors
    /// `ENOENT`, `EACCES`, `EINVAL` for what the connection manager does not know.
    pub fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), Errno> {
        let file = self.files.get_mut(path).ok_or(Errno::NOENT)?;
        file.fails.map_or(Ok(()), Err)?;
        if file.read_only {
            return Err(Errno(13));
        }
        let mut content = bytes.trim_ascii_end().to_vec();
        if path.starts_with(CM) {
            let text = String::from_utf8_lossy(&content).into_owned();
            let fits = match path.rsplit('/').next() {
                Some("default_roce_mode") => text == "RoCE v2" || text == "IB/RoCE v1",
                _ => text.parse::<u8>().is_ok(),
            };
            if !fits {
                return Err(Errno::INVAL);
            }
            self.kept.insert(path.to_owned(), bytes.trim_ascii_end().to_vec());
        }
        content.push(b'\n');
        file.content = content;
        // mlx5 makes the priority of CNPs the one that counts when it is written (`drivers/infiniband/hw/mlx5/cong.c`).
        let mode = path.ends_with("/cc_params/np_cnp_prio").then(|| format!("{path}_mode"));
        if let Some(mode) = mode.and_then(|mode| self.files.get_mut(&mode)) {
            mode.content = b"0\n".to_vec();
        }
        Ok(())
    }

    /// As mkdir(2).
    ///
    /// # Errors
    /// `EEXIST`, `ENOENT`, and `ENODEV` where the connection manager knows no such device.
    pub fn make(&mut self, path: &str) -> Result<(), Errno> {
        if self.is_folder(path) {
            return Err(Errno::EXIST);
        }
        let (parent, name) = path.rsplit_once('/').ok_or(Errno::NOENT)?;
        if !self.is_folder(parent) {
            return Err(Errno::NOENT);
        }
        if parent == CM {
            let ports = *self.cm.get(name).ok_or(Errno::NODEV)?;
            for port in 1..=ports {
                for (file, usual) in [("default_roce_tos", "0\n"), ("default_roce_mode", "RoCE v2\n")] {
                    let path = format!("{path}/ports/{port}/{file}");
                    let held =
                        self.kept.get(&path).map(|held| String::from_utf8_lossy(held).into_owned() + "\n");
                    self.put(&path, held.as_deref().unwrap_or(usual));
                }
            }
        }
        self.made.insert(path.to_owned(), ());
        Ok(())
    }

    /// As rmdir(2); configfs removes what it made itself.
    ///
    /// # Errors
    /// `ENOENT`, `ENOTEMPTY`.
    pub fn remove(&mut self, path: &str) -> Result<(), Errno> {
        if !self.made.contains_key(path) {
            return Err(Errno::NOENT);
        }
        let own = path.rsplit_once('/').is_some_and(|(parent, _)| parent == CM);
        if !own && !self.list(path)?.is_empty() {
            return Err(Errno(39));
        }
        self.remove_all(path);
        Ok(())
    }

    /// As readdir(3).
    ///
    /// # Errors
    /// `ENOENT`.
    pub fn list(&self, path: &str) -> Result<Vec<String>, Errno> {
        if !self.is_folder(path) {
            return Err(Errno::NOENT);
        }
        let below = format!("{path}/");
        let all = self.files.keys().chain(self.made.keys());
        let names = all.filter_map(|name| name.strip_prefix(&below)?.split('/').next().map(str::to_owned));
        let names: std::collections::BTreeSet<String> = names.collect();
        Ok(names.into_iter().collect())
    }
}
