//! Rules by which NICs serve rails, what they look at, and what they answer.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::{lldp::Switches, net::Subnets};

/// The rule of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RailRule {
    /// Network devices called `rail0`, `rail1`, ... if there are any; else [`RailRule::PciOrder`].
    #[default]
    Auto,
    /// The fastest RDMA devices, numbered by PCI address. Slower ones (storage, management) serve no rail. A link that is down has no
    /// speed: its NIC counts by the fastest that it had, else by its siblings.
    PciOrder,
    /// Devices or network devices whose name is the pattern with a number in place of `{k}`.
    Pattern(String),
    /// Device, network device, PCI address or `slot/NAME` (a physical slot) -> rail.
    Map(BTreeMap<String, u32>),
    /// By the subnet that an address of the network device is in.
    Subnet(Subnets),
    /// By the name of the switch that the network device hears over LLDP.
    Lldp(Switches),
}

/// What a rule looks at.
#[derive(Debug, Clone)]
pub struct Candidate<'a> {
    /// RDMA device, or the network device.
    pub device: &'a str,
    /// Name of the network device.
    pub netdev: &'a str,
    /// PCI address of the NIC; empty if not known.
    pub pci_address: &'a str,
    /// Name of its physical slot; empty if not known.
    pub slot: &'a str,
    /// It has an RDMA device.
    pub rdma: bool,
    /// 0 if not known, as while the link is down.
    pub speed_mbps: u64,
    /// PCI id and driver: NICs that share both are siblings. Both may be empty.
    pub kind: (&'a str, &'a str),
    /// Addresses of the network device.
    pub addresses: &'a [IpAddr],
    /// Switches that the network device hears.
    pub switches: Vec<&'a str>,
}

/// The rail that a NIC serves, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Number of the rail in the cluster.
    pub rail: u32,
    /// By which rule and which fact, in words.
    pub reason: String,
}
