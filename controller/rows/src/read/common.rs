//! Times, durations and reasons.

use std::time::Duration;

use proto_model::{JobSpec, Named, Reason, ReasonCode, TenantName, Timestamp};

use crate::{
    v1,
    words::{LAST_SECOND, MAX_SECONDS},
};
use proto_model::fields::{FieldErrors, Fields};

/// `google.protobuf.Timestamp` to milliseconds.
///
/// # Errors
/// A time before 1970 or after 9999, or nanoseconds out of range.
pub fn time_from_row(time: prost_types::Timestamp) -> Result<Timestamp, FieldErrors> {
    let seconds = u64::try_from(time.seconds).ok().filter(|s| *s <= LAST_SECOND);
    let millis = u64::try_from(time.nanos).ok().filter(|n| *n < 1_000_000_000).map(|n| n / 1_000_000);
    match (seconds, millis) {
        (Some(seconds), Some(millis)) => Ok(Timestamp(seconds * 1000 + millis)),
        _ => Err(FieldErrors::one("", "is not a time from 1970-01-01T00:00:00Z to 9999-12-31T23:59:59Z")),
    }
}

/// `google.protobuf.Duration` to `Duration`.
///
/// # Errors
/// A negative duration, one of more than 10,000 years, or nanoseconds out of range.
pub fn duration_from_row(duration: prost_types::Duration) -> Result<Duration, FieldErrors> {
    if duration.seconds > MAX_SECONDS {
        return Err(FieldErrors::one("", format!("must not be longer than {MAX_SECONDS}s")));
    }
    let nanos = u32::try_from(duration.nanos).ok().filter(|n| *n < 1_000_000_000);
    match (u64::try_from(duration.seconds).ok(), nanos) {
        (Some(seconds), Some(nanos)) => Ok(Duration::new(seconds, nanos)),
        _ => Err(FieldErrors::one("", "must not be negative; write for example \"3600s\"")),
    }
}

impl TryFrom<v1::Reason> for Reason {
    type Error = FieldErrors;

    fn try_from(row: v1::Reason) -> Result<Self, FieldErrors> {
        let since = row.since.map(time_from_row).transpose()?;
        let named = |named: v1::NamedReason| {
            let to = named.tenants.iter().map(TenantName::new).collect::<Result<_, _>>();
            let to = to.map_err(|error| FieldErrors::one("named.tenants", error.to_string()))?;
            Ok(Box::new(Named { to, message: named.message, scope: named.scope }))
        };
        let named = row.named.map(named).transpose()?;
        Ok(Self {
            code: ReasonCode::from_text(&row.code),
            message: row.message,
            count: row.count,
            scope: row.scope,
            since,
            named,
        })
    }
}

/// How long something of a job may take: not longer than any job.
pub(crate) fn duration(
    fields: &mut Fields,
    field: &str,
    row: Option<prost_types::Duration>,
) -> Option<Duration> {
    let duration = fields.nest(field, duration_from_row(row?))?;
    if duration > JobSpec::LONGEST {
        fields.fail(field, "is longer than 366 days");
    }
    Some(duration)
}
