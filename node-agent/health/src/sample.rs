//! One sample of one port: the values of all its counters at a time.

use std::{fmt, sync::Arc};

use proto_model::Timestamp;

use crate::layout::Layout;

/// Which port: what stays when a device is renamed, or its driver is reloaded.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortKey {
    /// PCI address; empty for a device in software.
    pub pci_address: String,
    /// Node GUID as the kernel writes it; empty where there is none.
    pub guid: String,
    /// Number of the port on its device, counted from 1.
    pub port: u32,
}

impl fmt::Display for PortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.pci_address.is_empty() { &self.guid } else { &self.pci_address };
        write!(f, "{place}/{}", self.port)
    }
}

/// One sample of one port: the values of all its counters at a time.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'a> {
    /// The port that was read.
    pub port: &'a PortKey,
    /// When it was read, by a clock that never steps: the wall clock at the agent's start and the time that has passed
    /// since.
    pub at: Timestamp,
    /// Name of the RDMA device, as it is now.
    pub device: &'a str,
    /// The rail that it serves.
    pub rail: u32,
    /// Another number after each time that the device was opened again: a driver was loaded, a device came back.
    pub life: u64,
    /// Whether its link is up, where that is known.
    pub link: Option<bool>,
    /// Its speed in Mbit/s; 0 if not known.
    pub speed_mbps: u64,
    /// What the values are.
    pub layout: &'a Arc<Layout>,
    /// A value for each column; `None` could not be read.
    pub values: &'a [Option<u64>],
}

/// Why a port could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFailure {
    /// The device's firmware did not answer its driver (EIO, ETIMEDOUT, EBUSY, EREMOTEIO): asking more makes it worse.
    Firmware,
    /// The device is not there (ENODEV, ENOENT).
    Absent,
    /// Reading failed for another reason.
    Other,
}
