//! Servers and their inventories.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use proto_model::{
    Claim, Gpu, Health, Inventory, Job, JobUid, Neighbor, Nic, NicHealth, Node, NodeName, NodePlace, QosPort,
    Reason, ReasonCode, Strike, Taint,
    label::{MAX_LABELS, check_key, check_value},
};

use super::{
    API_VERSION, FieldErrors, Fields, common,
    fields::{bounded, line},
    known, time_from_wire, time_to_wire,
};
use crate::v1;

/// Neighbours of one server at most.
const MAX_NEIGHBORS: usize = 256;
/// NICs of one server at most whose health is reported.
const MAX_NICS: usize = 256;
/// Findings, or changes, of one server at most.
const MAX_REPORTED: usize = 64;

fn numa(number: i32) -> Option<u32> {
    u32::try_from(number).ok()
}

fn numa_to_wire(number: Option<u32>) -> i32 {
    number.and_then(|n| i32::try_from(n).ok()).unwrap_or(-1)
}

impl TryFrom<v1::Gpu> for Gpu {
    type Error = FieldErrors;

    fn try_from(wire: v1::Gpu) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if wire.index >= 64 {
            fields.fail("index", format!("{} is too large; GPUs are numbered from 0 to 63", wire.index));
        }
        let facts = wire.facts.and_then(|facts| fields.nest("facts", facts.try_into()));
        fields.finish(Some(Self {
            index: wire.index,
            uuid: wire.uuid,
            model: wire.model,
            pci_address: wire.pci_address,
            numa_node: numa(wire.numa_node),
            memory_bytes: wire.memory_bytes,
            facts: facts.map(Box::new),
        }))
    }
}

impl TryFrom<v1::Nic> for Nic {
    type Error = FieldErrors;

    fn try_from(wire: v1::Nic) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if wire.device.is_empty() || wire.device.len() > 64 || wire.device.chars().any(char::is_control) {
            fields.fail("device", "must be a device name of 1 to 64 printable bytes");
        }
        if wire.rail >= 64 {
            fields.fail("rail", format!("{} is too large; rails are numbered from 0 to 63", wire.rail));
        }
        let address = match wire.address.as_str() {
            "" => None,
            text => {
                fields.take("address", text.parse().map_err(|_| format!("'{text}' is not an IP address")))
            }
        };
        let facts = wire.facts.and_then(|facts| fields.nest("facts", facts.try_into()));
        fields.finish(Some(Self {
            netdev: if wire.netdev.is_empty() { wire.device.clone() } else { wire.netdev },
            device: wire.device,
            pci_address: wire.pci_address,
            numa_node: numa(wire.numa_node),
            rail: wire.rail,
            address,
            mtu: wire.mtu,
            speed_mbps: wire.speed_mbps,
            up: wire.up,
            gid_index: u32::try_from(wire.gid_index).ok(),
            facts: facts.map(Box::new),
        }))
    }
}

impl TryFrom<v1::Inventory> for Inventory {
    type Error = FieldErrors;

    fn try_from(wire: v1::Inventory) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let mut gpus: Vec<Gpu> = fields.list("gpus", wire.gpus);
        let mut nics: Vec<Nic> = fields.list("nics", wire.nics);
        gpus.sort_by_key(|gpu| gpu.index);
        nics.sort_by(|a, b| (a.rail, &a.device).cmp(&(b.rail, &b.device)));
        if let Some(pair) = gpus.windows(2).find(|pair| pair[0].index == pair[1].index) {
            fields.fail("gpus", format!("two GPUs have the index {}", pair[0].index));
        }
        let mut devices: Vec<&str> = nics.iter().map(|nic| nic.device.as_str()).collect();
        devices.sort_unstable();
        if let Some(pair) = devices.windows(2).find(|pair| pair[0] == pair[1]) {
            fields.fail("nics", format!("two NICs are called '{}'", pair[0]));
        }
        let (numa_nodes, cpus, memory_bytes) = (wire.numa_nodes, wire.cpus, wire.memory_bytes);
        if wire.neighbors.len() > MAX_NEIGHBORS {
            fields.fail(
                "neighbors",
                format!("{} are more than the {MAX_NEIGHBORS} allowed", wire.neighbors.len()),
            );
        }
        let mut neighbors: Vec<Neighbor> = fields.list("neighbors", wire.neighbors);
        neighbors.sort();
        if wire.health.len() > MAX_NICS {
            fields.fail("health", format!("{} are more than the {MAX_NICS} allowed", wire.health.len()));
        }
        let mut health: Vec<NicHealth> = fields.list("health", wire.health);
        health.sort_by(|a, b| a.device.cmp(&b.device));
        let findings = reported(&mut fields, "findings", wire.findings);
        let changes = reported(&mut fields, "changes", wire.changes);
        if wire.qos.len() > MAX_NICS {
            fields.fail("qos", format!("{} are more than the {MAX_NICS} allowed", wire.qos.len()));
        }
        // Two of one device are merged and not refused: agents are about that tell a renamed NIC twice, and what else they tell is true.
        let qos = QosPort::distinct(fields.list("qos", wire.qos));
        let isolation = wire.isolation.and_then(|one| fields.nest("isolation", one.try_into()));
        fields.finish(Some(Self {
            gpus,
            nics,
            numa_nodes,
            cpus,
            memory_bytes,
            neighbors,
            health,
            findings,
            changes,
            qos,
            isolation: isolation.unwrap_or_default(),
        }))
    }
}

