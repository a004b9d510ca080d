//! Compiles `proto/rail/agent_state/v1/switch_state.proto`, the schema of what is saved on a switch. Only this program links it.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from("../../proto");
    let file = root.join("rail/agent_state/v1/switch_state.proto");
    println!("cargo:rerun-if-changed={}", file.display());
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files([&file])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .btree_map(".rail.agent_state.v1")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
