//! Lower-case hex, both ways and exact: the text of token secrets, hashes, pins and serial numbers.

use data_encoding::HEXLOWER;

/// The bytes as lower-case hex, two digits each.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

/// Exactly `N` bytes from lower-case hex.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let whole = text.len() == 2 * N && HEXLOWER.decode_mut(text.as_bytes(), &mut bytes).is_ok();
    whole.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_exact() {
        assert_eq!(from_hex::<2>("0aff"), Some([0x0a, 0xff]));
        assert_eq!(to_hex(&[0x0a, 0xff]), "0aff");
        for bad in ["", "0af", "0aff0", "0AFF", "0g00", "\u{2603}a"] {
            assert_eq!(from_hex::<2>(bad), None, "{bad:?}");
        }
    }
}
