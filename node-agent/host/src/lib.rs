//! What is on this server: GPUs, NICs, NUMA, PCIe paths, rails; a fake host beside the real one.
//!
//! It only reads. Nothing here is cached: each call looks again, so that a change is
//! seen. A part that cannot be read is a finding, not a failure: the rest of the server is still of use.

pub mod affinity;
pub mod changes;
pub mod counters;
pub mod discovery;
pub mod file;
pub mod finding;
pub mod gpu;
pub mod gpudirect;
pub mod host;
pub mod lldp;
pub mod nccl;
pub mod nic;
pub mod nvml;
pub mod pass;
pub mod pci;
pub mod rails;
pub mod recorded;
pub mod sysfs;
#[cfg(test)]
mod tests;

pub use discovery::Discovery;
pub use file::{InventoryFileError, from_json, to_json};
pub use finding::{Finding, FindingKind};
pub use host::{FakeHost, FileHost, Host, RealHost};
pub use nccl::{nccl_environment, nccl_topology, placed_nic};
pub use rails::{RailRule, RailRuleError};
