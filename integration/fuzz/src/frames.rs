//! Headers of the frames between engines: any bytes are a header or a typed error.

use node_agent_collective::{HEADER_BYTES, Header};

/// Decodes; a header that was read encodes to bytes that mean the same.
pub fn run(data: &[u8]) {
    match Header::decode(data) {
        Ok(header) => {
            assert!(data.len() >= HEADER_BYTES);
            assert_eq!(Header::decode(&header.encode()), Ok(header), "{data:?}");
            assert!(header.frame_bytes() >= HEADER_BYTES as u64);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
