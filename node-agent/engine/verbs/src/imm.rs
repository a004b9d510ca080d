//! The four bytes beside each message.
//!
//! | bits | meaning |
//! |---|---|
//! | 31 | whether the message has bytes, in the slot of its number; else it has the rest only |
//! | 30..16 | the message's number, modulo 2^15 |
//! | 15 | zero |
//! | 14..0 | how many of the peer's messages the sender has taken out of its ring, modulo 2^15 |
//!
//! No more messages than a ring has slots are under way, far fewer than half of 2^15, so that the whole numbers are known.

/// Numbers count modulo this.
const MODULUS: u64 = 1 << 15;
/// Most slots of a ring.
pub(crate) const MOST_SLOTS: u32 = 1 << 13;

/// What the bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Imm {
    /// The number of a message with bytes.
    pub(crate) number: Option<u16>,
    /// Number of messages that the sender has taken out of its own ring so far, modulo [`MODULUS`].
    pub(crate) taken: u16,
}

impl Imm {
    /// Makes them from whole numbers, each of which is reduced modulo [`MODULUS`].
    pub(crate) fn of(number: Option<u64>, taken: u64) -> Self {
        Imm { number: number.map(|n| (n % MODULUS) as u16), taken: (taken % MODULUS) as u16 }
    }

    pub(crate) fn encode(self) -> u32 {
        let data = self.number.map_or(0, |number| 1 << 31 | u32::from(number) << 16);
        data | u32::from(self.taken)
    }

    /// Nothing if a bit is set that must not be.
    pub(crate) fn decode(bits: u32) -> Option<Self> {
        let (high, taken) = ((bits >> 16) as u16, bits as u16);
        let data = high & 0x8000 != 0;
        if taken & 0x8000 != 0 || (!data && high != 0) {
            return None;
        }
        Some(Imm { number: data.then_some(high & 0x7fff), taken })
    }
}

/// The whole number that `low` stands for and that is nearest to `near`, which is less than half of the modulus away.
pub(crate) fn whole(low: u16, near: u64) -> Option<u64> {
    let ahead = (u64::from(low) + MODULUS - near % MODULUS) % MODULUS;
    if ahead < MODULUS / 2 { near.checked_add(ahead) } else { near.checked_sub(MODULUS - ahead) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_said_is_understood(number in prop::option::of(0u64..1 << 40), taken in 0u64..1 << 40) {
            let imm = Imm::of(number, taken);
            prop_assert_eq!(Imm::decode(imm.encode()), Some(imm));
        }

        #[test]
        fn any_bits_are_read_one_way_or_refused(bits in any::<u32>()) {
            if let Some(imm) = Imm::decode(bits) {
                prop_assert_eq!(imm.encode(), bits);
            }
        }

        #[test]
        fn whole_numbers_are_known_again(near in 0u64..1 << 40, away in -16383i64..16384) {
            let number = near.saturating_add_signed(away);
            prop_assert_eq!(whole((number % MODULUS) as u16, near), Some(number));
        }
    }

    #[test]
    fn a_number_before_the_first_is_none() {
        assert_eq!(whole(0x7fff, 0), None);
        assert_eq!(whole(0, 0), Some(0));
    }
}
