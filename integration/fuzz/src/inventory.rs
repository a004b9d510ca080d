//! Inventory files: what is read is what the wire takes.

use proto_model::Inventory;
use proto_wire::v1;

/// Reads the text; a server that was read can be registered.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match node_agent_host::from_json(text) {
        Ok(inventory) => {
            let back = Inventory::try_from(v1::Inventory::from(&inventory));
            assert_eq!(back.as_ref(), Ok(&inventory), "{text}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
