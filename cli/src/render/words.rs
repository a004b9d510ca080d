//! Numbers, times and states in words.

use std::time::Duration;

use prost_types::Timestamp;
use proto_wire::v1;

use crate::error::human;

/// A moment to the millisecond: `2026-08-20T10:00:00.000Z`.
#[must_use]
pub fn millis(time: &Timestamp) -> String {
    let nanos = i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
    let Ok(at) = time::OffsetDateTime::from_unix_timestamp_nanos(nanos) else { return String::new() };
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{}T{hour:02}:{minute:02}:{second:02}.{:03}Z", at.date(), at.millisecond())
}

/// A job's phase as users write it.
#[must_use]
pub fn job_phase(number: i32) -> &'static str {
    use v1::job_status::Phase;
    match Phase::try_from(number).unwrap_or_default() {
        Phase::Unspecified => "Unknown",
        Phase::Pending => "Pending",
        Phase::Reserved => "Reserved",
        Phase::Preparing => "Preparing",
        Phase::Running => "Running",
        Phase::Recovering => "Recovering",
        Phase::Completed => "Completed",
        Phase::Failed => "Failed",
        Phase::Cancelled => "Cancelled",
    }
}

/// A node's phase as users write it.
#[must_use]
pub fn node_phase(number: i32) -> &'static str {
    use v1::node_status::Phase;
    match Phase::try_from(number).unwrap_or_default() {
        Phase::Unspecified => "Unknown",
        Phase::Ready => "Ready",
        Phase::NotReady => "NotReady",
    }
}

/// A rail's state as users write it.
#[must_use]
pub fn rail_state(number: i32) -> &'static str {
    use v1::rail_report::State;
    match State::try_from(number).unwrap_or_default() {
        State::Unspecified => "unknown",
        State::Up => "up",
        State::Draining => "draining",
        State::Drained => "drained",
        State::Down => "down",
        State::Proving => "proving",
    }
}

/// A role as users write it.
#[must_use]
pub fn role(number: i32) -> &'static str {
    match v1::Role::try_from(number).unwrap_or_default() {
        v1::Role::Unspecified => "none",
        v1::Role::Admin => "admin",
        v1::Role::TenantAdmin => "tenant-admin",
        v1::Role::User => "user",
        v1::Role::Viewer => "viewer",
        v1::Role::Node => "node",
        v1::Role::Switch => "switch",
    }
}

/// A size with a binary unit.
#[must_use]
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut unit = 0;
    let mut value = count as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value.fract() < 0.05 => format!("{value:.0} {}", UNITS[unit]),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// CPUs and main memory; nothing where there are none of either.
#[must_use]
pub fn host(cpus: u32, memory: u64) -> String {
    let cpus = match cpus {
        0 => String::new(),
        1 => "1 CPU".to_owned(),
        more => format!("{more} CPUs"),
    };
    match memory {
        0 => cpus,
        _ if cpus.is_empty() => format!("{} of memory", bytes(memory)),
        _ => format!("{cpus}, {} of memory", bytes(memory)),
    }
}

/// Seconds since the epoch, with the fraction.
#[must_use]
pub fn seconds(time: &Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / 1e9
}

/// The time between two instants, the later one being `now` where it is not known.
#[must_use]
pub fn age(from: Option<&Timestamp>, to: Option<&Timestamp>, now: f64) -> String {
    let Some(from) = from else { return String::new() };
    let passed = (to.map_or(now, seconds) - seconds(from)).max(0.0);
    // Tables need no tenths beyond ten seconds.
    let passed = if passed >= 10.0 { passed.floor() } else { passed };
    human(Duration::try_from_secs_f64(passed).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ages() {
        assert_eq!(
            [0, 1023, 1024, 1536, 64 << 20].map(bytes),
            ["0 B", "1023 B", "1 KiB", "1.5 KiB", "64 MiB"]
        );
        let at = |seconds| Timestamp { seconds, nanos: 500_000_000 };
        assert_eq!(age(None, None, 5.0), "");
        assert_eq!(age(Some(&at(10)), None, 12.0), "1.5s");
        assert_eq!(age(Some(&at(10)), Some(&at(100)), 0.0), "1m30s");
        assert_eq!(age(Some(&at(10)), Some(&at(1)), 0.0), "0ms", "a clock that ran back is no panic");
    }
}
