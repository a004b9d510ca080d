//! Servers recorded as text: what sysfs, /proc and the kernel's addresses say, for tests and to look at a server that one does not have.
//!
//! A recording is made of sections: a folder in brackets, then `FILE = TEXT` (with `\n` and `\t`) and `FILE -> PATH` for links. What
//! sysfs always has is not written: the entries of `sys/bus/pci/devices`, `sys/class/net` and `sys/class/infiniband`, and the `device`
//! links back. `[addresses]` holds the addresses of network devices, `[lldp]` what the device of an index hears (`SWITCH PORT`).

use std::{collections::BTreeMap, fs, io, net::IpAddr, os::unix::fs::symlink, path::Path};

use thiserror::Error;

use crate::{nic::Addresses, sysfs::is_pci_address};

/// Why a text is no recording.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordingError {
    /// A line before the first section.
    #[error("line {0}: it belongs to no section; begin with [FOLDER]")]
    Nowhere(usize),
    /// A line that is nothing of the above.
    #[error("line {0}: '{1}' is not [FOLDER], FILE = TEXT or FILE -> PATH")]
    Line(usize, String),
    /// A path that leads out of the recording.
    #[error("line {0}: '{1}' must be a path below the root, without '..'")]
    Path(usize, String),
    /// An address that is none.
    #[error("line {0}: '{1}' is not an IP address")]
    Address(usize, String),
    /// A neighbour without its port, or of a device without a number.
    #[error("line {0}: '{1}' is not NUMBER = SWITCH PORT")]
    Neighbor(usize, String),
}

/// A server as files that were recorded on it, with the answers of its kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recording {
    files: BTreeMap<String, String>,
    links: BTreeMap<String, String>,
    /// Addresses of its network devices.
    pub addresses: Addresses,
    neighbors: BTreeMap<u32, Vec<(String, String)>>,
}

fn inside(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// The first line that is wrong.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let mut found = Self::default();
        let mut section: Option<String> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(folder) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                if !inside(folder) {
                    return Err(RecordingError::Path(number, folder.to_owned()));
                }
                found.derive(folder);
                section = Some(folder.to_owned());
                continue;
            }
            let section = section.as_deref().ok_or(RecordingError::Nowhere(number))?;
            found.entry(number, section, line)?;
        }
        Ok(found)
    }

    fn entry(&mut self, number: usize, section: &str, line: &str) -> Result<(), RecordingError> {
        let wrong = || RecordingError::Line(number, line.to_owned());
        let (name, value, is_link) = match (line.split_once(" -> "), line.split_once('=')) {
            (Some((name, to)), _) => (name.trim(), to.trim(), true),
            (None, Some((name, text))) => (name.trim(), text.trim(), false),
            (None, None) => return Err(wrong()),
        };
        if !inside(name) || (is_link && !inside(value)) {
            return Err(RecordingError::Path(number, line.to_owned()));
        }
        match section {
            "addresses" => {
                let one =
                    |text: &str| text.parse().map_err(|_| RecordingError::Address(number, text.to_owned()));
                let all = value.split_whitespace().map(one).collect::<Result<Vec<IpAddr>, _>>()?;
                self.addresses.insert(name.to_owned(), all);
            }
            "lldp" => {
                let index = name.parse().ok().zip(value.split_once(' '));
                let (index, (switch, port)) =
                    index.ok_or_else(|| RecordingError::Neighbor(number, line.to_owned()))?;
                self.neighbors.entry(index).or_default().push((switch.to_owned(), port.to_owned()));
            }
            _ if is_link => {
                self.links.insert(format!("{section}/{name}"), value.to_owned());
            }
            _ => {
                let text = value.replace("\\n", "\n").replace("\\t", "\t");
                self.files.insert(format!("{section}/{name}"), text + "\n");
            }
        }
        Ok(())
    }

    /// What sysfs always has beside a folder of `sys/devices`.
    fn derive(&mut self, folder: &str) {
        let parts: Vec<&str> = folder.split('/').collect();
        if !folder.starts_with("sys/devices/") {
            return;
        }
        if let Some(address) = parts.last().filter(|part| is_pci_address(part)) {
            self.links.insert(format!("sys/bus/pci/devices/{address}"), folder.to_owned());
        }
        for class in ["net", "infiniband"] {
            let Some(at) = parts.iter().position(|part| *part == class) else { continue };
            let Some(name) = parts.get(at + 1) else { continue };
            let device = parts[..=at + 1].join("/");
            if parts.get(2) != Some(&"virtual") {
                self.links.insert(format!("{device}/device"), parts[..at].join("/"));
            }
            self.links.insert(format!("sys/class/{class}/{name}"), device);
        }
    }

    /// Writes it as a tree, for [`crate::RealHost::recorded`].
    ///
    /// # Errors
    /// The kernel's answer.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let parent = |path: &Path| fs::create_dir_all(path.parent().unwrap_or(root));
        for (path, text) in &self.files {
            let at = root.join(path);
            parent(&at)?;
            fs::write(at, text)?;
        }
        for (path, to) in &self.links {
            let (at, to) = (root.join(path), root.join(to));
            parent(&at)?;
            fs::create_dir_all(&to)?;
            symlink(to, at)?;
        }
        for (index, heard) in &self.neighbors {
            let at = root.join(format!("run/systemd/netif/lldp/{index}"));
            parent(&at)?;
            let frames: Vec<u8> =
                heard.iter().flat_map(|(switch, port)| crate::lldp::kept(switch, port)).collect();
            fs::write(at, frames)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