/// What an agent tells in words: so many lines, each printable and of a bounded length.
fn reported(fields: &mut Fields, field: &str, wire: Vec<v1::Reason>) -> Vec<Reason> {
    if wire.len() > MAX_REPORTED {
        fields.fail(field, format!("{} are more than the {MAX_REPORTED} allowed", wire.len()));
    }
    let wire: Vec<v1::Reason> = wire.into_iter().take(MAX_REPORTED).collect();
    for (index, one) in wire.iter().enumerate() {
        for (part, text) in [("code", &one.code), ("message", &one.message), ("scope", &one.scope)] {
            line(fields, &format!("{field}[{index}].{part}"), text);
        }
    }
    fields.list(field, wire)
}

impl From<&Inventory> for v1::Inventory {
    fn from(inventory: &Inventory) -> Self {
        let gpus = inventory.gpus.iter().map(|gpu| v1::Gpu {
            index: gpu.index,
            uuid: gpu.uuid.clone(),
            model: gpu.model.clone(),
            pci_address: gpu.pci_address.clone(),
            numa_node: numa_to_wire(gpu.numa_node),
            memory_bytes: gpu.memory_bytes,
            facts: gpu.facts.as_deref().map(Into::into),
        });
        let nics = inventory.nics.iter().map(|nic| v1::Nic {
            device: nic.device.clone(),
            netdev: nic.netdev.clone(),
            pci_address: nic.pci_address.clone(),
            numa_node: numa_to_wire(nic.numa_node),
            rail: nic.rail,
            address: nic.address.map(|address| address.to_string()).unwrap_or_default(),
            mtu: nic.mtu,
            speed_mbps: nic.speed_mbps,
            up: nic.up,
            gid_index: numa_to_wire(nic.gid_index),
            facts: nic.facts.as_deref().map(Into::into),
        });
        Self {
            gpus: gpus.collect(),
            nics: nics.collect(),
            numa_nodes: inventory.numa_nodes,
            cpus: inventory.cpus,
            memory_bytes: inventory.memory_bytes,
            neighbors: inventory.neighbors.iter().map(Into::into).collect(),
            health: inventory.health.iter().map(Into::into).collect(),
            findings: common::reasons(&inventory.findings),
            changes: common::reasons(&inventory.changes),
            qos: inventory.qos.iter().map(Into::into).collect(),
            isolation: super::isolation::to_wire(&inventory.isolation),
        }
    }
}

impl TryFrom<v1::Neighbor> for Neighbor {
    type Error = FieldErrors;

    fn try_from(wire: v1::Neighbor) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        for (field, text) in [("netdev", &wire.netdev), ("switch", &wire.switch), ("port", &wire.port)] {
            if text.is_empty() {
                fields.fail(field, "is required");
            } else if text.len() > 128 || text.chars().any(char::is_control) {
                fields.fail(field, "must be printable and at most 128 bytes long");
            }
        }
        let v1::Neighbor { netdev, switch, port } = wire;
        fields.finish(Some(Self { netdev, switch, port }))
    }
}

impl From<&Neighbor> for v1::Neighbor {
    fn from(neighbor: &Neighbor) -> Self {
        let Neighbor { netdev, switch, port } = neighbor.clone();
        Self { netdev, switch, port }
    }
}

/// The labels of a node.
///
/// # Errors
/// A key or value that is none, or too many of them.
pub fn labels(wire: HashMap<String, String>) -> Result<BTreeMap<String, String>, FieldErrors> {
    let mut fields = Fields::default();
    bounded(&mut fields, "labels", &Vec::from_iter(wire.keys()), MAX_LABELS);
    let labels: BTreeMap<String, String> = wire.into_iter().collect();
    for (key, value) in &labels {
        fields.take("labels", check_key(key));
        if let Err(error) = check_value(value) {
            let shown: String = key.chars().take(64).collect();
            fields.fail(&format!("labels.{}", shown.escape_debug()), error.to_string());
        }
    }
    fields.finish(Some(labels))
}

/// The taints of a node.
///
/// # Errors
/// A key or value that is none, the same taint twice, or too many of them.
pub fn taints(wire: Vec<v1::Taint>) -> Result<BTreeSet<Taint>, FieldErrors> {
    let mut fields = Fields::default();
    bounded(&mut fields, "taints", &wire, MAX_LABELS);
    let mut taints = BTreeSet::new();
    for (index, v1::Taint { key, value }) in wire.into_iter().enumerate().take(MAX_LABELS) {
        fields.take(&format!("taints[{index}].key"), check_key(&key));
        fields.take(&format!("taints[{index}].value"), check_value(&value));
        if !taints.insert(Taint { key, value }) {
            fields.fail(&format!("taints[{index}]"), "is given twice");
        }
    }
    fields.finish(Some(taints))
}

