//! What agents and supervisors save of an attempt: what is read from a file survives being written and read again, whatever is in it.

use node_agent_attempt::state_files::{SupervisorState, decode_record, encode_record};
use node_agent_core::Key;
use proto_model::JobUid;

/// The bytes as each of the two files.
pub fn run(data: &[u8]) {
    let key = Key { uid: JobUid::from_random([1; 16]), attempt: 1 };
    // Compared as bytes: a number that is no number equals nothing.
    if let Ok(record) = decode_record(data, key) {
        let bytes = encode_record(&record);
        assert_eq!(decode_record(&bytes, key).map(|again| encode_record(&again)), Ok(bytes));
    }
    if let Ok(state) = SupervisorState::decode(data) {
        let bytes = state.encode();
        assert_eq!(SupervisorState::decode(&bytes).map(|again| again.encode()), Ok(bytes));
    }
}
