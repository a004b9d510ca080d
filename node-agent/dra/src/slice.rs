//! The ResourceSlice of a server, and what has to be written for it to be as it should. [pure]
//!
//! Fields as in `resource.k8s.io/v1`. A server's rails are one pool, called as the node, in one slice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    devices::{Fitness, RailDevice},
    key::DRIVER,
};

/// Devices of one slice, where some may have taints.
const DEVICES_MAX: usize = 64;
/// Characters of a text among attributes.
const TEXT_MAX: usize = 64;
/// Key of the taint of an unfit rail; its value is the cause's code.
pub const TAINT: &str = "rail.railyard.io/unfit";

/// The node that a slice is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRef {
    /// Its name in Kubernetes, and that of the pool.
    pub name: String,
    /// UID of the Node, so that the slice goes with it.
    pub uid: String,
}

/// What becomes of a rail that no new job should use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnfitRails {
    /// It is published with a taint, which keeps it from claims that do not tolerate it.
    Tainted,
    /// It is not published: the API server does not keep taints of devices.
    LeftOut,
}

/// A ResourceSlice, as far as it is ours to know.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct FoundSlice {
    metadata: FoundMetadata,
    spec: SliceSpec,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FoundMetadata {
    #[serde(default)]
    resource_version: String,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Owner {
    #[serde(default)]
    uid: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceSpec {
    driver: String,
    #[serde(default)]
    node_name: String,
    pool: Pool,
    #[serde(default)]
    devices: Vec<SliceDevice>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pool {
    name: String,
    generation: i64,
    resource_slice_count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SliceDevice {
    name: String,
    #[serde(default)]
    attributes: BTreeMap<String, Attribute>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    taints: Vec<Taint>,
}

/// Exactly one is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Attribute {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    int: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    string: Option<String>,
}

/// When it was added is the API server's to say, and no difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Taint {
    key: String,
    #[serde(default)]
    value: String,
    effect: String,
}

/// What has to be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// It is as it should be.
    None,
    /// There is none.
    Create(Value),
    /// It is another one.
    Replace(Value),
}

/// Why a slice cannot be published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// Another driver's, or another node's.
    #[error(
        "ResourceSlice {name} is of driver {driver} and node {node}: it is not touched; delete it if nobody needs it"
    )]
    Foreign {
        /// Name of the slice.
        name: String,
        /// Its driver.
        driver: String,
        /// Its node.
        node: String,
    },
    /// What stands there under this name cannot be read.
    #[error("ResourceSlice {name} cannot be read: {error}")]
    Unreadable {
        /// Name of the slice.
        name: String,
        /// What is wrong with it.
        error: String,
    },
    /// More than a slice may have.
    #[error("this server has {0} rails; one ResourceSlice has room for {DEVICES_MAX}")]
    TooMany(usize),
}

/// Name of a node's slice.
#[must_use]
pub fn name(node: &str) -> String {
    format!("{node}-rails")
}

/// What has to be written, where `found` is what the API server has under [`name`].
///
/// # Errors
/// [`SliceError`] if what is there is not ours to replace, or the devices do not fit.
pub fn change(
    found: Option<&Value>,
    node: &NodeRef,
    devices: &[RailDevice],
    unfit: UnfitRails,
) -> Result<Change, SliceError> {
    let devices = published(devices, unfit);
    if devices.len() > DEVICES_MAX {
        return Err(SliceError::TooMany(devices.len()));
    }
    let Some(found) = found else { return Ok(Change::Create(object(node, 1, &devices, None))) };
    let name = name(&node.name);
    let found = FoundSlice::deserialize(found)
        .map_err(|error| SliceError::Unreadable { name: name.clone(), error: error.to_string() })?;
    let (spec, metadata) = (&found.spec, &found.metadata);
    if spec.driver != DRIVER || spec.node_name != node.name || spec.pool.name != node.name {
        return Err(SliceError::Foreign { name, driver: spec.driver.clone(), node: spec.node_name.clone() });
    }
    let owned = metadata.owner_references.iter().any(|owner| owner.uid == node.uid);
    if owned && spec.devices == devices && spec.pool.resource_slice_count == 1 {
        return Ok(Change::None);
    }
    let generation = spec.pool.generation.saturating_add(1).max(1);
    Ok(Change::Replace(object(node, generation, &devices, Some(&metadata.resource_version))))
}

