//! A recorded server with 2 GPUs, 2 rails and a storage NIC, hostile trees, and inventory files.

use std::{fs, net::IpAddr, os::unix::fs::symlink, path::Path};

use node_agent_qos::DataClass;
use proptest::prelude::*;
use proto_model::{
    GidKind, Inventory, NicPlace, NicPort, NodeName, NodePlace, PhysicalState, PortState, ReasonCode,
};

use crate::{
    FindingKind, Host, RailRule, RealHost,
    affinity::{Distance, distance, nearest},
    file::{from_json, to_json},
    nccl::{nccl_environment, nccl_topology},
    nic::Addresses,
};

fn write(root: &Path, path: &str, text: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, text).unwrap();
}

fn link(root: &Path, path: &str, to: &str) {
    let at = root.join(path);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    symlink(root.join(to), at).unwrap();
}

/// One PCI function at `path` below its host bridge, as sysfs shows it.
fn pci(root: &Path, bridge: &str, path: &[&str], vendor: &str, class: &str, numa: i32) -> String {
    let mut at = format!("sys/devices/{bridge}");
    for part in path {
        at = format!("{at}/{part}");
        if !root.join(&at).exists() {
            write(root, &format!("{at}/class"), "0x060400\n");
            write(root, &format!("{at}/current_link_speed"), "32.0 GT/s PCIe\n");
            write(root, &format!("{at}/current_link_width"), "16\n");
            link(root, &format!("sys/bus/pci/devices/{part}"), &at);
        }
    }
    write(root, &format!("{at}/vendor"), &format!("{vendor}\n"));
    write(root, &format!("{at}/device"), "0x1021\n");
    write(root, &format!("{at}/class"), &format!("{class}\n"));
    write(root, &format!("{at}/numa_node"), &format!("{numa}\n"));
    at
}

fn rdma(root: &Path, at: &str, device: &str, netdev: &str, speed: u32, address: &str) {
    write(root, &format!("{at}/net/{netdev}/mtu"), "4200\n");
    write(root, &format!("{at}/net/{netdev}/operstate"), "up\n");
    write(root, &format!("{at}/net/{netdev}/speed"), &format!("{speed}\n"));
    link(root, &format!("{at}/net/{netdev}/device"), at);
    link(root, &format!("sys/class/net/{netdev}"), &format!("{at}/net/{netdev}"));
    let ib = format!("{at}/infiniband/{device}");
    write(root, &format!("{ib}/ports/1/link_layer"), "Ethernet\n");
    write(root, &format!("{ib}/ports/1/state"), "4: ACTIVE\n");
    let gids = [
        ("fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1"),
        ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"),
        (address, "IB/RoCE v1"),
        (address, "RoCE v2"),
    ];
    for (index, (gid, kind)) in gids.into_iter().enumerate() {
        write(root, &format!("{ib}/ports/1/gids/{index}"), gid);
        write(root, &format!("{ib}/ports/1/gid_attrs/types/{index}"), kind);
        write(root, &format!("{ib}/ports/1/gid_attrs/ndevs/{index}"), netdev);
    }
    link(root, &format!("{ib}/device"), at);
    link(root, &format!("sys/class/infiniband/{device}"), &ib);
}

fn gid(address: &str) -> String {
    let IpAddr::V4(v4) = address.parse::<IpAddr>().unwrap() else { panic!("v4 only") };
    let [a, b, c, d] = v4.octets();
    format!("0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}")
}

