//! Compiles the server's side of the part of etcd's API that the store speaks, from the store's own schema.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = "../../controller/store/proto";
    println!("cargo:rerun-if-changed={folder}/etcd.proto");
    let descriptors = protox::compile([format!("{folder}/etcd.proto")], [folder])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .build_client(false)
        .bytes(".")
        .compile_fds(descriptors)?;
    Ok(())
}
