//! What both text formats share: reading documents and writing them again.

use std::sync::OnceLock;

use prost::Message as _;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use proto_manifest::{Format, MAX_FINDINGS, Registry, read_message, to_json, to_yaml};
use proto_model::{Fabric, Job, JobSpec, Node, Tenant};
use proto_wire::v1;

fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::rail_v1)
}

fn requests() -> &'static [MessageDescriptor] {
    static REQUESTS: OnceLock<Vec<MessageDescriptor>> = OnceLock::new();
    REQUESTS.get_or_init(|| {
        let pool = proto_wire::descriptor_pool();
        let names = ["CreateJobRequest", "JobSpec", "Assignment", "Observation"];
        names.iter().filter_map(|name| pool.get_message_by_name(&format!("rail.v1.{name}"))).collect()
    })
}

/// Reads the text as documents, and as one message of each of some types.
pub fn run(data: &[u8], format: Format) {
    match registry().read("fuzz", data, format) {
        Ok(documents) => {
            for document in documents {
                rewritten(&document.message);
                into_domain(&document.kind, &document.message);
            }
        }
        Err(findings) => assert!(!findings.to_string().is_empty()),
    }
    for descriptor in requests() {
        match read_message("fuzz", data, format, descriptor) {
            Ok(message) => rewritten(&message),
            Err(findings) => {
                assert!(
                    (1..=MAX_FINDINGS).contains(&findings.items.len()) && !findings.to_string().is_empty()
                );
            }
        }
    }
}

/// What was read can be written, and what was written is read the same.
fn rewritten(message: &DynamicMessage) {
    use prost_reflect::ReflectMessage as _;
    let descriptor = message.descriptor();
    let (json, yaml) = match (to_json(message), to_yaml(message)) {
        (Ok(json), Ok(yaml)) => (json, yaml),
        (json, yaml) => panic!("read but not written: {:?} {:?}", json.err(), yaml.err()),
    };
    // An empty message is an empty document, which readers refuse.
    if json.as_object().is_some_and(serde_json::Map::is_empty) {
        return;
    }
    for (text, format) in [(json.to_string(), Format::Json), (yaml, Format::Yaml)] {
        match read_message("again", text.as_bytes(), format, &descriptor) {
            // By their JSON: not-a-number is not equal to itself.
            Ok(again) => assert_eq!(to_json(&again).as_ref(), Ok(&json), "{text}"),
            Err(findings) => panic!("written but not read:\n{text}\n{findings}"),
        }
    }
}

fn into_domain(kind: &str, message: &DynamicMessage) {
    let bytes = message.encode_to_vec();
    let bytes = bytes.as_slice();
    match kind {
        "Job" => {
            if let Ok(wire) = v1::Job::decode(bytes) {
                let _ = JobSpec::try_from(wire.spec.clone().unwrap_or_default());
                let _ = Job::try_from(wire);
            }
        }
        "Fabric" => {
            let fabric = v1::Fabric::decode(bytes).ok().and_then(|wire| Fabric::try_from(wire).ok());
            let _ = fabric.map(|fabric| controller_topology::check(&fabric));
        }
        "Tenant" => _ = v1::Tenant::decode(bytes).ok().map(Tenant::try_from),
        "Node" => _ = v1::Node::decode(bytes).ok().map(Node::try_from),
        _ => {}
    }
}