/// A slice of another name with one device that has a taint, to ask what the API server would keep of it; `None` where every rail is fit.
#[must_use]
pub fn trial(node: &NodeRef, devices: &[RailDevice]) -> Option<Value> {
    let unfit = devices.iter().find(|device| matches!(device.fitness, Fitness::Unfit(_)))?;
    let mut object = object(node, 1, &published(std::slice::from_ref(unfit), UnfitRails::Tainted), None);
    object["metadata"]["name"] = format!("{}-trial", name(&node.name)).into();
    Some(object)
}

/// Whether a slice that was to have taints has them, as the API server would keep or has kept it.
#[must_use]
pub fn keeps_taints(kept: &Value) -> bool {
    let devices = kept["spec"]["devices"].as_array();
    devices.into_iter().flatten().any(|device| device["taints"].as_array().is_some_and(|all| !all.is_empty()))
}

fn object(node: &NodeRef, generation: i64, devices: &[SliceDevice], version: Option<&str>) -> Value {
    let spec = SliceSpec {
        driver: DRIVER.to_owned(),
        node_name: node.name.clone(),
        pool: Pool { name: node.name.clone(), generation, resource_slice_count: 1 },
        devices: devices.to_vec(),
    };
    let owner =
        json!({"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": true});
    let mut metadata = json!({"name": name(&node.name), "ownerReferences": [owner]});
    if let Some(version) = version {
        metadata["resourceVersion"] = version.into();
    }
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": metadata, "spec": spec})
}

fn published(devices: &[RailDevice], unfit: UnfitRails) -> Vec<SliceDevice> {
    let one = |device: &RailDevice| {
        let taints = match &device.fitness {
            Fitness::Unfit(_) if unfit == UnfitRails::LeftOut => return None,
            Fitness::Unfit(code) => {
                vec![Taint { key: TAINT.to_owned(), value: label(code), effect: "NoSchedule".to_owned() }]
            }
            _ => Vec::new(),
        };
        Some(SliceDevice { name: device.name.clone(), attributes: attributes(device), taints })
    };
    devices.iter().filter_map(one).collect()
}

/// A code as a label's value.
fn label(code: &str) -> String {
    code.chars().filter(char::is_ascii_alphanumeric).take(63).collect()
}

