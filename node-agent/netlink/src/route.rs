//! Interfaces and addresses by rtnetlink(7): what there is, and the MTU.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::{
    ask::Session,
    error::NetlinkError,
    kernel::{Family, Kernel},
    wire::{ACK, Builder, DUMP, Message, REQUEST, WireError, u32_at},
};

/// `RTM_NEWLINK` (`rtnetlink.h`): an interface, as answer or event.
pub(crate) const NEW_LINK: u16 = 16;
/// `RTM_DELLINK`: an interface that is gone.
pub(crate) const DELETED_LINK: u16 = 17;
/// `RTM_GETLINK`: asks for interfaces.
pub(crate) const GET_LINK: u16 = 18;
/// `RTM_SETLINK`: changes an interface.
pub(crate) const SET_LINK: u16 = 19;
/// `RTM_NEWADDR`: an address of an interface, as answer or event.
pub(crate) const NEW_ADDRESS: u16 = 20;
/// `RTM_DELADDR`: an address that is gone.
pub(crate) const DELETED_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;

/// Bytes of `struct ifinfomsg`.
pub(crate) const LINK_FIXED: usize = 16;
const ADDRESS_FIXED: usize = 8;

/// Attributes of an interface (`IFLA_*` of the kernel's `if_link.h`).
pub(crate) mod link {
    pub(crate) const NAME: u16 = 3;
    pub(crate) const MTU: u16 = 4;
    pub(crate) const WIRELESS: u16 = 11;
    pub(crate) const CARRIER_CHANGES: u16 = 35;
    pub(crate) const MIN_MTU: u16 = 50;
    pub(crate) const MAX_MTU: u16 = 51;
    pub(crate) const PARENT: u16 = 56;
}

/// Flags of an interface (`IFF_UP`, `IFF_RUNNING` and `IFF_LOWER_UP` of the kernel's `if.h`).
pub(crate) const UP: u32 = 0x1;
pub(crate) const RUNNING: u32 = 0x40;
pub(crate) const LOWER_UP: u32 = 0x1_0000;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// A network interface, as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Index: stays over a rename, not over a driver's reload.
    pub index: u32,
    /// Name of the interface, such as `eth0`.
    pub name: String,
    /// The interface is switched on (`IFF_UP`).
    pub on: bool,
    /// Carries packets: on, operational, with carrier.
    pub up: bool,
    /// Longest packet in bytes.
    pub mtu: u32,
    /// The least that its driver takes, where it says.
    pub mtu_least: Option<u32>,
    /// The most that its driver takes, where it says.
    pub mtu_most: Option<u32>,
    /// How often the carrier came or went, where the kernel counts.
    pub carrier_changes: Option<u32>,
    /// The bus address of its device, such as `0000:18:00.0`; kernel 5.14 and later.
    pub parent: Option<String>,
}

impl Link {
    /// From an `RTM_NEWLINK` or `RTM_DELLINK`; `None` for one of another family (a bridge's), and for what a wireless device reports of
    /// its radio.
    ///
    /// # Errors
    /// Bytes that no kernel sends: an interface has a name and an MTU.
    pub fn decode(message: Message<'_>) -> Result<Option<Self>, WireError> {
        let short = || WireError::Short { what: "ifinfomsg", found: message.body.len(), wanted: LINK_FIXED };
        let index = u32_at(message.body, 4).ok_or_else(short)?;
        let flags = u32_at(message.body, 8).ok_or_else(short)?;
        if message.body[0] != 0 {
            return Ok(None);
        }
        let all = UP | RUNNING | LOWER_UP;
        let (mut name, mut mtu, mut wireless) = (None, None, false);
        let mut found = Self { index, on: flags & UP != 0, up: flags & all == all, ..Self::default() };
        for attribute in message.attributes(LINK_FIXED) {
            let attribute = attribute?;
            match attribute.kind {
                link::NAME => name = Some(attribute.text("IFLA_IFNAME")?.to_owned()),
                link::MTU => mtu = Some(attribute.u32("IFLA_MTU")?),
                link::WIRELESS => wireless = true,
                link::CARRIER_CHANGES => found.carrier_changes = Some(attribute.u32("IFLA_CARRIER_CHANGES")?),
                link::MIN_MTU => found.mtu_least = Some(attribute.u32("IFLA_MIN_MTU")?),
                // 0 says that the driver has no limit.
                link::MAX_MTU => {
                    found.mtu_most = Some(attribute.u32("IFLA_MAX_MTU")?).filter(|most| *most > 0)
                }
                link::PARENT => found.parent = Some(attribute.text("IFLA_PARENT_DEV_NAME")?.to_owned()),
                _ => {}
            }
        }
        if wireless && mtu.is_none() {
            return Ok(None);
        }
        found.name = name.ok_or(WireError::Missing { what: "IFLA_IFNAME" })?;
        found.mtu = mtu.ok_or(WireError::Missing { what: "IFLA_MTU" })?;
        Ok(Some(found))
    }
}

