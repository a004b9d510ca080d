//! C10: no tenant ever waits longer than it would alone in a cluster of its guarantee.

use std::time::Duration;

use controller_queue::{
    Entry, Policy, QueueState, TenantDef,
    trial::{Trial, TrialJob},
};
use controller_scheduler::{Gate, Need, RailNeed, Snapshot};
use controller_topology::RailSet;
use proto_model::{JobId, JobName, JobUid, Shape, TenantName, Timestamp, Within};
use serde_json::json;

use super::{Bench, site};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// Tenants; what each is guaranteed is drawn anew for every replay.
const TENANTS: [&str; 3] = ["a", "b", "c"];

/// Pods of so many nodes each.
const PODS: [u32; 3] = [4, 4, 4];

const JOBS: u64 = 40;

fn policy(reclaim: bool) -> Policy {
    Policy { step: Duration::from_secs(1), reclaim, grow_after: None, ..Policy::default() }
}

fn snapshot() -> Snapshot {
    let sizes = PODS.iter().map(|size| vec![*size]).collect();
    let mut snapshot = site::cluster(&sizes, 1);
    let names: Vec<_> = snapshot
        .nodes()
        .map(|(_, server, _)| (server.name.clone(), std::sync::Arc::clone(&server.inventory)))
        .collect();
    for (name, inventory) in names {
        let mut inventory = inventory.as_ref().clone();
        inventory.nics.iter_mut().for_each(|nic| nic.up = true);
        snapshot.set_node(&name, &std::sync::Arc::new(inventory), Gate::default());
    }
    snapshot
}

fn shapes(dice: &mut site::Dice) -> [Shape; 3] {
    let shape = |pods, nodes, gpus| Shape { pods, nodes, gpus };
    match dice.below(5) {
        0 => [shape(1, 0, 0), shape(0, 4, 0), shape(0, 2, 0)],
        1 => [shape(1, 1, 0), shape(1, 0, 0), shape(0, 0, 0)],
        2 => [shape(0, 3, 2), shape(0, 2, 5), shape(1, 0, 0)],
        3 => [shape(1, 0, 0), shape(1, 0, 0), shape(1, 0, 0)],
        _ => [shape(0, 5, 0), shape(0, 5, 0), shape(0, 2, 0)],
    }
}

fn jobs(dice: &mut site::Dice, tenants: &[TenantName]) -> Result<Vec<TrialJob>, String> {
    let mut now = Timestamp(1_000_000);
    let mut list = Vec::new();
    for number in 0..JOBS {
        now = now.plus(Duration::from_secs(u64::from(dice.below(25))));
        let mut need = if dice.below(4) == 0 {
            let gpus = 1 + dice.below(7);
            Need::plain(1, gpus, RailNeed::Any(gpus))
        } else {
            let most = if dice.below(5) == 0 { 6 } else { 3 };
            Need::plain(1 + dice.below(most), 8, RailNeed::Exactly(RailSet::first(site::RAILS)))
        };
        if dice.below(6) == 0 {
            need.within = Within::Pod;
        }
        let name = JobName::new(format!("job{number}")).map_err(|error| error.to_string())?;
        let id = JobId { tenant: dice.one(tenants).clone(), name };
        let uid = JobUid::ordered(now, u16::try_from(number).unwrap_or(0), number.to_be_bytes());
        let mut entry = Entry::plain(uid, id, need, now);
        let limit = Duration::from_secs(u64::from(1 + dice.below(200)));
        entry.limit = Some(limit);
        entry.priority = *dice.one(&[0, 0, 0, 5, -5]);
        entry.preemption.preemptible = dice.below(3) == 0;
        list.push(TrialJob { entry, length: limit / (1 + dice.below(3)) });
    }
    Ok(list)
}

/// Measures row C10 by replays of random queues.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn sharing(row: &Row, bench: &Bench) -> Result<(), String> {
    let replays = if bench.quick { 500 } else { 10_000 };
    let tenants: Vec<TenantName> = TENANTS
        .iter()
        .map(|name| TenantName::new(name).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;
    let cluster = snapshot();
    let (mut anomalies, mut faults, mut compared, mut earlier, mut stopped) =
        (0_u64, 0_u64, 0_u64, 0_u64, 0_u64);
    let cpu = Cpu::start();
    for seed in 0..replays {
        let mut dice = site::Dice::new(seed + 1);
        let mut queue_state = QueueState::new(policy(true));
        for (name, guaranteed) in tenants.iter().zip(shapes(&mut dice)) {
            queue_state.set_tenant(name, Some(TenantDef { guaranteed, ..TenantDef::default() }));
        }
        let list = jobs(&mut dice, &tenants)?;
        let mut shared = Trial::new(queue_state, cluster.clone());
        shared.run(&list);
        faults += shared.faults.len() as u64;
        if let Some(fault) = shared.faults.first() {
            eprintln!("seed {seed}: {fault}");
        }
        for name in &tenants {
            let Some(site) = shared.queue_state.site(name) else { continue };
            let mut queue_state = QueueState::new(policy(false));
            queue_state.set_tenant(name, Some(TenantDef::default()));
            let own: Vec<TrialJob> =
                list.iter().filter(|job| job.entry.id.tenant == *name).cloned().collect();
            let mut alone = Trial::new(queue_state, site.cluster());
            alone.run(&own);
            for (uid, private) in &alone.rows {
                let Some(private) = private.starts.first() else { continue };
                let found = shared.rows.get(uid);
                let real = found.and_then(|row| row.starts.first());
                compared += 1;
                stopped += found.map_or(0, |row| row.starts.len().saturating_sub(1) as u64);
                earlier += u64::from(real.is_some_and(|real| real < private));
                if real.is_none_or(|real| real > private) {
                    anomalies += 1;
                    eprintln!(
                        "seed {seed}: job {uid} of tenant {name} starts at {real:?} in place of {private}"
                    );
                }
            }
        }
    }
    let sample = Sample::new(vec![anomalies as f64]);
    row.line(&Line {
        case: &format!("jobs that start later than in a private cluster of the guarantee, {replays} replays"),
        value: sample.median(),
        unit: "anomalies",
        goal: Goal::AtMost(0.0),
        sample: &sample,
        cpu: cpu.cores(),
        peers: json!({"compared": compared, "earlier": earlier, "stopped_and_started_again": stopped, "faults_of_the_checker": faults}),
    });
    if faults > 0 { Err(format!("{faults} faults of the independent checker")) } else { Ok(()) }
}
