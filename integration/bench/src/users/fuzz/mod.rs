//! Row Y3: command lines, REST requests and gRPC messages with anything in them, against a local cluster: nothing may crash, hang, or
//! fail as if it were the server's fault, and every refusal names its field.

mod calls;
mod dice;
mod lines;
mod message;
mod stage;
mod tally;

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use integration_harness::{Cluster, Shape};
use serde_json::json;
use tokio::runtime::Runtime;

use super::Bench;
use crate::{
    command_job::text,
    report::{self, Cpu, Goal, Line, Sample},
};
use dice::Dice;
use stage::Stage;
use tally::{CALLERS, Fault, SEED, Tally};

/// Measures all of it.
pub fn measure(row: &report::Row<'_>, bench: &Bench) -> Result<(), String> {
    let (all, lines) = if bench.quick { (2_000, 200) } else { (100_000, 2_000) };
    eprintln!("Y3: seed {SEED}");
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, safe_ranks: true, ..Shape::default() })?;
    let runtime = Runtime::new().map_err(text)?;
    let stage = Stage::furnish(&cluster)?;
    let each = (all - lines) / 2;
    let cpu = Cpu::start();
    let reported = |name: &str, part: Result<Tally, String>| {
        let mut tally = part?;
        stage.crashes(&mut tally);
        notify(row, name, &tally, cpu.cores());
        Ok::<_, String>(())
    };
    reported("command lines", lines::run(&stage, lines))?;
    reported("gRPC messages", runtime.block_on(calls(&stage, each, Protocol::Grpc)))?;
    reported("REST requests", runtime.block_on(calls(&stage, each, Protocol::Rest)))
}

fn notify(row: &report::Row<'_>, name: &str, tally: &Tally, cpu: f64) {
    for (fault, words) in Fault::ALL {
        let of_lines = name == "command lines";
        if fault == if of_lines { Fault::Server } else { Fault::ExitCode } {
            continue;
        }
        let (count, examples) = tally.faults.get(&fault).cloned().unwrap_or_default();
        let value = count as f64;
        let sample = Sample::new(vec![value]);
        let mut peers = json!({"inputs": tally.inputs, "seed": SEED, "examples": examples});
        if fault == Fault::Crash {
            peers["answers"] = json!(tally.answers);
        }
        let case = format!("{} {name}: {words}", tally.inputs);
        row.line(&Line {
            case: &case,
            value,
            unit: "",
            goal: Goal::AtMost(0.0),
            sample: &sample,
            cpu,
            peers,
        });
    }
}

/// By which way messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Grpc,
    Rest,
}

async fn calls(stage: &Stage<'_>, inputs: u64, way: Protocol) -> Result<Tally, String> {
    let callers = Arc::new(stage.callers().await?);
    let left = Arc::new(AtomicU64::new(inputs));
    let mut tasks = tokio::task::JoinSet::new();
    for stream in 0..CALLERS {
        let (callers, left) = (Arc::clone(&callers), Arc::clone(&left));
        let share = inputs / CALLERS + u64::from(stream < inputs % CALLERS);
        tasks.spawn(async move {
            let mut dice = Dice::new(SEED, stream * 2 + u64::from(way == Protocol::Rest));
            let mut tally = Tally::default();
            for _ in 0..share {
                let Some(caller) = dice.of(callers.as_slice()) else { break };
                match way {
                    Protocol::Grpc => caller.grpc(&mut dice, &mut tally).await,
                    Protocol::Rest => caller.rest(&mut dice, &mut tally).await,
                }
                if left.fetch_sub(1, Ordering::Relaxed) % 1000 == 0
                    && let Some(admin) = callers.first()
                {
                    admin.sweep().await;
                }
            }
            tally
        });
    }
    let mut tally = Tally::default();
    while let Some(part) = tasks.join_next().await {
        tally.add(part.map_err(text)?);
    }
    Ok(tally)
}
