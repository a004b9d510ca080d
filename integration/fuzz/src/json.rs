//! Manifests and requests in JSON.

use super::manifest;

/// Reads, writes, reads again.
pub fn run(data: &[u8]) {
    manifest::run(data, proto_manifest::Format::Json);
}
