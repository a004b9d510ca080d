//! What the kernel says on a route netlink socket: interfaces, addresses, and the end of a listing. Any bytes are a list of
//! events; what is cut short or unknown is skipped (formats: rtnetlink(7), netlink(7)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of a message's own header.
const HEADER: usize = 16;
/// Bytes of what a message on an interface, or on an address, begins with.
const INTERFACE: usize = 16;
const ADDRESS: usize = 8;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const OVERRUN: u16 = 4;
const NEW_LINK: u16 = 16;
const DELETED_LINK: u16 = 17;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const DELETED_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;

/// Request flags: a request, of one thing or of all there is.
const REQUEST: u16 = 0x1;
const REQUEST_DUMP: u16 = REQUEST | 0x300;
/// A listing that changed while it was made.
const INTERRUPTED: u16 = 0x10;

/// Interface flags: switched on, operational, carrier.
const UP: u32 = 0x1;
const RUNNING: u32 = 0x40;
const LOWER_UP: u32 = 0x1_0000;

/// Attributes of an address: of the interface's peer, where there is one, and its own.
const ATTRIBUTE_ADDRESS: u16 = 1;
const ATTRIBUTE_LOCAL: u16 = 2;

/// Address families (`AF_UNSPEC`, `AF_INET` and `AF_INET6` in Linux `socket.h`).
const ANY: u8 = 0;
const V4: u8 = 2;
const V6: u8 = 10;

/// Something that the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An interface is there, and can carry packets or not.
    Link { index: u32, up: bool },
    /// An interface is gone.
    LinkGone { index: u32 },
    /// An interface has an address.
    Address { index: u32, address: IpAddr },
    /// An interface has an address no more.
    AddressGone { index: u32, address: IpAddr },
    /// The end of a listing.
    Done { interrupted: bool },
    /// A listing was refused, or events were lost.
    Lost,
}

/// What can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// All network interfaces (`RTM_GETLINK`).
    Links,
    /// All addresses of network interfaces (`RTM_GETADDR`).
    Addresses,
}

/// A request for a listing.
pub fn request(listing: Listing) -> [u8; HEADER + INTERFACE] {
    let kind = match listing {
        Listing::Links => GET_LINK,
        Listing::Addresses => GET_ADDRESS,
    };
    // The longer of the two beginnings, all zero, does for both.
    message(kind, REQUEST_DUMP)
}

