//! Everything about one thing, for people.

use std::{fmt::Write as _, time::Duration};

use proto_model::many;
use proto_wire::v1::{self};

use super::{
    Table, classes, isolation, licenses, schedules, secrets, server, sharing, switches, webhooks, words,
    work::work,
};
use crate::error::human;

/// What a job asks of each node.
fn per_node(gpus: u32, ranks: u32, cpus: u32, memory: u64) -> String {
    let ranks = if ranks == 0 { String::new() } else { format!(", {} per node", many(ranks, "rank")) };
    let host = words::host(cpus, memory);
    let host = if host.is_empty() { host } else { format!(", {host} per node") };
    format!("{} per node{ranks}{host}", many(gpus, "GPU"))
}

/// Everything about a job; the rank map as a table.
#[must_use]
pub fn job(job: &v1::Job, now: f64) -> String {
    let metadata = job.metadata.clone().unwrap_or_default();
    let spec = job.spec.clone().unwrap_or_default();
    let status = job.status.clone().unwrap_or_default();
    let gang = spec.gang.unwrap_or_default();
    let mut head = head(&metadata);
    head.push(("Phase", words::job_phase(status.phase).to_owned()));
    if status.cancel_requested {
        head.push(("Cancel", "requested".to_owned()));
    }
    let nodes = super::jobs::gang_words(&gang);
    if spec.components.is_empty() {
        let each =
            per_node(gang.gpus_per_node, gang.ranks_per_node, gang.cpus_per_node, gang.memory_per_node);
        head.push(("Gang", format!("{nodes}, {each}")));
    } else {
        head.push(("Gang", format!("{nodes} of {} components", spec.components.len())));
    }
    for one in &spec.components {
        let each = per_node(one.gpus_per_node, one.ranks_per_node, one.cpus_per_node, one.memory_per_node);
        let models = match one.gpu_model.is_empty() {
            true => String::new(),
            false => format!(", GPUs of model {}", one.gpu_model.join(" or ")),
        };
        head.push((
            "Component",
            format!("{}: {}, {each}{models}", one.name, many(one.nodes as usize, "node")),
        ));
    }
    head.push(("Rails", rails(&spec)));
    head.push(("Priority", spec.priority.to_string()));
    head.push(("Service class", spec.service_class.clone()));
    head.push(("Licenses", licenses::asked(&spec)));
    if let Some(by) = &status.submitter {
        head.push(("Submitted by", format!("{} ({})", by.user, words::role(by.role))));
    }
    if let Some(run) = &status.schedule {
        head.push(("Schedule", format!("{}, run of {}", run.schedule, sharing::stamp(run.time.as_ref()))));
    }
    head.push(("Engine", engine(&spec)));
    head.push(("Work", work(&spec)));
    head.push(("Variables", secrets::env_from(&spec)));
    if let Some(limit) = spec.time_limit {
        head.push(("Time limit", human(Duration::try_from(limit).unwrap_or_default())));
    }
    head.extend(sharing::turn(job));
    head.push(("Attempt", status.attempt.to_string()));
    head.push(("Submitted", ago(status.submit_time.as_ref(), now)));
    head.push(("Started", ago(status.start_time.as_ref(), now)));
    head.push(("Ended", ago(status.end_time.as_ref(), now)));
    head.push(("Ran for", words::age(status.start_time.as_ref(), status.end_time.as_ref(), now)));
    let mut out = sheet(head);
    reasons(&mut out, "Reasons", &status.reasons);
    if let Some(place) = &status.placement {
        out.push('\n');
        out.push_str(&placement(place));
    }
    exits(&mut out, &status.exits);
    past_attempts(&mut out, &status.past_attempts);
    if let Some(result) = &status.result {
        out.push('\n');
        out.push_str(&measured(result));
    }
    out
}

