//! Page tokens: what callers send back as one, and positions that are sealed into one.

use proto_rpc::{
    PageKey, Position,
    page_token::{Binding, PageTokenError},
};

/// The bytes as a token, and as a position with the list that it is of.
pub fn run(data: &[u8]) {
    let Ok(key) = PageKey::of_bytes(&[7; 32]) else { return };
    if let Ok(text) = std::str::from_utf8(data) {
        // Nobody who does not hold the key makes one.
        assert_eq!(key.open(Binding(&[b"list"]), text, 0), Err(PageTokenError::Foreign));
    }
    let Some((head, rest)) = data.split_first_chunk::<16>() else { return };
    let (revision, expires) = (u64::from_be_bytes(half(head, 0)), u64::from_be_bytes(half(head, 8)));
    let (list, after) = rest.split_at(rest.len() / 2);
    let position = Position { revision, expires_ms: expires, after: after.to_vec() };
    let Ok(token) = key.seal(Binding(&[list]), &position) else {
        assert!(after.len() > 512, "every position that a list has can be sealed");
        return;
    };
    let now = expires.saturating_sub(1);
    let opened = key.open(Binding(&[list]), &token, now);
    assert_eq!(opened, if expires == 0 { Err(PageTokenError::Expired) } else { Ok(position) });
    assert_eq!(key.open(Binding(&[list, b""]), &token, now), Err(PageTokenError::Foreign));
    let cut = token.len().saturating_sub(1 + rest.len() % 64);
    assert_eq!(key.open(Binding(&[list]), &token[..cut], now), Err(PageTokenError::Foreign));
}

fn half(bytes: &[u8; 16], from: usize) -> [u8; 8] {
    let mut half = [0; 8];
    half.copy_from_slice(&bytes[from..from + 8]);
    half
}
