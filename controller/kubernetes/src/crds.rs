//! The CustomResourceDefinitions, as `rail-operator crds` prints them. [pure]

use prost_reflect::{DescriptorPool, MessageDescriptor};
use proto_wire::{descriptor_pool, json_schema};
use serde_json::{Value as Json, json};

use crate::{
    kind::{GROUP, Kind, VERSION},
    schema,
};

/// Names of tenants, queues and jobs.
const NAME: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// Fields of a spec beside those of the message, by kind.
const BESIDE: &[(Kind, &[&str])] = &[
    (Kind::Fabric, &["deletionPolicy", "allowShrink"]),
    (Kind::Tenant, &["deletionPolicy", "queues"]),
    (Kind::Profile, &["profile"]),
    (Kind::Job, &["deletionPolicy", "tenant"]),
];

/// All of them as documents of YAML.
#[must_use]
pub fn yaml() -> String {
    let head = "# The custom resources of Railyard. Made by `rail-operator crds`; a test compares.\n";
    let documents = Kind::ALL.map(|kind| proto_manifest::yaml_of(&definition(kind)));
    let documents = documents.iter().map(|text| text.trim_end().to_owned() + "\n");
    head.to_owned() + &documents.collect::<Vec<_>>().join("---\n")
}

/// The fields of a kind's spec that are not of its message.
#[must_use]
pub fn beside(kind: Kind) -> &'static [&'static str] {
    BESIDE.iter().find(|(of, _)| *of == kind).map_or(&[], |(_, names)| names)
}

/// One of them.
#[must_use]
pub fn definition(kind: Kind) -> Json {
    let name = format!("{}.{GROUP}", kind.plural());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.name(),
                "listKind": format!("{}List", kind.name()),
                "plural": kind.plural(),
                "singular": kind.singular(),
                "categories": ["railyard"],
            },
            "scope": if kind.is_namespaced() { "Namespaced" } else { "Cluster" },
            "versions": [{
                "name": VERSION,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns(kind),
                "schema": {"openAPIV3Schema": whole(kind)},
            }],
        },
    })
}

fn columns(kind: Kind) -> Json {
    let condition = |name: &str, of: &str, what: &str| json!({"name": name, "type": "string", "jsonPath": format!(".status.conditions[?(@.type==\"{of}\")].{what}")});
    let mut all = vec![condition("Ready", "Ready", "status"), condition("Reason", "Ready", "reason")];
    if kind == Kind::Job {
        all.push(json!({"name": "Tenant", "type": "string", "jsonPath": ".status.job.tenant"}));
        all.push(json!({"name": "Phase", "type": "string", "jsonPath": ".status.job.phase"}));
        all.push(json!({"name": "Attempt", "type": "integer", "jsonPath": ".status.job.attempt"}));
    }
    all.push(json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}));
    all.into()
}

fn whole(kind: Kind) -> Json {
    let about = match kind {
        Kind::Fabric => {
            "The network as it should be: rails, their leaves, and which NIC is cabled to which leaf. Of several objects the oldest counts."
        }
        Kind::Tenant => "A tenant of Railyard with its quota and its queues.",
        Kind::Profile => {
            "The class of service of all NICs, rolled out in stages. Of several objects the oldest counts."
        }
        Kind::Job => "A job of Railyard. It is submitted once; a change of its spec afterwards is refused.",
    };
    let mut metadata = json!({"type": "object"});
    if kind != Kind::Profile {
        metadata["properties"] = json!({"name": {"type": "string", "maxLength": 63, "pattern": NAME}});
    }
    json!({
        "type": "object",
        "description": about,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": metadata,
            "spec": spec(kind),
            "status": status(kind),
        },
    })
}

fn spec(kind: Kind) -> Json {
    let pool = descriptor_pool();
    let Some(message) = pool.get_message_by_name(kind.message()) else { return json!({"type": "object"}) };
    let without: &[&str] = match kind {
        Kind::Profile => &["document"],
        // An object is one job.
        Kind::Job => &["array"],
        Kind::Fabric | Kind::Tenant => &[],
    };
    let mut spec = schema::object(&message, without);
    for name in beside(kind) {
        spec["properties"][*name] = match *name {
            "deletionPolicy" => policy(kind),
            "allowShrink" => {
                json!({"type": "boolean", "description": "Much fewer servers than the present fabric cables are meant."})
            }
            "queues" => queues(&pool),
            "profile" => json!({
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "description": "The profile, as `railctl qos` takes it. Railyard checks it; what is wrong is said in the condition.",
            }),
            _ => json!({
                "type": "string", "pattern": NAME, "maxLength": 63,
                "description": "The tenant; default: the one of the namespace's label railyard.io/tenant. Another one has to be in its annotation railyard.io/tenants.",
            }),
        };
    }
    if kind == Kind::Profile {
        let mut required: Vec<Json> = spec["required"].as_array().cloned().unwrap_or_default();
        required.push("profile".into());
        spec["required"] = required.into();
    }
    spec
}