/// Two sockets; on each a switch with a GPU and a 400 Gbit/s NIC; a slower storage NIC beside them.
fn server(root: &Path) -> Addresses {
    for (k, (bridge, numa)) in [("pci0000:17", 0), ("pci0000:97", 1)].into_iter().enumerate() {
        let bus = &bridge[8..];
        let port = format!("0000:{bus}:01.0");
        let up = format!("0000:{bus}:02.0");
        let (down_a, down_b) = (format!("0000:{bus}:03.0"), format!("0000:{bus}:04.0"));
        let (gpu, nic) = (format!("0000:{bus}:1b.0"), format!("0000:{bus}:18.0"));
        let path = [port.as_str(), &up, &down_a, &gpu];
        pci(root, bridge, &path, "0x10de", "0x030200", numa);
        let info = format!("Model: \t\t NVIDIA H100 80GB HBM3\nGPU UUID: \t GPU-{k}\n");
        write(root, &format!("proc/driver/nvidia/gpus/{gpu}/information"), &info);
        let at = pci(root, bridge, &[&port, &up, &down_b, &nic], "0x15b3", "0x020000", numa);
        // Device numbers run against the PCI order, as they do after a driver was reloaded.
        let (device, netdev) = (format!("mlx5_{}", 7 - k), format!("ens{k}np0"));
        rdma(root, &at, &device, &netdev, 400_000, &gid(&format!("10.0.{k}.5")));
    }
    let storage = pci(root, "pci0000:17", &["0000:17:05.0", "0000:05:00.0"], "0x15b3", "0x020000", 0);
    rdma(root, &storage, "mlx5_bond_0", "bond0", 100_000, &gid("10.9.0.5"));
    write(root, "sys/devices/virtual/net/lo/mtu", "65536");
    link(root, "sys/class/net/lo", "sys/devices/virtual/net/lo");
    for node in ["node0", "node1", "possible"] {
        fs::create_dir_all(root.join("sys/devices/system/node").join(node)).unwrap();
    }
    write(root, "sys/devices/system/cpu/online", "0-95,97\n");
    write(root, "proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\n");
    (0..2).map(|k| (format!("ens{k}np0"), vec![format!("10.0.{k}.5").parse().unwrap()])).collect()
}

fn place() -> NodePlace {
    let nic = |k: u32| NicPlace {
        device: format!("mlx5_{}", 7 - k),
        netdev: format!("ens{k}np0"),
        rail: k,
        leaf: String::new(),
        address: None,
    };
    NodePlace {
        node: NodeName::new("n0").unwrap(),
        pod: String::new(),
        gpus: vec![0, 1],
        nics: vec![nic(0), nic(1)],
        remapped: false,
        cpus: 0,
        memory_bytes: 0,
    }
}

#[test]
fn a_server_is_read_with_rails_by_pci_order_and_gids_by_type_and_address() {
    let room = tempfile::tempdir().unwrap();
    let addresses = server(room.path());
    let host = RealHost::recorded(room.path(), addresses, RailRule::Auto);
    let found = host.discover().unwrap();
    assert_eq!(found.findings, vec![]);
    let inventory = &found.inventory;
    assert_eq!((inventory.cpus, inventory.numa_nodes, inventory.memory_bytes), (97, 2, 1_024_000));
    let gpus: Vec<_> = inventory.gpus.iter().map(|g| (g.index, g.uuid.as_str(), g.numa_node)).collect();
    assert_eq!(gpus, [(0, "GPU-0", Some(0)), (1, "GPU-1", Some(1))]);
    assert_eq!(inventory.gpus[0].model, "NVIDIA H100 80GB HBM3");
    let nics: Vec<_> = inventory
        .nics
        .iter()
        .map(|n| (n.rail, n.device.as_str(), n.netdev.as_str(), n.gid_index, n.speed_mbps, n.mtu, n.up))
        .collect();
    assert_eq!(
        nics,
        [
            (0, "mlx5_7", "ens0np0", Some(3), 400_000, 4200, true),
            (1, "mlx5_6", "ens1np0", Some(3), 400_000, 4200, true)
        ]
    );
    assert_eq!(inventory.nics[1].address, Some("10.0.1.5".parse().unwrap()));
    assert_eq!(inventory.nics[1].pci_address, "0000:97:18.0");
}

#[test]
fn where_rails_are_subnets_a_nic_s_other_addresses_are_not_its_rail_s() {
    let room = tempfile::tempdir().unwrap();
    let mut addresses = server(room.path());
    addresses.get_mut("ens0np0").unwrap().insert(0, "192.0.2.2".parse().unwrap());
    // It has come to an entry before the rail's own.
    let gids = "sys/class/infiniband/mlx5_7/ports/1/gids";
    write(room.path(), &format!("{gids}/1"), &gid("192.0.2.2"));
    let seen = |rule: &str| {
        let host = RealHost::recorded(room.path(), addresses.clone(), rule.parse().unwrap());
        let nic = host.discover().unwrap().inventory.nics.remove(0);
        (nic.rail, nic.gid_index, nic.address.unwrap().to_string())
    };
    assert_eq!(seen("subnet:10.0.{k}.0/24"), (0, Some(3), "10.0.0.5".to_owned()));
    // Nothing says which address it is then.
    assert_eq!(seen("pci"), (0, Some(1), "192.0.2.2".to_owned()));
}

