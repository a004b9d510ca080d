//! PCI configuration space: whether a bridge redirects traffic between peers.

use node_agent_gpudirect::config::redirects;

/// Reads it as it is, and as the end of a whole one.
pub fn run(data: &[u8]) {
    assert!(data.len() >= 4096 || redirects(data).is_none());
    let mut whole = vec![0; 4096];
    let n = data.len().min(4096 - 256);
    whole[256..256 + n].copy_from_slice(&data[..n]);
    assert!(redirects(&whole).is_some() || n > 0, "an empty list tells");
}
