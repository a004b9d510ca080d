//! Which NICs there are, and what drives each.

use node_agent_host::sysfs::is_pci_address;
use node_agent_netlink::{Kernel, NetlinkError, private, rdma, route::Route};
use node_agent_qos::{Device, Reading};

use super::convert::reading;

/// All NICs with RDMA, each port by itself, in the order of their names. Ports without a network device in this network namespace
/// are left out.
#[must_use]
pub fn devices(kernel: &dyn Kernel) -> Vec<Device> {
    let mut found: Vec<Device> = Vec::new();
    for rdma in rdma::devices(kernel) {
        for port in &rdma.ports {
            let Some(netdev) = port.netdev.as_deref() else { continue };
            found.push(Device {
                rdma: Some(rdma.name.clone()),
                port: port.number,
                ..describe(kernel, netdev)
            });
        }
    }
    found.sort_by(|a, b| (&a.netdev, &a.rdma).cmp(&(&b.netdev, &b.rdma)));
    found
}

/// One network device, with its RDMA device if it has one.
///
/// # Errors
/// There is no such network device.
pub fn find(kernel: &dyn Kernel, netdev: &str) -> Result<Device, NetlinkError> {
    Route::open(kernel)?.link(netdev)?;
    let with_rdma = devices(kernel).into_iter().find(|device| device.netdev == netdev);
    Ok(with_rdma.unwrap_or_else(|| describe(kernel, netdev)))
}

/// What does not depend on the RDMA device.
fn describe(kernel: &dyn Kernel, netdev: &str) -> Device {
    let driver = private::driver(kernel, netdev).unwrap_or_default();
    let link = Route::open(kernel).and_then(|mut route| route.link(netdev));
    let files = kernel.files();
    let pci = [files.leads_to(&format!("sys/class/net/{netdev}/device")), Some(driver.bus)];
    let pci = pci.into_iter().flatten().find(|address| is_pci_address(address));
    let speed = files.text(&format!("sys/class/net/{netdev}/speed"));
    // A link that is down says -1.
    let speed = speed.and_then(|text| text.parse::<i64>().ok()).and_then(|mbps| u64::try_from(mbps).ok());
    Device {
        netdev: netdev.to_owned(),
        rdma: None,
        port: 1,
        pci,
        driver: driver.name,
        driver_version: driver.version,
        firmware: driver.firmware,
        speed_mbps: speed.map_or(Reading::Unsupported, Reading::Known),
        link_up: reading(link.map(|link| link.up)),
    }
}
