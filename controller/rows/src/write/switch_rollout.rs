//! The rollout to switches, as it is stored.

use proto_model::SwitchRollout;

use super::{duration_to_row, time_to_row};
use crate::v1;

impl From<&SwitchRollout> for v1::SwitchRollout {
    fn from(rollout: &SwitchRollout) -> Self {
        Self {
            generation: rollout.generation,
            profile: rollout.profile.to_string(),
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
            out_of_use: rollout.out_of_use.iter().map(ToString::to_string).collect(),
        }
    }
}
