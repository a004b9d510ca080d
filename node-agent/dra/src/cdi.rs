//! What the container runtime reads for a claim: a specification of the Container Device Interface, one file for each claim. [pure]
//!
//! A device for each NIC, with its files, and one for the claim, with the environment of all its NICs and the file of the connection manager: kubelet
//! names both for each NIC, and a container that refers to one request of the claim opens that request's NICs alone.

use serde_json::{Value, json};

use crate::claims::{Given, Record};

/// Vendor and class of the devices.
const KIND: &str = "rail.railyard.io/claim";
/// What the names of the files begin with.
const PREFIX: &str = "rail.railyard.io-";
/// By which release of CDI device names may begin with a digit, as UIDs do.
const CDI_VERSION: &str = "0.5.0";

/// Name of the file of a claim.
#[must_use]
pub fn file_name(uid: &str) -> String {
    format!("{PREFIX}{uid}.json")
}

/// The claim whose file has this name; `None`: not one of ours.
#[must_use]
pub fn uid_of(file_name: &str) -> Option<&str> {
    file_name.strip_prefix(PREFIX)?.strip_suffix(".json")
}

/// What kubelet names to the runtime for one device of a claim.
#[must_use]
pub fn ids(record: &Record, given: &Given) -> Vec<String> {
    let uid = &record.key.uid;
    vec![format!("{KIND}={uid}"), format!("{KIND}={uid}-{}", given.device.name)]
}

/// The specification of a claim.
#[must_use]
pub fn specification(record: &Record) -> Value {
    let uid = &record.key.uid;
    let files = |paths: &[String]| -> Vec<Value> {
        paths.iter().map(|path| json!({"path": path, "type": "c", "permissions": "rw"})).collect()
    };
    let environment: Vec<String> =
        record.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut own = json!({"env": environment});
    if !record.files.is_empty() {
        own["deviceNodes"] = files(&record.files).into();
    }
    let mut devices = vec![json!({"name": uid, "containerEdits": own})];
    for given in &record.devices {
        let mut edits =
            json!({"env": [format!("RAIL_{}={}", variable(&given.device.name), given.device.nic)]});
        if !given.files.is_empty() {
            edits["deviceNodes"] = files(&given.files).into();
        }
        devices.push(json!({"name": format!("{uid}-{}", given.device.name), "containerEdits": edits}));
    }
    json!({"cdiVersion": CDI_VERSION, "kind": KIND, "devices": devices})
}

/// A device's name as that of a variable. A runtime refuses a device that would change nothing.
fn variable(name: &str) -> String {
    name.to_ascii_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        claims::VERSION,
        devices::{devices, tests::view},
        key::ClaimKey,
    };

    fn record() -> Record {
        let given = |at: usize, files: &[&str]| Given {
            device: devices(&view()).swap_remove(at),
            requests: vec!["rails".to_owned()],
            shared: false,
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        };
        Record {
            version: VERSION,
            key: ClaimKey::new("0b5c-7", "ml", "c").unwrap(),
            pool: "n0".to_owned(),
            devices: vec![given(0, &["/dev/infiniband/uverbs0"]), given(1, &["/dev/infiniband/uverbs1"])],
            environment: BTreeMap::from([("RAIL_RAILS".to_owned(), "0,1".to_owned())]),
            files: vec!["/dev/infiniband/rdma_cm".to_owned()],
        }
    }

    #[test]
    fn kubelet_names_what_the_specification_has() {
        let record = record();
        let specification = specification(&record);
        let names: Vec<&str> = specification["devices"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|one| one["name"].as_str())
            .collect();
        let kind = specification["kind"].as_str().unwrap();
        let named: Vec<String> = names.iter().map(|name| format!("{kind}={name}")).collect();
        for given in &record.devices {
            assert!(ids(&record, given).iter().all(|id| named.contains(id)), "{named:?}");
        }
        let first = &specification["devices"][1]["containerEdits"]["deviceNodes"];
        assert_eq!(*first, json!([{"path": "/dev/infiniband/uverbs0", "type": "c", "permissions": "rw"}]));
        assert_eq!(specification["devices"][0]["containerEdits"]["env"], json!(["RAIL_RAILS=0,1"]));
        assert_eq!(specification["devices"][0]["containerEdits"]["deviceNodes"][0]["path"], record.files[0]);
    }

    #[test]
    fn without_rdma_there_are_no_files() {
        let mut record = record();
        record.devices.iter_mut().for_each(|given| given.files.clear());
        record.files.clear();
        assert!(!specification(&record).to_string().contains("deviceNodes"));
    }

    #[test]
    fn files_are_known_by_their_names() {
        assert_eq!(uid_of(&file_name("0b5c-7")), Some("0b5c-7"));
        assert_eq!(uid_of("gpu.example.com-1.json"), None);
        assert_eq!(uid_of("rail.railyard.io-1.json.new"), None);
    }
}
