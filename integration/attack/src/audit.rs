//! Every denial that should be recorded is looked for in the audit log, or in the counter of refusals.

use std::{
    collections::BTreeMap,
    io::Read as _,
    io::Write as _,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{caller::From, exec::call, model::Step, report::Line, verdict::Verdict, world::World};

/// Longest wait for records: denials may wait for one record with their number.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two looks.
const AGAIN: Duration = Duration::from_millis(500);

/// Marks the lines whose denial was neither recorded nor counted.
///
/// # Errors
/// The log cannot be read.
pub async fn check(world: &World, lines: Vec<&mut Line>) -> Result<(), String> {
    if lines.is_empty() {
        return Ok(());
    }
    let begin = Instant::now();
    let mut missing = missing(world, &lines).await?;
    while missing.iter().any(Option::is_some) && begin.elapsed() < PATIENCE {
        tokio::time::sleep(AGAIN).await;
        missing = self::missing(world, &lines).await?;
    }
    for (line, missing) in lines.into_iter().zip(missing) {
        if let Some(text) = missing {
            line.verdict = Verdict::GaveWay(text);
        }
    }
    Ok(())
}

/// For each line what is missing of its denial; nothing if it was recorded or counted.
async fn missing(world: &World, lines: &[&mut Line]) -> Result<Vec<Option<String>>, String> {
    let recorded = recorded(world).await?;
    let counted = counted(world);
    let mut wanted: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in lines {
        *wanted.entry(key(world, line)).or_default() += 1;
    }
    let made: u64 = wanted.iter().filter(|((who, _), _)| who == "anonymous").map(|(_, made)| made).sum();
    let of_nobody: u64 =
        recorded.iter().filter(|((who, _), _)| who == "anonymous").map(|(_, seen)| seen).sum();
    let one = |line: &&mut Line| {
        let key = key(world, line);
        let seen = recorded.get(&key).copied().unwrap_or(0);
        let (who, rpc) = &key;
        let fine = seen >= wanted[&key]
            // Nobody's denials share a budget, and a record that stands for several names but one call.
            || who == "anonymous" && (of_nobody >= made || counted.get(rpc).is_some_and(|count| *count >= wanted[&key]));
        (!fine).then(|| {
            format!("refused, but of {} calls of {rpc} by {who} {seen} are in the audit log", wanted[&key])
        })
    };
    Ok(lines.iter().map(one).collect())
}

/// Who calls what, as records name them.
fn key(world: &World, line: &Line) -> (String, String) {
    let rpc = match &line.attempt.step {
        Step::Call { rpc, .. } | Step::Frame { rpc, .. } => {
            rpc.rsplit('/').next().unwrap_or_default().to_owned()
        }
        Step::Rest { head, .. } => rest_rpc(head).to_owned(),
        _ => String::new(),
    };
    let who =
        if line.attempt.from == From::Anonymous { "anonymous" } else { &world.person(line.attempt.from).who };
    (who.to_owned(), rpc)
}

/// The call behind a request over HTTP/1.1, of those that the table makes.
fn rest_rpc(head: &str) -> &'static str {
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET", "/v1/jobs") => "ListJobs",
        ("GET", "/v1/jobs:watch") => "WatchJobs",
        ("GET", "/v1/nodes") => "ListNodes",
        ("GET", "/v1/tenants") => "ListTenants",
        ("POST", path) if path.ends_with(":createJoinToken") => "CreateJoinToken",
        ("POST", path) if path.ends_with(":cancel") => "CancelJob",
        ("DELETE", _) => "DeleteJob",
        ("GET", path) if path.ends_with("/logs") => "StreamLogs",
        _ => "GetJob",
    }
}

/// Denials by caller and call.
async fn recorded(world: &World) -> Result<BTreeMap<(String, String), u64>, String> {
    let mut found: BTreeMap<(String, String), u64> = BTreeMap::new();
    let mut token = String::new();
    loop {
        let body = json!({"decision": "denied", "pageSize": 500, "pageToken": token});
        let listed = call::must(&world.admin.client, "rail.v1.AuditService/ListAuditRecords", body).await?;
        for record in listed["records"].as_array().into_iter().flatten() {
            let denial = &record["denial"];
            let who = denial["actor"]["who"].as_str().unwrap_or_default();
            // The identity's URI ends as callers are called here, but for the roles.
            let who = who
                .split_once("://")
                .map_or(who, |(_, rest)| rest.split_once('/').map_or(rest, |(_, who)| who));
            let who = who.split("/roles/").next().unwrap_or_default().trim_start_matches("rail/");
            let rpc = denial["actor"]["rpc"].as_str().unwrap_or_default();
            let count = denial["count"].as_str().and_then(|text| text.parse().ok()).unwrap_or(1_u64);
            let who = who_of(world, who);
            *found.entry((who, rpc.to_owned())).or_default() += count.max(1);
        }
        token = listed["nextPageToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return Ok(found);
        }
    }
}

fn who_of(world: &World, uri: &str) -> String {
    // A tenant's uid stands behind its name.
    let plain = match uri.split_once("/uid/") {
        Some((tenant, rest)) => format!("{tenant}/{}", rest.split_once('/').map_or("", |(_, rest)| rest)),
        None => uri.to_owned(),
    };
    let known =
        From::ALL.iter().map(|from| &world.person(*from).who).find(|who| plain.ends_with(who.as_str()));
    known.cloned().unwrap_or(plain)
}

/// Refusals by call, of the controller's counter.
fn counted(world: &World) -> BTreeMap<String, u64> {
    let text = metrics(world).unwrap_or_default();
    let mut found = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("rail_refusals_total")) {
        let rpc = line.split("rpc=\"").nth(1).and_then(|rest| rest.split('"').next());
        let count = line.rsplit(' ').next().and_then(|text| text.parse::<f64>().ok());
        if let (Some(rpc), Some(count)) = (rpc, count) {
            *found.entry(rpc.to_owned()).or_default() += count as u64;
        }
    }
    found
}

fn metrics(world: &World) -> Option<String> {
    let file = std::fs::read_to_string(world.cluster.dir().join("controller/controller.json")).ok()?;
    let json: serde_json::Value = serde_json::from_str(&file).ok()?;
    let address = json["metrics"].as_str()?.strip_prefix("http://")?.trim_end_matches('/').to_owned();
    let mut stream = std::net::TcpStream::connect(address).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}
