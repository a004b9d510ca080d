//! The handshake of two engines on a rail: nobody gets in without the key, whatever is said.

use node_agent_engine_transport::tcp::handshake::{Handshake, Party};

const KEY: [u8; 32] = [9; 32];

/// The first byte says which side hears the rest, and whether a right message comes first.
pub fn run(data: &[u8]) {
    let Some((&mode, rest)) = data.split_first() else { return };
    let (here, there) = (Party::new(1, 4, "uid", 1, 7, &KEY), Party::new(3, 4, "uid", 1, 7, &KEY));
    let (dialer, hello) = Handshake::dialer(&there, 1, 0, 1, [1; 32]);
    let listener = Handshake::listener(0, [2; 32]);
    let (mut side, party) = if mode & 1 == 0 { (listener, &here) } else { (dialer, &there) };
    let mut messages = Vec::new();
    if mode & 2 != 0 && mode & 1 == 0 {
        // The right hello with some bytes of it changed, as one who has overheard it could send.
        let mut changed = hello;
        for pair in rest.chunks_exact(2).take(usize::from(mode >> 2 & 3)) {
            let at = usize::from(pair[0]) % changed.len();
            changed[at] ^= pair[1];
        }
        messages.push(changed);
    }
    let mut rest = rest;
    while !rest.is_empty() && messages.len() < 8 {
        let length = match rest[0] {
            255 => rest.len(),
            _ => side.expects().max(usize::from(rest[0] % 128)).min(rest.len()),
        };
        messages.push(rest[..length].to_vec());
        rest = &rest[length..];
    }
    for message in messages {
        let _ = side.plausible(&message);
        match side.take(&message, party) {
            Ok(next) => {
                assert_eq!(next.done, None, "let in without the key: {data:?}");
                assert!(next.send.len() <= 128);
            }
            Err(refused) => {
                assert!(!refused.to_string().is_empty());
                break;
            }
        }
    }
}