fn by_name(kind: u16, name: &str) -> Builder {
    Builder::message(kind, REQUEST | ACK, &[0; LINK_FIXED]).put_text(link::NAME, name)
}

/// Reads interfaces and addresses, sets MTUs.
#[derive(Debug)]
pub struct Route {
    session: Session,
}

impl Route {
    /// Opens a socket.
    ///
    /// # Errors
    /// The kernel has no route netlink.
    pub fn open(kernel: &dyn Kernel) -> Result<Self, NetlinkError> {
        Ok(Self { session: Session::open(kernel, Family::Route)? })
    }

    /// All interfaces.
    ///
    /// # Errors
    /// The kernel's refusal, or an answer that cannot be read.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let what = "list the interfaces";
        let request = Builder::message(GET_LINK, REQUEST | DUMP, &[0; LINK_FIXED]);
        let parts = self.session.list(what, &request)?;
        let decoded =
            parts.iter().filter(|part| part.kind == NEW_LINK).map(|part| Link::decode(part.message()));
        let links = decoded.collect::<Result<Vec<_>, _>>();
        let links = links.map_err(|source| NetlinkError::Unreadable { what: what.to_owned(), source })?;
        Ok(links.into_iter().flatten().collect())
    }

    /// One interface.
    ///
    /// # Errors
    /// `ENODEV` where there is none of this name.
    pub fn link(&mut self, name: &str) -> Result<Link, NetlinkError> {
        let what = format!("read the interface {name}");
        let parts = self.session.ask(&what, by_name(GET_LINK, name))?;
        let part = parts.iter().find(|part| part.kind == NEW_LINK);
        let link = part.map(|part| Link::decode(part.message())).transpose();
        let link = link.map_err(|source| NetlinkError::Unreadable { what: what.clone(), source })?;
        link.flatten().ok_or(NetlinkError::Lacks { what, missing: "the interface" })
    }

    /// Sets an interface's MTU in bytes.
    ///
    /// # Errors
    /// `EINVAL` outside of the driver's limits, `ENODEV`, `EPERM`.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), NetlinkError> {
        let request = by_name(SET_LINK, name).put(link::MTU, &mtu.to_ne_bytes());
        self.session.ask(&format!("set the MTU of {name} to {mtu}"), request).map(drop)
    }

    /// All addresses by device name, in the kernel's order (primary first).
    ///
    /// # Errors
    /// The kernel's refusal, or an answer that cannot be read.
    pub fn addresses(&mut self) -> Result<BTreeMap<String, Vec<IpAddr>>, NetlinkError> {
        let what = "list the addresses";
        let names: BTreeMap<u32, String> =
            self.links()?.into_iter().map(|link| (link.index, link.name)).collect();
        let request = Builder::message(GET_ADDRESS, REQUEST | DUMP, &[0; ADDRESS_FIXED]);
        let mut found: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for part in self.session.list(what, &request)? {
            let address = decode_address(part.message());
            let address =
                address.map_err(|source| NetlinkError::Unreadable { what: what.to_owned(), source })?;
            // A device that came since its listing is seen at the next look.
            if let Some((index, address)) = address.filter(|_| part.kind == NEW_ADDRESS)
                && let Some(name) = names.get(&index)
            {
                found.entry(name.clone()).or_default().push(address);
            }
        }
        Ok(found)
    }
}

