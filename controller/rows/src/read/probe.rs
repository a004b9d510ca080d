//! Probes of rails that are out of use.

use proto_model::{NicProbe, NodeName, proof::MAX_PROBE_TEXT};

use super::time_from_row;
use crate::{v1, v1::nic_probe::Outcome, words::OUTCOMES};
use proto_model::fields::{FieldErrors, Fields, known};

impl TryFrom<v1::NicProbe> for NicProbe {
    type Error = FieldErrors;

    fn try_from(row: v1::NicProbe) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let peer = fields.take("peer", NodeName::new(&row.peer));
        let outcome = known(row.outcome).and_then(|outcome: Outcome| {
            OUTCOMES.iter().find(|(_, other)| *other == outcome).map(|(known, _)| *known)
        });
        if outcome.is_none() {
            fields.fail("outcome", "must be PASSED, FAILED or UNABLE");
        }
        if row.message.len() > MAX_PROBE_TEXT || row.message.chars().any(char::is_control) {
            fields.fail("message", format!("must be one printable line of at most {MAX_PROBE_TEXT} bytes"));
        }
        let time = fields.nest("time", time_from_row(row.time.unwrap_or_default()));
        let (id, message) = (row.id, row.message);
        let whole = peer.zip(outcome).zip(time);
        fields.finish(whole.map(|((peer, outcome), time)| Self { id, peer, outcome, message, time }))
    }
}
