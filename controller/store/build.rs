//! Compiles the part of etcd's API that we speak without protoc: protox parses, tonic-prost-build writes the code.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/etcd.proto");
    let descriptors = protox::compile(["proto/etcd.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .build_server(false)
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
