//! Class of service: rollouts, desired state, and how NICs stand to it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proto_model::{DesiredQos, NodeName, QosPort, QosRollout, QosState, Reason, qos::MAX_DOCUMENT};

use super::{FieldErrors, Fields, common::duration, duration_to_wire, known, time_from_wire, time_to_wire};
use crate::v1::{self, qos_port::State};

const STATES: [(QosState, State); 5] = [
    (QosState::Held, State::Held),
    (QosState::Trial, State::Trial),
    (QosState::Kept, State::Kept),
    (QosState::Differs, State::Differs),
    (QosState::Failed, State::Failed),
];
/// Bytes of what an agent says of a NIC.
const MAX_MESSAGE: usize = 1024;
/// Rails of one server.
const MAX_RAILS: usize = 64;
/// Bytes of an administrator's words.
const MAX_REASON: usize = 1024;
/// NICs that are out of use at a time: by default, and at most.
const AT_ONCE: (u32, u32) = (32, 1024);
/// How long a trial may wait: by default, at least, at most.
const CONFIRM: [Duration; 3] = [Duration::from_secs(60), Duration::from_secs(10), Duration::from_secs(3600)];
/// How long a trial has to be well by default.
const SOAK: Duration = Duration::from_secs(10);

/// Why a profile that says nothing is refused.
pub const EMPTY_PROFILE: &str = "says nothing, and would bring every NIC to the profile that is built in (data DSCP 26 on priority 3, lossless, CNP DSCP 48, MTU 9000); write what is to be, or, if that is meant, its name: {\"name\": \"roce-lossless\"}";

impl From<QosState> for State {
    fn from(state: QosState) -> Self {
        STATES.iter().find(|(known, _)| *known == state).map_or(Self::Unspecified, |pair| pair.1)
    }
}

impl TryFrom<v1::QosPort> for QosPort {
    type Error = FieldErrors;

    fn try_from(wire: v1::QosPort) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if wire.device.is_empty() || wire.device.len() > 64 || wire.device.chars().any(char::is_control) {
            fields.fail("device", "must be a device name of 1 to 64 printable bytes");
        }
        if wire.message.len() > MAX_MESSAGE || wire.message.chars().any(char::is_control) {
            fields.fail("message", format!("must be one printable line of at most {MAX_MESSAGE} bytes"));
        }
        let state = known::<State>(wire.state);
        let state = state.and_then(|state| STATES.iter().find(|pair| pair.1 == state).map(|pair| pair.0));
        if state.is_none() {
            fields.fail("state", "must be HELD, TRIAL, KEPT, DIFFERS or FAILED");
        }
        let v1::QosPort { device, generation, message, observed_generation, .. } = wire;
        fields.finish(state.map(|state| Self { device, generation, state, message, observed_generation }))
    }
}

impl From<&QosPort> for v1::QosPort {
    fn from(port: &QosPort) -> Self {
        Self {
            device: port.device.clone(),
            generation: port.generation,
            state: State::from(port.state).into(),
            message: port.message.clone(),
            observed_generation: port.observed_generation,
        }
    }
}

/// A profile's document: what it says is the agents' and railctl's to check.
fn document(fields: &mut Fields, field: &str, text: String, required: bool) -> Option<Arc<str>> {
    if text.len() > MAX_DOCUMENT {
        fields.fail(field, format!("is longer than {MAX_DOCUMENT} bytes"));
    } else if text.is_empty() {
        if required {
            fields.fail(field, "is required: a profile of class of service, as JSON");
        }
    } else if !text.trim_start().starts_with('{') {
        fields.fail(field, "must be a JSON object");
    }
    (!text.is_empty()).then(|| text.into())
}

fn rails(fields: &mut Fields, field: &str, wire: &[u32]) -> BTreeSet<u32> {
    if wire.len() > MAX_RAILS || wire.iter().any(|rail| *rail >= 64) {
        fields.fail(field, format!("must be at most {MAX_RAILS} rails from 0 to 63"));
    }
    wire.iter().copied().collect()
}

impl From<&DesiredQos> for v1::DesiredQos {
    fn from(desired: &DesiredQos) -> Self {
        Self {
            generation: desired.generation,
            document: desired.document.to_string(),
            before: desired.before.as_deref().unwrap_or_default().to_owned(),
            confirm_within: Some(duration_to_wire(desired.confirm_within)),
            trial: desired.trial.iter().copied().collect(),
            kept: desired.kept.iter().copied().collect(),
            number: desired.number,
        }
    }
}

