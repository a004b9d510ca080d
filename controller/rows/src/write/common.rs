//! Times, durations and reasons.

use std::time::Duration;

use proto_model::{Reason, Timestamp};

use crate::{v1, words::MAX_SECONDS};

/// Milliseconds since 1970 as a `google.protobuf.Timestamp`.
#[must_use]
pub fn time_to_row(time: Timestamp) -> prost_types::Timestamp {
    let seconds = i64::try_from(time.0 / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(time.0 % 1000).unwrap_or(0) * 1_000_000;
    prost_types::Timestamp { seconds, nanos }
}

/// `Duration` to `google.protobuf.Duration`, saturating at 10,000 years as the canonical mapping demands.
#[must_use]
pub fn duration_to_row(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(MAX_SECONDS).min(MAX_SECONDS);
    prost_types::Duration { seconds, nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0) }
}

/// With what only some may know, as the controller keeps it: whoever answers a caller puts it into the caller's words first.
impl From<&Reason> for v1::Reason {
    fn from(reason: &Reason) -> Self {
        Self {
            code: reason.code.to_string(),
            message: reason.message.clone(),
            count: reason.count,
            scope: reason.scope.clone(),
            since: reason.since.map(time_to_row),
            named: reason.named.as_deref().map(|named| v1::NamedReason {
                tenants: named.to.iter().map(ToString::to_string).collect(),
                message: named.message.clone(),
                scope: named.scope.clone(),
            }),
        }
    }
}

/// Reasons as the row carries them.
pub(crate) fn reasons(reasons: &[Reason]) -> Vec<v1::Reason> {
    reasons.iter().map(v1::Reason::from).collect()
}