fn rails(spec: &v1::JobSpec) -> String {
    let rails = spec.rails.unwrap_or_default();
    let drained = match rails.avoid_drained() {
        v1::rail_request::AvoidDrained::Required => ", none that is drained",
        _ => "",
    };
    let which = match (rails.required, rails.allow_partial) {
        _ if rails.none => "none".to_owned(),
        (0, false) => "all".to_owned(),
        (0, true) => "all to start, fewer if some are lost later".to_owned(),
        (count, true) => format!("any {count} that all nodes share to start, fewer if some are lost later"),
        (count, false) => format!("0 to {}", count - 1),
    };
    which + drained
}

/// What the job asks of its engines; nothing if it leaves all to them.
fn engine(spec: &v1::JobSpec) -> String {
    use v1::engine_options::Protection;
    let engine = spec.engine.clone().unwrap_or_default();
    let algorithm = format!("{} wherever it fits", engine.algorithm);
    let pairs = format!("{} queue pairs a link", engine.queue_pairs);
    let asked = [
        (engine.checksum, "checksums"),
        (engine.reproducible == Some(false), "not reproducible to the bit"),
        (!engine.algorithm.is_empty(), algorithm.as_str()),
        (engine.queue_pairs > 1, pairs.as_str()),
        (engine.protection() == Protection::Integrity, "rails verified"),
        (engine.protection() == Protection::Encrypted, "rails encrypted"),
    ];
    let asked: Vec<&str> = asked.into_iter().filter_map(|(said, words)| said.then_some(words)).collect();
    asked.join(", ")
}

/// Nodes, rails and the rank map.
#[must_use]
pub fn placement(placement: &v1::Placement) -> String {
    let rails: Vec<String> = placement.rails.iter().map(u32::to_string).collect();
    let pods = if placement.pods == 1 { "1 pod".to_owned() } else { format!("{} pods", placement.pods) };
    let mut out =
        format!("Placement: {} in {pods}, rails {}", many(placement.nodes.len(), "node"), rails.join(","));
    if placement.cut > 0 {
        let _ = write!(out, ", cut {}", placement.cut);
    }
    if let Some(place) = placement.nodes.first()
        && (place.cpus > 0 || place.memory_bytes > 0)
    {
        let _ = write!(out, ", {} on each", words::host(place.cpus, place.memory_bytes));
    }
    if !placement.spares.is_empty() {
        let spares: Vec<&str> = placement.spares.iter().map(|place| place.node.as_str()).collect();
        let _ = write!(out, ", spares {}", spares.join(","));
    }
    out.push('\n');
    for reason in &placement.reasons {
        let _ = writeln!(out, "  {}: {}", reason.code, reason.message);
    }
    let mut table = Table::new(["RANK", "NODE", "LOCAL", "GPU", "NIC", "RAIL", "LEAF"]);
    for rank in &placement.ranks {
        let gpus: Vec<String> = rank.gpus.iter().map(u32::to_string).collect();
        table.row([
            rank.rank.to_string(),
            rank.node.clone(),
            rank.local_rank.to_string(),
            gpus.join(","),
            rank.nic.clone(),
            rank.rail.to_string(),
            rank.leaf.clone(),
        ]);
    }
    out.push_str(&table.render("  "));
    out
}

/// The attempts before the present one.
fn past_attempts(out: &mut String, past: &[v1::PastAttempt]) {
    if past.is_empty() {
        return;
    }
    let mut table = Table::new(["ATTEMPT", "STARTED", "RAN", "NODES", "WHY-IT-ENDED"]);
    for one in past {
        let why: Vec<String> =
            one.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.message)).collect();
        table.row([
            one.attempt.to_string(),
            sharing::stamp(one.start_time.as_ref()),
            words::age(one.start_time.as_ref(), one.end_time.as_ref(), 0.0),
            proto_model::Names::of(&one.nodes).to_string(),
            why.join("; "),
        ]);
    }
    out.push_str("\nAttempts before (`railctl logs --attempt N` prints what they wrote):\n");
    out.push_str(&table.render("  "));
}

