//! Servers that cannot keep two tenants apart: the plan knows that what is free beside one tenant is not for another.

use std::{collections::BTreeMap, sync::Arc};

use controller_scheduler::{Need, Snapshot};
use proto_model::{Inventory, Isolation};
use proto_random::Random;

use super::world::{at, cluster, job_of, nodes, part, queue_state, secs, tenant};
use crate::{
    Entry, TenantDef,
    trial::{Trial, TrialJob},
};

/// Nodes of which the first ones have no user for each attempt.
fn site(pods: &[u32], apart: usize) -> Snapshot {
    let mut snapshot = cluster(pods);
    let servers: Vec<_> =
        snapshot.nodes().map(|(_, server, _)| (server.name.clone(), server.inventory.clone())).collect();
    for (name, inventory) in servers.into_iter().take(apart) {
        let inventory = Inventory { isolation: Isolation::default(), ..Inventory::clone(&inventory) };
        snapshot.set_node(&name, &Arc::new(inventory), controller_scheduler::Gate::default());
    }
    for who in ["a", "b"] {
        snapshot.set_quota(&tenant(who), Some(1000));
    }
    snapshot
}

fn job(who: &str, number: u64, need: Need, submitted: u64, length: u64) -> TrialJob {
    let job = job_of(who, number, need, submitted, length);
    let need = Need { tenant: Some(tenant(who)), ..job.entry.need.clone() };
    TrialJob { entry: Entry { need, ..job.entry }, ..job }
}

fn trial(snapshot: Snapshot) -> Trial {
    let mut queue_state = queue_state();
    for who in ["a", "b"] {
        queue_state.set_tenant(&tenant(who), Some(TenantDef::default()));
    }
    Trial::new(queue_state, snapshot)
}

/// A part of a node beside another tenant's is planned as a node of its own: whole nodes behind it do not keep it waiting for ever.
#[test]
fn who_cannot_share_is_planned_for_and_not_overtaken() {
    let mut jobs =
        vec![job("a", 1, part(1), 0, 1000), job("a", 2, nodes(1), 0, 10), job("b", 3, part(1), 1, 10)];
    // They would always take the other node as soon as it is free.
    jobs.extend((4..30).map(|number| job("a", number, nodes(1), 2, 10)));
    let mut trial = trial(site(&[2], 2));
    trial.forecasts = true;
    trial.run(&jobs);
    assert_eq!(trial.faults, Vec::<String>::new());
    let row = &trial.rows[&jobs[2].entry.uid];
    assert_eq!(row.starts, [at(10)], "as soon as the second node is free");
    assert_eq!(row.planned, Some(at(10)));
    // Where they can share it starts at once.
    let mut shared = self::trial(site(&[2], 0));
    shared.run(&jobs);
    assert_eq!(shared.rows[&jobs[2].entry.uid].starts, [at(1)]);
}

/// Random jobs of two tenants on servers of both kinds: every start is proved, no two tenants meet where they must not, and all
/// jobs run to their end.
#[test]
fn no_two_tenants_meet_and_nobody_starves() {
    for seed in 0..40 {
        let mut dice = Random::new(seed);
        let apart = dice.below(5) as usize;
        let mut now = 0;
        let jobs: Vec<TrialJob> = (0..60)
            .map(|number| {
                now += dice.below(8);
                let need = match dice.below(3) {
                    0 => nodes(1 + u32::try_from(dice.below(3)).unwrap()),
                    _ => part(1 + u32::try_from(dice.below(3)).unwrap()),
                };
                let who = if dice.below(2) == 0 { "a" } else { "b" };
                job(who, number, need, now, 1 + dice.below(60))
            })
            .collect();
        let mut trial = trial(site(&[2, 2], apart));
        trial.forecasts = seed % 4 == 0;
        trial.run(&jobs);
        assert_eq!(trial.faults, Vec::<String>::new(), "seed {seed}");
        let mut waits: BTreeMap<u64, usize> = BTreeMap::new();
        for (number, job) in jobs.iter().enumerate() {
            let row = &trial.rows[&job.entry.uid];
            assert_eq!(row.starts.len(), 1, "seed {seed}, job {number}");
            assert!(row.end.is_some());
            *waits.entry(row.starts[0].since(job.entry.submitted).as_secs()).or_default() += 1;
        }
        assert!(waits.keys().all(|wait| *wait < secs(4000).as_secs()));
    }
}
