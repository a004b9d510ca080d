//! A server's counters as files, for tests and benches.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use node_agent_health::{Source, Vendor, model::full_layout};
use proto_model::Nic;

/// A NIC whose counters can be recorded.
#[must_use]
pub fn nic(rail: u32, device: &str, netdev: &str) -> Nic {
    Nic {
        device: device.to_owned(),
        netdev: netdev.to_owned(),
        pci_address: format!("0000:{:02x}:00.0", 0x18 + rail),
        numa_node: None,
        rail,
        address: None,
        mtu: 4200,
        speed_mbps: 400_000,
        up: true,
        gid_index: None,
        facts: None,
    }
}

/// The file of a NIC's counter, below a root.
#[must_use]
pub fn place(nic: &Nic, source: Source, name: &str) -> String {
    let port = format!("sys/class/infiniband/{}/ports/1", nic.device);
    let net = format!("sys/class/net/{}", nic.netdev);
    match source {
        Source::Port => format!("{port}/counters/{name}"),
        Source::Hardware => format!("{port}/hw_counters/{name}"),
        Source::Netdev => format!("{net}/statistics/{name}"),
        Source::Link => format!("{net}/{name}"),
        Source::Ethtool => format!("{net}/ethtool_statistics/{name}"),
    }
}

/// Writes a NIC of mlx5 with every counter that it can have, all of this value, and its link up.
///
/// # Errors
/// The kernel's answer.
pub fn record(root: &Path, nic: &Nic, value: u64) -> io::Result<()> {
    let write = |path: String, text: String| {
        let at = root.join(path);
        fs::create_dir_all(at.parent().unwrap_or(root))?;
        fs::write(at, text)
    };
    for column in full_layout(Vendor::Mlx5).columns() {
        write(place(nic, column.row.source, &column.name), format!("{value}\n"))?;
    }
    let device = format!("sys/class/infiniband/{}", nic.device);
    write(format!("{device}/ports/1/hw_counters/lifespan"), "10\n".to_owned())?;
    write(format!("{device}/ports/1/state"), "4: ACTIVE\n".to_owned())?;
    write(format!("{device}/node_guid"), format!("b83f:d203:00{:02x}:0001\n", nic.rail))?;
    write(format!("sys/class/net/{}/carrier", nic.netdev), "1\n".to_owned())?;
    fs::create_dir_all(root.join(format!("{device}/device")))?;
    fs::create_dir_all(root.join("sys/bus/pci/drivers/mlx5_core"))?;
    let driver = root.join(format!("{device}/device/driver"));
    if driver.is_symlink() { Ok(()) } else { symlink(root.join("sys/bus/pci/drivers/mlx5_core"), driver) }
}