/// A request for one interface.
pub fn request_link(index: u32) -> [u8; HEADER + INTERFACE] {
    let mut bytes = message(GET_LINK, REQUEST);
    bytes[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    bytes
}

fn message(kind: u16, flags: u16) -> [u8; HEADER + INTERFACE] {
    let mut bytes = [0; HEADER + INTERFACE];
    bytes[..4].copy_from_slice(&((HEADER + INTERFACE) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|b| u16::from_ne_bytes(*b))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|b| u32::from_ne_bytes(*b))
}

/// The events of one datagram.
pub fn decode(mut bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    while let (Some(length), Some(kind), Some(flags)) = (u32_at(bytes, 0), u16_at(bytes, 4), u16_at(bytes, 6))
    {
        let length = length as usize;
        let Some(body) = bytes.get(HEADER..length) else { break };
        events.extend(event(kind, flags, body));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    events
}

fn event(kind: u16, flags: u16, body: &[u8]) -> Option<Event> {
    match kind {
        DONE => Some(Event::Done { interrupted: flags & INTERRUPTED != 0 }),
        OVERRUN => Some(Event::Lost),
        // Zero is an acknowledgement.
        ERROR if u32_at(body, 0) != Some(0) => Some(Event::Lost),
        NEW_LINK | DELETED_LINK => {
            let (index, flags) = (u32_at(body, 4)?, u32_at(body, 8)?);
            // The same messages with the bridge's family say that an interface joined or left a bridge.
            if *body.first()? != ANY {
                return None;
            }
            let all = UP | RUNNING | LOWER_UP;
            Some(match kind {
                NEW_LINK => Event::Link { index, up: flags & all == all },
                _ => Event::LinkGone { index },
            })
        }
        NEW_ADDRESS | DELETED_ADDRESS => {
            let (family, index) = (*body.first()?, u32_at(body, 4)?);
            let address = own_address(family, body.get(ADDRESS..)?)?;
            Some(match kind {
                NEW_ADDRESS => Event::Address { index, address },
                _ => Event::AddressGone { index, address },
            })
        }
        _ => None,
    }
}

/// The interface's own address among the attributes.
fn own_address(family: u8, mut bytes: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    while let (Some(length), Some(kind)) = (u16_at(bytes, 0), u16_at(bytes, 2)) {
        let length = usize::from(length);
        let Some(value) = bytes.get(4..length) else { break };
        let address = match family {
            V4 => <[u8; 4]>::try_from(value).ok().map(|b| IpAddr::V4(Ipv4Addr::from(b))),
            V6 => <[u8; 16]>::try_from(value).ok().map(|b| IpAddr::V6(Ipv6Addr::from(b))),
            _ => None,
        };
        match kind {
            ATTRIBUTE_LOCAL => return address,
            ATTRIBUTE_ADDRESS => found = address,
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Messages as a kernel sent them (6.18, little-endian), those on interfaces cut after their beginning.
    fn recorded(hex: &str) -> Vec<Event> {
        let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        let mut bytes: Vec<u8> = digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
        let whole = u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize;
        if whole > bytes.len() {
            let length = (bytes.len() as u32).to_ne_bytes();
            bytes[..4].copy_from_slice(&length);
        }
        decode(&bytes)
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_cable_between_two_ports_as_the_kernel_told_it() {
        let link = |index, up| vec![Event::Link { index, up }];
        let cases = [
            // Made; one end switched on; both; the other end switched off: on, but without carrier; off; deleted.
            ("d8050000100000000000000000000000000001000300000002100000ffffffff", link(3, false)),
            ("d805000010000000000000000000000000000100030000000310010001000000", link(3, false)),
            ("d805000010000000000000000000000000000100030000004310010000000000", link(3, true)),
            ("d805000010000000000000000000000000000100030000000310000000000000", link(3, false)),
            ("d805000010000000000000000000000000000100030000000210000001000000", link(3, false)),
            (
                "ac020000110000000000000000000000000001000300000002100000ffffffff",
                vec![Event::LinkGone { index: 3 }],
            ),
            // The port leaves a bridge.
            ("ac020000110000000000000000000000070001000300000002100000ffffffff", vec![]),
        ];
        for (hex, events) in cases {
            assert_eq!(recorded(hex), events, "{hex}");
        }
        let given = "5000000014000000671e006b256000000218800003000000080001000a090807080002000a0908070a000300\
                     7665746830000000080008008000000014000600ffffffffffffffffa6701600a6701600";
        let address = "10.9.8.7".parse().unwrap();
        assert_eq!(recorded(given), [Event::Address { index: 3, address }]);
        let v6 = "500000001500000000000000000000000a40c0fd0200000014000100fe8000000000000\
                  0e49f1afffe2e012214000600ffffffffffffffffa8701600a870160008000800c000000005000b0003000000";
        let address = "fe80::e49f:1aff:fe2e:122".parse().unwrap();
        assert_eq!(recorded(v6), [Event::AddressGone { index: 2, address }]);
    }

    #[test]
    fn the_end_of_a_listing_and_its_failures() {
        let message = |kind: u16, flags: u16, body: &[u8]| {
            let length = ((HEADER + body.len()) as u32).to_ne_bytes();
            [&length[..], &kind.to_ne_bytes(), &flags.to_ne_bytes(), &[0; 8], body].concat()
        };
        let all =
            [message(DONE, 2, &[0; 4]), message(DONE, 0x12, &[0; 4]), message(ERROR, 0, &[0; 20])].concat();
        let [whole, interrupted] = [false, true].map(|interrupted| Event::Done { interrupted });
        assert_eq!(decode(&all), [whole, interrupted]);
        assert_eq!(decode(&message(ERROR, 0, &[255; 20])), [Event::Lost]);
        assert_eq!(decode(&message(OVERRUN, 0, &[])), [Event::Lost]);
        for listing in [Listing::Links, Listing::Addresses] {
            assert_eq!(decode(&request(listing)), [], "a request says nothing");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_events(bytes in prop::collection::vec(any::<u8>(), 0..300), kind in 0u16..30, cut in 0usize..80) {
            prop_assert!(decode(&bytes).len() <= bytes.len() / HEADER);
            // The same as the body of a message of every kind, its own length right or wrong.
            let length = ((HEADER + bytes.len()).saturating_sub(cut) as u32).to_ne_bytes();
            let message = [&length[..], &kind.to_ne_bytes(), &[0; 10], &bytes].concat();
            prop_assert!(decode(&message).len() <= message.len() / HEADER);
        }
    }
}