#[test]
fn a_gpu_s_nic_is_behind_its_switch_and_nccl_is_told_so() {
    let room = tempfile::tempdir().unwrap();
    let addresses = server(room.path());
    let found = RealHost::recorded(room.path(), addresses, RailRule::PciOrder).discover().unwrap();
    let nics: Vec<_> = found.inventory.nics.iter().collect();
    for (gpu, rail) in found.inventory.gpus.iter().zip(0..) {
        assert_eq!(nearest(&found, gpu, &nics).unwrap().rail, rail);
        assert_eq!(distance(&found, gpu, nics[rail as usize]), Distance::Pix);
        assert_eq!(distance(&found, gpu, nics[1 - rail as usize]), Distance::Sys);
    }
    let report =
        |data_class| nccl_environment(&found, &place(), data_class, Some(Path::new("/run/topo.xml")));
    let environment = report(DataClass::default());
    let expected = [
        ("NCCL_IB_DISABLE", "0"),
        ("NCCL_IB_GID_INDEX", "3"),
        ("NCCL_IB_HCA", "=mlx5_7:1,mlx5_6:1"),
        ("NCCL_IB_TC", "106"),
        ("NCCL_NET_GDR_LEVEL", "PIX"),
        ("NCCL_SOCKET_IFNAME", "=ens0np0,ens1np0"),
        ("NCCL_TOPO_FILE", "/run/topo.xml"),
    ];
    let reported: Vec<_> = environment.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(reported, expected);
    // As class of service is on the NICs, so NCCL sends.
    let data_class = DataClass { traffic_class: 24 << 2 | 2, ..DataClass::default() };
    assert_eq!(report(data_class)["NCCL_IB_TC"], "98");
    let xml = nccl_topology(&found, &place()).unwrap();
    assert_eq!(xml.matches("<cpu ").count(), 2);
    assert_eq!(xml.matches("<pci ").count(), xml.matches("</pci>").count());
    assert!(xml.contains("<net name=\"mlx5_7\" dev=\"0\" speed=\"400000\" port=\"1\"/>"), "{xml}");
    assert!(xml.contains("<gpu dev=\"1\"/>"), "{xml}");
}

#[test]
fn without_rdma_nccl_is_told_to_use_sockets_and_no_topology_is_invented() {
    let json = r#"{"gpus":[{"index":0}],"nics":[{"device":"rail0","rail":0,"address":"127.0.1.1"}]}"#;
    let found = crate::FakeHost::from_json(json).unwrap().discover().unwrap();
    let nic = NicPlace {
        device: "rail0".into(),
        netdev: "rail0".into(),
        rail: 0,
        leaf: String::new(),
        address: None,
    };
    let place = NodePlace { gpus: vec![0], nics: vec![nic], ..place() };
    let environment = nccl_environment(&found, &place, DataClass::default(), None);
    let reported: Vec<_> = environment.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(
        reported,
        [("NCCL_IB_DISABLE", "1"), ("NCCL_NET_GDR_LEVEL", "LOC"), ("NCCL_SOCKET_IFNAME", "=rail0")]
    );
    assert_eq!(nccl_topology(&found, &place), None);
}

