//! C11: how long it takes to choose replacements, and that healthy ranks stay where they are.

use std::{collections::BTreeMap, time::Instant};

use controller_scheduler::{FailureScope, NodeSet, Placer, RepairRequest, Sources, prove_repair, repair};
use proto_model::NodeName;
use serde_json::json;

use super::{
    Bench,
    explain::{Running, fill},
    site,
};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// C11: the longest of many repairs of gangs that lose one node or eight at once, at 10,000 nodes.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn repairs(row: &Row, bench: &Bench) -> Result<(), String> {
    for (name, sizes) in
        [("pods of 64", site::even(10_000, 1, 64)), ("pods of 8 x 32", site::even(10_000, 8, 32))]
    {
        let mut snapshot = site::cluster(&sizes, 7);
        let mut dice = site::Dice::new(8);
        let running = fill(&mut snapshot, &mut dice, &[16, 32, 64, 128, 256, 512, 1024], 0.9)?;
        let gangs: Vec<&Running> = running.iter().filter(|gang| gang.placement.nodes.len() >= 16).collect();
        if gangs.is_empty() {
            return Err("no gang was placed".to_owned());
        }
        for failures in [1_u32, 8] {
            let count = if bench.quick { 200 } else { 4_000 };
            let (mut times, mut repaired, mut touched, mut unproved) = (Vec::new(), 0_u32, 0_u32, 0_u32);
            let (kept, mut placer) = (NodeSet::default(), Placer::default());
            let cpu = Cpu::start();
            for _ in 0..count {
                let gang = *dice.one(&gangs);
                let mut lost: BTreeMap<NodeName, FailureScope> = BTreeMap::new();
                while lost.len() < failures as usize {
                    lost.insert(dice.one(&gang.placement.nodes).node.clone(), FailureScope::Node);
                }
                let request = RepairRequest {
                    need: &gang.need,
                    placement: &gang.placement,
                    lost: &lost,
                    sources: Sources { spares: true, free: true },
                    kept: &kept,
                };
                let begin = Instant::now();
                let done = repair(&snapshot, &mut placer, &request);
                times.push(begin.elapsed().as_secs_f64() * 1e3);
                let Ok(done) = done else { continue };
                repaired += 1;
                unproved += u32::from(prove_repair(&snapshot, &request, &done).is_err());
                let pairs = gang.placement.ranks.iter().zip(&done.placement.ranks);
                touched += u32::from(
                    pairs.into_iter().any(|(old, new)| old != new && !lost.contains_key(&old.node)),
                );
            }
            let sample = Sample::new(times);
            let peers = json!({
                "p50": sample.quantile(0.5), "p99": sample.quantile(0.99), "repaired_share": f64::from(repaired) / f64::from(count),
                "healthy_ranks_touched": touched, "unproved": unproved,
            });
            let case = format!("longest choice of {failures} replacements at once, 10,000 nodes, {name}");
            row.line(&Line {
                case: &case,
                value: sample.quantile(1.0),
                unit: "ms",
                goal: Goal::AtMost(10.0),
                sample: &sample,
                cpu: cpu.cores(),
                peers,
            });
        }
    }
    Ok(())
}
