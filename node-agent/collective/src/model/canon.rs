//! A digest of 128 bits: two independent streams over 64-bit words. Among a hundred million states two different ones have
//! the same digest with a probability below 10^-22.

use crate::header::Header;
use crate::units::Time;

/// What a state is told apart by.
#[derive(Debug, Clone, Copy)]
pub struct Canon(u64, u64);

impl Canon {
    pub fn new() -> Self {
        Canon(0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344)
    }

    pub fn put(&mut self, word: impl Into<u64>) {
        let word = word.into();
        self.0 = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.1 = (self.1.rotate_left(23) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }

    pub fn size(&mut self, size: usize) {
        self.put(size as u64);
    }

    pub fn time(&mut self, time: Time) {
        self.put(time.as_nanos() as u64);
    }

    /// How long ago something was.
    pub fn age(&mut self, since: Time, now: Time) {
        self.time(now.saturating_sub(since));
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.size(bytes.len());
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|w| self.put(u64::from_le_bytes(*w)));
        rest.iter().for_each(|b| self.put(*b));
    }

    pub fn header(&mut self, header: &Header) {
        self.bytes(&header.encode());
    }

    pub fn end(self) -> u128 {
        let mix = |mut z: u64| {
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        u128::from(mix(self.0)) << 64 | u128::from(mix(self.1 ^ self.0.rotate_left(32)))
    }
}
