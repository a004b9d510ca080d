//! Probes of rails that are out of use.

use proto_model::NicProbe;

use super::time_to_row;
use crate::{v1, v1::nic_probe::Outcome, words::OUTCOMES};

impl From<&NicProbe> for v1::NicProbe {
    fn from(probe: &NicProbe) -> Self {
        let outcome = OUTCOMES.iter().find(|(known, _)| *known == probe.outcome);
        Self {
            id: probe.id,
            peer: probe.peer.to_string(),
            outcome: outcome.map_or(Outcome::Unspecified, |pair| pair.1).into(),
            message: probe.message.clone(),
            time: Some(time_to_row(probe.time)),
        }
    }
}
