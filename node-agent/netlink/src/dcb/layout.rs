//! The structures of `include/uapi/linux/dcbnl.h`, byte for byte, in the machine's order. IEEE 802.1Q: eight priorities, eight
//! traffic classes.

use crate::wire::{WireError, array, u16_at, u32_at, u64_at};

/// One value for each traffic class or priority.
pub type Eight<T> = [T; 8];

/// How a traffic class is served (IEEE 802.1Q clause 8.6.8; `IEEE_8021QAZ_TSA_*`).
pub mod tsa {
    /// Before all lower classes.
    pub const STRICT: u8 = 0;
    /// Served by a credit-based shaper (IEEE 802.1Qav).
    pub const CREDIT_BASED: u8 = 1;
    /// A share of the bandwidth.
    pub const ETS: u8 = 2;
    /// The vendor's own way.
    pub const VENDOR: u8 = 255;
}

/// What an APP entry selects packets by (`IEEE_8021QAZ_APP_SEL_*`, `DCB_APP_SEL_PCP`).
pub mod selector {
    /// Ethertype; protocol 0 is the default priority.
    pub const ETHERTYPE: u8 = 1;
    /// TCP or SCTP port.
    pub const STREAM: u8 = 2;
    /// UDP or DCCP port.
    pub const DATAGRAM: u8 = 3;
    /// Port of TCP, SCTP, UDP or DCCP.
    pub const ANY: u8 = 4;
    /// DSCP, 0 to 63.
    pub const DSCP: u8 = 5;
    /// VLAN priority and drop eligibility; not standard.
    pub const PCP: u8 = 255;
}

/// `struct ieee_ets` (59 bytes): which traffic class serves which priority, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ets {
    /// Takes the peer's recommendation.
    pub willing: u8,
    /// Traffic classes that the device has.
    pub classes: u8,
    /// Has a credit-based shaper.
    pub credit_based: u8,
    /// Percent for sending, by class; those with TSA ETS sum to 100.
    pub tx_percent: Eight<u8>,
    /// Percent for receiving, by class.
    pub rx_percent: Eight<u8>,
    /// How a class is served: see [`tsa`].
    pub tsa: Eight<u8>,
    /// Class of each priority.
    pub class_of: Eight<u8>,
    /// Percent recommended to the peer.
    pub recommended_percent: Eight<u8>,
    /// TSA recommended to the peer.
    pub recommended_tsa: Eight<u8>,
    /// Classes recommended to the peer.
    pub recommended_class_of: Eight<u8>,
}

impl Ets {
    /// Length of `struct ieee_ets`, in bytes.
    pub const LENGTH: usize = 59;

    /// As the kernel has it.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[0] = self.willing;
        bytes[1] = self.classes;
        bytes[2] = self.credit_based;
        let parts = [
            &self.tx_percent,
            &self.rx_percent,
            &self.tsa,
            &self.class_of,
            &self.recommended_percent,
            &self.recommended_tsa,
            &self.recommended_class_of,
        ];
        for (to, from) in bytes[3..].chunks_exact_mut(8).zip(parts) {
            to.copy_from_slice(from);
        }
        bytes
    }

    /// From the kernel.
    ///
    /// # Errors
    /// Too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let all: [u8; Self::LENGTH] = whole("ieee_ets", bytes)?;
        let eight = |part: usize| array(&all, 3 + 8 * part).unwrap_or_default();
        Ok(Self {
            willing: all[0],
            classes: all[1],
            credit_based: all[2],
            tx_percent: eight(0),
            rx_percent: eight(1),
            tsa: eight(2),
            class_of: eight(3),
            recommended_percent: eight(4),
            recommended_tsa: eight(5),
            recommended_class_of: eight(6),
        })
    }
}

/// `struct ieee_pfc` (136 bytes): priorities without loss, and their pause frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pfc {
    /// Priorities that can be without loss at once.
    pub capable: u8,
    /// A bit for each priority that is without loss.
    pub enabled: u8,
    /// Whether the port can bypass PFC for MACsec (`mbc`).
    pub bypass: u8,
    /// Allowance for the round trip: bit times by the standard; mlx5 takes metres of cable.
    pub delay: u16,
    /// Pause frames sent, by priority.
    pub requests: Eight<u64>,
    /// Pause frames received, by priority.
    pub indications: Eight<u64>,
}

impl Pfc {
    /// Length of `struct ieee_pfc`, in bytes.
    pub const LENGTH: usize = 136;