fn exits(out: &mut String, exits: &[v1::RankExit]) {
    let bad: Vec<&v1::RankExit> = exits.iter().filter(|exit| exit.code != 0 || exit.signal != 0).collect();
    if exits.is_empty() {
        return;
    }
    let _ = writeln!(out, "\nExits: {} ended, {} of them not with 0", many(exits.len(), "rank"), bad.len());
    for exit in bad.iter().take(20) {
        let how =
            if exit.signal == 0 { format!("code {}", exit.code) } else { format!("signal {}", exit.signal) };
        let _ = writeln!(out, "  rank {}: {how}", exit.rank);
    }
    if bad.len() > 20 {
        let _ = writeln!(out, "  and {} more", bad.len() - 20);
    }
}

/// What rank 0 of a collective measured.
#[must_use]
pub fn measured(result: &v1::CollectiveResult) -> String {
    let verdict = match (result.verified, result.mismatches) {
        (true, 0) => "verified".to_owned(),
        (false, 0) => "not checked".to_owned(),
        (_, wrong) => format!("WRONG: {} not as they must be", many(wrong, "element")),
    };
    let mut out =
        format!("Result: {} on {}, {verdict}\n", words::bytes(result.bytes), many(result.ranks, "rank"));
    let _ = writeln!(
        out,
        "  time     {:.0} us median ({:.0} min, {:.0} max) over {} iterations",
        result.time_us_median, result.time_us_min, result.time_us_max, result.iterations
    );
    let _ = writeln!(out, "  alg bw   {:.3} Gbit/s", result.alg_bw_gbps);
    let _ = writeln!(out, "  bus bw   {:.3} Gbit/s", result.bus_bw_gbps);
    let mut table = Table::new(["RAIL", "SENT", "RECEIVED", "BYTES SENT"]);
    for rail in &result.rails {
        table.row([
            rail.rail.to_string(),
            words::bytes(rail.tx_bytes),
            words::bytes(rail.rx_bytes),
            rail.tx_bytes.to_string(),
        ]);
    }
    if !result.rails.is_empty() {
        out.push_str(&table.render("  "));
    }
    out
}

/// Everything about a server.
#[must_use]
pub fn node(node: &v1::Node, now: f64) -> String {
    let status = node.status.clone().unwrap_or_default();
    let spec = node.spec.clone().unwrap_or_default();
    let inventory = status.inventory.clone().unwrap_or_default();
    let mut head = head(&node.metadata.clone().unwrap_or_default());
    head.push(("State", words::node_phase(status.phase).to_owned()));
    if spec.unschedulable {
        let why = if spec.reason.is_empty() { "yes" } else { &spec.reason };
        head.push(("Cordoned", why.to_owned()));
    }
    head.extend(sharing::node_marks(&spec));
    head.push(("Quarantined", status.quarantined.clone().map(|reason| reason.message).unwrap_or_default()));
    let failed: Vec<&str> = status.strikes.iter().map(|strike| strike.code.as_str()).collect();
    head.push(("Failed attempts", failed.join(", ")));
    head.push(("Provisional", status.provisional.join(", ")));
    head.push(("Heartbeat", ago(status.last_heartbeat.as_ref(), now)));
    head.push(("Agent", status.agent_version));
    let cpus: u32 = status.holds.iter().map(|hold| hold.cpus).sum();
    let memory: u64 = status.holds.iter().map(|hold| hold.memory_bytes).sum();
    head.push(("Held", words::host(cpus, memory)));
    head.push((
        "Machine",
        format!(
            "{} CPUs, {}, {} NUMA nodes",
            inventory.cpus,
            words::bytes(inventory.memory_bytes),
            inventory.numa_nodes
        ),
    ));
    let mut out = sheet(head);
    reasons(&mut out, "Reasons", &status.reasons);
    reasons(&mut out, "Evidence", &status.quarantine);
    let holder = |gpu: u32| {
        let hold = status.holds.iter().find(|hold| hold.gpus.contains(&gpu));
        hold.map(|hold| format!("{}/{}", hold.tenant, hold.job)).unwrap_or_default()
    };
    let picture = server::picture(&inventory);
    if !picture.is_empty() {
        let _ = write!(out, "\nRails:\n{picture}");
    }
    let _ = write!(out, "\n{}\n{}", gpus(&inventory, holder).render("  "), nics(&inventory).render("  "));
    out.push_str(&server::hardware(&inventory));
    let _ = write!(out, "\n{}", isolation::table(&inventory));
    let reported = server::reported(&inventory, now);
    if !inventory.neighbors.is_empty() {
        let mut neighbors = Table::new(["NETDEV", "HEARS", "PORT"]);
        for one in inventory.neighbors {
            neighbors.row([one.netdev, one.switch, one.port]);
        }
        let _ = write!(out, "\n{}", neighbors.render("  "));
    }
    out + &reported
}

