//! Compiles `proto/rail/store/v1` without protoc: protox parses, prost-build writes the code.

use std::{env, fs, path::PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;

const FILES: [&str; 9] =
    ["common", "job", "node", "fabric", "tenant", "switch", "audit", "usage", "controller"];
/// What holds secrets is printed by hand (`src/hidden.rs`).
const HIDDEN: [&str; 5] = [
    ".rail.store.v1.Values",
    ".rail.store.v1.WebhookSpec",
    ".rail.store.v1.Attempt",
    ".rail.store.v1.PageKey",
    ".rail.store.v1.JoinToken",
];

#[expect(
    clippy::disallowed_methods,
    reason = "the room is pure, and what builds it has to find and write files"
)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("../../proto");
    let files: Vec<PathBuf> =
        FILES.iter().map(|name| root.join(format!("rail/store/v1/{name}.proto"))).collect();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(&files)?;
    let encoded = compiler.encode_file_descriptor_set();
    let descriptors = FileDescriptorSet::decode(encoded.as_slice())?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("rail.store.v1.binpb"), encoded)?;
    // Maps in the order of their keys: a row is the same bytes each time.
    prost_build::Config::new().btree_map(["."]).skip_debug(HIDDEN).compile_fds(descriptors)?;
    Ok(())
}
