//! Hashes of switches, by the algorithms that SAI names (`SAI_HASH_ALGORITHM_*`).

/// A flow: what of its packets never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// IPv4 address of the sender.
    pub source: u32,
    /// IPv4 address of the receiver.
    pub target: u32,
    /// UDP source port.
    pub port: u16,
    /// Number of the receiver's queue pair, 24 bits.
    pub qpn: u32,
}

/// What of a flow is hashed beside addresses, protocol and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fields {
    /// Addresses, protocol and ports.
    FiveTuple,
    /// These, and the receiver's queue pair number (a field that the user defines).
    WithQpn,
}

/// How the fields become a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// CRC-16 with the polynomial 0x8005 (BISYNC).
    Crc16,
    /// CRC-16 with the polynomial 0x1021 (CCITT).
    CrcCcitt,
    /// The low half of CRC-32 (0x04C11DB7).
    Crc32Low,
    /// The high half of it.
    Crc32High,
}

/// Chips whose hashes are alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Broadcom Tomahawk and Trident: CRC-16 of two polynomials, of which a field of bits is taken by an offset.
    Broadcom,
    /// NVIDIA Spectrum: CRC-32.
    Spectrum,
}

impl Family {
    /// The family's algorithms; the first is the default.
    #[must_use]
    pub fn algorithms(self) -> &'static [Algorithm] {
        match self {
            Family::Broadcom => &[Algorithm::Crc16, Algorithm::CrcCcitt],
            Family::Spectrum => &[Algorithm::Crc32Low, Algorithm::Crc32High],
        }
    }
}

/// How a switch chooses among links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hash {
    /// The algorithm (`ECMP_DEFAULT_HASH_ALGORITHM` of SAI).
    pub algorithm: Algorithm,
    /// What it begins with (`ECMP_DEFAULT_HASH_SEED`).
    pub seed: u16,
    /// By so many bits the result is turned, 0 to 15 (`ECMP_DEFAULT_HASH_OFFSET`).
    pub offset: u8,
    /// What is hashed.
    pub fields: Fields,
}

impl Hash {
    /// The number of the link among `links` that the flow takes; 0 where there is none.
    #[must_use]
    pub fn pick(&self, flow: &Flow, links: usize) -> usize {
        usize::from(self.value(flow).rotate_right(u32::from(self.offset))) % links.max(1)
    }

    fn value(&self, flow: &Flow) -> u16 {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&flow.source.to_be_bytes());
        bytes[4..8].copy_from_slice(&flow.target.to_be_bytes());
        // The protocol is UDP, the destination port that of RoCEv2.
        bytes[8] = 17;
        bytes[9..11].copy_from_slice(&flow.port.to_be_bytes());
        bytes[11..13].copy_from_slice(&4791_u16.to_be_bytes());
        bytes[13..].copy_from_slice(&flow.qpn.to_be_bytes()[1..]);
        let used = match self.fields {
            Fields::FiveTuple => &bytes[..13],
            Fields::WithQpn => &bytes[..],
        };
        match self.algorithm {
            Algorithm::Crc16 => crc16(0x8005, self.seed, used),
            Algorithm::CrcCcitt => crc16(0x1021, self.seed, used),
            Algorithm::Crc32Low => (crc32(self.seed, used) & 0xFFFF) as u16,
            Algorithm::Crc32High => (crc32(self.seed, used) >> 16) as u16,
        }
    }
}

fn crc16(polynomial: u16, seed: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ polynomial }
        })
    })
}

fn crc32(seed: u16, bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::from(seed), |crc, byte| {
        (0..8).fold(crc ^ (u32::from(*byte) << 24), |crc, _| {
            if crc & 0x8000_0000 == 0 { crc << 1 } else { (crc << 1) ^ 0x04C1_1DB7 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values of the catalogue of parametrised CRC algorithms (Cook): CRC-16/UMTS, CRC-16/XMODEM; CRC-32 of this form with a seed of zero is
    /// its remainder alone.
    #[test]
    fn the_remainders_are_those_of_the_catalogue() {
        assert_eq!(crc16(0x8005, 0, b"123456789"), 0xFEE8);
        assert_eq!(crc16(0x1021, 0, b"123456789"), 0x31C3);
        // CRC-32/CKSUM is this one after the length of the message (9), complemented.
        assert_eq!(!crc32(0, b"123456789\x09"), 0x377A_6011);
    }
}
