//! How the library is linked: whoever loads it never unloads it. It has a thread of its own and something to do when the process ends, and
//! NCCL closes its plugins when its last communicator is gone.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
