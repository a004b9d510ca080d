//! The harness: local clusters of real processes, for tests and benches.
//!
//! Everything that a [`Cluster`] starts is its own (ports, directories, namespaces, processes) and ends with it,
//! even if the test is killed: a guard process watches the test's end of a pipe.

pub mod access;
pub mod agents;
pub mod binaries;
pub mod cluster;
pub mod controllers;
pub mod etcd;
pub mod frr;
pub mod kubernetes;
pub mod kueue;
pub mod operator;
pub mod process;
pub mod procfs;
pub mod prometheus;
pub mod slurm;
pub mod sonic;
pub mod wait;
pub mod yaml;

pub use access::Access;
pub use agents::{Agents, Invitation, Servers};
pub use cluster::{Answer, Cluster, Shape};
pub use controllers::{Controllers, Users};
pub use etcd::Etcd;
pub use frr::Frr;
pub use kubernetes::Kubernetes;
pub use kueue::Kueue;
pub use operator::Operator;
pub use prometheus::Prometheus;
pub use wait::{Deadline, eventually};
