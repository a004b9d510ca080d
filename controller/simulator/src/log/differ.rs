//! What differs between a decision of a log and one that was taken again, in words.

use serde_json::Value;

use super::ActLine;

/// Differences of one decision that are shown; the rest is counted.
const REPORTED: usize = 4;

/// Servers that are named of a decision that only one side has.
const NAMED: usize = 4;

/// Both decisions in words. `name` is what a job is called, by its identity.
pub(crate) fn words(
    then: Option<&ActLine>,
    now: Option<&ActLine>,
    name: impl Fn(&str) -> Option<String>,
) -> String {
    let job = |uid: &str| name(uid).map_or_else(|| format!("job {uid}"), |name| format!("job '{name}'"));
    match (then, now) {
        (Some(then), Some(now)) if subject(then) == subject(now) => {
            let mut found = Vec::new();
            let json = |act: &ActLine| serde_json::to_value(act).unwrap_or_default();
            compare(&mut Vec::new(), &json(then), &json(now), &mut found);
            let more = found.len().saturating_sub(REPORTED);
            found.truncate(REPORTED);
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            format!("{}: {}{more}", job(subject(then).1), found.join("; "))
        }
        (then, now) => {
            let reported = |act: Option<&ActLine>, nothing: &str| {
                act.map_or_else(|| nothing.to_owned(), |act| whole(act, &job))
            };
            format!("the log has {}, now {}", reported(then, "nothing"), reported(now, "nothing is decided"))
        }
    }
}

/// What is done, and to which job.
fn subject(act: &ActLine) -> (&'static str, &str) {
    match act {
        ActLine::Start { uid, .. } => ("start", uid),
        ActLine::Preempt { victim, .. } => ("preempt", victim),
        ActLine::Resize { uid, .. } => ("resize", uid),
    }
}

fn whole(act: &ActLine, job: &impl Fn(&str) -> String) -> String {
    match act {
        ActLine::Start { uid, placement } => {
            let names: Vec<&str> =
                placement.nodes.iter().take(NAMED).map(|(name, _)| name.as_str()).collect();
            let more = placement.nodes.len().saturating_sub(NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("the start of {} on {}{more}", job(uid), names.join(", "))
        }
        ActLine::Preempt { victim, by, .. } => format!("the stop of {} for {}", job(victim), job(by)),
        ActLine::Resize { uid, nodes } => format!("{} resized to {nodes} servers", job(uid)),
    }
}

fn compare(path: &mut Vec<String>, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (then, now) if then == now => {}
        (Value::Object(a), Value::Object(b)) => {
            let added = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(added) {
                let of =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or_default();
                path.push(key.clone());
                compare(path, &of(a), &of(b), found);
                path.pop();
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() && a.iter().any(|one| !one.is_number()) => {
            for (at, (a, b)) in a.iter().zip(b).enumerate() {
                path.push(at.to_string());
                compare(path, a, b, found);
                path.pop();
            }
        }
        (then, now) => found.push(format!("{}: the log has {then}, now it is {now}", place(path))),
    }
}

/// A path as people say it.
fn place(path: &[String]) -> String {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let number = |at: &str| at.parse::<usize>().map_or(0, |at| at + 1);
    match path[..] {
        ["placement", "nodes", at, "0"] => format!("server {}", number(at)),
        ["placement", "nodes", at, "1"] => format!("GPUs of server {}", number(at)),
        ["placement", "spares", at, "0"] => format!("spare server {}", number(at)),
        ["placement", "spares", at, "1"] => format!("GPUs of spare server {}", number(at)),
        ["placement", "nodes"] => "servers".to_owned(),
        ["placement", "ranks"] => "digest of the ranks".to_owned(),
        ["placement", ref rest @ ..] => rest.join("."),
        ref path => path.join("."),
    }
}
