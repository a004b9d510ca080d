//! Gangs whose nodes are not all alike: taken, placed, reported on by ranks of each node, and changed only as a whole.

use std::collections::BTreeSet;

use proto_model::{Component, ComponentName, Phase, RankExit};

use super::*;
use crate::{JobChange, JobUpdate};

/// Name, nodes, GPUs and ranks of each node.
pub(super) fn of(components: &[(&str, u32, u32, u32)]) -> Vec<Component> {
    let component = |(name, nodes, gpus, ranks): &(&str, u32, u32, u32)| Component {
        name: ComponentName::new(name).unwrap(),
        nodes: *nodes,
        gpus_per_node: *gpus,
        ranks_per_node: *ranks,
        cpus_per_node: 0,
        memory_per_node: 0,
        gpu_models: BTreeSet::new(),
    };
    components.iter().map(component).collect()
}

fn asks(components: &[(&str, u32, u32, u32)]) -> JobSpec {
    let components = of(components);
    let gang = Component::gang(&components);
    JobSpec { gang, components, ..spec(1, 1) }
}

/// The learner has two ranks on its node, the actors one on each.
fn mixed() -> JobSpec {
    asks(&[("learner", 1, 4, 2), ("actor", 2, 1, 1)])
}

fn exits(w: &World, text: &str, n: usize, ranks: &[u32]) -> Observation {
    let exit = |rank: &u32| RankExit {
        rank: *rank,
        code: 0,
        signal: 0,
        time: w.now,
        usage: proto_model::RankUsage::default(),
    };
    Observation { exits: ranks.iter().map(exit).collect(), ..w.seen(text, n, Observed::Ended) }
}

#[test]
fn it_runs_with_the_ranks_of_each_node() {
    let mut w = World::new();
    w.submit("a", mixed());
    assert_eq!(w.phase("a"), Phase::Reserved);
    let placed = w.job("a").status.placement.clone().unwrap();
    let gpus: Vec<usize> = placed.nodes.iter().map(|place| place.gpus.len()).collect();
    assert_eq!((gpus, placed.ranks.len()), (vec![4, 1, 1], 4));
    // A controller that starts anew knows the same.
    let anew = w.reload(8);
    assert_eq!(anew.job(&id("a")).unwrap().spec, w.job("a").spec);
    w.run("a");
    assert_eq!(w.phase("a"), Phase::Running);
    let nodes = w.nodes("a");
    for (n, ranks) in nodes.iter().zip([&[0, 1][..], &[2], &[3]]) {
        let observation = exits(&w, "a", *n, ranks);
        w.report(*n, observation);
    }
    assert_eq!(w.phase("a"), Phase::Completed);
    assert_eq!(w.job("a").status.exits.len(), 4);
}

#[test]
fn a_node_speaks_for_the_ranks_of_its_component_only() {
    let mut w = World::new();
    w.submit("a", mixed());
    w.run("a");
    let nodes = w.nodes("a");
    // Rank 1 is the learner's.
    let observation = exits(&w, "a", nodes[1], &[1]);
    w.report(nodes[1], observation);
    assert_ne!(w.phase("a"), Phase::Completed);
    assert!(w.job("a").status.exits.is_empty());
}

#[test]
fn its_size_is_not_changed_by_a_number_of_nodes() {
    let mut w = World::new();
    w.submit("full", spec(4, 4));
    w.submit("a", mixed());
    assert_eq!(w.phase("a"), Phase::Pending);
    let order = super::holds::order("a", proto_model::Role::Admin);
    let change = JobChange { nodes: Some(4), ..JobChange::default() };
    let error = w.refused(Event::UpdateJob(Box::new(JobUpdate { order, change, if_version: 0 })));
    assert!(error.to_string().contains("components"), "{error}");
}

#[test]
fn a_quota_counts_what_each_component_takes() {
    let mut w = World::new();
    let event = |gpus| Event::ApplyTenant {
        name: tenant("red"),
        description: String::new(),
        quota: Quota::new(gpus, 0),
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    };
    w.ok(event(6));
    w.submit("fits", mixed());
    assert_eq!(w.phase("fits"), Phase::Reserved);
    let error = w.refused(submit("more", asks(&[("learner", 1, 4, 2), ("actor", 3, 1, 1)])));
    assert!(error.to_string().contains("7 GPUs in all"), "{error}");
}