impl TryFrom<v1::DesiredQos> for DesiredQos {
    type Error = FieldErrors;

    fn try_from(wire: v1::DesiredQos) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let document = document(&mut fields, "document", wire.document, true);
        let before = self::document(&mut fields, "before", wire.before, false);
        let wire_limit = fields.present("confirmWithin", wire.confirm_within);
        let confirm_within = duration(&mut fields, "confirmWithin", wire_limit);
        let trial = rails(&mut fields, "trial", &wire.trial);
        let kept = rails(&mut fields, "kept", &wire.kept);
        let (generation, number) = (wire.generation, wire.number);
        let whole = document.zip(confirm_within);
        fields.finish(whole.map(|(document, confirm_within)| Self {
            generation,
            document,
            before,
            confirm_within,
            trial,
            kept,
            number,
        }))
    }
}

impl From<&QosRollout> for v1::QosRollout {
    fn from(rollout: &QosRollout) -> Self {
        Self {
            generation: rollout.generation,
            document: rollout.document.to_string(),
            before: rollout.before.as_deref().unwrap_or_default().to_owned(),
            reason: rollout.reason.clone(),
            by: rollout.by.clone(),
            since: Some(time_to_wire(rollout.since)),
            canary: rollout.canary.to_string(),
            confirm_within: Some(duration_to_wire(rollout.confirm_within)),
            soak: Some(duration_to_wire(rollout.soak)),
            at_once: rollout.at_once,
            force: rollout.force,
            paused: rollout.paused.as_ref().map(Into::into),
            mixed: rollout.mixed,
        }
    }
}

impl TryFrom<v1::QosRollout> for QosRollout {
    type Error = FieldErrors;

    fn try_from(wire: v1::QosRollout) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let document = document(&mut fields, "document", wire.document, true);
        let before = self::document(&mut fields, "before", wire.before, false);
        let since = fields.nest("since", time_from_wire(wire.since.unwrap_or_default()));
        let canary = fields.take("canary", NodeName::new(&wire.canary));
        let confirm_within =
            duration(&mut fields, "confirmWithin", wire.confirm_within).unwrap_or(CONFIRM[0]);
        let soak = duration(&mut fields, "soak", wire.soak).unwrap_or(SOAK);
        let paused = wire.paused.and_then(|paused| fields.nest("paused", Reason::try_from(paused)));
        let whole = document.zip(since).zip(canary);
        fields.finish(whole.map(|((document, since), canary)| Self {
            generation: wire.generation,
            document,
            before,
            reason: wire.reason,
            by: wire.by,
            since,
            canary,
            confirm_within,
            soak,
            at_once: wire.at_once.max(1),
            force: wire.force,
            paused,
            mixed: wire.mixed,
        }))
    }
}

/// What somebody asks for, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QosOrder {
    /// The profile, as JSON.
    pub document: Arc<str>,
    /// Why the rollout is made, in the administrator's words.
    pub reason: String,
    /// The server that is to be first, if one is named.
    pub canary: Option<NodeName>,
    /// How long a trial waits for its confirmation.
    pub confirm_within: Duration,
    /// How long it has to be well before.
    pub soak: Duration,
    /// NICs out of use at a time, at most.
    pub at_once: u32,
    /// Also where a job loses its last rail.
    pub force: bool,
}

impl TryFrom<v1::ApplyQosRequest> for QosOrder {
    type Error = FieldErrors;

    fn try_from(wire: v1::ApplyQosRequest) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let document = document(&mut fields, "document", wire.document, true);
        if wire.reason.len() > MAX_REASON || wire.reason.chars().any(char::is_control) {
            fields.fail("reason", format!("must be one printable line of at most {MAX_REASON} bytes"));
        }
        let canary = (!wire.canary.is_empty()).then(|| fields.take("canary", NodeName::new(&wire.canary)));
        let [default, least, most] = CONFIRM;
        let confirm_within = duration(&mut fields, "confirmWithin", wire.confirm_within).unwrap_or(default);
        if !(least..=most).contains(&confirm_within) {
            fields.fail("confirmWithin", "must be from 10s to 1h");
        }
        let soak = duration(&mut fields, "soak", wire.soak).unwrap_or(SOAK.min(confirm_within / 2));
        if soak >= confirm_within {
            fields
                .fail("soak", "must be less than confirmWithin: what nobody confirms in time is taken back");
        }
        let at_once = if wire.at_once == 0 { AT_ONCE.0 } else { wire.at_once };
        if at_once > AT_ONCE.1 {
            fields.fail("atOnce", format!("{at_once} is more than {}", AT_ONCE.1));
        }
        fields.finish(document.map(|document| Self {
            document,
            reason: wire.reason,
            canary: canary.flatten(),
            confirm_within,
            soak,
            at_once,
            force: wire.force,
        }))
    }
}

