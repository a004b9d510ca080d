//! The words of class of service: priorities, DSCPs, schedulers, who decides.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Number of priorities and of traffic classes (IEEE 802.1Q).
pub const PRIORITIES: usize = 8;
/// Number of DSCPs (RFC 2474: six bits).
pub const DSCPS: usize = 64;

/// A number that is no priority or no DSCP.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{found} is no {what}: it must be from 0 to {max}")]
pub struct OutOfRange {
    /// What the number was to be: a priority, a DSCP, ...
    pub what: &'static str,
    /// The number that was given.
    pub found: u64,
    /// The greatest that it may be.
    pub max: u64,
}

macro_rules! small {
    ($(#[$doc:meta])* $type:ident, $what:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "u8", into = "u8")]
        pub struct $type(u8);

        impl $type {
            /// The greatest value that the type can have.
            pub const MAX: u8 = $max;

            /// Checked.
            ///
            /// # Errors
            /// [`OutOfRange`] above [`Self::MAX`].
            pub const fn new(value: u8) -> Result<Self, OutOfRange> {
                if value > Self::MAX {
                    return Err(OutOfRange { what: $what, found: value as u64, max: Self::MAX as u64 });
                }
                Ok(Self(value))
            }

            /// Of the lowest bits of `value`; the others are dropped.
            #[must_use]
            pub const fn of(value: u8) -> Self {
                Self(value & Self::MAX)
            }

            /// The value as a plain number.
            #[must_use]
            pub const fn get(self) -> u8 {
                self.0
            }

            /// The number as an index.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }

            /// All of them, in order.
            pub fn all() -> impl Iterator<Item = Self> {
                (0..=Self::MAX).map(Self)
            }
        }

        impl TryFrom<u8> for $type {
            type Error = OutOfRange;

            fn try_from(value: u8) -> Result<Self, OutOfRange> {
                Self::new(value)
            }
        }

        impl From<$type> for u8 {
            fn from(value: $type) -> Self {
                value.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

small!(
    /// A priority (IEEE 802.1Q PCP), 0 to 7.
    Priority,
    "priority",
    7
);
small!(
    /// A differentiated services code point (RFC 2474), 0 to 63: the upper six bits of the ToS byte.
    Dscp,
    "DSCP",
    63
);

/// A set of priorities; a list of numbers in documents, a bit mask on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct PrioritySet(pub u8);

impl PrioritySet {
    /// The set without any priority.
    pub const EMPTY: Self = Self(0);

    /// The set that has this priority and no other.
    #[must_use]
    pub const fn only(priority: Priority) -> Self {
        Self(1 << priority.get())
    }

    /// Whether `priority` is one of them.
    #[must_use]
    pub const fn contains(self, priority: Priority) -> bool {
        self.0 & (1 << priority.get()) != 0
    }

    /// The set with `priority` added to it.
    #[must_use]
    pub const fn with(self, priority: Priority) -> Self {
        Self(self.0 | 1 << priority.get())
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// All of them, in order.
    pub fn iter(self) -> impl Iterator<Item = Priority> {
        Priority::all().filter(move |priority| self.contains(*priority))
    }
}

impl TryFrom<Vec<u8>> for PrioritySet {
    type Error = OutOfRange;

    fn try_from(list: Vec<u8>) -> Result<Self, OutOfRange> {
        list.into_iter().try_fold(Self::EMPTY, |set, priority| Ok(set.with(Priority::new(priority)?)))
    }
}

impl From<PrioritySet> for Vec<u8> {
    fn from(set: PrioritySet) -> Self {
        set.iter().map(Priority::get).collect()
    }
}

impl fmt::Display for PrioritySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let list: Vec<String> = self.iter().map(|priority| priority.to_string()).collect();
        f.write_str(&list.join(","))
    }
}

/// How a traffic class is served (IEEE 802.1Qaz; `IEEE_8021QAZ_TSA_*` in `linux/dcbnl.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tsa {
    /// Before all others, 0.
    Strict,
    /// Served by a credit-based shaper, 1.
    CreditBased,
    /// A share of the bandwidth, 2.
    Ets,
    /// As the vendor likes, 255.
    Vendor,
    /// A number that the standard does not know.
    Other(u8),
}

impl From<u8> for Tsa {
    fn from(value: u8) -> Self {
        match value {
            0 => Self::Strict,
            1 => Self::CreditBased,
            2 => Self::Ets,
            255 => Self::Vendor,
            other => Self::Other(other),
        }
    }
}

impl From<Tsa> for u8 {
    fn from(tsa: Tsa) -> Self {
        match tsa {
            Tsa::Strict => 0,
            Tsa::CreditBased => 1,
            Tsa::Ets => 2,
            Tsa::Vendor => 255,
            Tsa::Other(other) => other,
        }
    }
}

impl fmt::Display for Tsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Strict => f.write_str("strict"),
            Self::CreditBased => f.write_str("cbs"),
            Self::Ets => f.write_str("ets"),
            Self::Vendor => f.write_str("vendor"),
            Self::Other(other) => write!(f, "{other}"),
        }
    }
}

/// What a port reads the priority of a received packet from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Trust {
    /// From the VLAN tag (PCP).
    Pcp,
    /// From the IP header (DSCP).
    Dscp,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pcp => "pcp",
            Self::Dscp => "dscp",
        })
    }
}

/// Which RoCE the connection manager uses (`default_roce_mode` of configfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RoceMode {
    /// `IB/RoCE v1`: not routable, no DSCP.
    #[serde(rename = "IB/RoCE v1")]
    V1,
    /// RoCE v2, over UDP and IP, as the kernel writes it: `RoCE v2`.
    #[serde(rename = "RoCE v2")]
    V2,
}

impl RoceMode {
    /// The kernel's words, as configfs reads and writes them.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "IB/RoCE v1",
            Self::V2 => "RoCE v2",
        }
    }
}

impl fmt::Display for RoceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who decides on the class of service of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ownership {
    /// This agent, through dcbnl.
    Host,
    /// The NIC's firmware, by what its switch says.
    Firmware,
}

impl fmt::Display for Ownership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Firmware => "firmware",
        })
    }
}
