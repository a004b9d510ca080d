//! What is checked after an upgrade: calls, watches, usage records and the audit log.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    load::Tally,
    world::{Releases, World},
};
use crate::report::{Goal, Line, Row, Sample, round};

/// The first case of the upgrade itself.
pub const CASE: &str = "calls that fail while controllers and agents are upgraded under load";

fn line(row: &Row<'_>, case: &str, unit: &'static str, value: u64, cpu: f64, peers: Value) {
    let (value, goal) = (value as f64, Goal::AtMost(0.0));
    row.line(&Line { case, value, unit, goal, sample: &Sample::new(vec![value]), cpu, peers });
}

/// Calls that failed.
pub fn calls(row: &Row<'_>, tally: &Tally, (servers, taken): (usize, Duration), steps: &[Value], cpu: f64) {
    let mut peers = summary(tally);
    peers["agents"] = json!(servers);
    peers["controllers"] = json!(3);
    peers["seconds"] = round(taken.as_secs_f64());
    peers["steps"] = json!(steps);
    line(row, CASE, "calls", tally.failed, cpu, peers);
}

/// For the line of a case: what was seen, without what is large.
fn summary(tally: &Tally) -> Value {
    json!({
        "calls": tally.calls, "failures": tally.failures, "slowest_ms": round(tally.slowest.as_secs_f64() * 1e3),
        "jobs_submitted": tally.made.len(), "jobs_of_two_servers_verified": tally.verified,
        "jobs_of_two_servers_failed": tally.unverified, "watches_resumed": tally.resumed,
    })
}

/// Jobs that were acknowledged and of which the watch said nothing.
pub fn watched(row: &Row<'_>, tally: &Tally, cpu: f64) {
    let peers = json!({"jobs": tally.made.len(), "resumed": tally.resumed});
    line(
        row,
        "acknowledged jobs that a watch through the upgrade misses",
        "jobs",
        tally.missed(),
        cpu,
        peers,
    );
}

/// Usage records of attempts that ended under the new leader, which `led` since: those that lack, and those that are there twice.
pub fn records(
    row: &Row<'_>,
    world: &World,
    releases: &Releases,
    tally: &Tally,
    (led, long): (Instant, &[String]),
    cpu: f64,
) {
    let case = "usage records of attempts that end after the leader's upgrade, lost or doubled";
    let asked = || -> Result<_, String> {
        let used = world.railctl_json(&releases.new, &["usage", "list", "-A", "--limit", "0"])?;
        let jobs = world.railctl_json(&releases.new, &["get", "jobs", "-A"])?;
        Ok((used, jobs))
    };
    let (used, jobs) = match asked() {
        Ok(answers) => answers,
        Err(error) => return row.failed(case, &error),
    };
    let mut found: BTreeMap<(String, u64), u64> = BTreeMap::new();
    for record in list(&used, "records") {
        *found.entry((word(&record["jobUid"]), number(&record["attempt"]))).or_default() += 1;
    }
    let made_since = |uid: &str| tally.made.get(uid).is_some_and(|(_, at)| *at > led);
    let mut expected = BTreeSet::new();
    for job in list(&jobs, "jobs") {
        let (uid, name) = (word(&job["metadata"]["uid"]), word(&job["metadata"]["name"]));
        let completed = job["status"]["phase"] == "COMPLETED";
        if completed && (made_since(&uid) || long.contains(&name)) {
            expected.insert((uid, number(&job["status"]["attempt"])));
        }
    }
    let lost = expected.iter().filter(|attempt| !found.contains_key(attempt)).count() as u64;
    let doubled = found.values().filter(|times| **times > 1).count() as u64;
    if expected.len() < long.len() {
        return row.failed(case, &format!("only {} jobs have ended well", expected.len()));
    }
    let peers = json!({"attempts": expected.len(), "records": found.len(), "lost": lost, "doubled": doubled});
    line(row, case, "records", lost + doubled, cpu, peers);
}

/// Submits without a record in the audit log, or with two; and whether its chain and its signatures are whole.
pub fn audited(row: &Row<'_>, world: &World, releases: &Releases, tally: &Tally, cpu: f64) {
    let case = "submits that the audit log lacks or has twice, and a chain that is broken";
    let exported = world.railctl(&releases.new, &["audit", "export"]);
    let exported = match exported {
        Ok(exported) => exported,
        Err(error) => return row.failed(case, &error),
    };
    let mut made: BTreeMap<String, u64> = BTreeMap::new();
    for record in exported.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let change = &record["change"];
        if change["kind"] == "job" && word(&change["actor"]["rpc"]).ends_with("CreateJob") {
            let name = word(&change["name"]);
            *made.entry(name.rsplit('/').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    let lacks = tally.made.values().filter(|(name, _)| !made.contains_key(name)).count() as u64;
    let twice = made.values().filter(|times| **times > 1).count() as u64;
    let verified = world.railctl(&releases.new, &["audit", "verify"]);
    let broken = u64::from(verified.is_err());
    let said = verified.unwrap_or_else(|error| error);
    let peers = json!({
        "submits": tally.made.len(), "lacks": lacks, "twice": twice, "verify": said.trim(),
        "records": exported.lines().count(),
    });
    line(row, case, "records", lacks + twice + broken, cpu, peers);
}

/// Whether what a controller ends with says of which release it would have to be.
pub fn names_a_release(said: &str) -> bool {
    said.contains("rail-controller ") && said.contains("run that release or a later one")
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn word(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Canonical JSON has numbers of 64 bits as text, and leaves out 0.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}
