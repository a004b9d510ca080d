//! Manifests in YAML.

use super::manifest;

/// Reads, writes, reads again.
pub fn run(data: &[u8]) {
    manifest::run(data, proto_manifest::Format::Yaml);
}
