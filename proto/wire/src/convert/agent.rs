//! What controller and agents tell each other.

use std::sync::Arc;

use proto_model::{
    Assignment, DesiredState, JobId, JobKey, JobName, NodeEndpoints, NodeName, Observation, Observed,
    RailEndpoint, TenantName,
};

use super::{FieldErrors, Fields, certify, duration_from_wire, duration_to_wire, known, rails, values};
use crate::v1;

impl From<&RailEndpoint> for v1::RailEndpoint {
    fn from(endpoint: &RailEndpoint) -> Self {
        Self { rail: endpoint.rail, address: endpoint.address.to_string() }
    }
}

impl TryFrom<v1::RailEndpoint> for RailEndpoint {
    type Error = FieldErrors;

    fn try_from(wire: v1::RailEndpoint) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let wrong = |_| format!("'{}' is not ip:port", wire.address);
        let address = fields.take("address", wire.address.parse().map_err(wrong));
        fields.finish(address.map(|address| Self { rail: wire.rail, address }))
    }
}

impl From<&NodeEndpoints> for v1::NodeEndpoints {
    fn from(peer: &NodeEndpoints) -> Self {
        Self { node: peer.node.to_string(), endpoints: peer.endpoints.iter().map(Into::into).collect() }
    }
}

impl TryFrom<v1::NodeEndpoints> for NodeEndpoints {
    type Error = FieldErrors;

    fn try_from(wire: v1::NodeEndpoints) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let node = fields.take("node", NodeName::new(&wire.node));
        let endpoints = fields.list("endpoints", wire.endpoints);
        fields.finish(node.map(|node| Self { node, endpoints }))
    }
}

impl From<&Assignment> for v1::Assignment {
    fn from(assignment: &Assignment) -> Self {
        let mut wire = Self {
            job_uid: assignment.uid.to_string(),
            attempt: assignment.attempt,
            tenant: assignment.id.tenant.to_string(),
            job: assignment.id.name.to_string(),
            trace_parent: assignment.trace_parent.clone(),
            ..Self::default()
        };
        match &assignment.desired {
            DesiredState::Prepared { spec, placement, key, .. }
            | DesiredState::Running { spec, placement, key, .. } => {
                wire.set_desired(v1::assignment::DesiredState::Prepared);
                wire.spec = Some(spec.as_ref().into());
                wire.placement = Some(placement.as_ref().into());
                wire.job_key = key.expose().to_vec();
            }
            DesiredState::Stopped { grace, signal, reason } => {
                wire.stop_signal = *signal;
                wire.set_desired(v1::assignment::DesiredState::Stopped);
                wire.grace_period = Some(duration_to_wire(*grace));
                wire.stop_reason.clone_from(reason);
            }
        }
        if let DesiredState::Prepared { env, .. } = &assignment.desired {
            wire.env_values = values::env_values_to_wire(env);
        }
        if let DesiredState::Running { peers, certify, .. } = &assignment.desired {
            wire.set_desired(v1::assignment::DesiredState::Running);
            wire.peers = peers.iter().map(Into::into).collect();
            wire.certification = certify.as_ref().map(Into::into);
        }
        wire
    }
}

fn desired(fields: &mut Fields, wire: v1::Assignment) -> Option<DesiredState> {
    let kind = known(wire.desired);
    if kind == Some(v1::assignment::DesiredState::Stopped) {
        let grace = fields.nest("gracePeriod", duration_from_wire(wire.grace_period.unwrap_or_default()))?;
        return Some(DesiredState::Stopped { grace, signal: wire.stop_signal, reason: wire.stop_reason });
    }
    let spec = fields.present("spec", wire.spec).and_then(|spec| fields.nest("spec", spec.try_into()));
    let placement = fields
        .present("placement", wire.placement)
        .and_then(|wire| fields.nest("placement", wire.try_into()));
    let key: Result<[u8; 32], _> = wire.job_key.try_into();
    let key = fields.take("jobKey", key.map_err(|_| "must be 32 bytes"));
    let (spec, placement, key) = (Arc::new(spec?), Arc::new(placement?), JobKey::new(key?));
    match kind {
        Some(v1::assignment::DesiredState::Prepared) => {
            let env = Arc::new(fields.nest("envValues", values::env_values(wire.env_values))?);
            Some(DesiredState::Prepared { spec, placement, key, env })
        }
        Some(v1::assignment::DesiredState::Running) => {
            let certify = wire.certification.and_then(|wire| certify::certify(fields, wire));
            Some(DesiredState::Running {
                spec,
                placement,
                key,
                peers: fields.list("peers", wire.peers),
                certify,
            })
        }
        _ => {
            fields.fail("desired", "is not known to this agent; it may be older than the controller");
            None
        }
    }
}

