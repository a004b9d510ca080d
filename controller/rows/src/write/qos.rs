//! Class of service: rollouts, desired state, and how NICs stand to it.

use proto_model::{QosPort, QosRollout, QosState};

use super::{duration_to_row, time_to_row};
use crate::{v1, v1::qos_port::State, words::QOS_STATES};

impl From<QosState> for State {
    fn from(state: QosState) -> Self {
        QOS_STATES.iter().find(|(known, _)| *known == state).map_or(Self::Unspecified, |pair| pair.1)
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

impl From<&QosRollout> for v1::QosRollout {
    fn from(rollout: &QosRollout) -> Self {
        Self {
            generation: rollout.generation,
            document: rollout.document.to_string(),
            before: rollout.before.as_deref().unwrap_or_default().to_owned(),
            reason: rollout.reason.clone(),
            by: rollout.by.clone(),
            since: Some(time_to_row(rollout.since)),
            canary: rollout.canary.to_string(),
            confirm_within: Some(duration_to_row(rollout.confirm_within)),
            soak: Some(duration_to_row(rollout.soak)),
            at_once: rollout.at_once,
            force: rollout.force,
            paused: rollout.paused.as_ref().map(Into::into),
            mixed: rollout.mixed,
        }
    }
}
