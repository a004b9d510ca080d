//! What one end of a channel sends to the other: where it may write, and which queue pair it is connected to. Fixed layout, little-endian:
//!
//! | bytes | field | bytes | field |
//! |---|---|---|---|
//! | 0 | version | 16..24 | address of the ring |
//! | 1 | queue pairs | 24..32 | zero |
//! | 2 | path MTU, as the device counts it (1 to 5) | 32..48 | GID |
//! | 3 | zero | 48.. | for each queue pair: its number, |
//! | 4..8 | slots of the ring | | the number of its first packet, and |
//! | 8..12 | bytes of a slot | | the key by which it may write the ring |
//! | 12..16 | zero | | |

use node_agent_engine_transport::carrier::MAX_OFFER;

/// The version of this layout.
const VERSION: u8 = 2;
/// Bytes before the queue pairs, and of each of them.
const FIXED: usize = 48;
const PAIR: usize = 12;
/// Most queue pairs of a channel.
pub const MOST_PAIRS: usize = 8;
/// Queue pair numbers and packet numbers have 24 bits.
const NUMBER: u32 = 1 << 24;
/// The greatest slot: what one message may have.
const MOST_SLOT_BYTES: u32 = 1 << 24;

const _: () = assert!(FIXED + MOST_PAIRS * PAIR <= MAX_OFFER);

/// What one end of a channel sends to the other before the queue pairs can be connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Path MTU as devices count it: 1 is 256, 5 is 4096 bytes.
    pub mtu: u8,
    /// Slots of the ring.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// Where the ring begins in the memory of its owner.
    pub address: u64,
    /// The GID of the port.
    pub gid: [u8; 16],
    /// The queue pairs of this end; each is connected to the peer's at the same place.
    pub pairs: Vec<Pair>,
}

/// A queue pair of the one who offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The queue pair's number on its device, 24 bits.
    pub number: u32,
    /// The number of the first packet that it sends.
    pub first_packet: u32,
    /// The key by which its peer writes the ring.
    pub rkey: u32,
}

/// What is wrong with an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// Too short or too long for what it says.
    #[error("an offer of {0} bytes")]
    Length(usize),
    /// The peer speaks another version of offers.
    #[error("an offer of version {0}, this is {VERSION}")]
    Version(u8),
    /// A field that no device can have.
    #[error("an offer whose {0} cannot be")]
    Field(&'static str),
}

impl Pair {
    fn can_be(&self) -> bool {
        (1..NUMBER).contains(&self.number) && self.first_packet < NUMBER
    }
}

impl Offer {
    /// The offer as the bytes that are sent to the peer; [`Offer::decode`] reads them.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, self.pairs.len() as u8, self.mtu, 0];
        out.extend(self.slots.to_le_bytes());
        out.extend(self.slot_bytes.to_le_bytes());
        out.extend([0; 4]);
        out.extend(self.address.to_le_bytes());
        out.extend([0; 8]);
        out.extend(self.gid);
        for Pair { number, first_packet, rkey } in &self.pairs {
            [number, first_packet, rkey].into_iter().for_each(|field| out.extend(field.to_le_bytes()));
        }
        out
    }

    /// Of bytes.
    ///
    /// # Errors
    /// What is wrong with them; an offer that is taken is written back as the same bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, OfferError> {
        let length = OfferError::Length(bytes.len());
        let (fixed, rest) = bytes.split_first_chunk::<FIXED>().ok_or(length)?;
        if fixed[0] != VERSION {
            return Err(OfferError::Version(fixed[0]));
        }
        let (pairs, []) = rest.as_chunks::<PAIR>() else { return Err(length) };
        if pairs.len() != usize::from(fixed[1]) {
            return Err(length);
        }
        let number = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let long = |at: usize| u64::from(number(at)) | u64::from(number(at + 4)) << 32;
        let mut gid = [0; 16];
        gid.copy_from_slice(&fixed[32..48]);
        let pairs = pairs.iter().map(|pair| {
            let half = |at: usize| u32::from_le_bytes([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            Pair { number: half(0), first_packet: half(4), rkey: half(8) }
        });
        let offer = Offer {
            mtu: fixed[2],
            slots: number(4),
            slot_bytes: number(8),
            address: long(16),
            gid,
            pairs: pairs.collect(),
        };
        offer.check(fixed[3] == 0 && number(12) == 0 && long(24) == 0)?;
        Ok(offer)
    }

    fn check(&self, reserved: bool) -> Result<(), OfferError> {
        let bytes = u64::from(self.slots) * u64::from(self.slot_bytes);
        let fields = [
            (reserved, "reserved part"),
            ((1..=MOST_PAIRS).contains(&self.pairs.len()), "number of queue pairs"),
            ((1..=5).contains(&self.mtu), "MTU"),
            ((4..=crate::imm::MOST_SLOTS).contains(&self.slots), "number of slots"),
            ((256..=MOST_SLOT_BYTES).contains(&self.slot_bytes), "size of a slot"),
            (self.address != 0 && self.address.checked_add(bytes).is_some(), "ring"),
            (self.gid != [0; 16], "GID"),
            (self.pairs.iter().all(Pair::can_be), "queue pair"),
        ];
        match fields.iter().find(|(holds, _)| !holds) {
            Some((_, name)) => Err(OfferError::Field(name)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offer(pairs: usize) -> Offer {
        Offer {
            mtu: 5,
            slots: 32,
            slot_bytes: 65536,
            address: 0x7f00_0000_1000,
            gid: [7; 16],
            pairs: (1..=pairs as u32)
                .map(|n| Pair { number: n, first_packet: 0xff_ffff, rkey: n << 8 })
                .collect(),
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let good = offer(2);
        assert_eq!(Offer::decode(&good.encode()), Ok(good.clone()));
        let changed = |change: fn(&mut Offer)| {
            let mut offer = good.clone();
            change(&mut offer);
            Offer::decode(&offer.encode()).unwrap_err()
        };
        assert_eq!(changed(|o| o.mtu = 6), OfferError::Field("MTU"));
        assert_eq!(changed(|o| o.slots = 0), OfferError::Field("number of slots"));
        assert_eq!(changed(|o| o.slots = 1 << 14), OfferError::Field("number of slots"));
        assert_eq!(changed(|o| o.slot_bytes = 1), OfferError::Field("size of a slot"));
        assert_eq!(changed(|o| o.address = u64::MAX - 5), OfferError::Field("ring"));
        assert_eq!(changed(|o| o.gid = [0; 16]), OfferError::Field("GID"));
        assert_eq!(changed(|o| o.pairs[1].number = 1 << 24), OfferError::Field("queue pair"));
        assert_eq!(changed(|o| o.pairs.clear()), OfferError::Field("number of queue pairs"));
        let bytes = good.encode();
        (0..bytes.len()).for_each(|end| assert!(Offer::decode(&bytes[..end]).is_err()));
        assert_eq!(Offer::decode(&[&[9], &bytes[1..]].concat()), Err(OfferError::Version(9)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_offer_or_an_error(
            mut bytes in prop::collection::vec(any::<u8>(), 0..160), pairs in 1usize..9, at in 0usize..144, flip in any::<u8>(),
        ) {
            if let Ok(offer) = Offer::decode(&bytes) {
                prop_assert_eq!(offer.encode(), bytes);
            }
            bytes = offer(pairs).encode();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            if let Ok(offer) = Offer::decode(&bytes) {
                prop_assert_eq!(offer.encode(), bytes);
            }
        }
    }
}
