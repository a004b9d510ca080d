//! What switches are set to, from what they answer. What is ours is read strictly, every wrong field at once; what is not ours is kept.

mod answer;
mod fields;
pub mod frr;
mod ports;
pub mod sonic;

pub use answer::{Read, ReadError, Wrong};

use crate::{render::tables::ConfigDb, state::Routing};

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

/// Reads the routing of a switch that FRR routes for, from what `vtysh` shows; none where it routes nothing by BGP.
///
/// # Errors
/// [`ReadError`] with every line that says what cannot be.
pub fn routing(frr_conf: &str) -> Result<Option<Routing>, ReadError> {
    frr::read(frr_conf).map(|(routing, _)| routing).map_err(ReadError::Wrong)
}
