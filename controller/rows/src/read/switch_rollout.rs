//! The rollout to switches, out of its row.

use std::time::Duration;

use proto_model::{
    Reason, SwitchName, SwitchRollout,
    fields::{FieldErrors, Fields},
};

use super::{common::duration, qos::document, time_from_row};
use crate::v1;

/// How long a trial may wait, and how long it has to be well, where a row does not say.
const CONFIRM: Duration = Duration::from_secs(60);
const SOAK: Duration = Duration::from_secs(10);

impl TryFrom<v1::SwitchRollout> for SwitchRollout {
    type Error = FieldErrors;

    fn try_from(row: v1::SwitchRollout) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let profile = document(&mut fields, "profile", row.profile, true);
        let before = document(&mut fields, "before", row.before, false);
        let since = fields.nest("since", time_from_row(row.since.unwrap_or_default()));
        let canary = fields.take("canary", SwitchName::new(&row.canary));
        let confirm_within = duration(&mut fields, "confirmWithin", row.confirm_within).unwrap_or(CONFIRM);
        let soak = duration(&mut fields, "soak", row.soak).unwrap_or(SOAK);
        let paused = row.paused.and_then(|paused| fields.nest("paused", Reason::try_from(paused)));
        let out = row.out_of_use.iter().enumerate();
        let out_of_use = out
            .filter_map(|(at, name)| fields.take(&format!("outOfUse[{at}]"), SwitchName::new(name)))
            .collect();
        let whole = profile.zip(since).zip(canary);
        fields.finish(whole.map(|((profile, since), canary)| Self {
            generation: row.generation,
            profile,
            before,
            reason: row.reason,
            by: row.by,
            since,
            canary,
            confirm_within,
            soak,
            at_once: row.at_once.max(1),
            force: row.force,
            paused,
            out_of_use,
        }))
    }
}
