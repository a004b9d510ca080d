//! Running attempts.

use std::time::Duration;

use controller_state::rows::records::{Attempt, Ending, Outcome};
use proto_model::{JobKey, Timestamp};

use super::records::bytes;
use crate::v1::{self, ending::Outcome as Stored};
use proto_model::fields::{FieldErrors, Fields, known};

impl TryFrom<v1::Attempt> for Attempt {
    type Error = FieldErrors;

    fn try_from(row: v1::Attempt) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let uid = fields.take("jobUid", row.job_uid.parse());
        let key = bytes(&mut fields, "jobKey", row.job_key);
        let peers = fields.list("peers", row.peers);
        let ending = row.ending.and_then(|row| fields.nest("ending", row.try_into()));
        fields.finish(uid.zip(key).map(|(uid, key)| Self {
            uid,
            attempt: row.attempt,
            key: JobKey::new(key),
            peers,
            since: Timestamp(row.since_ms),
            released: row.released,
            again: row.again,
            ending,
        }))
    }
}

impl TryFrom<v1::Ending> for Ending {
    type Error = FieldErrors;

    fn try_from(row: v1::Ending) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let outcome = match known(row.outcome) {
            Some(Stored::Requeue) => Some(Outcome::Requeue),
            Some(Stored::Fail) => Some(Outcome::Fail),
            Some(Stored::Cancel) => Some(Outcome::Cancel),
            Some(Stored::Preempt) => Some(Outcome::Preempt),
            Some(Stored::Move) => Some(Outcome::Move),
            Some(Stored::Unspecified) | None => None,
        };
        let outcome =
            fields.take("outcome", outcome.ok_or(format!("{} is not known to this release", row.outcome)));
        let causes = fields.list("causes", row.causes);
        fields.finish(outcome.map(|outcome| Self {
            outcome,
            grace: Duration::from_millis(row.grace_ms),
            since: Timestamp(row.since_ms),
            signal: row.signal,
            causes,
        }))
    }
}
