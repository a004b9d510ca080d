//! Running attempts.

use controller_state::rows::records::{Attempt, Ending, Outcome};

use crate::v1::{self, ending::Outcome as Stored};

impl From<&Attempt> for v1::Attempt {
    fn from(attempt: &Attempt) -> Self {
        Self {
            job_uid: attempt.uid.to_string(),
            attempt: attempt.attempt,
            job_key: attempt.key.expose().to_vec(),
            peers: attempt.peers.iter().map(Into::into).collect(),
            ending: attempt.ending.as_ref().map(Into::into),
            since_ms: attempt.since.0,
            released: attempt.released,
            again: attempt.again,
        }
    }
}

impl From<&Ending> for v1::Ending {
    fn from(ending: &Ending) -> Self {
        let outcome = match ending.outcome {
            Outcome::Requeue => Stored::Requeue,
            Outcome::Fail => Stored::Fail,
            Outcome::Cancel => Stored::Cancel,
            Outcome::Preempt => Stored::Preempt,
            Outcome::Move => Stored::Move,
        };
        Self {
            outcome: outcome.into(),
            grace_ms: u64::try_from(ending.grace.as_millis()).unwrap_or(u64::MAX),
            since_ms: ending.since.0,
            causes: ending.causes.iter().map(Into::into).collect(),
            signal: ending.signal,
        }
    }
}
