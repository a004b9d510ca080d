//! The model itself, as JSON: times to the microsecond in RFC 3339, durations in seconds.

use serde_json::{Value, json};

use super::model::{Cause, Instant, NodeTrack, Span, Timeline, between};

/// The life of a job as one JSON document.
#[must_use]
pub fn json(of: &Timeline) -> String {
    let [earliest, likely, latest] = of.expected.map(|time| time.map(rfc3339));
    let value = json!({
        "job": {"tenant": of.tenant, "name": of.name, "uid": of.uid},
        "phase": of.phase,
        "begin": rfc3339(of.begin),
        "end": rfc3339(of.end),
        "open": of.open,
        "spans": of.spans.iter().map(span).collect::<Vec<_>>(),
        "nodes": of.nodes.iter().map(node).collect::<Vec<_>>(),
        "instants": of.instants.iter().map(instant).collect::<Vec<_>>(),
        "expectedStart": {"earliest": earliest, "likely": likely, "latest": latest},
        "limit": of.limit.map(rfc3339),
        "missing": of.missing,
    });
    format!("{value:#}\n")
}

/// A moment to the microsecond: `2026-08-20T10:00:00.000000Z`.
#[must_use]
pub fn rfc3339(micros: i64) -> String {
    let Ok(at) = time::OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1000) else {
        return String::new();
    };
    let (hour, minute, second) = (at.hour(), at.minute(), at.second());
    format!("{}T{hour:02}:{minute:02}:{second:02}.{:06}Z", at.date(), at.microsecond())
}

fn span(of: &Span) -> Value {
    let causes: Vec<Value> = of.causes.iter().map(cause).collect();
    json!({
        "stage": of.stage.word(),
        "attempt": of.attempt,
        "begin": rfc3339(of.begin),
        "end": rfc3339(of.end),
        "seconds": between(of.begin, of.end).as_secs_f64(),
        "open": of.open,
        "causes": causes,
    })
}

fn cause(of: &Cause) -> Value {
    json!({"code": of.code, "message": of.message})
}

fn node(of: &NodeTrack) -> Value {
    let held = of.held.iter().map(|one| {
        json!({
            "attempt": one.attempt,
            "begin": rfc3339(one.begin),
            "end": rfc3339(one.end),
            "open": one.open,
        })
    });
    let ranks = of.ranks.iter().map(|one| {
        json!({
            "rank": one.rank,
            "attempt": one.attempt,
            "begin": rfc3339(one.begin),
            "end": rfc3339(one.end),
            "open": one.open,
            "exit": one.exit,
            "failed": one.failed,
        })
    });
    json!({"node": of.node, "held": held.collect::<Vec<_>>(), "ranks": ranks.collect::<Vec<_>>()})
}

fn instant(of: &Instant) -> Value {
    json!({
        "time": rfc3339(of.time),
        "code": of.code,
        "message": of.message,
        "node": of.node,
        "bad": of.bad,
    })
}
