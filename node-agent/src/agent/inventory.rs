//! The server's inventory: whence it comes, and how it is shown.

use std::sync::Arc;

use node_agent_host::{FileHost, Host, RealHost};
use proto_wire::v1;

use crate::{agent::AgentError, cli::InventoryArguments};

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
    let wire = v1::Inventory::from(&discovery.inventory);
    let gpus: Vec<_> = wire
        .gpus
        .iter()
        .map(|gpu| {
            serde_json::json!({
                "index": gpu.index, "uuid": gpu.uuid, "model": gpu.model, "pciAddress": gpu.pci_address,
                "numaNode": gpu.numa_node, "memoryBytes": gpu.memory_bytes.to_string(),
            })
        })
        .collect();
    let nics: Vec<_> = wire
        .nics
        .iter()
        .map(|nic| {
            serde_json::json!({
                "device": nic.device, "netdev": nic.netdev, "pciAddress": nic.pci_address,
                "numaNode": nic.numa_node, "rail": nic.rail, "address": nic.address, "mtu": nic.mtu,
                "speedMbps": nic.speed_mbps.to_string(), "up": nic.up, "gidIndex": nic.gid_index,
            })
        })
        .collect();
    let shown = serde_json::json!({
        "gpus": gpus, "nics": nics, "numaNodes": wire.numa_nodes, "cpus": wire.cpus,
        "memoryBytes": wire.memory_bytes.to_string(),
    });
    println!("{shown:#}");
    for finding in discovery.findings {
        eprintln!("{}: {}", finding.subject, finding.message);
    }
    Ok(())
}