/// The index of the device that an address is about.
pub(crate) fn address_index(message: Message<'_>) -> Result<u32, WireError> {
    let found = message.body.len();
    u32_at(message.body, 4).ok_or(WireError::Short { what: "ifaddrmsg", found, wanted: ADDRESS_FIXED })
}

/// `ifaddrmsg`: family, prefix length, flags, scope, u32 index; then attributes. `IFA_LOCAL` is this host's address,
/// `IFA_ADDRESS` the peer's on point-to-point links and the same elsewhere; IPv6 has only the latter.
///
/// # Errors
/// Bytes that no kernel sends.
pub fn decode_address(message: Message<'_>) -> Result<Option<(u32, IpAddr)>, WireError> {
    let index = address_index(message)?;
    let (mut local, mut address) = (None, None);
    for attribute in message.attributes(ADDRESS_FIXED) {
        let attribute = attribute?;
        let ip = match attribute.value.len() {
            4 => attribute.fixed::<4>("address").ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes))),
            16 => attribute.fixed::<16>("address").ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))),
            _ => None,
        };
        match attribute.kind {
            IFA_LOCAL => local = ip,
            IFA_ADDRESS => address = ip,
            _ => {}
        }
    }
    Ok(local.or(address).map(|ip| (index, ip)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_link_an_address_or_an_error(body in prop::collection::vec(any::<u8>(), 0..200), family in 0u8..3) {
            let mut body = body;
            if let Some(first) = body.first_mut() {
                *first = family;
            }
            let message = Message { kind: NEW_LINK, flags: 0, sequence: 0, body: &body };
            let _ = Link::decode(message);
            let _ = decode_address(message);
        }
    }

    #[test]
    fn an_mtu_that_is_missing_is_not_0() {
        let decode = |kinds: &[u16]| {
            let message = Builder::message(NEW_LINK, 0, &[0; LINK_FIXED]);
            let message = kinds.iter().fold(message, |all, kind| match *kind {
                link::NAME => all.put_text(link::NAME, "eth0"),
                kind => all.put(kind, &1500u32.to_ne_bytes()),
            });
            let body = &message.finish(0)[16..];
            Link::decode(Message { kind: NEW_LINK, flags: 0, sequence: 0, body })
        };
        let whole = decode(&[link::NAME, link::MTU]).unwrap().unwrap();
        assert_eq!((whole.name.as_str(), whole.mtu), ("eth0", 1500));
        assert_eq!(decode(&[link::NAME]), Err(WireError::Missing { what: "IFLA_MTU" }));
        assert_eq!(decode(&[link::MTU]), Err(WireError::Missing { what: "IFLA_IFNAME" }));
        assert_eq!(decode(&[link::NAME, link::WIRELESS]), Ok(None));
    }

    #[test]
    fn a_point_to_point_address_is_this_hosts() {
        let body = Builder::message(0, 0, &[2, 24, 0, 0, 3, 0, 0, 0]);
        let body = body.put(IFA_ADDRESS, &[10, 0, 0, 2]).put(IFA_LOCAL, &[10, 0, 0, 1]).finish(0);
        let message = Message { kind: NEW_ADDRESS, flags: 0, sequence: 0, body: &body[16..] };
        let expected = (u32::from_ne_bytes([3, 0, 0, 0]), "10.0.0.1".parse().unwrap());
        assert_eq!(decode_address(message), Ok(Some(expected)));
    }
}
