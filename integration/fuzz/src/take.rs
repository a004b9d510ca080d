//! Takes small values off the front of a target's bytes; zeros once they are used up.

/// The bytes that are left.
pub struct Take<'a>(pub &'a [u8]);

impl<'a> Take<'a> {
    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// At most so many bytes.
    pub fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// One byte.
    pub fn u8(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u8) -> u8 {
        self.u8() % end.max(1)
    }

    /// A 64-bit number: often small, sometimes at the edge, sometimes anything.
    pub fn u64(&mut self) -> u64 {
        let first = self.u8();
        match first {
            255 => {
                let mut bytes = [0; 8];
                let taken = self.bytes(8);
                bytes[..taken.len()].copy_from_slice(taken);
                u64::from_le_bytes(bytes)
            }
            254 => u64::MAX - u64::from(self.u8()),
            253 => u64::from(self.u8()) << 24,
            small => u64::from(small),
        }
    }

    /// A piece with its length before it (one byte, in units of `unit`).
    pub fn piece(&mut self, unit: usize) -> &'a [u8] {
        let length = usize::from(self.u8()) * unit;
        self.bytes(length)
    }
}
