//! Generic netlink "ethtool" (kernel `Documentation/networking/ethtool-netlink.rst`): link state, pause frames, forward error
//! correction. Kernel 5.6 and later; statistics of pause frames 5.10, FEC 5.13.

use crate::{
    ask::Session,
    error::NetlinkError,
    events::Event,
    kernel::{self, Kernel},
    wire::{ACK, Attribute, Builder, Message, Messages, REQUEST, WireError, u16_at, u64_at},
};

/// Bytes of `struct genlmsghdr`: command, version, two reserved.
pub(crate) const FIXED: usize = 4;

/// The controller of generic netlink (`GENL_ID_CTRL`).
pub(crate) mod control {
    pub(crate) const ID: u16 = 16;
    pub(crate) const GET_FAMILY: u8 = 3;
    pub(crate) const FAMILY_ID: u16 = 1;
    pub(crate) const FAMILY_NAME: u16 = 2;
    pub(crate) const GROUPS: u16 = 7;
    pub(crate) const GROUP_NAME: u16 = 1;
    pub(crate) const GROUP_ID: u16 = 2;
}

/// `ETHTOOL_MSG_*`; answers and notifications have numbers of their own.
pub(crate) mod command {
    pub(crate) const LINKSTATE_GET: u8 = 6;
    pub(crate) const PAUSE_GET: u8 = 21;
    pub(crate) const PAUSE_SET: u8 = 22;
    pub(crate) const FEC_GET: u8 = 29;
    pub(crate) const PAUSE_CHANGED: u8 = 23;
}

/// `ETHTOOL_A_HEADER_*`; the header is attribute 1 of every message.
pub(crate) mod header {
    pub(crate) const HEADER: u16 = 1;
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    /// `ETHTOOL_FLAG_STATS`: the answer is to have statistics too.
    pub(crate) const STATISTICS: u32 = 4;
}

/// Attributes of pause messages (`ETHTOOL_A_PAUSE_*` of the kernel's `ethtool_netlink.h`).
pub(crate) mod pause {
    pub(crate) const AUTONEG: u16 = 2;
    pub(crate) const RX: u16 = 3;
    pub(crate) const TX: u16 = 4;
    pub(crate) const STATISTICS: u16 = 5;
    pub(crate) const TX_FRAMES: u16 = 2;
    pub(crate) const RX_FRAMES: u16 = 3;
}

/// Where the family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    /// The family's number, which the kernel gives at boot.
    pub id: u16,
    /// The multicast group of its notifications.
    pub monitor: Option<u32>,
}

impl Family {
    /// Asks the kernel.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no ethtool netlink.
    pub fn resolve(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        Self::ask(&mut Session::open(kernel, kernel::Family::Generic)?)
    }

    fn ask(session: &mut Session) -> Result<Self, NetlinkError> {
        let what = "find the generic netlink family ethtool";
        let request = Builder::message(control::ID, REQUEST | ACK, &[control::GET_FAMILY, 2, 0, 0]);
        let parts = session.ask(what, request.put_text(control::FAMILY_NAME, "ethtool"))?;
        let lacks = || NetlinkError::Lacks { what: what.to_owned(), missing: "its number" };
        let part = parts.first().ok_or_else(lacks)?;
        let family = Self::decode(part.message());
        family.map_err(|source| NetlinkError::Unreadable { what: what.to_owned(), source })?.ok_or_else(lacks)
    }

    /// From the controller's answer.
    ///
    /// # Errors
    /// Bytes that no kernel sends.
    pub fn decode(message: Message<'_>) -> Result<Option<Self>, WireError> {
        let (mut id, mut monitor) = (None, None);
        for attribute in message.attributes(FIXED) {
            let attribute = attribute?;
            match attribute.kind {
                control::FAMILY_ID => id = u16_at(attribute.value, 0),
                control::GROUPS => {
                    for group in attribute.nest() {
                        monitor = monitor.or(group_id(group?, "monitor")?);
                    }
                }
                _ => {}
            }
        }
        Ok(id.map(|id| Self { id, monitor }))
    }
}

