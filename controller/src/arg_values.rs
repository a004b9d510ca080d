//! Values of options, read from their texts.

use std::time::Duration;

use proto_model::{LongJobLimit, Objective};
use proto_rpc::{Endpoint, Listen, telemetry::LogFormat};

/// A time, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Option<Duration>);

pub(crate) fn duration_or_never(text: &str) -> Result<Wait, String> {
    if text == "never" { Ok(Wait(None)) } else { duration(text).map(|time| Wait(Some(time))) }
}

/// How long something is kept: days, hours, or less; or for ever.
pub(crate) fn kept_or_never(text: &str) -> Result<Wait, String> {
    if text == "never" {
        return Ok(Wait(None));
    }
    let kept = rest(text).ok().filter(|kept| !kept.is_zero()).map_or_else(|| duration(text), Ok);
    kept.map(|kept| Wait(Some(kept))).map_err(|_| {
        format!("'{text}' is not how long something is kept; write for example 400d, 720h, 30m or never")
    })
}

pub(crate) fn duration_or_none(text: &str) -> Result<Wait, String> {
    if text == "none" { Ok(Wait(None)) } else { duration(text).map(|time| Wait(Some(time))) }
}

pub(crate) fn objective(text: &str) -> Result<Objective, String> {
    Objective::parse(text, rest)
}

pub(crate) fn long_jobs(text: &str) -> Result<LongJobLimit, String> {
    LongJobLimit::parse(text, rest)
}

pub(crate) fn listen(text: &str) -> Result<Listen, String> {
    // The form that clients write is taken too.
    let text = text.strip_prefix("https://").unwrap_or(text);
    text.parse::<Listen>().map_err(|error| error.to_string())
}

pub(crate) fn advertised(text: &str) -> Result<Endpoint, String> {
    match text.parse::<Endpoint>() {
        Ok(endpoint @ Endpoint::Tcp { .. }) => Ok(endpoint),
        Ok(_) => Err(format!("'{text}' is not reached from other machines; write https://host:port")),
        Err(error) => Err(error.to_string()),
    }
}

pub(crate) fn log_format(text: &str) -> Result<LogFormat, String> {
    text.parse::<LogFormat>().map_err(|error| error.to_string())
}

/// How long a name rests, at most ten years.
pub(crate) fn rest(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time to rest; write for example 30d, 12h or 0");
    let (number, seconds) = match text.strip_suffix('d') {
        Some(days) => (days, 86_400),
        None => (text.strip_suffix('h').unwrap_or(if text == "0" { text } else { "" }), 3600),
    };
    let number = number.parse::<u64>().ok().filter(|number| *number <= 3650 * 86_400 / seconds);
    number.map(|number| Duration::from_secs(number * seconds)).ok_or_else(wrong)
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a duration; write for example 500ms, 10s or 2m");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let duration = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        _ => return Err(wrong()),
    };
    if duration < Duration::from_millis(10) || duration > Duration::from_secs(86_400) {
        return Err(format!("'{text}' is out of range; from 10ms to one day"));
    }
    Ok(duration)
}

/// The time between two backups: from a second to 30 days.
pub(crate) fn interval(text: &str) -> Result<Duration, String> {
    let range = Duration::from_secs(1)..=Duration::from_secs(30 * 86_400);
    let found = duration(text).or_else(|_| rest(text)).ok().filter(|time| range.contains(time));
    found
        .ok_or_else(|| format!("'{text}' is not a time from 1s to 30d; write for example 30s, 15m, 6h or 1d"))
}