    /// As the kernel has it; byte 3 is padding.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..3].copy_from_slice(&[self.capable, self.enabled, self.bypass]);
        bytes[4..6].copy_from_slice(&self.delay.to_ne_bytes());
        put_u64(&mut bytes[8..72], &self.requests);
        put_u64(&mut bytes[72..], &self.indications);
        bytes
    }

    /// From the kernel.
    ///
    /// # Errors
    /// Too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let all: [u8; Self::LENGTH] = whole("ieee_pfc", bytes)?;
        let delay = u16_at(&all, 4).unwrap_or(0);
        let (requests, indications) = (take_u64(&all[8..]), take_u64(&all[72..]));
        Ok(Self { capable: all[0], enabled: all[1], bypass: all[2], delay, requests, indications })
    }
}

/// `struct ieee_maxrate` (64 bytes): a limit for each traffic class in kbit/s; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MaxRate(pub Eight<u64>);

impl MaxRate {
    /// Length of `struct ieee_maxrate`, in bytes.
    pub const LENGTH: usize = 64;

    /// As the kernel has it.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        put_u64(&mut bytes, &self.0);
        bytes
    }

    /// From the kernel.
    ///
    /// # Errors
    /// Too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let all: [u8; Self::LENGTH] = whole("ieee_maxrate", bytes)?;
        Ok(Self(take_u64(&all)))
    }
}

/// `struct dcbnl_buffer` (44 bytes): the port's receive buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Buffer {
    /// Buffer of each priority.
    pub buffer_of: Eight<u8>,
    /// Bytes of each buffer.
    pub size: Eight<u32>,
    /// Bytes of all there are; the kernel ignores it when it is set.
    pub total: u32,
}

impl Buffer {
    /// Length of `struct dcbnl_buffer`, in bytes.
    pub const LENGTH: usize = 44;

    /// As the kernel has it.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.buffer_of);
        for (to, from) in bytes[8..40].chunks_exact_mut(4).zip(self.size) {
            to.copy_from_slice(&from.to_ne_bytes());
        }
        bytes[40..].copy_from_slice(&self.total.to_ne_bytes());
        bytes
    }

    /// From the kernel.
    ///
    /// # Errors
    /// Too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let all: [u8; Self::LENGTH] = whole("dcbnl_buffer", bytes)?;
        let number = |at| u32_at(&all, at).unwrap_or(0);
        Ok(Self {
            buffer_of: array(&all, 0).unwrap_or_default(),
            size: std::array::from_fn(|i| number(8 + 4 * i)),
            total: number(40),
        })
    }
}

/// `struct dcb_app` (4 bytes): packets that match have this priority. In the rewrite table the other way round: packets of the
/// priority are marked so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct App {
    /// What packets are selected by: see [`selector`].
    pub selector: u8,
    /// Priority, 0 to 7.
    pub priority: u8,
    /// The value: ethertype, port, DSCP or PCP; in the machine's order.
    pub protocol: u16,
}

impl App {
    /// Length of `struct dcb_app`, in bytes.
    pub const LENGTH: usize = 4;

    /// Packets with this DSCP (0 to 63) have this priority.
    #[must_use]
    pub fn dscp(dscp: u8, priority: u8) -> Self {
        Self { selector: selector::DSCP, priority, protocol: dscp.into() }
    }

    /// Kind of the attribute that carries it: `DCB_ATTR_IEEE_APP` for the standard's selectors, else `DCB_ATTR_DCB_APP`.
    #[must_use]
    pub fn attribute(&self) -> u16 {
        if (selector::ETHERTYPE..=selector::DSCP).contains(&self.selector) { 1 } else { 2 }
    }

    /// As the kernel has it.
    #[must_use]
    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let [low, high] = self.protocol.to_ne_bytes();
        [self.selector, self.priority, low, high]
    }

    /// From the kernel.
    ///
    /// # Errors
    /// Too short.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let [selector, priority, low, high] = whole("dcb_app", bytes)?;
        Ok(Self { selector, priority, protocol: u16::from_ne_bytes([low, high]) })
    }
}

/// The kernel may add to a structure's end: longer is right, shorter is not.
fn whole<const N: usize>(what: &'static str, bytes: &[u8]) -> Result<[u8; N], WireError> {
    array(bytes, 0).ok_or(WireError::Short { what, found: bytes.len(), wanted: N })
}

fn put_u64(bytes: &mut [u8], values: &Eight<u64>) {
    for (to, from) in bytes.chunks_exact_mut(8).zip(values) {
        to.copy_from_slice(&from.to_ne_bytes());
    }
}

fn take_u64(bytes: &[u8]) -> Eight<u64> {
    std::array::from_fn(|i| u64_at(bytes, 8 * i).unwrap_or(0))
}