#[test]
fn rail_rules_assign_and_tell_what_does_not_fit() {
    let room = tempfile::tempdir().unwrap();
    let addresses = server(room.path());
    let discover = |rule: &str| {
        RealHost::recorded(room.path(), addresses.clone(), rule.parse().unwrap()).discover().unwrap()
    };
    let rails = |rule: &str| -> Vec<(u32, String)> {
        discover(rule).inventory.nics.into_iter().map(|nic| (nic.rail, nic.device)).collect()
    };
    assert_eq!(rails("pattern:ens{k}np0"), [(0, "mlx5_7".into()), (1, "mlx5_6".into())]);
    assert_eq!(rails("pattern:mlx5_{k}"), [(6, "mlx5_6".into()), (7, "mlx5_7".into())]);
    assert_eq!(rails("map:bond0=0,0000:97:18.0=1"), [(0, "mlx5_bond_0".into()), (1, "mlx5_6".into())]);
    let found = discover("map:mlx5_6=2,mlx5_7=2,mlx5_9=3");
    let texts: Vec<_> = found.findings.iter().map(|f| format!("{}: {}", f.subject, f.message)).collect();
    assert!(texts.iter().any(|text| text.starts_with("mlx5_9:")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("all serve rail 2")), "{texts:?}");
    assert_eq!(found.inventory.nics.len(), 2, "the rest goes on");
    for bad in ["", "rails", "pattern:mlx5", "pattern:{k}{k}", "map:", "map:a", "map:a=64", "map:=1"] {
        assert!(bad.parse::<RailRule>().is_err(), "{bad}");
    }
    let rule: RailRule = "map:a=1,b=0".parse().unwrap();
    assert_eq!(rule.to_string().parse::<RailRule>().unwrap(), rule);
}

#[test]
fn absent_and_hostile_attributes_are_findings_or_defaults() {
    let room = tempfile::tempdir().unwrap();
    let empty = RealHost::recorded(room.path(), Addresses::new(), RailRule::Auto).discover().unwrap();
    assert_eq!(empty.findings.len(), 1, "{:?}", empty.findings);
    let addresses = server(room.path());
    let nic = "sys/devices/pci0000:17/0000:17:01.0/0000:17:02.0/0000:17:04.0/0000:17:18.0";
    for (path, text) in [
        (format!("{nic}/net/ens0np0/speed"), "-1"),
        (format!("{nic}/net/ens0np0/mtu"), "many"),
        (format!("{nic}/infiniband/mlx5_7/ports/1/gids/3"), "\u{0}\u{1}"),
        (format!("{nic}/infiniband/mlx5_7/ports/1/rate"), "400 Gb/sec (4X NDR)"),
        (format!("{nic}/numa_node"), "-1"),
        ("proc/meminfo".to_owned(), "MemTotal: 99999999999999999999 kB"),
        ("sys/devices/system/cpu/online".to_owned(), "5-1,x,0-4294967295"),
    ] {
        write(room.path(), &path, text);
    }
    let found = RealHost::recorded(room.path(), addresses, RailRule::Auto).discover().unwrap();
    let nic = &found.inventory.nics[0];
    assert_eq!((nic.speed_mbps, nic.mtu, nic.gid_index, nic.numa_node), (400_000, 0, None, None));
    assert!(found.findings.iter().any(|f| f.subject == "mlx5_7" && f.message.contains("GID")));
    assert_eq!(found.inventory.memory_bytes, 0);
}

