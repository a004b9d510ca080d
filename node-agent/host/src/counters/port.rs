//! The counters of one port.

use std::{fs::File, io, os::unix::fs::FileExt, os::unix::fs::MetadataExt, sync::Arc};

use node_agent_health::{Layout, PortKey, ReadFailure, Sample, Source, Vendor};
use proto_model::{Nic, Timestamp};

use super::private::{OpenStatistics, Statistics};
use crate::sysfs::Tree;

/// No counter's text is longer: 20 digits and a line's end.
pub(super) const VALUE_MAX: usize = 32;

/// Readings after which the names of private statistics are read again: as many may be others (mlx5 has those of global pause, or of one
/// priority's), and a device of many channels has thousands.
const NAMES_EVERY: u32 = 30;

/// One port, with its files open.
pub struct PortReader {
    key: PortKey,
    layout: Arc<Layout>,
    /// For each column that is a file.
    files: Vec<Option<File>>,
    statistics: Option<Box<dyn Statistics>>,
    /// The first column that is a private statistic; all that follow are.
    first_private: usize,
    carrier: Option<File>,
    state: Option<File>,
    values: Vec<Option<u64>>,
    link: Option<bool>,
    life: u64,
    checks: u32,
    is_outdated: bool,
}

impl std::fmt::Debug for PortReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortReader").field("key", &self.key).field("life", &self.life).finish_non_exhaustive()
    }
}

/// Whether a NIC has its RDMA device now. One of an inventory file may have none, whatever it is called.
pub(super) fn has_rdma(tree: &Tree, nic: &Nic) -> bool {
    tree.at(&format!("sys/class/infiniband/{}", rdma_port(nic).0)).exists()
}

/// Whether a NIC was found as an RDMA device.
fn was_rdma(nic: &Nic) -> bool {
    nic.facts.as_ref().is_some_and(|facts| facts.port.is_some())
}

/// The RDMA device of a NIC and the number of its port: those after the first are called `DEVICE:PORT`.
fn rdma_port(nic: &Nic) -> (&str, u32) {
    let split = nic.device.rsplit_once(':').and_then(|(device, port)| Some((device, port.parse().ok()?)));
    let (device, named) = split.unwrap_or((nic.device.as_str(), 1));
    let reported = nic.facts.as_ref().and_then(|facts| facts.port);
    (device, reported.map_or(named, |port| port.number))
}

fn rdma_folder(nic: &Nic) -> String {
    let (device, port) = rdma_port(nic);
    format!("sys/class/infiniband/{device}/ports/{port}")
}

/// The folders of a NIC, with the sources of counters that are in them.
fn folders(nic: &Nic) -> [(Source, String); 4] {
    let port = rdma_folder(nic);
    let net = format!("sys/class/net/{}", nic.netdev);
    [
        (Source::Port, format!("{port}/counters")),
        (Source::Hardware, format!("{port}/hw_counters")),
        (Source::Netdev, format!("{net}/statistics")),
        (Source::Link, net),
    ]
}

/// The identity of a NIC's port, by what does not change when it is renamed; `None` if it is not there. An RDMA device is not there because
/// its network device is: that one has another identity.
pub(super) fn identity(tree: &Tree, nic: &Nic) -> Option<PortKey> {
    let (device, port) = rdma_port(nic);
    if was_rdma(nic) && !has_rdma(tree, nic) {
        return None;
    }
    let guid = tree.text(&format!("sys/class/infiniband/{device}/node_guid"));
    let address = || tree.text(&format!("sys/class/net/{}/address", nic.netdev));
    let guid = guid.or_else(address);
    let guid = guid.filter(|guid| !guid.is_empty() && guid.chars().any(|digit| !"0:".contains(digit)));
    let known = guid.is_some() || tree.at(&format!("sys/class/net/{}", nic.netdev)).exists();
    // Where nothing else tells it from another, its name does.
    let guid =
        guid.unwrap_or_else(|| if nic.pci_address.is_empty() { nic.device.clone() } else { String::new() });
    known.then(|| PortKey { pci_address: nic.pci_address.clone(), guid, port })
}