fn gpus(inventory: &v1::Inventory, holder: impl Fn(u32) -> String) -> Table {
    let mut table = Table::new(["GPU", "MODEL", "PCI", "NUMA", "MEMORY", "HELD BY"]);
    for gpu in &inventory.gpus {
        let memory = if gpu.memory_bytes == 0 { String::new() } else { words::bytes(gpu.memory_bytes) };
        let numa = if gpu.numa_node < 0 { String::new() } else { gpu.numa_node.to_string() };
        table.row([
            gpu.index.to_string(),
            gpu.model.clone(),
            gpu.pci_address.clone(),
            numa,
            memory,
            holder(gpu.index),
        ]);
    }
    table
}

fn nics(inventory: &v1::Inventory) -> Table {
    let mut table =
        Table::new(["NIC", "RAIL", "STATE", "ADDRESS", "MTU", "MBIT/S", "NETDEV", "PCI", "NUMA", "GID"]);
    for nic in &inventory.nics {
        let known = |number: i32| if number < 0 { String::new() } else { number.to_string() };
        let state = if nic.up { "up" } else { "DOWN" };
        table.row([
            nic.device.clone(),
            nic.rail.to_string(),
            state.to_owned(),
            nic.address.clone(),
            nic.mtu.to_string(),
            nic.speed_mbps.to_string(),
            nic.netdev.clone(),
            nic.pci_address.clone(),
            known(nic.numa_node),
            known(nic.gid_index),
        ]);
    }
    table
}

/// Everything about a tenant.
#[must_use]
pub fn tenant(tenant: &v1::Tenant) -> String {
    let spec = tenant.spec.clone().unwrap_or_default();
    let status = tenant.status.unwrap_or_default();
    let quota = spec.quota.unwrap_or_default();
    let jobs = if quota.jobs == 0 { "the server's limit".to_owned() } else { quota.jobs.to_string() };
    let mut head = head(&tenant.metadata.clone().unwrap_or_default());
    head.push(("Description", spec.description));
    head.push(("GPUs", format!("{} of {} used", status.gpus_used, quota.gpus)));
    head.push(("Jobs", format!("{} active of {jobs}", status.jobs_active)));
    let room = match quota.stored_bytes {
        0 => "the server's limit".to_owned(),
        bytes => format!("{} MiB", bytes >> 20),
    };
    head.push(("Stored", format!("{:.1} MiB of {room}", status.stored_bytes as f64 / f64::from(1 << 20))));
    if quota.schedules > 0 {
        head.push(("Schedules", format!("at most {}", quota.schedules)));
    }
    let isolation = match status.isolation() {
        v1::IsolationPolicy::Required => "REQUIRED",
        v1::IsolationPolicy::BestEffort => "BEST_EFFORT",
        v1::IsolationPolicy::Unspecified => "",
    };
    head.push(("Isolation", isolation.to_owned()));
    head.push(("Guaranteed", sharing::shape(quota.guaranteed)));
    head.push(("Weight", if quota.weight > 1 { quota.weight.to_string() } else { String::new() }));
    sheet(head)
}

/// Everything about a queue.
#[must_use]
pub fn queue(queue: &v1::Queue) -> String {
    let mut facts = head(&queue.metadata.clone().unwrap_or_default());
    facts.extend(sharing::queue_facts(queue));
    sheet(facts)
}

