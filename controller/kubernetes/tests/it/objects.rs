//! Objects with versions and a history, as an API server keeps them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One change: its version, the collection, and the event.
pub type Change = (u64, String, Value);

/// All objects, by collection and name.
#[derive(Debug, Default)]
pub struct Objects {
    version: u64,
    uid: u64,
    all: BTreeMap<(String, String), Value>,
    history: Vec<Change>,
    /// Versions up to this are forgotten.
    forgotten: u64,
    writes: BTreeMap<(String, String), u32>,
    reads: BTreeMap<(String, String), u32>,
    gone: u32,
}

fn key(collection: &str, name: &str) -> (String, String) {
    (collection.to_owned(), name.to_owned())
}

impl Objects {
    /// Stores a new object.
    pub fn create(&mut self, collection: &str, mut object: Value) {
        self.uid += 1;
        object["metadata"]["uid"] = format!("u{}", self.uid).into();
        object["metadata"]["generation"] = 1.into();
        object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        self.store(collection, &name, "ADDED", object);
    }

    fn store(&mut self, collection: &str, name: &str, event: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.history.push((self.version, collection.to_owned(), json!({"type": event, "object": object})));
        if event == "DELETED" {
            self.all.remove(&key(collection, name));
        } else {
            self.all.insert(key(collection, name), object.clone());
        }
        object
    }

    /// One object.
    pub fn get(&self, collection: &str, name: &str) -> Value {
        self.all.get(&key(collection, name)).cloned().unwrap_or_default()
    }

    /// One object, for who asks for it alone.
    pub fn read(&mut self, collection: &str, name: &str) -> Value {
        *self.reads.entry(key(collection, name)).or_default() += 1;
        self.get(collection, name)
    }

    /// How often an object was asked for alone.
    pub fn reads(&self, collection: &str, name: &str) -> u32 {
        self.reads.get(&key(collection, name)).copied().unwrap_or_default()
    }

    /// How many objects are so.
    pub fn count(&self, is: impl Fn(&Value) -> bool) -> usize {
        self.all.values().filter(|object| is(object)).count()
    }

    /// All of a collection, as a list.
    pub fn list(&self, collection: &str) -> Value {
        let items: Vec<&Value> =
            self.all.iter().filter(|((of, _), _)| of == collection).map(|(_, object)| object).collect();
        json!({
            "apiVersion": "railyard.io/v1alpha1", "kind": "List", "items": items,
            "metadata": {"resourceVersion": self.version.to_string()},
        })
    }

    /// What has happened in a collection since a version; nothing where that is forgotten.
    pub fn since(&mut self, collection: &str, version: u64) -> Option<Vec<Change>> {
        if version < self.forgotten {
            self.gone += 1;
            return None;
        }
        let of = |change: &&Change| change.0 > version && change.1 == collection;
        Some(self.history.iter().filter(of).cloned().collect())
    }

    /// How many watches were told that they are too old.
    pub fn gone(&self) -> u32 {
        self.gone
    }

    /// Forgets what has happened so far.
    pub fn forget(&mut self) {
        self.history.clear();
        self.forgotten = self.version;
    }

    /// How often others than the test wrote an object.
    pub fn writes(&self, collection: &str, name: &str) -> u32 {
        self.writes.get(&key(collection, name)).copied().unwrap_or_default()
    }

    /// Changes an object as its owner would.
    pub fn change(&mut self, collection: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(collection, name);
        change(&mut object);
        let generation = object["metadata"]["generation"].as_u64().unwrap() + 1;
        object["metadata"]["generation"] = generation.into();
        self.store(collection, name, "MODIFIED", object);
    }

    /// Deletes an object: at once, or when its finalizers are gone.
    pub fn delete(&mut self, collection: &str, name: &str) {
        let mut object = self.get(collection, name);
        let is_held = object["metadata"]["finalizers"].as_array().is_some_and(|all| !all.is_empty());
        if is_held {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:01Z".into();
        }
        self.store(collection, name, if is_held { "MODIFIED" } else { "DELETED" }, object);
    }

    /// A patch of somebody else; its status code and answer. What changes nothing is no write.
    pub fn patch(&mut self, collection: &str, name: &str, is_status: bool, patch: &Value) -> (u16, Value) {
        let before = self.get(collection, name);
        if before.is_null() {
            return (404, refusal(404, "NotFound"));
        }
        let asked = &patch["metadata"];
        let differs = |field: &str| !asked[field].is_null() && asked[field] != before["metadata"][field];
        if differs("uid") || differs("resourceVersion") {
            return (409, refusal(409, "Conflict"));
        }
        let mut after = before.clone();
        if is_status {
            after["status"] = patch["status"].clone();
        } else {
            after["metadata"]["finalizers"] = asked["finalizers"].clone();
        }
        if after == before {
            return (200, before);
        }
        *self.writes.entry(key(collection, name)).or_default() += 1;
        let ends = !after["metadata"]["deletionTimestamp"].is_null()
            && after["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        (200, self.store(collection, name, if ends { "DELETED" } else { "MODIFIED" }, after))
    }
}

/// As an API server refuses.
pub fn refusal(code: u16, reason: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason})
}