fn vendor(tree: &Tree, nic: &Nic) -> Vendor {
    let link = |path: &str| {
        let target = std::fs::read_link(tree.at(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    };
    let of_rdma = link(&format!("sys/class/infiniband/{}/device/driver", rdma_port(nic).0));
    let of_net = || link(&format!("sys/class/net/{}/device/driver", nic.netdev));
    if let Some(driver) = of_rdma.or_else(of_net) {
        return Vendor::of_driver(&driver);
    }
    // A device in software has no driver of a bus.
    if tree.at(&format!("{}/hw_counters/rcvd_pkts", rdma_folder(nic))).exists() {
        Vendor::Rxe
    } else {
        Vendor::Other
    }
}

impl PortReader {
    /// Opens all counters of a NIC that mean anything. `life` is a number that no earlier reading of this port had, except one whose
    /// counters go on in this one.
    ///
    /// # Errors
    /// It is not there, or not whole yet: a driver that is being loaded, or a network device that has another name by now. What is not
    /// opened now would never be read.
    pub fn open(
        tree: &Tree,
        nic: &Nic,
        statistics: &dyn OpenStatistics,
        life: u64,
    ) -> Result<Self, ReadFailure> {
        let key = identity(tree, nic).ok_or(ReadFailure::Absent)?;
        let open = |path: &str| File::open(tree.at(path)).ok();
        let state = open(&format!("{}/state", rdma_folder(nic)));
        let net = format!("sys/class/net/{}", nic.netdev);
        let has_net = !nic.netdev.is_empty();
        if has_rdma(tree, nic) && state.is_none() || has_net && !tree.at(&net).exists() {
            return Err(ReadFailure::Absent);
        }
        let mut statistics = match has_net.then(|| statistics.open(&nic.netdev)) {
            None | Some(Ok(None)) => None,
            Some(Ok(statistics)) => statistics,
            // A driver that has none says so by an error as well.
            Some(Err(error)) => missing(&error).map(|_| None)?,
        };
        let folders = folders(nic);
        let mut names: Vec<(Source, String)> = Vec::new();
        for (source, folder) in &folders {
            names.extend(tree.names(folder).into_iter().map(|name| (*source, name)));
        }
        let private = statistics.as_ref().map(|one| one.names().to_vec()).unwrap_or_default();
        let all = names.iter().map(|(source, name)| (*source, name.as_str()));
        let all = all.chain(private.iter().map(|name| (Source::Ethtool, name.as_str())));
        let layout = Layout::new(vendor(tree, nic), all);
        let is_private = |column: &&node_agent_health::Column| column.row.source == Source::Ethtool;
        let layout = layout.sorted_by_key(|column| is_private(&column));
        let first_private = layout.columns().iter().filter(|column| !is_private(column)).count();
        let places: Vec<usize> = layout.columns()[first_private..]
            .iter()
            .filter_map(|column| private.iter().position(|name| *name == column.name))
            .collect();
        if let Some(statistics) = &mut statistics {
            statistics.want(&places);
        }
        let files = layout.columns()[..first_private].iter().map(|column| {
            let (_, folder) = folders.iter().find(|(source, _)| *source == column.row.source)?;
            open(&format!("{folder}/{}", column.name))
        });
        Ok(Self {
            key,
            files: files.collect(),
            statistics,
            first_private,
            carrier: open(&format!("{net}/carrier")),
            state,
            values: vec![None; layout.columns().len()],
            layout: Arc::new(layout),
            link: None,
            life,
            checks: 0,
            is_outdated: false,
        })
    }

    /// The device and the number of the port whose counters are read.
    #[must_use]
    pub fn key(&self) -> &PortKey {
        &self.key
    }

    /// The counters that are read of the port.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number that it was opened with.
    #[must_use]
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Whether the device has other private statistics by now, as the last reading found: mlx5 gives a priority's pauses only while PFC
    /// is on there. It is to be opened again; what was counted goes on.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.is_outdated
    }

    /// Reads everything. What a device has but does not give is missing.
    ///
    /// # Errors
    /// The device is gone, or its firmware does not answer: nothing more is asked of it then.
    pub fn read<'a>(&'a mut self, nic: &'a Nic, at: Timestamp) -> Result<Sample<'a>, ReadFailure> {
        self.check()?;
        Ok(self.sample(nic, at))
    }

    /// What was read last.
    #[must_use]
    pub(super) fn sample<'a>(&'a self, nic: &'a Nic, at: Timestamp) -> Sample<'a> {
        Sample {
            port: &self.key,
            at,
            device: &nic.device,
            rail: nic.rail,
            life: self.life,
            link: self.link,
            speed_mbps: nic.speed_mbps,
            layout: &self.layout,
            values: &self.values,
        }
    }

    pub(super) fn check(&mut self) -> Result<(), ReadFailure> {
        let gone = |file: &File| file.metadata().is_ok_and(|data| data.nlink() == 0);
        if self.files.iter().flatten().next().is_some_and(gone) {
            // A recorded tree keeps what was removed readable; the kernel's says ENODEV.
            return Err(ReadFailure::Absent);
        }
        let mut text = [0; VALUE_MAX];
        for (file, value) in self.files.iter().zip(&mut self.values) {
            *value = match file {
                None => None,
                Some(file) => match file.read_at(&mut text, 0) {
                    Ok(length) => parse(&text[..length]),
                    Err(error) => missing(&error)?,
                },
            };
        }
        self.check_private()?;
        self.link = self.link()?;
        Ok(())
    }

    fn check_private(&mut self) -> Result<(), ReadFailure> {
        let private = &mut self.values[self.first_private..];
        private.fill(None);
        self.checks = self.checks.wrapping_add(1);
        let Some(statistics) = &mut self.statistics else { return Ok(()) };
        let names = self.checks.is_multiple_of(NAMES_EVERY);
        let same = if names { statistics.are_the_same() } else { Ok(true) };
        let read = match same {
            Ok(true) => statistics.read(private),
            other => other,
        };
        match read {
            Ok(whole) => self.is_outdated = !whole,
            Err(error) => missing(&error).map(drop)?,
        }
        Ok(())
    }

    /// Up where the network device has its carrier and the RDMA port, if there is one, is active.
    fn link(&self) -> Result<Option<bool>, ReadFailure> {
        let mut text = [0; VALUE_MAX];
        let mut first = |file: &Option<File>| -> Result<Option<u8>, ReadFailure> {
            let Some(file) = file else { return Ok(None) };
            match file.read_at(&mut text, 0) {
                Ok(0) => Ok(None),
                Ok(_) => Ok(Some(text[0])),
                // An interface that is down has no carrier to report.
                Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                    Ok(Some(b'0'))
                }
                Err(error) => missing(&error).map(|_| None),
            }
        };
        let (carrier, state) = (first(&self.carrier)?, first(&self.state)?);
        Ok(match (carrier, state) {
            (None, None) => None,
            (carrier, state) => {
                Some(carrier.is_none_or(|one| one == b'1') && state.is_none_or(|one| one == b'4'))
            }
        })
    }
}

/// What a failure to read one counter means: the counter is missing, or nothing more should be asked.
fn missing(error: &io::Error) -> Result<Option<u64>, ReadFailure> {
    use rustix::io::Errno;
    let firmware = [Errno::IO, Errno::TIMEDOUT, Errno::BUSY, Errno::REMOTEIO, Errno::AGAIN];
    let absent = [Errno::NODEV, Errno::NOENT, Errno::NXIO];
    let is = |all: &[Errno]| {
        error.raw_os_error().is_some_and(|raw| all.iter().any(|one| one.raw_os_error() == raw))
    };
    if is(&absent) {
        Err(ReadFailure::Absent)
    } else if is(&firmware) {
        Err(ReadFailure::Firmware)
    } else {
        Ok(None)
    }
}

/// A number as the kernel writes it, with spaces or a line's end around it; `None` for anything else.
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}
