//! Compiles `proto/rail/v1` without protoc: protox parses, tonic-prost-build writes the code.

use std::{env, fs, path::PathBuf};

use prost::Message as _;
use prost_types::FileDescriptorSet;

const FILES: [&str; 23] = [
    "common",
    "fabric",
    "qos",
    "node",
    "tenant",
    "rail",
    "job",
    "health",
    "step",
    "agent",
    "queue",
    "reservation",
    "service_class",
    "license",
    "schedule",
    "webhook",
    "secret",
    "deleted",
    "document",
    "audit",
    "switch",
    "usage",
    "controller",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("..");
    let files: Vec<PathBuf> = FILES.iter().map(|name| root.join(format!("rail/v1/{name}.proto"))).collect();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    for folder in ["buf", "google"] {
        println!("cargo:rerun-if-changed={}", root.join(folder).display());
    }
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(&files)?;
    // With the fields' options, which prost's own types of descriptors cannot hold.
    let encoded = compiler.encode_file_descriptor_set();
    let mut descriptors = FileDescriptorSet::decode(encoded.as_slice())?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("rail.v1.binpb"), encoded)?;
    // Of what the options are made of no code is needed.
    descriptors.file.retain(|file| !matches!(file.package(), "buf.validate" | "google.api"));
    // What holds secret values is printed by hand (`src/hidden.rs`).
    let hidden = [".rail.v1.Secret", ".rail.v1.Assignment"];
    tonic_prost_build::configure().build_transport(false).skip_debug(hidden).compile_fds(descriptors)?;
    Ok(())
}
