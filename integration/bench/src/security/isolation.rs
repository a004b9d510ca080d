//! X3: what isolation costs the start of a job. Two clusters side by side, of which one runs ranks without any, take turns with the same
//! job: pairs of starts in one run, so that what else the machine does meets both.

use integration_harness::{Access, Cluster, Shape};
use proto_wire::v1::job_service_client::JobServiceClient;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::{
    control::one_start,
    report::{Cpu, Goal, Line, Row, Sample, round},
};

/// Most that the middle start may take longer, in milliseconds.
const MOST: f64 = 5.0;

/// Starts jobs in turn.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &Row<'_>, quick: bool) -> Result<(), String> {
    const CASE: &str = "p50 of submit to all ranks started, 4 nodes, full isolation less none";
    if !rustix::process::geteuid().is_root() {
        row.void(CASE, "without root ranks have no users of their own");
        return Ok(());
    }
    let runs = if quick { 20 } else { 200 };
    let off = ["RAIL_NO_RANK_NAMESPACES", "RAIL_NO_RANK_SECCOMP", "RAIL_NO_CGROUPS"];
    let env = off.map(|name| (name.to_owned(), "true".to_owned())).to_vec();
    let plain = Shape { env, ..Shape::default() };
    let clusters = [Cluster::up(&Shape { safe_ranks: true, ..Shape::default() })?, Cluster::up(&plain)?];
    let features = clusters.iter().map(active).collect::<Result<Vec<_>, String>>()?;
    let accesses = clusters.iter().map(Access::of).collect::<Result<Vec<_>, String>>()?;
    let runtime = Runtime::new().map_err(|error| error.to_string())?;
    let cpu = Cpu::start();
    let taken = runtime.block_on(async {
        let mut jobs = Vec::new();
        for access in &accesses {
            jobs.push(JobServiceClient::new(access.client()?));
        }
        let mut taken = [Vec::new(), Vec::new()];
        for run in 0..runs + 2 {
            // Who begins changes, and the first pairs only warm up.
            for turn in 0..2 {
                let which = (run + turn) % 2;
                let start = one_start(&mut jobs[which], &format!("x3-{run}")).await?;
                if run >= 2 {
                    taken[which].push(start.as_secs_f64() * 1e3);
                }
            }
        }
        Ok::<_, String>(taken)
    })?;
    let [isolated, plain] = taken.map(Sample::new);
    let value = isolated.median() - plain.median();
    let peers = json!({
        "isolated": {"p50_ms": round(isolated.median()), "p99_ms": round(isolated.quantile(0.99)), "features": features[0]},
        "none": {"p50_ms": round(plain.median()), "p99_ms": round(plain.quantile(0.99)), "features": features[1]},
    });
    let line = Line {
        case: CASE,
        value,
        unit: "ms",
        goal: Goal::AtMost(MOST),
        sample: &isolated,
        cpu: cpu.cores(),
        peers,
    };
    if features[0].len() > features[1].len() {
        row.line(&line);
    } else {
        row.spoilt(&line, "both clusters give the same isolation");
    }
    Ok(())
}

/// What a cluster's first server says that it gives.
///
/// # Errors
/// `railctl` fails.
pub fn active(cluster: &Cluster) -> Result<Vec<String>, String> {
    let node = cluster.json(&["get", "nodes", "n0"])?;
    let features =
        node["status"]["inventory"]["isolation"]["features"].as_array().cloned().unwrap_or_default();
    let active = features.iter().filter(|feature| feature["active"] == true);
    Ok(active.filter_map(|feature| feature["kind"].as_str().map(str::to_owned)).collect())
}
