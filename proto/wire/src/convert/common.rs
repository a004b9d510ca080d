//! Times, durations and reasons.

use std::time::Duration;

use proto_model::{JobSpec, Named, Reason, ReasonCode, TenantName, Timestamp};

use super::{FieldErrors, Fields};
use crate::v1;

/// Seconds of the longest `google.protobuf.Duration`, about 10,000 years.
const MAX_SECONDS: i64 = 315_576_000_000;

/// Seconds of the last `google.protobuf.Timestamp`, 9999-12-31T23:59:59Z: a later one has no text in JSON.
const LAST_SECOND: u64 = 253_402_300_799;

/// The last time that the wire can carry.
pub(crate) const LAST_TIME: Timestamp = Timestamp(LAST_SECOND * 1000 + 999);

/// Milliseconds since 1970 as a `google.protobuf.Timestamp`.
#[must_use]
pub fn time_to_wire(time: Timestamp) -> prost_types::Timestamp {
    let seconds = i64::try_from(time.0 / 1000).unwrap_or(i64::MAX);
    let nanos = i32::try_from(time.0 % 1000).unwrap_or(0) * 1_000_000;
    prost_types::Timestamp { seconds, nanos }
}

/// `google.protobuf.Timestamp` to milliseconds.
///
/// # Errors
/// A time before 1970 or after 9999, or nanoseconds out of range.
pub fn time_from_wire(time: prost_types::Timestamp) -> Result<Timestamp, FieldErrors> {
    let seconds = u64::try_from(time.seconds).ok().filter(|s| *s <= LAST_SECOND);
    let millis = u64::try_from(time.nanos).ok().filter(|n| *n < 1_000_000_000).map(|n| n / 1_000_000);
    match (seconds, millis) {
        (Some(seconds), Some(millis)) => Ok(Timestamp(seconds * 1000 + millis)),
        _ => Err(FieldErrors::one("", "is not a time from 1970-01-01T00:00:00Z to 9999-12-31T23:59:59Z")),
    }
}

/// `Duration` to `google.protobuf.Duration`, saturating at 10,000 years as the canonical mapping demands.
#[must_use]
pub fn duration_to_wire(duration: Duration) -> prost_types::Duration {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(MAX_SECONDS).min(MAX_SECONDS);
    prost_types::Duration { seconds, nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0) }
}

/// `google.protobuf.Duration` to `Duration`.
///
/// # Errors
/// A negative duration, one of more than 10,000 years, or nanoseconds out of range.
pub fn duration_from_wire(duration: prost_types::Duration) -> Result<Duration, FieldErrors> {
    if duration.seconds > MAX_SECONDS {
        return Err(FieldErrors::one("", format!("must not be longer than {MAX_SECONDS}s")));
    }
    let nanos = u32::try_from(duration.nanos).ok().filter(|n| *n < 1_000_000_000);
    match (u64::try_from(duration.seconds).ok(), nanos) {
        (Some(seconds), Some(nanos)) => Ok(Duration::new(seconds, nanos)),
        _ => Err(FieldErrors::one("", "must not be negative; write for example \"3600s\"")),
    }
}

/// With what only some may know, as the controller keeps it: whoever answers a caller puts it into the caller's words first.
impl From<&Reason> for v1::Reason {
    fn from(reason: &Reason) -> Self {
        Self {
            code: reason.code.to_string(),
            message: reason.message.clone(),
            count: reason.count,
            scope: reason.scope.clone(),
            since: reason.since.map(time_to_wire),
            named: reason.named.as_deref().map(|named| v1::NamedReason {
                tenants: named.to.iter().map(ToString::to_string).collect(),
                message: named.message.clone(),
                scope: named.scope.clone(),
            }),
        }
    }
}

impl TryFrom<v1::Reason> for Reason {
    type Error = FieldErrors;

    fn try_from(wire: v1::Reason) -> Result<Self, FieldErrors> {
        let since = wire.since.map(time_from_wire).transpose()?;
        let named = |named: v1::NamedReason| {
            let to = named.tenants.iter().map(TenantName::new).collect::<Result<_, _>>();
            let to = to.map_err(|error| FieldErrors::one("named.tenants", error.to_string()))?;
            Ok(Box::new(Named { to, message: named.message, scope: named.scope }))
        };
        let named = wire.named.map(named).transpose()?;
        Ok(Self {
            code: ReasonCode::from_text(&wire.code),
            message: wire.message,
            count: wire.count,
            scope: wire.scope,
            since,
            named,
        })
    }
}

/// Reasons as the wire carries them.
pub(super) fn reasons(reasons: &[Reason]) -> Vec<v1::Reason> {
    reasons.iter().map(v1::Reason::from).collect()
}

/// How long something of a job may take: not longer than any job.
pub(super) fn duration(
    fields: &mut Fields,
    field: &str,
    wire: Option<prost_types::Duration>,
) -> Option<Duration> {
    let duration = fields.nest(field, duration_from_wire(wire?))?;
    if duration > JobSpec::LONGEST {
        fields.fail(field, "is longer than 366 days");
    }
    Some(duration)
}
