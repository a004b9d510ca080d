//! The server's inventory: whence it comes, and how it is shown.

use std::sync::Arc;

use node_agent_host::{FileHost, Host, RealHost, to_json};

use crate::{agent::error::AgentError, arguments::InventoryArguments};

/// The host that the command line asks for.
pub(crate) fn host(arguments: &InventoryArguments) -> Arc<dyn Host> {
    match &arguments.inventory {
        Some(path) => Arc::new(FileHost::new(path)),
        None => Arc::new(RealHost::new(arguments.rails.clone())),
    }
}

/// `rail-node-agent inventory`: for people, and to write an inventory file from.
///
/// # Errors
/// The inventory file cannot be read.
pub fn print(arguments: &InventoryArguments) -> Result<(), AgentError> {
    let discovery = host(arguments).discover()?;
    println!("{}", to_json(&discovery.inventory));
    for finding in discovery.findings {
        eprintln!("{}: {}: {}", finding.kind.code(), finding.subject, finding.message);
    }
    Ok(())
}
