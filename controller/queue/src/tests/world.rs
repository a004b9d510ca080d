//! Small clusters and jobs.

use std::time::Duration;

use controller_scheduler::{Gate, Need, RailNeed, Snapshot};
use controller_topology::{RailSet, Topology};
use proto_model::{
    Fabric, JobId, JobName, JobUid, Leaf, LinkGroup, Names, NodeName, QueueName, Rail, TenantName, Timestamp,
};

use crate::{Entry, Policy, QueueState, TenantDef, trial::TrialJob};

pub(super) const GPUS: u32 = 4;
pub(super) const RAILS: u32 = 4;

pub(super) fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

pub(super) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(super) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn at(seconds: u64) -> Timestamp {
    Timestamp(seconds * 1000)
}

pub(super) fn node(number: u32) -> NodeName {
    NodeName::new(format!("n{number:04}")).unwrap()
}

/// Pods of so many nodes each, nodes of four GPUs on four rails.
pub(super) fn cluster(pods: &[u32]) -> Snapshot {
    let mut fabric = Fabric::default();
    fabric.rails.extend((0..RAILS).map(|index| Rail { index, name: format!("r{index}") }));
    let mut first = 0;
    for (pod, size) in pods.iter().enumerate() {
        let names = Names::of((first..first + size).map(|number| node(number).to_string()));
        first += size;
        for rail in 0..RAILS {
            let leaf = format!("l{pod:03}-{rail}");
            let pod = format!("p{pod:03}");
            fabric.leaves.push(Leaf { name: leaf.clone(), rail, pod, ..Leaf::default() });
            let (nodes, nic) = (names.clone(), format!("mlx5_{rail}"));
            fabric.link_groups.push(LinkGroup { nodes, nic, leaf, speed_mbps: 1, ..LinkGroup::default() });
        }
    }
    let mut topology = Topology::new(Some(&fabric));
    topology.furnish(GPUS);
    let mut snapshot = Snapshot::new(Some(&fabric));
    for (_, server) in topology.servers() {
        snapshot.set_node(&server.name, &server.inventory, Gate::default());
    }
    snapshot
}

/// Whole nodes.
pub(super) fn nodes(count: u32) -> Need {
    Need::plain(count, GPUS, RailNeed::Exactly(RailSet::first(RAILS)))
}

/// A part of one node.
pub(super) fn part(gpus: u32) -> Need {
    Need::plain(1, gpus, RailNeed::Any(gpus))
}

pub(super) fn uid(number: u64) -> JobUid {
    JobUid::ordered(Timestamp(number), 0, number.to_be_bytes())
}

/// Job `number` of tenant t, submitted at a second, with its true length as its limit.
pub(super) fn job(number: u64, need: Need, submitted: u64, length: u64) -> TrialJob {
    job_of("t", number, need, submitted, length)
}

pub(super) fn job_of(who: &str, number: u64, need: Need, submitted: u64, length: u64) -> TrialJob {
    let id = JobId { tenant: tenant(who), name: JobName::new(format!("j{number}")).unwrap() };
    let mut entry = Entry::plain(uid(number), id, need, at(submitted));
    entry.limit = Some(secs(length));
    TrialJob { entry, length: secs(length) }
}

pub(super) fn policy() -> Policy {
    Policy { step: secs(1), ..Policy::default() }
}

/// A book with tenant t.
pub(super) fn queue_state() -> QueueState {
    let mut queue_state = QueueState::new(policy());
    queue_state.set_tenant(&tenant("t"), Some(TenantDef::default()));
    queue_state
}
