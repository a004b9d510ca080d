//! NICs in memory behind the kernel's own bytes, for clusters without such hardware: mlx5 NICs as they are after their driver was loaded.

use node_agent_netlink::{
    fake::{FakeKernel, Style},
    rdma,
};

/// A NIC in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modelled {
    /// Name of the network device.
    pub netdev: String,
    /// Name of the RDMA device.
    pub device: String,
    /// PCI address of the NIC, for example `0000:18:00.0`.
    pub pci: String,
}

/// A kernel with these NICs, whose driver is of this version (`6.12.0` for the upstream kernel's).
#[must_use]
pub fn modelled(nics: &[Modelled], style: Style, version: &str) -> FakeKernel {
    let kernel = FakeKernel::new();
    for (index, nic) in (0..).zip(nics) {
        add(&kernel, index, nic, style, version);
    }
    kernel.change(|world| world.files.put("proc/1/comm", "systemd\n"));
    kernel
}

fn add(kernel: &FakeKernel, index: u32, nic: &Modelled, style: Style, version: &str) {
    let Modelled { netdev, device, pci } = nic;
    kernel.add(netdev, style);
    kernel.change(|world| {
        let port = rdma::Port { number: 1, state: Some(4), physical: Some(5), netdev: Some(netdev.clone()) };
        world.rdma.push(rdma::Device {
            index: Some(index),
            name: device.clone(),
            ports: vec![port],
            ..Default::default()
        });
        if let Some(device) = world.devices.get_mut(netdev) {
            device.driver.version = version.into();
        }
        let files = &mut world.files;
        files.link(&format!("sys/class/net/{netdev}/device"), pci);
        files.put(&format!("sys/class/net/{netdev}/speed"), "400000\n");
        files.manage(device, 1);
        for (name, value) in [
            ("np_cnp_dscp", "0"),
            ("np_cnp_prio", "0"),
            ("rp_ai_rate", "5"),
            ("np_min_time_between_cnps", "4"),
        ] {
            files.put(&format!("sys/kernel/debug/mlx5/{pci}/cc_params/{name}"), &format!("{value}\n"));
        }
    });
}
