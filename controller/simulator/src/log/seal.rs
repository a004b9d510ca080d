//! Each line of a log ends with a sum over itself and all before it, so that a line that was changed, added or left out
//! is found, also where what it says would decide alike. It finds mistakes; it does not keep forgers out.

/// FNV-1a, 64 bits, over all lines so far without their sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sum(u64);

impl Default for Sum {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

/// What stands before the sum in a line.
const KEY: &str = ",\"sum\":\"";

/// Digits of a sum.
const DIGITS: usize = 16;

impl Sum {
    fn add(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// A JSON object as a line with its sum and its end.
    #[must_use]
    pub fn seal(&mut self, object: &str) -> String {
        let body = object.strip_suffix('}').unwrap_or(object);
        self.add(body);
        format!("{body}{KEY}{:016x}\"}}\n", self.0)
    }

    /// A line without its sum as a JSON object, and whether the sum is right; `None` where there is no sum.
    pub(crate) fn open(&mut self, line: &str) -> Option<(String, bool)> {
        let line = line.trim_end();
        let rest = line.strip_suffix("\"}")?;
        let (body, said) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
        let body = body.strip_suffix(KEY)?;
        let said = u64::from_str_radix(said, 16).ok()?;
        self.add(body);
        Some((format!("{body}}}"), said == self.0))
    }
}
