//! Ranges of addresses: read, and compared.

use std::net::IpAddr;

/// All addresses with one beginning. The first and the last one are kept as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    is_v4: bool,
    first: u128,
    last: u128,
}

impl Range {
    /// Reads `10.0.0.0/16`, or `fd00::/64`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Self, &'static str> {
        let (address, length) = text.split_once('/').ok_or("is not ADDRESS/LENGTH")?;
        let address: IpAddr = address.parse().map_err(|_| "has no address before its /")?;
        let (number, bits) = match address {
            IpAddr::V4(v4) => (u128::from(v4.to_bits()), 32),
            IpAddr::V6(v6) => (v6.to_bits(), 128),
        };
        let length: u32 = length.parse().map_err(|_| "has no number of bits behind its /")?;
        if length == 0 || length > bits {
            return Err("has a number of bits behind its / that its address has not");
        }
        let free = u128::MAX.checked_shr(128 - (bits - length)).unwrap_or_default();
        if number & free != 0 {
            return Err("has bits set behind its length");
        }
        Ok(Self { is_v4: address.is_ipv4(), first: number, last: number | free })
    }

    /// Whether both have an address in common.
    pub fn meets(&self, other: &Self) -> bool {
        self.is_v4 == other.is_v4 && self.first <= other.last && other.first <= self.last
    }

    /// Whether all of `other` is in it.
    pub fn holds(&self, other: &Self) -> bool {
        self.is_v4 == other.is_v4 && self.first <= other.first && other.last <= self.last
    }
}