#[cfg(test)]
mod tests {
    use proto_model::{Inventory, ReasonCode, Timestamp};

    use super::*;

    #[test]
    fn everything_comes_back_as_it_went() {
        let states = STATES.map(|pair| pair.0);
        for state in states {
            let port = QosPort {
                device: "mlx5_0".into(),
                generation: 3,
                state,
                message: "x".into(),
                observed_generation: 9,
            };
            assert_eq!(QosPort::try_from(v1::QosPort::from(&port)).unwrap(), port);
        }
        let mut desired = DesiredQos {
            generation: 3,
            document: "{}".into(),
            before: None,
            confirm_within: Duration::from_secs(60),
            trial: [1].into(),
            kept: [0, 7].into(),
            number: 9,
        };
        assert_eq!(DesiredQos::try_from(v1::DesiredQos::from(&desired)).unwrap(), desired);
        desired.before = Some("{\"mtu\": 9000}".into());
        assert_eq!(DesiredQos::try_from(v1::DesiredQos::from(&desired)).unwrap(), desired);
        let mut rollout = QosRollout {
            generation: 3,
            document: "{}".into(),
            before: desired.before,
            reason: "more".into(),
            by: "admin/root".into(),
            since: Timestamp(5),
            canary: NodeName::new("n1").unwrap(),
            confirm_within: Duration::from_secs(60),
            soak: Duration::from_secs(10),
            at_once: 7,
            force: true,
            paused: None,
            mixed: true,
        };
        assert_eq!(QosRollout::try_from(v1::QosRollout::from(&rollout)).unwrap(), rollout);
        rollout.paused = Some(Reason::new(ReasonCode::QosFailed, "x"));
        assert_eq!(QosRollout::try_from(v1::QosRollout::from(&rollout)).unwrap(), rollout);
    }

    #[test]
    fn of_a_nic_that_is_told_twice_one_word_counts_and_the_rest_is_not_lost() {
        let port = |state: State, observed_generation| v1::QosPort {
            device: "mlx5_0".into(),
            state: state.into(),
            observed_generation,
            ..Default::default()
        };
        let reported =
            |qos| Inventory::try_from(v1::Inventory { cpus: 3, qos, ..Default::default() }).unwrap();
        for (first, second, counts) in [
            (port(State::Kept, 0), port(State::Held, 0), QosState::Held),
            (port(State::Trial, 8), port(State::Kept, 9), QosState::Kept),
        ] {
            let seen = reported(vec![first.clone(), second.clone()]);
            assert_eq!((seen.cpus, seen.qos.len(), seen.qos[0].state), (3, 1, counts));
            assert_eq!(reported(vec![second, first]), seen);
        }
    }

    #[test]
    fn wrong_fields_are_named_all_at_once() {
        let secs = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let wire = v1::ApplyQosRequest {
            document: "mtu: 9000".into(),
            reason: "two\nlines".into(),
            canary: "No Name".into(),
            confirm_within: secs(5),
            soak: secs(5),
            at_once: 1025,
            ..Default::default()
        };
        let errors = QosOrder::try_from(wire).unwrap_err();
        let named: Vec<&str> = errors.0.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(named, ["document", "reason", "canary", "confirmWithin", "soak", "atOnce"]);
        let least = v1::ApplyQosRequest { document: "{}".into(), ..Default::default() };
        let order = QosOrder::try_from(least).unwrap();
        assert_eq!((order.confirm_within.as_secs(), order.soak.as_secs(), order.at_once), (60, 10, 32));
        let wrong = v1::DesiredQos { document: String::new(), trial: vec![64], ..Default::default() };
        let text = DesiredQos::try_from(wrong).unwrap_err().to_string();
        for field in ["document: ", "confirmWithin: ", "trial: "] {
            assert!(text.contains(field), "{text}");
        }
        let port = v1::QosPort { message: "a\nb".into(), ..Default::default() };
        let text = QosPort::try_from(port).unwrap_err().to_string();
        assert!(
            text.contains("device: ") && text.contains("state: ") && text.contains("message: "),
            "{text}"
        );
    }
}