impl TryFrom<v1::Assignment> for Assignment {
    type Error = FieldErrors;

    fn try_from(wire: v1::Assignment) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let uid = fields.take("jobUid", wire.job_uid.parse());
        let tenant = fields.take("tenant", TenantName::new(&wire.tenant));
        let name = fields.take("job", JobName::new(&wire.job));
        let (attempt, trace_parent) = (wire.attempt, wire.trace_parent.clone());
        let desired = desired(&mut fields, wire);
        let assignment = match (uid, tenant, name, desired) {
            (Some(uid), Some(tenant), Some(name), Some(desired)) => {
                Some(Self { uid, attempt, id: JobId { tenant, name }, desired, trace_parent })
            }
            _ => None,
        };
        fields.finish(assignment)
    }
}

const STATES: [(Observed, v1::observation::State); 6] = [
    (Observed::Preparing, v1::observation::State::Preparing),
    (Observed::Prepared, v1::observation::State::Prepared),
    (Observed::Starting, v1::observation::State::Starting),
    (Observed::Running, v1::observation::State::Running),
    (Observed::Stopping, v1::observation::State::Stopping),
    (Observed::Ended, v1::observation::State::Ended),
];

impl From<&Observation> for v1::Observation {
    fn from(observation: &Observation) -> Self {
        let state = STATES
            .iter()
            .find(|(state, _)| *state == observation.state)
            .map_or_else(Default::default, |p| p.1);
        Self {
            job_uid: observation.uid.to_string(),
            attempt: observation.attempt,
            state: state.into(),
            endpoints: observation.endpoints.iter().map(Into::into).collect(),
            exits: observation.exits.iter().map(Into::into).collect(),
            cause: observation.cause.as_ref().map(Into::into),
            result: observation.result.as_ref().map(Into::into),
            rails: observation.rails.iter().map(Into::into).collect(),
            rail_reports: observation.reports.iter().map(Into::into).collect(),
            choices: observation.choices.iter().map(Into::into).collect(),
            measured: observation.measured.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<v1::Observation> for Observation {
    type Error = FieldErrors;

    fn try_from(wire: v1::Observation) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let uid = fields.take("jobUid", wire.job_uid.parse());
        let state = STATES.iter().find(|(_, state)| *state as i32 == wire.state).map(|pair| pair.0);
        let state = fields.take("state", state.ok_or("is not known"));
        let endpoints = fields.list("endpoints", wire.endpoints);
        let exits = fields.list("exits", wire.exits);
        // Who may know what is the controller's to say, and no agent's.
        let cause = wire.cause.map(|cause| v1::Reason { named: None, ..cause });
        let cause = cause.and_then(|wire| fields.nest("cause", wire.try_into()));
        let reports = rails::reports(&mut fields, wire.rail_reports);
        let observation = uid.zip(state).map(|(uid, state)| Self {
            uid,
            attempt: wire.attempt,
            state,
            endpoints,
            exits,
            cause,
            result: wire.result.map(Into::into),
            rails: wire.rails.into_iter().map(Into::into).collect(),
            reports,
            choices: rails::choices(wire.choices),
            measured: wire.measured.map(Into::into),
        });
        fields.finish(observation)
    }
}
