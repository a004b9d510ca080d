//! Probes of rails that are out of use.

use proto_model::{
    JobKey, NicProbe, NodeName, ProbeOutcome, RailProof,
    proof::{MAX_PROBE_TEXT, MAX_PROOFS},
};

use super::{FieldErrors, Fields, duration_from_wire, duration_to_wire, known, time_from_wire, time_to_wire};
use crate::v1::{self, nic_probe::Outcome};

const OUTCOMES: [(ProbeOutcome, Outcome); 3] = [
    (ProbeOutcome::Passed, Outcome::Passed),
    (ProbeOutcome::Failed, Outcome::Failed),
    (ProbeOutcome::Unable, Outcome::Unable),
];

/// The probes that a message tells of.
///
/// # Errors
/// Every wrong field of every probe, or that there are too many.
pub fn proofs_from_wire(wire: Vec<v1::RailProof>) -> Result<Vec<RailProof>, FieldErrors> {
    let mut fields = Fields::default();
    if wire.len() > MAX_PROOFS {
        fields.fail("proofs", format!("{} are more than the {MAX_PROOFS} allowed", wire.len()));
    }
    let proofs = fields.list("proofs", wire.into_iter().take(MAX_PROOFS).collect());
    fields.finish(Some(proofs))
}

impl From<&RailProof> for v1::RailProof {
    fn from(proof: &RailProof) -> Self {
        Self {
            id: proof.id,
            rail: proof.rail,
            device: proof.device.clone(),
            peer: proof.peer.to_string(),
            own: proof.own.to_string(),
            there: proof.there.to_string(),
            first: proof.first,
            key: proof.key.expose().to_vec(),
            limit: Some(duration_to_wire(proof.limit)),
        }
    }
}

impl TryFrom<v1::RailProof> for RailProof {
    type Error = FieldErrors;

    fn try_from(wire: v1::RailProof) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let address = |_| "must be an IP address and a port, for example 10.0.0.5:29700";
        let peer = fields.take("peer", NodeName::new(&wire.peer));
        let own = fields.take("own", wire.own.parse().map_err(address));
        let there = fields.take("there", wire.there.parse().map_err(address));
        let key: Result<[u8; 32], _> = wire.key.try_into();
        let key = fields.take("key", key.map_err(|_| "must be 32 bytes"));
        let limit = fields.present("limit", wire.limit);
        let limit = limit.and_then(|limit| fields.nest("limit", duration_from_wire(limit)));
        let whole = peer.zip(own).zip(there).zip(key).zip(limit);
        fields.finish(whole.map(|((((peer, own), there), key), limit)| Self {
            id: wire.id,
            rail: wire.rail,
            device: wire.device,
            peer,
            own,
            there,
            first: wire.first,
            key: JobKey::new(key),
            limit,
        }))
    }
}

impl From<&NicProbe> for v1::NicProbe {
    fn from(probe: &NicProbe) -> Self {
        let outcome = OUTCOMES.iter().find(|(known, _)| *known == probe.outcome);
        Self {
            id: probe.id,
            peer: probe.peer.to_string(),
            outcome: outcome.map_or(Outcome::Unspecified, |pair| pair.1).into(),
            message: probe.message.clone(),
            time: Some(time_to_wire(probe.time)),
        }
    }
}

impl TryFrom<v1::NicProbe> for NicProbe {
    type Error = FieldErrors;

    fn try_from(wire: v1::NicProbe) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let peer = fields.take("peer", NodeName::new(&wire.peer));
        let outcome = known(wire.outcome).and_then(|outcome: Outcome| {
            OUTCOMES.iter().find(|(_, other)| *other == outcome).map(|(known, _)| *known)
        });
        if outcome.is_none() {
            fields.fail("outcome", "must be PASSED, FAILED or UNABLE");
        }
        if wire.message.len() > MAX_PROBE_TEXT || wire.message.chars().any(char::is_control) {
            fields.fail("message", format!("must be one printable line of at most {MAX_PROBE_TEXT} bytes"));
        }
        let time = fields.nest("time", time_from_wire(wire.time.unwrap_or_default()));
        let (id, message) = (wire.id, wire.message);
        let whole = peer.zip(outcome).zip(time);
        fields.finish(whole.map(|((peer, outcome), time)| Self { id, peer, outcome, message, time }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proto_model::Timestamp;

    use super::*;

    #[test]
    fn everything_comes_back_as_it_went() {
        let proof = RailProof {
            id: u64::MAX,
            rail: 3,
            device: "mlx5_3".into(),
            peer: NodeName::new("n2").unwrap(),
            own: "10.3.0.1:29700".parse().unwrap(),
            there: "[fd00::2]:29701".parse().unwrap(),
            first: true,
            key: JobKey::new([7; 32]),
            limit: Duration::from_secs(8),
        };
        let wire = vec![v1::RailProof::from(&proof); MAX_PROOFS];
        assert_eq!(proofs_from_wire(wire).unwrap(), vec![proof; MAX_PROOFS]);
        for (outcome, _) in OUTCOMES {
            let (peer, time) = (NodeName::new("n2").unwrap(), Timestamp(5));
            let probe = NicProbe { id: 1, peer, outcome, message: "as it should be".into(), time };
            assert_eq!(NicProbe::try_from(v1::NicProbe::from(&probe)).unwrap(), probe);
        }
    }

    #[test]
    fn wrong_fields_are_named_all_at_once() {
        let wrong = v1::RailProof { own: "10.0.0.1".into(), key: vec![1; 31], ..Default::default() };
        let errors = proofs_from_wire(vec![wrong]).unwrap_err();
        let named: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).collect();
        let fields = ["peer", "own", "there", "key", "limit"];
        assert_eq!(named, fields.map(|field| format!("proofs[0].{field}")));
        let many = proofs_from_wire(vec![v1::RailProof::default(); MAX_PROOFS + 1]).unwrap_err().to_string();
        assert!(many.contains("65 are more than the 64 allowed"), "{many}");
        let wrong = v1::NicProbe { outcome: 9, message: "a\nb".into(), ..Default::default() };
        let text = NicProbe::try_from(wrong).unwrap_err().to_string();
        for field in ["peer: ", "outcome: ", "message: "] {
            assert!(text.contains(field), "{text}");
        }
    }
}
