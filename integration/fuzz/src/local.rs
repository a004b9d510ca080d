//! Messages between a rank and its engine, and entries of their queues: anything is one or a typed error.

use node_agent_ipc::{ENTRY, MAX_MESSAGE, Reply, Request, entry, to_entry};

/// Decodes as both directions; what was read fits into a packet again, and means the same.
pub fn run(data: &[u8]) {
    match Request::decode(data) {
        Ok((id, request)) => {
            let packet = request.encode(id);
            assert!(packet.len() <= MAX_MESSAGE, "{} bytes", packet.len());
            assert_eq!(Request::decode(&packet), Ok((id, request)), "{data:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    match Reply::decode(data) {
        Ok((id, reply)) => {
            assert!(reply.descriptors() <= 1);
            if let Reply::Failed(failure) = &reply {
                assert!(!failure.to_string().is_empty());
            }
            let packet = reply.encode(id);
            assert!(packet.len() <= MAX_MESSAGE, "{} bytes", packet.len());
            assert_eq!(Reply::decode(&packet), Ok((id, reply)), "{data:?}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let (chunks, []) = data.as_chunks()
        && let Ok(words) = <[_; ENTRY]>::try_from(chunks)
    {
        match entry(&words.map(u64::from_le_bytes)) {
            Ok((id, post)) => assert_eq!(entry(&to_entry(id, &post)), Ok((id, post)), "{data:?}"),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