#[test]
fn what_a_nic_and_a_gpu_are_is_told() {
    let room = tempfile::tempdir().unwrap();
    let addresses = server(room.path());
    let nic = "sys/devices/pci0000:17/0000:17:01.0/0000:17:02.0/0000:17:04.0/0000:17:18.0";
    let gpu = "sys/devices/pci0000:17/0000:17:01.0/0000:17:02.0/0000:17:03.0/0000:17:1b.0";
    write(room.path(), &format!("{nic}/infiniband/mlx5_7/fw_ver"), "28.43.2026\n");
    write(room.path(), &format!("{nic}/infiniband/mlx5_7/ports/1/phys_state"), "5: LinkUp\n");
    write(room.path(), &format!("{nic}/max_link_speed"), "64.0 GT/s PCIe\n");
    write(room.path(), &format!("{nic}/max_link_width"), "16\n");
    write(room.path(), "sys/bus/pci/slots/12/address", "0000:17:18\n");
    for (at, driver) in [(nic, "mlx5_core"), (gpu, "nvidia")] {
        fs::create_dir_all(room.path().join("sys/bus/pci/drivers").join(driver)).unwrap();
        link(room.path(), &format!("{at}/driver"), &format!("sys/bus/pci/drivers/{driver}"));
    }
    let found = RealHost::recorded(room.path(), addresses, RailRule::Auto).discover().unwrap();
    let nic = &found.inventory.nics[0];
    let facts = nic.facts.as_deref().unwrap();
    assert_eq!((facts.driver.as_str(), facts.firmware.as_str()), ("mlx5_core", "28.43.2026"));
    let path = "pci0000:17/0000:17:01.0/0000:17:02.0/0000:17:04.0/0000:17:18.0";
    let (pci, rail) = (&facts.pci, &facts.rail_reason);
    assert_eq!((pci.id.as_str(), pci.path.as_str(), pci.slot.as_str()), ("15b3:1021", path, "12"));
    assert_eq!((pci.speed.as_str(), pci.width, rail.as_str()), ("32.0 GT/s PCIe", 16, "PCI order"));
    let port = facts.port.unwrap();
    assert_eq!(
        port,
        NicPort { number: 1, state: Some(PortState::Active), physical: Some(PhysicalState::LinkUp) }
    );
    let gids: Vec<_> =
        facts.gids.iter().map(|gid| (gid.index, gid.kind, gid.address().to_string())).collect();
    assert_eq!(gids.len(), 4);
    assert_eq!(gids[3], (3, GidKind::RoceV2, "10.0.0.5".to_owned()));
    let gpu = found.inventory.gpus[0].facts.as_deref().unwrap();
    assert_eq!((gpu.driver.as_str(), gpu.nic.as_str()), ("nvidia", "mlx5_7"));
    assert_eq!(gpu.nic_distance, Some(Distance::Pix));
    let kinds: Vec<_> = found.findings.iter().map(|one| (one.kind, one.subject.as_str())).collect();
    assert_eq!(kinds, [(FindingKind::PcieDegraded, "mlx5_7")], "{:?}", found.findings);

    // What is printed is an inventory file that says the same, also of paths.
    let again = crate::FakeHost::from_json(&to_json(&found.inventory)).unwrap().discover().unwrap();
    assert_eq!(found.inventory.findings[0].code, ReasonCode::PcieDegraded);
    assert_eq!(again.inventory, Inventory { findings: Vec::new(), ..found.inventory });
    assert_eq!(again.pci_paths, found.pci_paths);
}

/// The names of a class are read before what they lead to: a device may go in between.
#[test]
fn a_nic_that_goes_while_it_is_read_is_told_and_the_rest_goes_on() {
    let room = tempfile::tempdir().unwrap();
    let addresses = server(room.path());
    let host = RealHost::recorded(room.path(), addresses, RailRule::Auto);
    let nic = "sys/devices/pci0000:97/0000:97:01.0/0000:97:02.0/0000:97:04.0/0000:97:18.0";
    fs::remove_dir_all(room.path().join(nic).join("infiniband")).unwrap();
    let found = host.discover().unwrap();
    let reported: Vec<_> = found.findings.iter().map(|one| (one.kind, one.subject.as_str())).collect();
    assert_eq!(reported, [(FindingKind::Vanished, "mlx5_6")]);
    assert_eq!(found.inventory.nics.iter().map(|nic| nic.device.as_str()).collect::<Vec<_>>(), ["mlx5_7"]);
    // Its network device went, the RDMA device not yet.
    let nic = "sys/devices/pci0000:17/0000:17:01.0/0000:17:02.0/0000:17:04.0/0000:17:18.0";
    fs::remove_dir_all(room.path().join(nic).join("net/ens0np0")).unwrap();
    let found = host.discover().unwrap();
    assert!(found.findings.iter().any(|one| one.kind == FindingKind::Vanished && one.subject == "ens0np0"));
    assert!(found.inventory.nics.iter().all(|nic| nic.device == "mlx5_bond_0"), "{:?}", found.inventory.nics);
}

