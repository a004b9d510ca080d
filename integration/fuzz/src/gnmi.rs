//! gNMI: paths as text, and what a switch tells. A path that was read is written so that it is read again.

use node_agent_gnmi::{Path, notification, wire::Notification};
use prost::Message as _;

/// Reads the bytes as both.
pub fn run(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(path) = text.parse::<Path>()
    {
        assert_eq!(path.to_string().parse().as_ref(), Ok(&path), "{text}");
    }
    if let Ok(message) = Notification::decode(data) {
        match notification(message) {
            Ok((updates, gone)) => assert!(updates.len() + gone.len() <= data.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
