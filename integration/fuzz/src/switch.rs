//! Switches as they answer: `config_db.json`, and after a line of three hyphens `frr.conf`. Whatever they say, it is read or what is wrong is named.

use controller_switch::read;

/// Reads the text as both.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (config, frr) = text.split_once("\n---\n").map_or((text, None), |(config, frr)| (config, Some(frr)));
    match read::sonic(config, frr) {
        Ok(found) => assert!(found.state.ports.len() <= config.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