/// Everything about a schedule.
#[must_use]
pub fn schedule(schedule: &v1::Schedule, now: f64) -> String {
    let mut facts = head(&schedule.metadata.clone().unwrap_or_default());
    facts.extend(schedules::schedule_facts(schedule, now));
    sheet(facts)
}

/// Everything about a service class.
#[must_use]
pub fn service_class(class: &v1::ServiceClass) -> String {
    let mut facts = head(&class.metadata.clone().unwrap_or_default());
    facts.extend(classes::class_facts(class));
    sheet(facts)
}

/// Everything about a license.
#[must_use]
pub fn license(license: &v1::License) -> String {
    let mut facts = head(&license.metadata.clone().unwrap_or_default());
    facts.extend(licenses::license_facts(license));
    sheet(facts)
}

/// Everything about a switch.
#[must_use]
pub fn switch(switch: &v1::Switch, now: f64) -> String {
    let mut facts = head(&switch.metadata.clone().unwrap_or_default());
    facts.extend(switches::switch_facts(switch, now));
    let mut out = sheet(facts);
    if let Some(ports) = switches::switch_ports(switch) {
        let _ = write!(out, "\n{}", ports.render(""));
    }
    if let Some(counters) = switches::switch_counters(switch) {
        let _ = write!(out, "\n{}", counters.render(""));
    }
    reasons(&mut out, "Reasons", &switch.status.clone().unwrap_or_default().reasons);
    out
}

/// Everything about a secret but its values.
#[must_use]
pub fn secret(secret: &v1::Secret) -> String {
    let mut facts = head(&secret.metadata.clone().unwrap_or_default());
    let (own, keys) = secrets::secret_facts(secret);
    facts.extend(own);
    format!("{}\n{}", sheet(facts), keys.render(""))
}

/// Everything about a config.
#[must_use]
pub fn config(config: &v1::Config) -> String {
    let mut facts = head(&config.metadata.clone().unwrap_or_default());
    let (own, values) = secrets::config_facts(config);
    facts.extend(own);
    format!("{}\n{}", sheet(facts), values.render(""))
}

/// Everything about a webhook.
#[must_use]
pub fn webhook(webhook: &v1::Webhook) -> String {
    let mut facts = head(&webhook.metadata.clone().unwrap_or_default());
    facts.extend(webhooks::webhook_facts(webhook));
    sheet(facts)
}

/// Everything about a reservation.
#[must_use]
pub fn reservation(reservation: &v1::Reservation) -> String {
    let mut facts = head(&reservation.metadata.clone().unwrap_or_default());
    facts.extend(sharing::reservation_facts(reservation));
    sheet(facts)
}

fn head(metadata: &v1::Metadata) -> Vec<(&'static str, String)> {
    let labels: Vec<String> = metadata.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut sorted = labels;
    sorted.sort();
    vec![
        ("Name", metadata.name.clone()),
        ("Tenant", metadata.tenant.clone()),
        ("Uid", metadata.uid.clone()),
        ("Labels", sorted.join(",")),
    ]
}

