//! The files that a switch is configured with.

use crate::{
    model::Nos,
    render::{dialect, frr, sonic},
    state::SwitchState,
};

/// Names and contents of the files of a switch with that operating system, the first one first.
///
/// # Errors
/// Settings that are no JSON: never in practice.
pub fn files(nos: Nos, state: &SwitchState) -> Result<Vec<(&'static str, String)>, serde_json::Error> {
    let routing = || ("frr.conf", frr::text(state));
    Ok(match nos {
        Nos::Sonic => vec![("config_db.json", sonic::config_db(state).to_json()?), routing()],
        Nos::Cumulus => vec![("nvue.txt", dialect::text(&dialect::CUMULUS, state))],
        Nos::Eos => vec![("eos.txt", dialect::text(&dialect::EOS, state))],
        Nos::NxOs => vec![("nx-os.txt", dialect::text(&dialect::NX_OS, state))],
        Nos::Linux => vec![routing()],
    })
}
