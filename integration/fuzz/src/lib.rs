//! What each fuzz target does with its bytes: nothing may panic, run long or take memory without bound, and what
//! was read survives being written and read again.
//!
//! One file per target; `targets/` only ties them to libFuzzer. A test of `integration` includes this file and
//! replays the seeds with the stable compiler.

pub mod agent_state;
pub mod audit;
pub mod cabling;
pub mod engine;
pub mod frames;
pub mod gnmi;
pub mod handshake;
pub mod inventory;
pub mod json;
pub mod keys;
pub mod launch;
pub mod lldp;
pub mod local;
pub mod machine;
mod manifest;
pub mod nccl;
pub mod netlink;
pub mod offer;
pub mod oidc;
pub mod page_token;
pub mod pci;
pub mod ports;
pub mod probe;
pub mod qos;
pub mod rows;
pub mod rpc;
pub mod servers;
pub mod steps;
pub mod store;
pub mod switch;
mod take;
pub mod topology;
pub mod trace;
pub mod webhook;
pub mod wire;
pub mod yaml;

/// A target by its name.
pub type Target = (&'static str, fn(&[u8]));

/// Every target; each name is also that of its seeds' folder.
pub const TARGETS: [Target; 34] = [
    ("agent_state", agent_state::run),
    ("audit", audit::run),
    ("cabling", cabling::run),
    ("engine", engine::run),
    ("frames", frames::run),
    ("gnmi", gnmi::run),
    ("handshake", handshake::run),
    ("inventory", inventory::run),
    ("json", json::run),
    ("keys", keys::run),
    ("launch", launch::run),
    ("lldp", lldp::run),
    ("local", local::run),
    ("machine", machine::run),
    ("nccl", nccl::run),
    ("netlink", netlink::run),
    ("offer", offer::run),
    ("oidc", oidc::run),
    ("page_token", page_token::run),
    ("pci", pci::run),
    ("ports", ports::run),
    ("probe", probe::run),
    ("qos", qos::run),
    ("rows", rows::run),
    ("rpc", rpc::run),
    ("servers", servers::run),
    ("steps", steps::run),
    ("store", store::run),
    ("switch", switch::run),
    ("topology", topology::run),
    ("trace", trace::run),
    ("webhook", webhook::run),
    ("wire", wire::run),
    ("yaml", yaml::run),
];