fn group_id(group: Attribute<'_>, wanted: &str) -> Result<Option<u32>, WireError> {
    let (mut name, mut id) = ("", None);
    for attribute in group.nest() {
        let attribute = attribute?;
        match attribute.kind {
            control::GROUP_NAME => name = attribute.text("CTRL_ATTR_MCAST_GRP_NAME")?,
            control::GROUP_ID => id = Some(attribute.u32("CTRL_ATTR_MCAST_GRP_ID")?),
            _ => {}
        }
    }
    Ok(id.filter(|_| name == wanted))
}

/// Global pause (IEEE 802.3 annex 31B) of a device. It and PFC exclude each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pause {
    /// What both ends take is negotiated.
    pub negotiate: bool,
    /// Obeys the peer's pause frames.
    pub rx: bool,
    /// Sends pause frames when its buffers fill up.
    pub tx: bool,
    /// Frames sent, where the driver counts.
    pub tx_frames: Option<u64>,
    /// Frames received, where the driver counts.
    pub rx_frames: Option<u64>,
}

const NEGOTIATE: &str = "ETHTOOL_A_PAUSE_AUTONEG";
const RX: &str = "ETHTOOL_A_PAUSE_RX";
const TX: &str = "ETHTOOL_A_PAUSE_TX";

impl Pause {
    /// From an answer.
    ///
    /// # Errors
    /// Bytes that no kernel sends. One that says nothing of negotiation, rx or tx does not say that they are off.
    pub fn decode(message: Message<'_>) -> Result<Self, WireError> {
        let mut found = Self::default();
        let (mut negotiate, mut rx, mut tx) = (None, None, None);
        for attribute in message.attributes(FIXED) {
            let attribute = attribute?;
            match attribute.kind {
                pause::AUTONEG => negotiate = Some(attribute.u8(NEGOTIATE)? != 0),
                pause::RX => rx = Some(attribute.u8(RX)? != 0),
                pause::TX => tx = Some(attribute.u8(TX)? != 0),
                pause::STATISTICS => {
                    for inside in attribute.nest() {
                        let inside = inside?;
                        match inside.kind {
                            pause::TX_FRAMES => found.tx_frames = Some(inside.u64("pause frames sent")?),
                            pause::RX_FRAMES => found.rx_frames = Some(inside.u64("pause frames received")?),
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        let said = |what: &'static str, value: Option<bool>| value.ok_or(WireError::Missing { what });
        let (negotiate, rx, tx) = (said(NEGOTIATE, negotiate)?, said(RX, rx)?, said(TX, tx)?);
        Ok(Self { negotiate, rx, tx, ..found })
    }
}

/// Whether a link is up, and why not where the driver says (`ETHTOOL_LINK_EXT_STATE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkState {
    /// Up; `None` where the driver does not say.
    pub up: Option<bool>,
    /// Why not: 0 autonegotiation, 1 link training, 2 logical mismatch, 3 bad signal, 4 no cable, 5 cable issue, 6 EEPROM,
    /// 7 calibration, 8 power budget, 9 overheat, 10 module.
    pub cause: Option<u8>,
    /// More of it, by the cause.
    pub detail: Option<u8>,
}

impl LinkState {
    /// From an answer.
    ///
    /// # Errors
    /// Bytes that no kernel sends.
    pub fn decode(message: Message<'_>) -> Result<Self, WireError> {
        let mut found = Self::default();
        for attribute in message.attributes(FIXED) {
            let attribute = attribute?;
            match attribute.kind {
                2 => found.up = Some(attribute.u8("ETHTOOL_A_LINKSTATE_LINK")? != 0),
                5 => found.cause = Some(attribute.u8("ETHTOOL_A_LINKSTATE_EXT_STATE")?),
                6 => found.detail = Some(attribute.u8("ETHTOOL_A_LINKSTATE_EXT_SUBSTATE")?),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Forward error correction of a device's link.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fec {
    /// What is configured, by the kernel's names, such as `RS`.
    pub modes: Vec<String>,
    /// Chosen by the driver.
    pub automatic: bool,
    /// The link mode bit of what is in use (`ETHTOOL_LINK_MODE_FEC_*_BIT`).
    pub active: Option<u32>,
    /// Blocks corrected on all lanes, where the driver counts.
    pub corrected: Option<u64>,
    /// Blocks that could not be corrected.
    pub uncorrectable: Option<u64>,
    /// Number of bits that were corrected.
    pub corrected_bits: Option<u64>,
}

impl Fec {
    /// From an answer.
    ///
    /// # Errors
    /// Bytes that no kernel sends.
    pub fn decode(message: Message<'_>) -> Result<Self, WireError> {
        let mut found = Self::default();
        for attribute in message.attributes(FIXED) {
            let attribute = attribute?;
            match attribute.kind {
                2 => found.modes = set_bits(attribute)?,
                3 => found.automatic = attribute.u8("ETHTOOL_A_FEC_AUTO")? != 0,
                4 => found.active = Some(attribute.u32("ETHTOOL_A_FEC_ACTIVE")?),
                5 => {
                    for inside in attribute.nest() {
                        let inside = inside?;
                        // The total first, then each lane.
                        let total = u64_at(inside.value, 0);
                        match inside.kind {
                            2 => found.corrected = total,
                            3 => found.uncorrectable = total,
                            4 => found.corrected_bits = total,
                            _ => {}
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// The names in a bitset with names: those listed, or where there is a mask those listed with a value.
fn set_bits(set: Attribute<'_>) -> Result<Vec<String>, WireError> {
    const NO_MASK: u16 = 1;
    const BITS: u16 = 3;
    let attributes = set.nest().collect::<Result<Vec<_>, _>>()?;
    let masked = !attributes.iter().any(|attribute| attribute.kind == NO_MASK);
    let mut names = Vec::new();
    for bit in attributes.iter().filter(|attribute| attribute.kind == BITS).flat_map(Attribute::nest) {
        let (mut name, mut value) = (None, false);
        for inside in bit?.nest() {
            let inside = inside?;
            match inside.kind {
                2 => name = Some(inside.text("a bit's name")?.to_owned()),
                3 => value = true,
                _ => {}
            }
        }
        names.extend(name.filter(|_| value || !masked));
    }
    Ok(names)
}

/// Which devices' pause settings a datagram of notifications says were changed.
pub(crate) fn pause_events(datagram: &[u8], family: u16) -> Vec<Event> {
    let event = |message: Result<Message<'_>, _>| {
        let Ok(message) = message else { return Some(Event::Lost) };
        if message.kind != family || message.body.first() != Some(&command::PAUSE_CHANGED) {
            return None;
        }
        let header = message.attributes(FIXED).map_while(Result::ok).find(|a| a.kind == header::HEADER)?;
        let name = header.nest().map_while(Result::ok).find(|a| a.kind == header::NAME)?;
        Some(Event::Pause { device: name.text("device").ok()?.to_owned() })
    };
    Messages::new(datagram).filter_map(event).collect()
}

/// Reads link state, pause and FEC; sets pause.
#[derive(Debug)]
pub struct Ethtool {
    session: Session,
    family: u16,
}

impl Ethtool {
    /// Opens a socket and finds the family.
    ///
    /// # Errors
    /// `ENOENT` where the kernel has no ethtool netlink.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        let mut session = Session::open(kernel, kernel::Family::Generic)?;
        let family = Family::ask(&mut session)?.id;
        Ok(Self { session, family })
    }

    fn request(&self, command: u8, device: &str, flags: u32) -> Builder {
        let request = Builder::message(self.family, REQUEST | ACK, &[command, 1, 0, 0]);
        request.nest(header::HEADER, |nest| {
            let nest = nest.put_text(header::NAME, device);
            if flags == 0 { nest } else { nest.put(header::FLAGS, &flags.to_ne_bytes()) }
        })
    }

    fn get<T>(
        &mut self,
        what: &str,
        command: u8,
        device: &str,
        decode: impl FnOnce(Message<'_>) -> Result<T, WireError>,
    ) -> Result<T, NetlinkError> {
        let what = format!("{what} of {device}");
        let flags = if command == command::LINKSTATE_GET { 0 } else { header::STATISTICS };
        let parts = self.session.ask(&what, self.request(command, device, flags))?;
        let part = parts.iter().find(|part| part.kind == self.family);
        let part = part.ok_or_else(|| NetlinkError::Lacks { what: what.clone(), missing: "the settings" })?;
        decode(part.message()).map_err(|source| NetlinkError::Unreadable { what, source })
    }

    /// Pause settings and frames.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the driver has none, `ENODEV`.
    pub fn pause(&mut self, device: &str) -> Result<Pause, NetlinkError> {
        self.get("read the pause settings", command::PAUSE_GET, device, Pause::decode)
    }

    /// Sets negotiation, rx and tx; the counters in it are ignored.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `EINVAL` where the driver cannot do this combination, `ENODEV`, `EPERM`.
    pub fn set_pause(&mut self, device: &str, wanted: Pause) -> Result<(), NetlinkError> {
        let request = self.request(command::PAUSE_SET, device, 0);
        let request = request
            .put(pause::AUTONEG, &[wanted.negotiate.into()])
            .put(pause::RX, &[wanted.rx.into()])
            .put(pause::TX, &[wanted.tx.into()]);
        self.session.ask(&format!("set the pause settings of {device}"), request).map(drop)
    }

    /// Link state, and why it is down where the driver says.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENODEV`.
    pub fn link_state(&mut self, device: &str) -> Result<LinkState, NetlinkError> {
        self.get("read the link state", command::LINKSTATE_GET, device, LinkState::decode)
    }

    /// Forward error correction and its counters.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENODEV`.
    pub fn fec(&mut self, device: &str) -> Result<Fec, NetlinkError> {
        self.get("read the error correction", command::FEC_GET, device, Fec::decode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bitsets_with_and_without_a_mask() {
        let bits = |builder: Builder| {
            builder.nest(3, |bits| {
                bits.nest(1, |bit| bit.put(1, &0u32.to_ne_bytes()).put_text(2, "None"))
                    .nest(1, |bit| bit.put(1, &1u32.to_ne_bytes()).put_text(2, "RS").put(3, &[]))
            })
        };
        let fec = |set: Builder| {
            let message = Builder::message(20, 0, &[0; 4]).put(2 | crate::wire::NESTED, set.bytes());
            let message = message.put(3, &[1]).put(4, &52u32.to_ne_bytes());
            let message = message
                .nest(5, |nest| nest.put(2, &[7u64.to_ne_bytes(), 3u64.to_ne_bytes()].concat()))
                .finish(1);
            Fec::decode(Messages::new(&message).next().unwrap().unwrap()).unwrap()
        };
        let masked = fec(bits(Builder::default()));
        assert_eq!((masked.modes, masked.automatic, masked.active), (vec!["RS".to_owned()], true, Some(52)));
        assert_eq!((masked.corrected, masked.uncorrectable), (Some(7), None));
        assert_eq!(fec(bits(Builder::default().put(1, &[]))).modes, ["None", "RS"]);
    }

    #[test]
    fn pause_of_which_nothing_is_said_is_not_off() {
        let decode = |kinds: &[u16]| {
            let message =
                kinds.iter().fold(Builder::message(20, 0, &[0; 4]), |all, kind| all.put(*kind, &[1]));
            Pause::decode(Messages::new(&message.finish(1)).next().unwrap().unwrap())
        };
        let all = [pause::AUTONEG, pause::RX, pause::TX];
        assert_eq!(decode(&all).map(|pause| (pause.negotiate, pause.rx, pause.tx)), Ok((true, true, true)));
        for (missing, what) in all.into_iter().zip([NEGOTIATE, RX, TX]) {
            let rest: Vec<u16> = all.into_iter().filter(|kind| *kind != missing).collect();
            assert_eq!(decode(&rest), Err(WireError::Missing { what }));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_settings_or_an_error(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let message = Message { kind: 20, flags: 0, sequence: 0, body: &body };
            let _ = (Pause::decode(message), LinkState::decode(message), Fec::decode(message), Family::decode(message));
            let _ = pause_events(&body, 20);
        }
    }
}
