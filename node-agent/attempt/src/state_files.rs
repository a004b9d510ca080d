//! The files that outlive their writer: the agent's record of an attempt, and what the attempt's supervisor knows. Protobuf with a version
//! (`proto/rail/agent_state/v1`); what release 0.1.0 wrote as JSON is read too.

mod form;
mod measured;
mod old;
mod record;
pub mod schema;
mod snapshot;
mod supervisor;

pub use form::decode;
use node_agent_core::{Key, Record};
pub use record::{decode_record, encode_record};
pub use supervisor::SupervisorState;

use crate::{layout::JobDir, places::StateFileError};

/// What helps where a file of an attempt is broken.
const END_AND_REMOVE: &str = "end what still runs of this attempt, then remove the folder";

/// The agent's record of an attempt; `None` if there is none.
///
/// # Errors
/// The file is unreadable, newer or broken.
pub fn read_record(dir: &JobDir, key: Key) -> Result<Option<Record>, StateFileError> {
    dir.record().read(|bytes| decode_record(bytes, key), |text| old::record(text, key), END_AND_REMOVE)
}

/// What the attempt's supervisor has saved; `None` if it has not.
///
/// # Errors
/// The file is unreadable, newer or broken.
pub fn read_state(dir: &JobDir) -> Result<Option<SupervisorState>, StateFileError> {
    dir.state().read(SupervisorState::decode, old::state, END_AND_REMOVE)
}
