//! As Trace Event JSON, which ui.perfetto.dev and chrome://tracing open: a process for the job and one for each server, a thread
//! for each rank, complete events in microseconds since 1970, and instants. Equal lives give equal bytes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    json::rfc3339,
    model::{Instant, NodeTrack, Span, Stage, Timeline, between},
};

/// The process of the job itself; servers follow it.
const JOB: usize = 1;
/// The thread of a server itself; its ranks follow it by their numbers.
const SERVER: u64 = 1;

/// The life of a job as a trace.
#[must_use]
pub fn perfetto(of: &Timeline) -> String {
    let mut names = Vec::new();
    let mut events = Vec::new();
    job(of, &mut names, &mut events);
    for (at, track) in of.nodes.iter().enumerate() {
        node(track, JOB + 1 + at, &mut names, &mut events);
    }
    let servers: BTreeMap<&str, usize> =
        of.nodes.iter().enumerate().map(|(at, track)| (track.node.as_str(), JOB + 1 + at)).collect();
    events.extend(of.instants.iter().map(|one| instant(one, &servers)));
    // What encloses another comes before it.
    events.sort_by_key(|event| (number(event, "ts"), -number(event, "dur")));
    names.append(&mut events);
    let value = json!({
        "displayTimeUnit": "ms",
        "otherData": {
            "job": format!("{}/{}", of.tenant, of.name),
            "uid": of.uid,
            "phase": of.phase,
            "begin": rfc3339(of.begin),
            "end": rfc3339(of.end),
            "open": of.open,
            "missing": of.missing,
        },
        "traceEvents": names,
    });
    format!("{value}\n")
}

fn number(event: &Value, name: &str) -> i64 {
    event.get(name).and_then(Value::as_i64).unwrap_or(0)
}

/// The name of a process, or of a thread of it, and its place among them.
fn named(pid: usize, thread: Option<(u64, u64)>, name: &str, names: &mut Vec<Value>) {
    let (kind, tid, place) = match thread {
        None => ("process", 0, pid as u64),
        Some((tid, place)) => ("thread", tid, place),
    };
    let event = |what: &str, args: Value| json!({"ph": "M", "pid": pid, "tid": tid, "name": format!("{kind}_{what}"), "args": args});
    names.push(event("name", json!({"name": name})));
    names.push(event("sort_index", json!({"sort_index": place})));
}

/// A complete event.
fn complete(
    pid: usize,
    tid: u64,
    (begin, end): (i64, i64),
    name: &str,
    category: &str,
    args: Map<String, Value>,
) -> Value {
    let long = i64::try_from(between(begin, end).as_micros()).unwrap_or(i64::MAX);
    json!({"ph": "X", "pid": pid, "tid": tid, "ts": begin, "dur": long, "name": name, "cat": category, "args": args})
}

/// What is told of an event beside its name and time.
fn args(attempt: u32, open: bool) -> Map<String, Value> {
    let mut args = Map::new();
    args.insert("attempt".to_owned(), attempt.into());
    if open {
        args.insert("open".to_owned(), true.into());
    }
    args
}

/// Attempts, and within each what it did.
fn job(of: &Timeline, names: &mut Vec<Value>, events: &mut Vec<Value>) {
    named(JOB, None, &format!("job {}/{}", of.tenant, of.name), names);
    named(JOB, Some((1, 1)), "attempts", names);
    for attempt in of.attempts() {
        let own: Vec<&Span> = of.spans.iter().filter(|span| span.attempt == attempt).collect();
        let (Some(first), Some(last)) = (own.first(), own.last()) else { continue };
        let name = format!("attempt {attempt}");
        events.push(complete(JOB, 1, (first.begin, last.end), &name, "attempt", args(attempt, last.open)));
        for span in own {
            let mut args = args(attempt, span.open);
            for cause in &span.causes {
                args.insert(cause.code.clone(), cause.message.clone().into());
            }
            let name = stage(span);
            events.push(complete(JOB, 1, (span.begin, span.end), &name, span.stage.word(), args));
        }
    }
}

/// What it does, and of what waits why.
fn stage(of: &Span) -> String {
    let mut codes: Vec<&str> = of.causes.iter().map(|cause| cause.code.as_str()).collect();
    codes.dedup();
    match of.stage {
        Stage::Waiting | Stage::Stopping if !codes.is_empty() => {
            format!("{}: {}", of.stage.word(), codes.join(", "))
        }
        _ => of.stage.word().to_owned(),
    }
}

/// The label of a server; of its ranks it may no longer be known.
pub(super) fn label(node: &str) -> &str {
    if node.is_empty() { "server not kept" } else { node }
}

fn node(of: &NodeTrack, pid: usize, names: &mut Vec<Value>, events: &mut Vec<Value>) {
    named(pid, None, label(&of.node), names);
    if !of.held.is_empty() {
        named(pid, Some((SERVER, 0)), "server", names);
    }
    for held in &of.held {
        let name = format!("held by attempt {}", held.attempt);
        events.push(complete(
            pid,
            SERVER,
            (held.begin, held.end),
            &name,
            "held",
            args(held.attempt, held.open),
        ));
    }
    let mut ranks: Vec<u32> = of.ranks.iter().map(|one| one.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    for rank in ranks {
        let tid = SERVER + 1 + u64::from(rank);
        named(pid, Some((tid, tid)), &format!("rank {rank}"), names);
    }
    for one in &of.ranks {
        let mut args = args(one.attempt, one.open);
        args.insert("rank".to_owned(), one.rank.into());
        if !one.exit.is_empty() {
            args.insert("exit".to_owned(), one.exit.clone().into());
        }
        let name = if one.failed {
            format!("rank {}: {}", one.rank, one.exit)
        } else {
            format!("rank {}", one.rank)
        };
        let category = if one.failed { "failed" } else { "rank" };
        let tid = SERVER + 1 + u64::from(one.rank);
        events.push(complete(pid, tid, (one.begin, one.end), &name, category, args));
    }
}

/// On its server, where it has one; else on the job. `servers` are their processes by name.
fn instant(one: &Instant, servers: &BTreeMap<&str, usize>) -> Value {
    let server = servers.get(one.node.as_str()).filter(|_| !one.node.is_empty());
    let (pid, tid) = server.map_or((JOB, 1), |pid| (*pid, SERVER));
    let category = if one.bad { "failure" } else { "event" };
    json!({
        "ph": "i", "s": "p", "pid": pid, "tid": tid, "ts": one.time, "name": one.code, "cat": category,
        "args": {"message": one.message},
    })
}