fn policy(kind: Kind) -> Json {
    let (default, about) = match kind {
        Kind::Job => ("Delete", "What becomes of the job when the object is deleted: Delete cancels it."),
        _ => ("Retain", "What becomes of it in Railyard when the object is deleted."),
    };
    json!({"type": "string", "enum": ["Delete", "Retain"], "default": default, "description": about})
}

/// A list of queues, each with its name beside what it is.
fn queues(pool: &DescriptorPool) -> Json {
    let described = |message: MessageDescriptor| json_schema::comment(&message.parent_file(), message.path());
    let message = pool.get_message_by_name("rail.v1.QueueSpec");
    let mut item = message.as_ref().map_or_else(|| json!({}), |message| schema::object(message, &[]));
    item["properties"]["name"] = json!({"type": "string", "pattern": NAME, "maxLength": 63});
    item["required"] = json!(["name"]);
    let about = message.map(described).filter(|text| !text.is_empty());
    json!({
        "type": "array",
        "maxItems": 128,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": item,
        "description": about.unwrap_or_else(|| "Its queues. One that is left out stays in Railyard.".to_owned()),
    })
}

fn status(kind: Kind) -> Json {
    let text = || json!({"type": "string"});
    let mut properties = json!({
        "observedGeneration": {"type": "integer", "format": "int64"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status", "reason", "message", "lastTransitionTime"],
                "properties": {
                    "type": {"type": "string", "enum": ["Ready", "Progressing", "Degraded"]},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                    "reason": text(),
                    "message": text(),
                    "observedGeneration": {"type": "integer", "format": "int64"},
                    "lastTransitionTime": {"type": "string", "format": "date-time"},
                },
            },
        },
    });
    if kind == Kind::Job {
        properties["job"] = json!({
            "type": "object",
            "description": "The job in Railyard.",
            "properties": {
                "tenant": text(),
                "name": text(),
                "uid": text(),
                "phase": text(),
                "attempt": {"type": "integer", "format": "int64"},
                "nodes": {"type": "array", "items": {"type": "string"}},
                "rails": {"type": "array", "items": {"type": "integer", "format": "int64"}},
            },
        });
    }
    properties["handed"] = json!({
        "type": "object",
        "description": "What was handed to Railyard: written before it is.",
        "properties": {
            "generation": {"type": "integer", "format": "int64"},
            "tenant": text(),
            "digest": text(),
            "isTaken": {"type": "boolean"},
        },
    });
    json!({"type": "object", "properties": properties})
}

#[cfg(test)]
mod tests {
    use std::{env, fs, path::Path};

    use super::*;

    #[test]
    fn the_committed_file_is_what_is_printed() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/kubernetes/crds.yaml");
        if env::var_os("RAILYARD_BLESS").is_some() {
            fs::write(&path, yaml()).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == yaml(), "{} differs: set RAILYARD_BLESS=1 to write it anew", path.display());
    }

    #[test]
    fn fields_beside_a_message_are_none_of_its_own() {
        for kind in Kind::ALL {
            let message = descriptor_pool().get_message_by_name(kind.message()).unwrap();
            for name in beside(kind) {
                assert!(message.get_field_by_json_name(name).is_none(), "{kind:?}: {name}");
            }
        }
    }

    #[test]
    fn a_job_has_no_array_and_what_is_handed_over_is_kept() {
        let schema = |kind| definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
        assert!(schema(Kind::Job)["properties"]["spec"]["properties"].get("array").is_none());
        let all = serde_json::to_value(crate::status::Handed::default()).unwrap();
        for kind in Kind::ALL {
            let schema = &schema(kind)["properties"]["status"]["properties"]["handed"]["properties"];
            for name in all.as_object().unwrap().keys() {
                assert!(schema.get(name).is_some(), "{kind:?}: {name}");
            }
        }
    }

    #[test]
    fn unknown_fields_are_kept_in_the_profile_alone() {
        let kept = yaml().matches("x-kubernetes-preserve-unknown-fields").count();
        assert_eq!(kept, 1);
    }
}
