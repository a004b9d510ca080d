//! Compiles kubelet's interfaces, `proto/kubelet`, without protoc.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from("../../proto/kubelet");
    let files = ["registration_v1.proto", "dra_v1.proto", "dra_v1beta1.proto"].map(|name| folder.join(name));
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    let descriptors = protox::compile(&files, [&folder])?;
    tonic_prost_build::configure().build_transport(false).compile_fds(descriptors)?;
    Ok(())
}
