//! What the core knows beyond the stored resources, on the wire.

use controller_core::{HealthView, Key, NodeHeat, NodeRails, RailHeat, State};
use proto_model::{Fabric, NodeName, Reason, TenantName};
use proto_wire::{
    convert::{isolation_policy_to_wire, time_to_wire},
    v1,
};

/// Puts a cause into the words of its reader: who may know whose thing it is about reads it, all others read that it is
/// another tenant's. `only`: the reader's tenant; none for an administrator. The one place where that is decided.
pub(crate) fn report(reason: &mut v1::Reason, only: Option<&TenantName>) {
    let Some(named) = reason.named.take() else { return };
    if only.is_none_or(|tenant| named.tenants.iter().any(|name| name == tenant.as_str())) {
        (reason.message, reason.scope) = (named.message, named.scope);
    }
}

/// Causes in the words of their reader.
pub(crate) fn reasons_for(reasons: &[Reason], only: Option<&TenantName>) -> Vec<v1::Reason> {
    let mut wire: Vec<v1::Reason> = reasons.iter().map(Into::into).collect();
    wire.iter_mut().for_each(|reason| report(reason, only));
    wire
}

/// Causes for everybody: they name nobody.
pub(crate) fn reasons(reasons: &[Reason]) -> Vec<v1::Reason> {
    let nameless = |reason: &Reason| v1::Reason { named: None, ..reason.into() };
    reasons.iter().map(nameless).collect()
}

/// A job in the words of its reader.
pub(crate) fn report_job(job: &mut v1::Job, only: Option<&TenantName>) {
    let Some(status) = job.status.as_mut() else { return };
    let past = status.past_attempts.iter_mut().flat_map(|past| &mut past.reasons);
    status.reasons.iter_mut().chain(past).for_each(|reason| report(reason, only));
    if let Some(placement) = status.placement.as_mut() {
        placement.reasons.iter_mut().for_each(|reason| report(reason, only));
    }
}

/// A node in the words of its reader.
pub(crate) fn report_node(node: &mut v1::Node, only: Option<&TenantName>) {
    let Some(status) = node.status.as_mut() else { return };
    let causes = status.reasons.iter_mut().chain(status.quarantined.as_mut()).chain(&mut status.quarantine);
    causes.for_each(|reason| report(reason, only));
    if let Some(inventory) = status.inventory.as_mut() {
        // An agent's own words, which are for everybody.
        inventory.findings.iter_mut().chain(&mut inventory.changes).for_each(|reason| reason.named = None);
    }
}

pub(crate) fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

pub(crate) fn node_rails(node: &NodeRails) -> v1::NodeRails {
    v1::NodeRails {
        node: node.node.to_string(),
        rails: node.reports.iter().map(Into::into).collect(),
        time: node.reported_at.map(time_to_wire),
    }
}

/// A fabric document with what was seen of it.
pub fn fabric(fabric: &Fabric, findings: &[Reason], nodes: u32, version: u64) -> v1::Fabric {
    let mut pods: Vec<&str> = fabric.leaves.iter().map(|leaf| leaf.pod.as_str()).collect();
    pods.sort_unstable();
    pods.dedup();
    let mut wire = v1::Fabric::from(fabric);
    wire.metadata.get_or_insert_default().resource_version = version;
    wire.status = Some(v1::FabricStatus { nodes, pods: number(pods.len()), findings: reasons(findings) });
    wire
}

/// How many servers a fabric document cables.
pub fn cabled(fabric: &Fabric) -> u32 {
    number(fabric.node_count())
}

/// The present fabric document.
pub fn present_fabric(state: &State) -> Option<v1::Fabric> {
    let document = state.fabric()?;
    let version = state.version(&Key::Fabric).unwrap_or(0);
    Some(fabric(document, &state.findings(), cabled(document), version))
}

