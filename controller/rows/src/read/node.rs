//! Servers and their inventories.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proto_model::{
    Claim, Gpu, Health, Inventory, JobUid, Neighbor, Nic, NicHealth, Node, NodeName, QosPort, Reason,
    ReasonCode, Strike, Taint,
    label::{MAX_LABELS, check_key, check_value},
};

use super::time_from_row;
use crate::v1;
use proto_model::fields::{FieldErrors, Fields, bounded, known, line};

/// Neighbours of one server at most.
const MAX_NEIGHBORS: usize = 256;

/// NICs of one server at most whose health is reported.
const MAX_NICS: usize = 256;

/// Findings, or changes, of one server at most.
const MAX_REPORTED: usize = 64;

fn numa(number: i32) -> Option<u32> {
    u32::try_from(number).ok()
}

impl TryFrom<v1::Gpu> for Gpu {
    type Error = FieldErrors;

    fn try_from(row: v1::Gpu) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if row.index >= 64 {
            fields.fail("index", format!("{} is too large; GPUs are numbered from 0 to 63", row.index));
        }
        let facts = row.facts.and_then(|facts| fields.nest("facts", facts.try_into()));
        fields.finish(Some(Self {
            index: row.index,
            uuid: row.uuid,
            model: row.model,
            pci_address: row.pci_address,
            numa_node: numa(row.numa_node),
            memory_bytes: row.memory_bytes,
            facts: facts.map(Box::new),
        }))
    }
}

impl TryFrom<v1::Nic> for Nic {
    type Error = FieldErrors;

    fn try_from(row: v1::Nic) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        if row.device.is_empty() || row.device.len() > 64 || row.device.chars().any(char::is_control) {
            fields.fail("device", "must be a device name of 1 to 64 printable bytes");
        }
        if row.rail >= 64 {
            fields.fail("rail", format!("{} is too large; rails are numbered from 0 to 63", row.rail));
        }
        let address = match row.address.as_str() {
            "" => None,
            text => {
                fields.take("address", text.parse().map_err(|_| format!("'{text}' is not an IP address")))
            }
        };
        let facts = row.facts.and_then(|facts| fields.nest("facts", facts.try_into()));
        fields.finish(Some(Self {
            netdev: if row.netdev.is_empty() { row.device.clone() } else { row.netdev },
            device: row.device,
            pci_address: row.pci_address,
            numa_node: numa(row.numa_node),
            rail: row.rail,
            address,
            mtu: row.mtu,
            speed_mbps: row.speed_mbps,
            up: row.up,
            gid_index: u32::try_from(row.gid_index).ok(),
            facts: facts.map(Box::new),
        }))
    }
}

impl TryFrom<v1::Inventory> for Inventory {
    type Error = FieldErrors;

    fn try_from(row: v1::Inventory) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let mut gpus: Vec<Gpu> = fields.list("gpus", row.gpus);
        let mut nics: Vec<Nic> = fields.list("nics", row.nics);
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
        let (numa_nodes, cpus, memory_bytes) = (row.numa_nodes, row.cpus, row.memory_bytes);
        if row.neighbors.len() > MAX_NEIGHBORS {
            fields.fail(
                "neighbors",
                format!("{} are more than the {MAX_NEIGHBORS} allowed", row.neighbors.len()),
            );
        }
        let mut neighbors: Vec<Neighbor> = fields.list("neighbors", row.neighbors);
        neighbors.sort();
        if row.health.len() > MAX_NICS {
            fields.fail("health", format!("{} are more than the {MAX_NICS} allowed", row.health.len()));
        }
        let mut health: Vec<NicHealth> = fields.list("health", row.health);
        health.sort_by(|a, b| a.device.cmp(&b.device));
        let findings = reported(&mut fields, "findings", row.findings);
        let changes = reported(&mut fields, "changes", row.changes);
        if row.qos.len() > MAX_NICS {
            fields.fail("qos", format!("{} are more than the {MAX_NICS} allowed", row.qos.len()));
        }
        // Two of one device are merged and not refused: agents are about that tell a renamed NIC twice, and what else they tell is true.
        let qos = QosPort::distinct(fields.list("qos", row.qos));
        let isolation = row.isolation.and_then(|one| fields.nest("isolation", one.try_into()));
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
fn reported(fields: &mut Fields, field: &str, row: Vec<v1::Reason>) -> Vec<Reason> {
    if row.len() > MAX_REPORTED {
        fields.fail(field, format!("{} are more than the {MAX_REPORTED} allowed", row.len()));
    }
    let row: Vec<v1::Reason> = row.into_iter().take(MAX_REPORTED).collect();
    for (index, one) in row.iter().enumerate() {
        for (part, text) in [("code", &one.code), ("message", &one.message), ("scope", &one.scope)] {
            line(fields, &format!("{field}[{index}].{part}"), text);
        }
    }
    fields.list(field, row)
}

impl TryFrom<v1::Neighbor> for Neighbor {
    type Error = FieldErrors;

    fn try_from(row: v1::Neighbor) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        for (field, text) in [("netdev", &row.netdev), ("switch", &row.switch), ("port", &row.port)] {
            if text.is_empty() {
                fields.fail(field, "is required");
            } else if text.len() > 128 || text.chars().any(char::is_control) {
                fields.fail(field, "must be printable and at most 128 bytes long");
            }
        }
        let v1::Neighbor { netdev, switch, port } = row;
        fields.finish(Some(Self { netdev, switch, port }))
    }
}

/// The labels of a node.
///
/// # Errors
/// A key or value that is none, or too many of them.
pub fn labels(row: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, FieldErrors> {
    let mut fields = Fields::default();
    bounded(&mut fields, "labels", &Vec::from_iter(row.keys()), MAX_LABELS);
    let labels: BTreeMap<String, String> = row.into_iter().collect();
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
pub fn taints(row: Vec<v1::Taint>) -> Result<BTreeSet<Taint>, FieldErrors> {
    let mut fields = Fields::default();
    bounded(&mut fields, "taints", &row, MAX_LABELS);
    let mut taints = BTreeSet::new();
    for (index, v1::Taint { key, value }) in row.into_iter().enumerate().take(MAX_LABELS) {
        fields.take(&format!("taints[{index}].key"), check_key(&key));
        fields.take(&format!("taints[{index}].value"), check_value(&value));
        if !taints.insert(Taint { key, value }) {
            fields.fail(&format!("taints[{index}]"), "is given twice");
        }
    }
    fields.finish(Some(taints))
}

impl TryFrom<v1::Node> for Node {
    type Error = FieldErrors;

    fn try_from(row: v1::Node) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = fields.present("metadata", row.metadata).unwrap_or_default();
        let spec = row.spec.unwrap_or_default();
        let status = row.status.unwrap_or_default();
        let name = fields.take("metadata.name", NodeName::new(&metadata.name));
        let health = match known(status.phase) {
            Some(v1::node_status::Phase::Ready) => Health::Ready,
            _ => Health::NotReady,
        };
        let created =
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
        let since =
            fields.nest("status.lastHeartbeat", time_from_row(status.last_heartbeat.unwrap_or_default()));
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

impl TryFrom<v1::Strike> for Strike {
    type Error = FieldErrors;

    fn try_from(row: v1::Strike) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let time = fields.nest("time", time_from_row(row.time.unwrap_or_default()));
        let uid = fields.take("jobUid", row.job_uid.parse::<JobUid>());
        let code = (!row.code.is_empty()).then(|| ReasonCode::from_text(&row.code));
        let strike = time.zip(uid).map(|(time, uid)| Self { time, uid, attempt: row.attempt, code });
        fields.finish(strike)
    }
}
