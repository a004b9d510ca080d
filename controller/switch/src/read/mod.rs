//! What switches are set to, from what they answer. What is ours is read strictly, every wrong field at once; what is not ours is kept.

mod answer;
mod fields;
pub mod frr;
pub mod sonic;

pub use answer::{Read, ReadError, Wrong};

use crate::render::tables::ConfigDb;

/// Reads a SONiC switch: its `config_db.json`, and its `frr.conf` where there is one.
///
/// # Errors
/// [`ReadError`] with every field that says what cannot be.
pub fn sonic(config_db: &str, frr_conf: Option<&str>) -> Result<Read, ReadError> {
    let mut read = sonic::read(ConfigDb::from_json(config_db)?).map_err(ReadError::Wrong)?;
    if let Some(text) = frr_conf {
        let (routing, unknown) = frr::read(text).map_err(ReadError::Wrong)?;
        read.state.routing = routing;
        read.unknown.extend(unknown);
    }
    Ok(read)
}
