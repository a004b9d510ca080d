//! Switches as the fabric has them: what they are, their ports, and what is at the other end of each cable.

use std::{borrow::Borrow, fmt, net::Ipv4Addr};

use compact_str::CompactString;
use proto_model::SwitchNos;
use thiserror::Error;

use crate::asic::Asic;

/// A text that is no name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is no name: it must be 1 to 63 letters, digits, '-', '_', '.', ':' or '/', and begin with a letter or digit"
)]
pub struct NotAName(pub String);

/// A name that stands in configurations of every operating system as it is: no quotes, spaces, new lines or control characters. What is
/// of this type cannot say anything but itself, so renderers escape nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(CompactString);

impl Name {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`NotAName`] where it could be taken for more than a name.
    pub fn new(text: &str) -> Result<Self, NotAName> {
        let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/');
        let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins && text.len() <= 63 && text.chars().all(fine) {
            return Ok(Self(text.into()));
        }
        Err(NotAName(text.chars().take(80).collect()))
    }

    /// It as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Names are equal and in order as their texts are, so that maps by name are asked by text.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<&str> for Name {
    type Error = NotAName;

    fn try_from(text: &str) -> Result<Self, NotAName> {
        Self::new(text)
    }
}

/// A network operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Nos {
    /// SONiC, configured by `config_db.json` and FRR.
    Sonic,
    /// Cumulus Linux, configured by NVUE.
    Cumulus,
    /// Arista EOS.
    Eos,
    /// Cisco NX-OS.
    NxOs,
    /// Any Linux with FRR, configured by that alone.
    Linux,
}

impl From<SwitchNos> for Nos {
    fn from(nos: SwitchNos) -> Self {
        match nos {
            SwitchNos::Sonic => Self::Sonic,
            SwitchNos::Cumulus => Self::Cumulus,
            SwitchNos::Eos => Self::Eos,
            SwitchNos::NxOs => Self::NxOs,
            SwitchNos::Linux => Self::Linux,
        }
    }
}

impl Nos {
    /// Its name for the port with this index, from 0, of cages with `lanes` lanes each.
    ///
    /// # Errors
    /// [`NotAName`] never in practice: numbers and letters alone.
    pub fn port_name(self, index: u32, lanes: u32) -> Result<Name, NotAName> {
        Name::new(&match self {
            Self::Sonic => format!("Ethernet{}", u64::from(index) * u64::from(lanes)),
            Self::Cumulus | Self::Linux => format!("swp{}", u64::from(index) + 1),
            Self::Eos => format!("Ethernet{}/1", u64::from(index) + 1),
            Self::NxOs => format!("Ethernet1/{}", u64::from(index) + 1),
        })
    }
}

impl Nos {
    /// The index of the port of that name; none where it is no name that this operating system gives.
    #[must_use]
    pub fn port_index(self, name: &str, lanes: u32) -> Option<u32> {
        let number = |text: &str| text.parse::<u32>().ok();
        match self {
            Self::Sonic => Some(number(name.strip_prefix("Ethernet")?)? / lanes.max(1)),
            Self::Cumulus | Self::Linux => number(name.strip_prefix("swp")?)?.checked_sub(1),
            Self::Eos => number(name.strip_prefix("Ethernet")?.split('/').next()?)?.checked_sub(1),
            Self::NxOs => number(name.strip_prefix("Ethernet1/")?)?.checked_sub(1),
        }
    }
}

impl fmt::Display for Nos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sonic => "SONiC",
            Self::Cumulus => "Cumulus Linux",
            Self::Eos => "Arista EOS",
            Self::NxOs => "Cisco NX-OS",
            Self::Linux => "Linux",
        })
    }
}

/// Which tier a switch is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Servers are cabled to it.
    Leaf,
    /// Leaves are, or spines of the tier below; the first tier above the leaves is 1.
    Spine(u8),
}

impl Role {
    /// The tier: 0 for leaves.
    #[must_use]
    pub const fn tier(self) -> u8 {
        match self {
            Self::Leaf => 0,
            Self::Spine(tier) => tier,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leaf => f.write_str("leaf"),
            Self::Spine(tier) => write!(f, "spine of tier {tier}"),
        }
    }
}

/// What is at the other end of a cable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// A NIC of a server.
    Nic {
        /// The server.
        server: Name,
        /// The NIC.
        nic: Name,
        /// The rail that it is on.
        rail: u32,
    },
    /// A port of another switch.
    Switch {
        /// The switch.
        switch: Name,
        /// Its port.
        port: Name,
    },
}

/// A port of a switch that is in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name, as the switch's operating system has it.
    pub name: Name,
    /// The lanes of the ASIC that it has; a port that is broken out has some of the cage's.
    pub lanes: Vec<u16>,
    /// Speed in Gbit/s; none where it is not known, so that only routing can be planned.
    pub speed: Option<u32>,
    /// What the cable or module is, for people; empty where it is not known.
    pub optics: String,
    /// Length of the cable in metres.
    pub cable_m: u16,
    /// The other end.
    pub peer: Peer,
}

/// A switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// Its name.
    pub name: Name,
    /// Its operating system.
    pub nos: Nos,
    /// The version of that, as the switch says it; empty where it is not known.
    pub version: String,
    /// Its ASIC.
    pub asic: Asic,
    /// Its tier.
    pub role: Role,
    /// The rails that it serves; a spine of all rails has all.
    pub rails: Vec<u32>,
    /// The pod that it is in; none above pods.
    pub pod: Option<Name>,
    /// 0, or 1 for the second plane of NICs with two ports.
    pub plane: u32,
    /// Address of its loopback; none to have one planned.
    pub loopback: Option<Ipv4Addr>,
    /// Number of its autonomous system; none to have one planned.
    pub asn: Option<u32>,
    /// Its ports.
    pub ports: Vec<Port>,
}

impl Switch {
    /// The port of that name.
    #[must_use]
    pub fn port(&self, name: &Name) -> Option<&Port> {
        self.ports.iter().find(|port| port.name == *name)
    }
}