/// Facts that are there, one per line.
fn sheet(facts: Vec<(&'static str, String)>) -> String {
    let mut table = Table::bare();
    for (name, fact) in facts.into_iter().filter(|(_, fact)| !fact.is_empty()) {
        table.row([format!("{name}:"), fact]);
    }
    table.render("")
}

fn reasons(out: &mut String, title: &str, reasons: &[v1::Reason]) {
    if reasons.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{title}:");
    for reason in reasons {
        let count = if reason.count == 0 { String::new() } else { format!(" ({})", reason.count) };
        let scope = if reason.scope.is_empty() { String::new() } else { format!(" [{}]", reason.scope) };
        let _ = writeln!(out, "  {}{count}{scope}: {}", reason.code, reason.message);
    }
}

fn ago(time: Option<&prost_types::Timestamp>, now: f64) -> String {
    let Some(stamp) = time else { return String::new() };
    let text = time::OffsetDateTime::from_unix_timestamp(stamp.seconds)
        .ok()
        .and_then(|at| at.format(&time::format_description::well_known::Rfc3339).ok())
        .unwrap_or_default();
    format!("{text} ({} ago)", words::age(time, None, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::{jobs::tests::running, nodes::tests::node as some_node};

    #[test]
    fn a_job_has_its_rank_map() {
        let text = job(&running(), 1010.0);
        let table = "  \
  RANK  NODE  LOCAL  GPU  NIC    RAIL  LEAF
  0     n0    0      0    rail0  0     leaf-0
  1     n0    1      1    rail1  1     leaf-1
";
        assert!(text.contains(table.trim_start_matches("  ")), "{text}");
        assert!(text.contains("Placement: 2 nodes in 1 pod, rails 0,1"), "{text}");
        assert!(text.contains("Started:    1970-01-01T00:16:42Z (8s ago)"), "{text}");
    }

    #[test]
    fn what_a_job_asks_of_its_engines_is_told_if_it_asks() {
        let mut asks = running();
        assert!(!job(&asks, 1010.0).contains("Engine:"));
        asks.spec.get_or_insert_default().engine = Some(v1::EngineOptions {
            checksum: true,
            reproducible: Some(false),
            algorithm: "ring".into(),
            queue_pairs: 2,
            protection: v1::engine_options::Protection::Encrypted.into(),
        });
        let text = job(&asks, 1010.0);
        assert!(
            text.contains("Engine:     checksums, not reproducible to the bit, ring wherever it fits, 2 queue pairs a link, rails encrypted\n"),
            "{text}"
        );
    }

    #[test]
    fn cpus_and_memory_are_told_if_they_are_asked_for() {
        let mut asks = running();
        assert!(!job(&asks, 1010.0).contains("CPU"));
        let gang = asks.spec.get_or_insert_default().gang.get_or_insert_default();
        (gang.cpus_per_node, gang.memory_per_node) = (32, 64 << 30);
        let placement = asks.status.get_or_insert_default().placement.get_or_insert_default();
        placement.nodes.iter_mut().for_each(|place| (place.cpus, place.memory_bytes) = (32, 64 << 30));
        let text = job(&asks, 1010.0);
        assert!(text.contains("2 ranks per node, 32 CPUs, 64 GiB of memory per node\n"), "{text}");
        assert!(text.contains("rails 0,1, 32 CPUs, 64 GiB of memory on each\n"), "{text}");
        let mut held = some_node("n1");
        held.status.get_or_insert_default().holds[0].memory_bytes = 4 << 30;
        assert!(node(&held, 0.0).contains("4 GiB of memory\n"));
    }

    #[test]
    fn a_result_says_whether_it_is_right() {
        let rails = vec![v1::RailBytes { rail: 0, tx_bytes: 1024, rx_bytes: 2048 }];
        let mut result =
            v1::CollectiveResult { ranks: 4, bytes: 64 << 20, verified: true, rails, ..Default::default() };
        assert!(measured(&result).starts_with("Result: 64 MiB on 4 ranks, verified\n"));
        result.mismatches = 3;
        assert!(measured(&result).contains("WRONG: 3 elements"));
    }

    #[test]
    fn a_node_has_its_devices_and_who_holds_them() {
        let text = node(&some_node("n1"), 0.0);
        assert!(text.contains("Cordoned:  CRC errors"), "{text}");
        assert!(text.contains("nlp/sum") && text.contains("DOWN"), "{text}");
        assert!(text.contains("\nRails:\n") && text.contains("rail1   -x x-  rail 1"), "{text}");
    }

    #[test]
    fn bad_exits_are_listed() {
        let exit = |rank, code, signal| v1::RankExit { rank, code, signal, ..v1::RankExit::default() };
        let mut out = String::new();
        exits(&mut out, &[exit(0, 0, 0), exit(1, 3, 0), exit(2, 0, 9)]);
        assert_eq!(
            out,
            "\nExits: 3 ranks ended, 2 of them not with 0\n  rank 1: code 3\n  rank 2: signal 9\n"
        );
    }
}
