//! What a container with a claim finds in its environment. [pure]
//!
//! NCCL's variables are made where those of Railyard's own ranks are (`node_agent_host::nccl_environment`). Two of them are not given: which network
//! devices to bootstrap over is for the pod's network to say, and how far GPUDirect may reach follows from GPUs, which another driver gives.

use std::collections::BTreeMap;

use node_agent_host::{Discovery, nccl_environment};
use node_agent_qos::DataClass;
use proto_model::{Inventory, Nic, NicFacts, NicPlace, NicPort, NodeName, NodePlace};
use serde_json::json;

use crate::devices::RailDevice;

const NOT_OURS: [&str; 2] = ["NCCL_SOCKET_IFNAME", "NCCL_NET_GDR_LEVEL"];

/// The variables of a claim with these devices on this server.
#[must_use]
pub fn variables(
    node: &NodeName,
    devices: &[&RailDevice],
    data_class: DataClass,
) -> BTreeMap<String, String> {
    let nics: Vec<Nic> = devices.iter().map(|device| nic(device)).collect();
    let place = |device: &&RailDevice| NicPlace {
        device: device.nic.clone(),
        netdev: device.netdev.clone(),
        rail: device.rail,
        leaf: device.leaf.clone().unwrap_or_default(),
        address: device.address,
    };
    let place = NodePlace {
        node: node.clone(),
        pod: devices.first().and_then(|device| device.pod.clone()).unwrap_or_default(),
        gpus: Vec::new(),
        nics: devices.iter().map(place).collect(),
        remapped: false,
        cpus: 0,
        memory_bytes: 0,
    };
    let discovery = Discovery::of_inventory(Inventory { nics, ..Inventory::default() });
    let mut all = nccl_environment(&discovery, &place, data_class, None);
    NOT_OURS.iter().for_each(|name| _ = all.remove(*name));
    let rails: Vec<String> = devices.iter().map(|device| device.rail.to_string()).collect();
    all.insert("RAIL_NODE".to_owned(), node.to_string());
    all.insert("RAIL_RAILS".to_owned(), rails.join(","));
    all.insert("RAIL_DEVICES".to_owned(), described(devices));
    all
}

/// What the inventory of a server would say of it.
fn nic(device: &RailDevice) -> Nic {
    let port = NicPort { number: device.port, state: None, physical: None };
    Nic {
        device: device.nic.clone(),
        netdev: device.netdev.clone(),
        pci_address: device.pci_address.clone(),
        numa_node: device.numa_node,
        rail: device.rail,
        address: device.address,
        mtu: 0,
        speed_mbps: device.speed_mbps,
        up: true,
        gid_index: device.gid_index,
        facts: Some(Box::new(NicFacts { port: Some(port), ..NicFacts::default() })),
    }
}

/// The claim's rails as one line of JSON, in the names of the ranks' map (`RAIL_RANK_MAP`).
fn described(devices: &[&RailDevice]) -> String {
    let one = |device: &&RailDevice| {
        json!({
            "nic": device.nic,
            "netdev": device.netdev,
            "rail": device.rail,
            "leaf": device.leaf.clone().unwrap_or_default(),
            "pod": device.pod.clone().unwrap_or_default(),
            "numaNode": device.numa_node,
            "address": device.address.map(|address| address.to_string()).unwrap_or_default(),
        })
    };
    serde_json::Value::from(devices.iter().map(one).collect::<Vec<_>>()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::{devices, tests::view};

    #[test]
    fn variables_name_the_claims_rails_alone() {
        let all = devices(&view());
        let node = NodeName::new("n0").unwrap();
        let given = variables(&node, &[&all[1], &all[3]], DataClass::default());
        assert_eq!(given["NCCL_IB_HCA"], "=mlx5_1:1,mlx5_3:1");
        assert_eq!(given["NCCL_IB_GID_INDEX"], "3");
        assert_eq!(given["NCCL_IB_TC"], DataClass::default().traffic_class.to_string());
        assert_eq!((given["RAIL_RAILS"].as_str(), given["RAIL_NODE"].as_str()), ("1,3", "n0"));
        assert!(
            given["RAIL_DEVICES"].contains("\"netdev\":\"rail3\"")
                && !given["RAIL_DEVICES"].contains("rail2")
        );
        NOT_OURS.iter().for_each(|name| assert!(!given.contains_key(*name), "{name}"));
    }

    #[test]
    fn without_rdma_nccl_is_told_so_by_its_own_variable() {
        let mut without = devices(&view()).swap_remove(0);
        without.gid_index = None;
        let given = variables(&NodeName::new("n0").unwrap(), &[&without], DataClass::default());
        assert_eq!(given["NCCL_IB_DISABLE"], "1");
        assert!(!given.contains_key("NCCL_IB_HCA"));
    }
}
