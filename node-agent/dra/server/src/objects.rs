//! The objects of the cluster, and how they are written: versions, conflicts, dry runs, and fields that a feature gate drops.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// What is stored.
#[derive(Debug)]
pub struct Objects {
    /// By path.
    stored: BTreeMap<String, Value>,
    version: u64,
    /// Writes that were stored.
    pub writes: usize,
    /// The feature gate DRADeviceTaints.
    pub keeps_taints: bool,
    /// So many times somebody else changes an object between a driver's reading and its replacing.
    pub conflicts: usize,
}

impl Objects {
    /// None, with all features.
    pub(crate) fn new() -> Self {
        Self { stored: BTreeMap::new(), version: 0, writes: 0, keeps_taints: true, conflicts: 0 }
    }

    /// What stands at this path.
    #[must_use]
    pub fn get(&self, path: &str) -> Option<Value> {
        self.stored.get(path).cloned()
    }

    /// Puts an object there, as somebody else does.
    pub fn put(&mut self, path: &str, object: Value) {
        self.stored.insert(path.to_owned(), object);
    }

    /// Removes it, as somebody else does.
    pub fn remove(&mut self, path: &str) {
        self.stored.remove(path);
    }

    /// What an API server answers to an object that is made or replaced: status and body.
    pub fn write(&mut self, path: &str, mut object: Value, create: bool, dry: bool) -> (u16, Value) {
        if let (false, false, 1.., Some(stored)) = (create, dry, self.conflicts, self.stored.get_mut(path)) {
            self.conflicts -= 1;
            self.version += 1;
            stored["metadata"]["resourceVersion"] = self.version.to_string().into();
        }
        let before = self.stored.get(path);
        match (create, before) {
            (true, Some(_)) => return (409, status(409, "AlreadyExists", "object already exists")),
            (false, None) => return (404, status(404, "NotFound", "object not found")),
            (false, Some(before))
                if before["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] =>
            {
                return (
                    409,
                    status(
                        409,
                        "Conflict",
                        "the object has been modified; please apply your changes to the latest version",
                    ),
                );
            }
            _ => {}
        }
        let uid =
            before.map_or_else(|| format!("uid-{}", self.version), |object| text(&object["metadata"]["uid"]));
        // A field that is in use stays, whether its feature is on or not.
        let in_use = before.is_some_and(has_taints);
        for device in object["spec"]["devices"].as_array_mut().into_iter().flatten() {
            let Some(device) = device.as_object_mut() else { continue };
            if !self.keeps_taints && !in_use {
                device.remove("taints");
            }
            for taint in device.get_mut("taints").and_then(Value::as_array_mut).into_iter().flatten() {
                taint["timeAdded"] = "2026-01-01T00:00:00Z".into();
            }
        }
        self.version += 1;
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        object["metadata"]["generation"] = 1.into();
        if !dry {
            self.writes += 1;
            self.stored.insert(path.to_owned(), object.clone());
        }
        (if create { 201 } else { 200 }, object)
    }
}

fn has_taints(slice: &Value) -> bool {
    let devices = slice["spec"]["devices"].as_array().into_iter().flatten();
    devices.filter_map(|device| device["taints"].as_array()).any(|taints| !taints.is_empty())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A failure as the API server says it.
#[must_use]
pub fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason,
        "code": code,
    })
}

/// What it says of an object that is not there.
#[must_use]
pub fn not_found(path: &str) -> Value {
    let mut parts = path.rsplit('/');
    let (name, kind) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut answer = status(404, "NotFound", &format!("{kind} \"{name}\" not found"));
    answer["details"] = json!({"name": name, "kind": kind});
    answer
}
