//! Certification before rank 0, E8: what it takes a local cluster with real processes, and 512 nodes in the model.

use std::time::Duration;

use controller_certify::{
    Budget, Limits, judge,
    model::{Fault, World},
    plan,
};
use integration_harness::{Cluster, Shape};
use serde_json::{Value, json};

use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Servers of the local cluster, their rails, and its jobs.
const LOCAL: (u32, u32, u32) = (3, 4, 3);
const SOON: Duration = Duration::from_secs(60);
const JOB: &str = "gang: {nodes: 3, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 65536, iterations: 1, verify: true}";

/// Measures row E8: a local cluster, and the model.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn certifying(row: &Row<'_>, _quick: bool) -> Result<(), String> {
    local(row)?;
    modelled(row);
    Ok(())
}

/// By the job's own record: from when it was submitted, which is before it is placed, until it is certified and its ranks may start.
fn local(row: &Row<'_>) -> Result<(), String> {
    let (nodes, rails, jobs) = LOCAL;
    let env = vec![("RAIL_CONTROLLER_CERTIFICATION".to_owned(), "require".to_owned())];
    let cluster = Cluster::up(&Shape { nodes, rails, gpus: 1, env, ..Shape::default() })?;
    let cpu = Cpu::start();
    let mut all = Vec::new();
    for n in 0..jobs {
        let name = format!("job{n}");
        cluster.submit(&name, JOB)?;
        let job = cluster.wait_for(&name, &["COMPLETED", "FAILED"], SOON)?;
        let reasons = job["status"]["placement"]["reasons"].as_array().cloned().unwrap_or_default();
        let certified = reasons.iter().find(|reason| reason["code"] == "Certified");
        let certified = certified.ok_or_else(|| format!("{name} is not certified: {reasons:?}"))?;
        all.push(seconds(&job["status"]["submitTime"], &certified["since"])?);
    }
    let sample = Sample::new(all);
    row.line(&Line {
        case: "local cluster, 3 servers with 4 rails: submitted until certified",
        value: sample.median(),
        unit: "s",
        goal: Goal::AtMost(1.0),
        sample: &sample,
        cpu: cpu.cores(),
        peers: json!({"seconds": sample.spread(), "jobs": jobs}),
    });
    Ok(())
}

/// The seconds from one time of a record to another one within a day.
fn seconds(from: &Value, to: &Value) -> Result<f64, String> {
    let of_day = |time: &Value| {
        let clock = time.as_str()?.strip_suffix('Z')?.split_once('T')?.1;
        let parts: Vec<f64> = clock.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
        let [hours, minutes, seconds] = parts[..] else { return None };
        Some((hours * 60.0 + minutes) * 60.0 + seconds)
    };
    let span = of_day(from).zip(of_day(to)).map(|(from, to)| (to - from).rem_euclid(86_400.0));
    span.ok_or_else(|| format!("{from} or {to} is no time"))
}

/// 512 nodes with 8 rails: healthy, and with faults that cost the most time; what is doubtful is measured twice.
fn modelled(row: &Row<'_>) {
    let silent = (0..32).map(|step| Fault::Silent { node: step * 16 + 5 });
    let slow = (0..64).map(|step| Fault::SlowRail { node: step * 8 + 2, rail: 3, share: 0.1 });
    for (case, faults) in [
        ("512 nodes in the model, healthy", Vec::new()),
        ("512 nodes in the model, one of sixteen silent", silent.collect()),
        ("512 nodes in the model, one of eight slow on a rail", slow.collect::<Vec<_>>()),
    ] {
        let cpu = Cpu::start();
        let world = World { faults, ..World::new(512, 8, 32) };
        let rounds = plan(&world.gang, 42, Budget::default());
        let outcome = world.measure(&rounds, 43);
        let certificate = judge(&world.gang, &rounds, &outcome.reports, &Limits::default());
        let series = if certificate.is_doubtful() { 2 } else { 1 };
        let took = (outcome.took * series).as_secs_f64();
        row.line(&Line {
            case,
            value: took,
            unit: "s",
            goal: Goal::AtMost(30.0),
            sample: &Sample::new(vec![took]),
            cpu: cpu.cores(),
            peers: json!({"series": series, "findings": certificate.findings.len(), "rounds": rounds.rounds.len()}),
        });
    }
}
