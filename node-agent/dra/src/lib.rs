//! rail-dra-driver: Kubernetes allocates a server's rails as devices (dynamic resource allocation, `resource.k8s.io/v1`).
//!
//! Decisions are pure: `devices` is which devices a server has and how they are, `slice` what is published of them, `allocation` what a claim
//! was given, `claims` what becomes of claims, `environment` and `cdi` what a container gets. Around them: `source` is where a server's rails
//! are known from, `kube` the API server, `checkpoint` kubelet's list of claims, `store` what is on disk, `driver` prepares and removes, `plugin` and
//! `sockets` are what kubelet calls.
//!
//! Contracts:
//! 1. What kubelet was given for a claim is on disk before it is answered, and stays the same until the claim is unprepared.
//! 2. What is on disk for containers belongs to a recorded claim: a start removes the rest.
//! 3. A NIC is given to one claim at a time, but for claims with admin access.
//! 4. Nobody waits without a limit, for the API server least of all.

pub mod allocation;
pub mod arguments;
pub mod cdi;
pub mod checkpoint;
pub mod claims;
pub mod cli;
pub mod controller;
pub mod devices;
pub mod driver;
pub mod environment;
pub mod error;
pub mod files;
pub mod key;
mod keyed;
pub mod kube;
pub mod kubelet;
pub mod plugin;
pub mod publish;
pub mod run;
pub mod slice;
pub mod sockets;
pub mod source;
pub mod store;
pub mod sweep;
