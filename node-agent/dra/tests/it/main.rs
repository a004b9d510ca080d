//! The driver as a process, called as kubelet calls it, before an API server over TLS.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod claims;
mod faults;
mod manifests;
mod slices;
mod sweep;

use std::path::Path;

use node_agent_dra_server::Site;

/// A server with four rails; the driver is started.
pub async fn site() -> Site {
    let site = Site::new(Path::new(env!("CARGO_BIN_EXE_rail-dra-driver")), 4).await;
    site.start().await;
    site
}