/// The phase that a health is shown as.
#[must_use]
pub fn node_status_phase(health: Health) -> v1::node_status::Phase {
    match health {
        Health::Ready => v1::node_status::Phase::Ready,
        Health::NotReady => v1::node_status::Phase::NotReady,
    }
}

/// What a job holds on one node of its gang, as a node's status shows it.
#[must_use]
pub fn hold(job: &Job, place: &NodePlace) -> v1::Hold {
    v1::Hold {
        tenant: job.id.tenant.to_string(),
        job: job.id.name.to_string(),
        job_uid: job.uid.to_string(),
        gpus: place.gpus.clone(),
        nics: place.nics.iter().map(|nic| nic.device.clone()).collect(),
        cpus: place.cpus,
        memory_bytes: place.memory_bytes,
    }
}

impl From<&Node> for v1::Node {
    /// Holds and rails that the fabric cuts off are not part of the domain's node; the API adds them ([`hold`]).
    fn from(node: &Node) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Node".to_owned(),
            metadata: Some(v1::Metadata {
                name: node.name.to_string(),
                uid: node.uid.clone(),
                generation: node.generation,
                create_time: Some(time_to_wire(node.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::NodeSpec {
                unschedulable: node.unschedulable,
                reason: node.unschedulable_reason.clone(),
                labels: node.labels.clone().into_iter().collect(),
                taints: node.taints.iter().map(Into::into).collect(),
            }),
            status: Some(v1::NodeStatus {
                phase: node_status_phase(node.health).into(),
                last_heartbeat: Some(time_to_wire(node.health_since)),
                inventory: Some(node.inventory.as_ref().into()),
                holds: Vec::new(),
                reasons: common::reasons(&node.reasons),
                agent_version: node.agent_version.clone(),
                quarantined: node.quarantined.as_ref().map(Into::into),
                strikes: node.strikes.iter().map(Into::into).collect(),
                quarantine: common::reasons(&node.quarantine),
                provisional: node.provisional.iter().map(ToString::to_string).collect(),
                rails_cut: Vec::new(),
            }),
        }
    }
}

impl TryFrom<v1::Node> for Node {
    type Error = FieldErrors;

    fn try_from(wire: v1::Node) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "Node");
        let metadata = fields.present("metadata", wire.metadata).unwrap_or_default();
        let spec = wire.spec.unwrap_or_default();
        let status = wire.status.unwrap_or_default();
        let name = fields.take("metadata.name", NodeName::new(&metadata.name));
        let health = match known(status.phase) {
            Some(v1::node_status::Phase::Ready) => Health::Ready,
            _ => Health::NotReady,
        };
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let since =
            fields.nest("status.lastHeartbeat", time_from_wire(status.last_heartbeat.unwrap_or_default()));
        let inventory =
            fields.nest("status.inventory", Inventory::try_from(status.inventory.unwrap_or_default()));
        let reasons = fields.list("status.reasons", status.reasons);
        let quarantined =
            status.quarantined.and_then(|reason| fields.nest("status.quarantined", reason.try_into()));
        let strikes = fields.list("status.strikes", status.strikes);
        let quarantine = fields.list("status.quarantine", status.quarantine);
        let provisional =
            status.provisional.iter().filter_map(|claim| fields.take("status.provisional", claim.parse()));
        let provisional: BTreeSet<Claim> = provisional.collect();
        let labels = fields.nest("spec", labels(spec.labels)).unwrap_or_default();
        let taints = fields.nest("spec", taints(spec.taints)).unwrap_or_default();
        let node = match (name, created, since, inventory) {
            (Some(name), Some(created), Some(health_since), Some(inventory)) => Some(Self {
                name,
                uid: metadata.uid,
                generation: metadata.generation,
                created,
                unschedulable: spec.unschedulable,
                unschedulable_reason: spec.reason,
                labels,
                taints,
                quarantined,
                strikes,
                quarantine,
                provisional,
                inventory: Arc::new(inventory),
                health,
                health_since,
                reasons,
                agent_version: status.agent_version,
            }),
            _ => None,
        };
        fields.finish(node)
    }
}

impl From<&Strike> for v1::Strike {
    fn from(strike: &Strike) -> Self {
        Self {
            time: Some(time_to_wire(strike.time)),
            job_uid: strike.uid.to_string(),
            attempt: strike.attempt,
            code: strike.code_text().to_owned(),
        }
    }
}

impl TryFrom<v1::Strike> for Strike {
    type Error = FieldErrors;

    fn try_from(wire: v1::Strike) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let time = fields.nest("time", time_from_wire(wire.time.unwrap_or_default()));
        let uid = fields.take("jobUid", wire.job_uid.parse::<JobUid>());
        let code = (!wire.code.is_empty()).then(|| ReasonCode::from_text(&wire.code));
        let strike = time.zip(uid).map(|(time, uid)| Self { time, uid, attempt: wire.attempt, code });
        fields.finish(strike)
    }
}