#[test]
fn strangers_are_told_and_hostile_texts_left_out() {
    let room = tempfile::tempdir().unwrap();
    let addresses = server(room.path());
    let at = pci(room.path(), "pci0000:97", &["0000:97:07.0", "0000:98:00.0"], "0x1ab4", "0x120000", 1);
    let nic = "sys/devices/pci0000:17/0000:17:01.0/0000:17:02.0/0000:17:04.0/0000:17:18.0";
    fs::create_dir_all(room.path().join("sys/bus/pci/drivers/newnic")).unwrap();
    link(room.path(), &format!("{nic}/driver"), "sys/bus/pci/drivers/newnic");
    write(room.path(), &format!("{nic}/infiniband/mlx5_7/fw_ver"), "1.2\u{1b}[2J\n");
    fs::write(room.path().join(nic).join("current_link_speed"), [0xff; 70_000]).unwrap();
    write(room.path(), &format!("{nic}/current_link_width"), "-16\n");
    let found = RealHost::recorded(room.path(), addresses, RailRule::Auto).discover().unwrap();
    let reported: Vec<_> = found.findings.iter().map(|one| (one.kind, one.subject.as_str())).collect();
    let (address, unreadable) = (at.rsplit_once('/').unwrap().1, FindingKind::Unreadable);
    for expected in [
        (FindingKind::UnknownVendor, address),
        (FindingKind::UnknownVendor, "newnic"),
        (unreadable, "mlx5_7"),
        (unreadable, "0000:17:18.0"),
    ] {
        assert!(reported.contains(&expected), "{expected:?} in {reported:?}");
    }
    let facts = found.inventory.nics[0].facts.as_deref().unwrap();
    assert_eq!((facts.firmware.as_str(), facts.pci.speed.as_str(), facts.pci.width), ("", "", 0));
    assert_eq!(found.inventory.nics.len(), 2, "the rest goes on");
}

#[test]
fn inventory_files_are_strict_and_say_where() {
    let good = r#"{"gpus":[{"index":1},{"index":0,"memoryBytes":"85899345920"}],
        "nics":[{"device":"rail1","rail":1,"address":"127.0.2.1","speedMbps":1000,"mtu":1500},{"device":"rail0"}],
        "numaNodes":1,"cpus":4,"memoryBytes":1000}"#;
    let inventory = from_json(good).unwrap();
    assert_eq!(inventory.gpus[0].memory_bytes, 85_899_345_920);
    assert_eq!(inventory.nics[0].device, "rail0");
    assert!(inventory.nics[1].up && inventory.nics[1].gid_index.is_none());
    for (bad, words) in [
        (r#"{"gpu":[]}"#, &["gpu", "gpus", "line 1"][..]),
        ("{\n\"nics\":[{\"rail\":0}]}", &["device", "line 2"]),
        (r#"{"cpus":-1}"#, &["line 1"]),
        (r#"{"memoryBytes":"many"}"#, &["many"]),
        (
            r#"{"nics":[{"device":"a","address":"x","rail":64},{"device":"a"}]}"#,
            &["nics[0].rail", "nics[0].address", "nics[1].device"],
        ),
        (r#"{"gpus":[{"index":3},{"index":3},{"index":64}]}"#, &["gpus[1].index", "gpus[2].index"]),
        (&format!(r#"{{"nics":[{{"device":"{}"}}]}}"#, "d".repeat(65)), &["nics[0].device", "64"]),
        (r#"{"nics":[{"device":"a\u0007"}]}"#, &["nics[0].device", "printable"]),
        (r#"{"nics":[{"device":"a","facts":{"port":{"number":1,"state":"UP"}}}]}"#, &["UP", "ACTIVE"]),
        (r#"{"nics":[{"device":"a","facts":{"gids":[{"gid":"10.0.0.1"}]}}]}"#, &["IPv6", "line 1"]),
        (
            r#"{"nics":[{"device":"a","facts":{"driver":"\u0007"}}],"gpus":[{"facts":{"links":[{"gpu":64}]}}]}"#,
            &["nics[0].facts.driver", "gpus[0].facts.links[0].gpu"],
        ),
        ("", &["line 1"]),
        ("\u{0}", &["line 1"]),
    ] {
        let error = from_json(bad).unwrap_err().to_string();
        for word in words {
            assert!(error.contains(word), "{bad}: {error}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_an_inventory_or_an_error(text in ".{0,200}") {
        let _ = from_json(&text);
    }

    #[test]
    fn any_text_is_a_rule_or_an_error(text in "(map|pattern|auto|pci)?:?[a-z0-9={},]{0,20}") {
        if let Ok(rule) = text.parse::<RailRule>() {
            prop_assert_eq!(rule.to_string().parse::<RailRule>().unwrap(), rule);
        }
    }
}