/// The topology as the scheduler sees it now.
pub fn topology(state: &State) -> v1::Topology {
    let view = state.topology();
    let pods = view.pods.into_iter().map(|pod| v1::TopologyPod {
        name: pod.name,
        rails: (0..).zip(pod.leaves).map(|(rail, leaves)| v1::TopologyRail { rail, leaves }).collect(),
        nodes: pod
            .nodes
            .into_iter()
            .map(|node| v1::TopologyNode {
                name: node.name.to_string(),
                gpus: node.gpus,
                gpus_free: node.gpus_free,
                schedulable: node.schedulable,
                ports: node
                    .ports
                    .into_iter()
                    .map(|port| v1::TopologyPort {
                        rail: port.rail,
                        nic: port.nic,
                        leaf: port.leaf,
                        usable: port.usable,
                        drained: port.drained,
                    })
                    .collect(),
            })
            .collect(),
    });
    v1::Topology { pods: pods.collect(), rails: view.rails, findings: reasons(&view.findings) }
}

/// Adds what is not stored: when the agent was last heard, how its rails are being proved, and what jobs hold; of other tenants' jobs only what
/// they hold, not whose they are.
pub fn add_live(state: &State, node: &mut v1::Node, only: Option<&TenantName>) {
    let Some(name) = node.metadata.as_ref().and_then(|metadata| NodeName::new(&metadata.name).ok()) else {
        return;
    };
    let status = node.status.get_or_insert_default();
    if let Some(heard) = state.last_heard(&name).filter(|_| state.session(&name).is_some()) {
        status.last_heartbeat = Some(time_to_wire(heard));
    }
    let hold = |hold: controller_core::Hold| {
        let own = only.is_none_or(|tenant| *tenant == hold.id.tenant);
        let shown = |text: String| if own { text } else { String::new() };
        v1::Hold {
            tenant: shown(hold.id.tenant.to_string()),
            job: shown(hold.id.name.to_string()),
            job_uid: shown(hold.uid.to_string()),
            gpus: hold.gpus,
            nics: hold.nics,
            cpus: hold.cpus,
            memory_bytes: hold.memory_bytes,
        }
    };
    status.reasons.extend(reasons(&state.proof_reasons(&name)));
    status.holds = state.holds(&name).into_iter().map(hold).collect();
    status.rails_cut = state.rails_cut(&name).iter().collect();
}

/// Adds what a tenant uses.
pub fn add_usage(state: &State, tenant: &mut v1::Tenant) {
    let name = tenant.metadata.as_ref().and_then(|metadata| TenantName::new(&metadata.name).ok());
    let usage = name.map(|name| state.usage(&name)).unwrap_or_default();
    let gpus_used = u32::try_from(usage.gpus_used).unwrap_or(u32::MAX);
    tenant.status = Some(v1::TenantStatus {
        gpus_used,
        jobs_active: usage.jobs_active,
        stored_bytes: usage.stored_bytes,
        isolation: isolation_policy_to_wire(usage.isolation).into(),
    });
}

/// Health, as far as the core knows it.
pub fn health(state: &State) -> v1::ClusterHealth {
    let HealthView {
        nodes_ready,
        nodes_total,
        gpus_total,
        gpus_held,
        jobs_pending,
        jobs_running,
        rails,
        reasons: causes,
        nodes,
        nodes_left_out,
    } = state.health();
    let score = |rail: RailHeat| {
        let RailHeat { rail, score, usable, codes } = rail;
        v1::RailScore { rail, score, usable, codes }
    };
    let heat = |node: NodeHeat| v1::NodeRailHealth {
        node: node.name,
        rails: node.rails.into_iter().map(score).collect(),
    };
    let rails = (0..).zip(rails);
    v1::ClusterHealth {
        nodes_ready,
        nodes_total,
        gpus_total,
        gpus_held,
        jobs_pending,
        jobs_running,
        rails: rails
            .map(|(rail, (nics_up, nics_total))| v1::RailHealth { rail, nics_up, nics_total })
            .collect(),
        reasons: reasons(&causes),
        nodes: nodes.into_iter().map(heat).collect(),
        nodes_left_out,
        ..v1::ClusterHealth::default()
    }
}
