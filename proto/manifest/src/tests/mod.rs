//! Tests of reading and writing against a small contract with every kind of field.

mod hostile;
mod messages;
mod rail_options;
mod round_trip;
mod syntax;

use std::path::Path;
use std::sync::OnceLock;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

use crate::{Findings, Format, Registry, read_message};

fn pool() -> DescriptorPool {
    static POOL: OnceLock<DescriptorPool> = OnceLock::new();
    let compile = || {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests");
        DescriptorPool::from_file_descriptor_set(protox::compile(["test.proto"], [dir]).unwrap()).unwrap()
    };
    POOL.get_or_init(compile).clone()
}

fn message(name: &str) -> MessageDescriptor {
    pool().get_message_by_name(&format!("test.v1.{name}")).unwrap()
}

fn registry() -> Registry {
    Registry::of_pool(&pool(), "test.v1")
}

/// Reads a YAML document of the given type.
fn yaml(name: &str, text: &str) -> Result<DynamicMessage, Findings> {
    read_message("t.yaml", text.as_bytes(), Format::Yaml, &message(name))
}

/// Reads a JSON document of the given type.
fn json(name: &str, text: &str) -> Result<DynamicMessage, Findings> {
    read_message("t.json", text.as_bytes(), Format::Json, &message(name))
}

/// So many cases, or as many as `PROPTEST_CASES` says.
fn cases(default: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default);
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}
