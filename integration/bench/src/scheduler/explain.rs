//! C8: how long the whole reason takes, in a cluster of a million GPUs.

use std::time::Instant;

use controller_scheduler::{Choice, Explanation, Need, Pick, Placer, QueueFacts, Snapshot, explain, rankmap};
use controller_topology::NodeIx;
use proto_model::{CommandSpec, Gang, JobSpec, Placement, TenantName, Work};
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// A job that asks for so many nodes; what it runs does not matter.
pub fn spec(nodes: u32) -> JobSpec {
    let work = Work::Command(CommandSpec {
        argv: vec!["train".into()],
        env: std::collections::BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    JobSpec::new(Gang::new(nodes, 8, 8), work)
}

/// A gang that holds its place.
pub struct Running {
    /// What it asked for.
    pub need: Need,
    /// The nodes and GPUs that it holds.
    pub placement: Placement,
    /// The same by number, spares too.
    pub nodes: Vec<NodeIx>,
}

/// Fills a cluster with gangs of mixed sizes up to a share of its nodes.
///
/// # Errors
/// Never: the name of the tenant is a valid one.
pub fn fill(
    snapshot: &mut Snapshot,
    dice: &mut site::Dice,
    sizes: &[u32],
    share: f64,
) -> Result<Vec<Running>, String> {
    let tenant = TenantName::new("site").map_err(|error| error.to_string())?;
    let (mut placer, mut choice) = (Placer::default(), Choice::default());
    let (mut running, mut used) = (Vec::new(), 0_usize);
    let all = snapshot.topology().len();
    for _ in 0..all {
        if used as f64 >= all as f64 * share {
            break;
        }
        let nodes = *dice.one(sizes);
        let need = site::needs(dice, snapshot, nodes);
        if !placer.choose(snapshot.capacity_index(), &need, None, &mut choice) {
            continue;
        }
        let placement = rankmap::placement(snapshot, &spec(nodes), &choice);
        snapshot.hold(&tenant, &placement);
        let nodes: Vec<NodeIx> =
            choice.nodes.iter().chain(&choice.spares).map(|pick: &Pick| pick.node).collect();
        used += nodes.len();
        running.push(Running { need, placement, nodes });
    }
    Ok(running)
}

/// C8: p99 of an explanation with holders and relaxations at 125,000 nodes. That it is complete is what the crate's
/// tests compare with brute force.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn explanations(row: &Row, bench: &Bench) -> Result<(), String> {
    for (name, sizes) in
        [("pods of 64", site::even(125_000, 1, 64)), ("pods of 8 x 32", site::even(125_000, 8, 32))]
    {
        let mut snapshot = site::cluster(&sizes, 5);
        let mut dice = site::Dice::new(6);
        let running = fill(&mut snapshot, &mut dice, &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512], 0.97)?;
        let count = if bench.quick { 40 } else { 400 };
        let (mut times, mut blockers, mut helped, mut tried) = (Vec::new(), 0, 0, 0);
        let cpu = Cpu::start();
        while times.len() < count && tried < count * 20 {
            tried += 1;
            let nodes = *dice.one(&[8, 64, 256, 512, 1024, 4096, 8192]);
            let need = site::needs(&mut dice, &snapshot, nodes);
            let holders = running.iter().enumerate().map(|(job, gang)| (job, gang.nodes.iter().copied()));
            let begin = Instant::now();
            let found: Explanation<usize> =
                explain(&snapshot, &mut Placer::default(), &need, &QueueFacts::default(), holders);
            let took = begin.elapsed().as_secs_f64() * 1e3;
            if !found.starts {
                times.push(took);
                blockers += found.blockers.len();
                helped += usize::from(!found.relaxations.is_empty());
            }
        }
        if times.is_empty() {
            return Err("no job had to wait".to_owned());
        }
        let sample = Sample::new(times);
        let peers = json!({
            "p50": sample.quantile(0.5), "max": sample.quantile(1.0), "running": running.len(),
            "blockers_mean": blockers as f64 / sample.len() as f64, "with_relaxations": helped as f64 / sample.len() as f64,
        });
        let case = format!("p99 of an explanation, 125,000 nodes, {name}");
        row.line(&Line {
            case: &case,
            value: sample.quantile(0.99),
            unit: "ms",
            goal: Goal::AtMost(50.0),
            sample: &sample,
            cpu: cpu.cores(),
            peers,
        });
    }
    Ok(())
}
