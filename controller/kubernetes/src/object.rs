//! A custom resource as it was seen. [pure]

use std::collections::BTreeMap;

use kube::core::dynamic::DynamicObject;
use serde_json::Value as Json;

use crate::{
    kind::{FINALIZER, Kind},
    status::{Handed, Status},
};

/// What becomes of the thing in Railyard when its object is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// It is deleted, or cancelled.
    Delete,
    /// It stays.
    Retain,
}

/// An object as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// Of which kind it is.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// Its namespace; empty where its kind has none.
    pub namespace: String,
    /// What Kubernetes calls it, never reused.
    pub uid: String,
    /// Counts changes of its spec.
    pub generation: i64,
    /// When it was made, as text that sorts by time; then its name.
    pub made: String,
    /// Whether somebody has deleted it.
    pub is_deleted: bool,
    /// Whether it waits for the operator before it goes.
    pub has_finalizer: bool,
    /// What its deletion means for Railyard.
    pub policy: Policy,
    /// Its spec.
    pub spec: Json,
    /// Its status as it is stored.
    pub status_json: Json,
    /// Its status as the operator wrote it last.
    pub status: Option<Status>,
}

impl Object {
    /// Reads an object.
    #[must_use]
    pub fn of(kind: Kind, object: &DynamicObject) -> Self {
        let metadata = &object.metadata;
        let (spec, status_json) = (object.data["spec"].clone(), object.data["status"].clone());
        let policy = match (spec["deletionPolicy"].as_str(), kind) {
            // A rollout is an event: there is nothing to take back.
            (_, Kind::Profile) => Policy::Retain,
            (Some("Delete"), _) | (None, Kind::Job) => Policy::Delete,
            _ => Policy::Retain,
        };
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        Self {
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            made: metadata.creation_timestamp.as_ref().map(|time| time.0.to_string()).unwrap_or_default(),
            is_deleted: metadata.deletion_timestamp.is_some(),
            has_finalizer: finalizers.iter().any(|one| one == FINALIZER),
            policy,
            status: Status::of_json(&status_json),
            spec,
            status_json,
        }
    }

    /// What was handed to Railyard for it.
    #[must_use]
    pub fn handed(&self) -> Option<&Handed> {
        self.status.as_ref()?.handed.as_ref()
    }

    /// A digest of what a job is submitted with: the order of keys and the deletion policy are nothing to it. It finds changes, and is no proof against
    /// whoever wants two specs to have the same one: a job does not change, whatever its object says.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut spec = self.spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("deletionPolicy");
        }
        let mut text = String::new();
        canonical(&spec, &mut text);
        let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }

    /// Which of several objects of a kind that Railyard has one of counts: the oldest, then the first by name.
    #[must_use]
    pub fn counting<'a>(all: impl Iterator<Item = &'a Self>) -> Option<&'a Self> {
        all.filter(|one| !one.is_deleted).min_by_key(|one| (&one.made, &one.name))
    }
}

/// JSON with sorted keys.
fn canonical(json: &Json, text: &mut String) {
    match json {
        Json::Object(fields) => {
            text.push('{');
            for (name, value) in fields.iter().collect::<BTreeMap<_, _>>() {
                text.push_str(&Json::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Json::Array(items) => {
            text.push('[');
            for item in items {
                canonical(item, text);
                text.push(',');
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}
