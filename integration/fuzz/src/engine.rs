//! What an engine is told: lines on its control socket, and the file that it starts from.

use node_agent_engine::{
    Config, JobKey,
    control::{Reply, Request},
};

/// Reads the text as each of them; what was read survives.
pub fn run(data: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Request>(data) {
        let text = serde_json::to_vec(&request).unwrap_or_default();
        assert_eq!(serde_json::from_slice::<Request>(&text).ok(), Some(request));
    }
    if let Ok(reply) = serde_json::from_slice::<Reply>(data) {
        let text = serde_json::to_vec(&reply).unwrap_or_default();
        assert_eq!(serde_json::from_slice::<Reply>(&text).ok(), Some(reply));
    }
    if let Ok(config) = serde_json::from_slice::<Config>(data) {
        match config.check() {
            Ok(()) => {
                assert!(config.local_ranks().len() <= config.ranks.len());
                assert_eq!(config.ordered_rails().len(), config.rails.len());
                assert!(!config.node_name(config.node).is_empty() && !config.op_timeout().is_zero());
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        let text = serde_json::to_vec(&config).unwrap_or_default();
        assert_eq!(serde_json::from_slice::<Config>(&text).ok(), Some(config));
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = JobKey::from_hex(text);
    }
}