fn attributes(device: &RailDevice) -> BTreeMap<String, Attribute> {
    let int = |value: i64| Attribute { int: Some(value), string: None };
    let mut all = BTreeMap::new();
    let numbers = [
        ("rail", Some(i64::from(device.rail))),
        ("plane", device.plane.map(i64::from)),
        ("numaNode", device.numa_node.map(i64::from)),
        ("speedMbps", i64::try_from(device.speed_mbps).ok().filter(|speed| *speed > 0)),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            all.insert(name.to_owned(), int(number));
        }
    }
    let texts = [
        ("leaf", device.leaf.as_deref()),
        ("pod", device.pod.as_deref()),
        ("netdev", Some(device.netdev.as_str())),
        ("rdmaDevice", device.rdma()),
        ("health", Some(device.fitness.name())),
        // Kubernetes' own names, by which a rail and a GPU of another driver are matched.
        ("resource.kubernetes.io/pcieRoot", Some(device.pcie_root.as_str())),
        ("resource.kubernetes.io/pciBusID", Some(device.pci_address.as_str())),
    ];
    for (name, text) in texts {
        // What is too long cannot be selected by; cut off, it could be taken for another.
        if let Some(text) = text.filter(|text| !text.is_empty() && text.len() <= TEXT_MAX) {
            all.insert(name.to_owned(), Attribute { int: None, string: Some(text.to_owned()) });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{devices, tests::view};

    fn node() -> NodeRef {
        NodeRef { name: "n0".to_owned(), uid: "u0".to_owned() }
    }

    fn created(devices: &[RailDevice], unfit: UnfitRails) -> Value {
        match change(None, &node(), devices, unfit).unwrap() {
            Change::Create(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_slice_says_what_a_claim_may_select_by() {
        let mut all = devices(&view());
        all[0].leaf = Some("r0-leaf0".to_owned());
        all[1].leaf = Some("x".repeat(65));
        let slice = created(&all, UnfitRails::Tainted);
        assert_eq!(slice["metadata"]["name"], "n0-rails");
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], "u0");
        assert_eq!(slice["spec"]["pool"], json!({"name": "n0", "generation": 1, "resourceSliceCount": 1}));
        let first = &slice["spec"]["devices"][0];
        assert_eq!(first["name"], "nic-0000-08-00-0");
        assert_eq!(
            first["attributes"],
            json!({
                "rail": {"int": 0}, "numaNode": {"int": 0}, "speedMbps": {"int": 400_000}, "leaf": {"string": "r0-leaf0"},
                "netdev": {"string": "rail0"}, "rdmaDevice": {"string": "mlx5_0"}, "health": {"string": "healthy"},
                "resource.kubernetes.io/pciBusID": {"string": "0000:08:00.0"},
            })
        );
        assert!(first.get("taints").is_none());
        assert!(
            slice["spec"]["devices"][1]["attributes"].get("leaf").is_none(),
            "too long to be selected by"
        );
    }

    #[test]
    fn an_unfit_rail_is_tainted_or_left_out() {
        let mut all = devices(&view());
        all[2].fitness = Fitness::Unfit("LinkDown".to_owned());
        let tainted = created(&all, UnfitRails::Tainted);
        let taint = json!([{"key": TAINT, "value": "LinkDown", "effect": "NoSchedule"}]);
        assert_eq!(tainted["spec"]["devices"][2]["taints"], taint);
        assert!(keeps_taints(&tainted));
        let asked = trial(&node(), &all).unwrap();
        assert_eq!(asked["metadata"]["name"], "n0-rails-trial");
        assert_eq!(asked["spec"]["devices"].as_array().unwrap().len(), 1);
        assert!(keeps_taints(&asked));
        assert_eq!(trial(&node(), &all[..2]), None, "there is nothing to ask");
        let left_out = created(&all, UnfitRails::LeftOut);
        assert_eq!(left_out["spec"]["devices"].as_array().unwrap().len(), 3);
        assert!(!keeps_taints(&left_out));
    }

    #[test]
    fn only_a_difference_is_written_and_with_the_next_generation() {
        let mut all = devices(&view());
        all[2].fitness = Fitness::Unfit("LinkDown".to_owned());
        let mut stored = created(&all, UnfitRails::Tainted);
        // What an API server adds.
        stored["metadata"]["resourceVersion"] = "17".into();
        stored["metadata"]["uid"] = "s".into();
        stored["spec"]["devices"][2]["taints"][0]["timeAdded"] = "2026-01-01T00:00:00Z".into();
        let changed = |stored: &Value, devices: &[RailDevice]| {
            change(Some(stored), &node(), devices, UnfitRails::Tainted)
        };
        assert_eq!(changed(&stored, &all).unwrap(), Change::None);
        all[2].fitness = Fitness::Healthy;
        let Change::Replace(next) = changed(&stored, &all).unwrap() else { panic!("the taint has to go") };
        assert_eq!(next["metadata"]["resourceVersion"], "17");
        assert_eq!(next["spec"]["pool"]["generation"], 2);
        // The node was made anew.
        let other = NodeRef { uid: "u1".to_owned(), ..node() };
        let again = change(Some(&next), &other, &all, UnfitRails::Tainted).unwrap();
        assert!(matches!(again, Change::Replace(_)));
    }

    #[test]
    fn what_is_not_ours_is_not_touched() {
        let all = devices(&view());
        let mut foreign = created(&all, UnfitRails::Tainted);
        foreign["spec"]["driver"] = "gpu.example.com".into();
        let error = change(Some(&foreign), &node(), &all, UnfitRails::Tainted).unwrap_err().to_string();
        assert!(error.contains("gpu.example.com") && error.contains("n0-rails"), "{error}");
        let unreadable = change(Some(&json!({"metadata": {}})), &node(), &all, UnfitRails::Tainted);
        assert!(matches!(unreadable, Err(SliceError::Unreadable { .. })));
        let many: Vec<RailDevice> = (0..65).map(|_| all[0].clone()).collect();
        assert_eq!(change(None, &node(), &many, UnfitRails::Tainted), Err(SliceError::TooMany(65)));
    }
}
