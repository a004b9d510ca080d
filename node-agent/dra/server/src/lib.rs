//! Kubernetes around the DRA driver, for tests: an API server over TLS that answers as Kubernetes' own does, with faults on demand; kubelet's side of
//! the sockets; and the driver as a process that can be killed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]
#![allow(clippy::missing_panics_doc, reason = "as above")]

mod api;
mod kubelet;
mod objects;
mod server;
mod site;

pub use api::{ApiServer, Fault};
pub use kubelet::{Answer, Interface, Kubelet};
pub use objects::Objects;
pub use server::{Server, within};
pub use site::{NODE, Site, claim};
