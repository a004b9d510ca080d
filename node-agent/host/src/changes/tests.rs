//! Changes by example, and that none is missed.

use proptest::{prelude::*, sample::select};
use proto_model::{Gid, GidKind, GpuDirect, GpuFacts, GpuPath, NicPort, PciDevice, PhysicalState, PortState};

use super::*;

fn nic(device: &str, rail: u32) -> Nic {
    let facts = NicFacts {
        pci: PciDevice { speed: "32.0 GT/s PCIe".into(), width: 16, ..PciDevice::default() },
        driver: "mlx5_core".into(),
        firmware: "28.39.1002".into(),
        port: Some(NicPort {
            number: 1,
            state: Some(PortState::Active),
            physical: Some(PhysicalState::LinkUp),
        }),
        ..NicFacts::default()
    };
    Nic {
        device: device.into(),
        netdev: format!("ens{rail}"),
        pci_address: format!("0000:{rail:02x}:00.0"),
        numa_node: Some(0),
        rail,
        address: Some("10.0.0.1".parse().unwrap()),
        mtu: 9000,
        speed_mbps: 400_000,
        up: true,
        gid_index: Some(3),
        facts: Some(Box::new(facts)),
    }
}

fn gpu(index: u32) -> Gpu {
    Gpu {
        index,
        uuid: format!("GPU-{index}"),
        model: "H100".into(),
        pci_address: format!("0000:{index:02x}:01.0"),
        numa_node: Some(0),
        memory_bytes: 80 << 30,
        facts: Some(Box::default()),
    }
}

fn server() -> Inventory {
    Inventory {
        nics: vec![nic("mlx5_0", 0), nic("mlx5_1", 1)],
        gpus: vec![gpu(0), gpu(1)],
        ..Inventory::default()
    }
}

/// Each line: code, subject, words.
fn reported(change: impl FnOnce(&mut Inventory)) -> Vec<String> {
    let (before, mut after) = (server(), server());
    change(&mut after);
    let changes = diff(&before, &after);
    changes.iter().map(|one| format!("{} {}: {one}", one.kind.code(), one.subject)).collect()
}

#[test]
fn nothing_changed_is_no_change() {
    assert_eq!(reported(|_| {}), [""; 0]);
}

#[test]
fn what_happens_to_a_nic_is_told() {
    let port = |state, physical| Some(NicPort { number: 1, state: Some(state), physical: Some(physical) });
    assert_eq!(
        reported(|after| {
            after.nics[1].up = false;
            after.nics[1].speed_mbps = 0;
            after.nics[1].facts.as_mut().unwrap().port = port(PortState::Down, PhysicalState::Polling);
        }),
        [
            "NicDown nic/mlx5_1: the link is down: rail 1",
            "NicPort nic/mlx5_1: the RDMA port's state changed: active linkup -> down polling",
            "NicSpeed nic/mlx5_1: the speed in Mbit/s changed: 400000 -> 0",
        ]
    );
    assert_eq!(
        reported(|after| drop(after.nics.remove(0))),
        ["NicGone nic/mlx5_0: the NIC is gone: was rail 0"]
    );
    assert_eq!(
        reported(|after| after.nics.push(nic("mlx5_2", 2))),
        ["NicAdded nic/mlx5_2: the NIC is there: rail 2, up"]
    );
    // A reload gives other names: the bus says that they are the same.
    assert_eq!(
        reported(|after| {
            after.nics[0].device = "mlx5_8".into();
            after.nics[0].gid_index = None;
            after.nics[0].facts.as_mut().unwrap().firmware = "28.43.2026".into();
        }),
        [
            "NicRenamed nic/mlx5_8: the NIC's name changed: mlx5_0 -> mlx5_8",
            "NicGidIndex nic/mlx5_8: the GID's index changed: 3 -> none",
            "NicFirmware nic/mlx5_8: the firmware changed: 28.39.1002 -> 28.43.2026",
        ]
    );
    assert_eq!(
        reported(|after| {
            let gid = "::ffff:10.0.0.1".parse().unwrap();
            let gid = Gid { index: 3, gid, kind: GidKind::RoceV2, netdev: String::new() };
            let facts = after.nics[0].facts.as_mut().unwrap();
            facts.gids.push(gid);
            facts.pci.width = 8;
        }),
        [
            "NicGids nic/mlx5_0: the GID table changed: 0 entries -> 1 entries",
            "NicPci nic/mlx5_0: the PCIe place or link changed: 0000:00:00.0 32.0 GT/s PCIe x16 -> 0000:00:00.0 32.0 GT/s PCIe x8",
        ]
    );
}

#[test]
fn what_happens_to_gpus_switches_and_the_machine_is_told() {
    assert_eq!(
        reported(|after| {
            drop(after.gpus.remove(0));
            after.gpus[0].uuid = "GPU-9".into();
            after.neighbors.push(Neighbor {
                netdev: "ens0".into(),
                switch: "leaf-0".into(),
                port: "e1".into(),
            });
            after.cpus = 4;
        }),
        [
            "GpuReplaced gpu/1: another GPU is there: GPU-1 0000:01:01.0 -> GPU-9 0000:01:01.0",
            "GpuGone gpu/0: the GPU is gone: was H100",
            "Neighbor netdev/ens0: the switch that is heard changed: leaf-0 e1",
            "Machine machine: the machine changed: 0 CPUs, 0 bytes, 0 NUMA nodes -> 4 CPUs, 0 bytes, 0 NUMA nodes",
        ]
    );
    let link = |count| GpuLink { peer: LinkPeer::Switch, count, version: 4 };
    assert_eq!(
        reported(|after| after.gpus[0].facts.as_mut().unwrap().links = vec![link(17)]),
        ["GpuLinks gpu/0: the links to other GPUs changed: none -> 17 to switches"]
    );
}

#[test]
fn only_the_last_changes_are_kept() {
    let mut recent = Recent::default();
    for time in 0..20 {
        recent.take(&[Change::new(ChangeKind::NicUp, "nic/a", "", "")], Timestamp(time));
    }
    let times: Vec<u64> = recent.reasons().iter().map(|one| one.since.unwrap().0).collect();
    assert_eq!(times, (4..20).collect::<Vec<_>>());
    let codes: BTreeSet<ReasonCode> = ChangeKind::ALL.iter().map(|kind| kind.code()).collect();
    assert_eq!(codes.len(), ChangeKind::ALL.len());
}

fn any_pci() -> impl Strategy<Value = PciDevice> {
    (select(vec!["", "a/b"]), select(vec!["", "x"]), 0u32..2).prop_map(|(path, word, width)| PciDevice {
        id: word.into(),
        path: path.into(),
        width,
        ..PciDevice::default()
    })
}

prop_compose! {
    fn any_nic(device: &'static str)(
        (netdev, pci_address, rail, up) in (select(vec!["e0", "e1"]), select(vec!["", "0000:01:00.0"]), 0u32..2, any::<bool>()),
        (mtu, speed_mbps, gid_index, numa_node) in (0u32..2, 0u64..2, prop::option::of(0u32..2), prop::option::of(0u32..2)),
        reported in any::<bool>(),
        (pci, driver, firmware, reason) in (any_pci(), select(vec!["", "d"]), select(vec!["", "f"]), select(vec!["", "r"])),
        port in prop::option::of((0u32..2, 0u8..3, 0u8..3)),
        gids in prop::collection::vec(0u32..2, 0..2),
    ) -> Nic {
        let gid = |index| Gid { index, gid: std::net::Ipv6Addr::LOCALHOST, kind: GidKind::RoceV2, netdev: String::new() };
        let facts = NicFacts {
            pci,
            driver: driver.into(),
            firmware: firmware.into(),
            port: port.map(|(number, state, physical)| NicPort {
                number,
                state: PortState::from_kernel(state),
                physical: PhysicalState::from_kernel(physical),
            }),
            gids: gids.into_iter().map(gid).collect(),
            rail_reason: reason.into(),
        };
        Nic {
            device: device.into(),
            netdev: netdev.into(),
            pci_address: pci_address.into(),
            numa_node,
            rail,
            address: None,
            mtu,
            speed_mbps,
            up,
            gid_index,
            facts: reported.then(|| Box::new(facts)),
        }
    }
}

prop_compose! {
    fn any_gpu(index: u32)(
        (uuid, model, numa_node, memory_bytes) in (select(vec!["", "u", "v"]), select(vec!["", "m"]), prop::option::of(0u32..2), 0u64..2),
        reported in any::<bool>(),
        (pci, driver, nic) in (any_pci(), select(vec!["", "d"]), select(vec!["", "n"])),
        links in prop::collection::vec((0u32..2, 1u32..3), 0..2),
        path in prop::option::of(select(GpuPath::ALL.to_vec())),
    ) -> Gpu {
        let link = |(version, count)| GpuLink { peer: LinkPeer::Gpu(1), count, version };
        let facts = GpuFacts {
            pci,
            driver: driver.into(),
            nic: nic.into(),
            links: links.into_iter().map(link).collect(),
            gpu_direct: path.map(|path| GpuDirect { path, reason: String::new(), causes: Vec::new() }),
            ..GpuFacts::default()
        };
        Gpu {
            index,
            uuid: uuid.into(),
            model: model.into(),
            pci_address: String::new(),
            numa_node,
            memory_bytes,
            facts: reported.then(|| Box::new(facts)),
        }
    }
}

fn any_inventory() -> impl Strategy<Value = Inventory> {
    let maybe = |nic| prop::option::of(nic);
    let nics = (maybe(any_nic("a")), maybe(any_nic("b")), maybe(any_nic("c")));
    let gpus = (prop::option::of(any_gpu(0)), prop::option::of(any_gpu(1)));
    let heard = prop::collection::vec((select(vec!["e0", "e1"]), select(vec!["s", "t"])), 0..2);
    (nics, gpus, heard, 0u32..2).prop_map(|((a, b, c), (x, y), heard, cpus)| {
        let one = |(netdev, switch): (&str, &str)| Neighbor {
            netdev: netdev.into(),
            switch: switch.into(),
            port: "1".into(),
        };
        let mut neighbors: Vec<Neighbor> = heard.into_iter().map(one).collect();
        neighbors.sort();
        neighbors.dedup();
        Inventory {
            nics: [a, b, c].into_iter().flatten().collect(),
            gpus: [x, y].into_iter().flatten().collect(),
            neighbors,
            cpus,
            ..Inventory::default()
        }
    })
}

proptest! {
    #[test]
    fn what_differs_has_changes_and_what_is_the_same_has_none(before in any_inventory(), after in any_inventory()) {
        prop_assert_eq!(diff(&before, &before), vec![]);
        prop_assert_eq!(diff(&before, &after).is_empty(), before == after);
    }

    /// One NIC that differs in anything is told of, and no other is.
    #[test]
    fn one_nic_that_differs_in_one_thing_is_told_of(before in any_nic("a"), other in any_nic("a")) {
        let inventory = |one: &Nic| {
            let beside = Nic { pci_address: "0000:77:00.0".into(), ..nic("b", 5) };
            Inventory { nics: vec![one.clone(), beside], ..Inventory::default() }
        };
        for take in NIC_FIELDS {
            let mut after = before.clone();
            take(&mut after, &other);
            let changes = diff(&inventory(&before), &inventory(&after));
            prop_assert_eq!(changes.is_empty(), before == after, "{:?}", after);
            prop_assert!(changes.iter().all(|change| change.subject == "nic/a"), "{:?}", changes);
        }
    }

    #[test]
    fn one_gpu_that_differs_in_one_thing_is_told_of(before in any_gpu(0), other in any_gpu(0)) {
        let inventory = |one: &Gpu| Inventory { gpus: vec![one.clone(), gpu(1)], ..Inventory::default() };
        for take in GPU_FIELDS {
            let mut after = before.clone();
            take(&mut after, &other);
            let changes = diff(&inventory(&before), &inventory(&after));
            prop_assert_eq!(changes.is_empty(), before == after, "{:?}", after);
            prop_assert!(changes.iter().all(|change| change.subject == "gpu/0"), "{:?}", changes);
        }
    }
}

/// Takes one field from another.
type Take<T> = fn(&mut T, &T);

fn of_nic(nic: &mut Nic, other: &Nic, take: fn(&mut NicFacts, &NicFacts)) {
    if let (Some(facts), Some(other)) = (&mut nic.facts, &other.facts) {
        take(facts, other);
    }
}

fn of_gpu(gpu: &mut Gpu, other: &Gpu, take: fn(&mut GpuFacts, &GpuFacts)) {
    if let (Some(facts), Some(other)) = (&mut gpu.facts, &other.facts) {
        take(facts, other);
    }
}

const NIC_FIELDS: &[Take<Nic>] = &[
    |nic, other| nic.netdev.clone_from(&other.netdev),
    |nic, other| nic.pci_address.clone_from(&other.pci_address),
    |nic, other| nic.numa_node = other.numa_node,
    |nic, other| nic.rail = other.rail,
    |nic, other| nic.mtu = other.mtu,
    |nic, other| nic.speed_mbps = other.speed_mbps,
    |nic, other| nic.up = other.up,
    |nic, other| nic.gid_index = other.gid_index,
    |nic, other| nic.facts.clone_from(&other.facts),
    |nic, other| of_nic(nic, other, |facts, other| facts.pci.clone_from(&other.pci)),
    |nic, other| of_nic(nic, other, |facts, other| facts.pci.id.clone_from(&other.pci.id)),
    |nic, other| of_nic(nic, other, |facts, other| facts.driver.clone_from(&other.driver)),
    |nic, other| of_nic(nic, other, |facts, other| facts.firmware.clone_from(&other.firmware)),
    |nic, other| of_nic(nic, other, |facts, other| facts.port = other.port),
    |nic, other| of_nic(nic, other, |facts, other| facts.gids.clone_from(&other.gids)),
    |nic, other| of_nic(nic, other, |facts, other| facts.rail_reason.clone_from(&other.rail_reason)),
];

const GPU_FIELDS: &[Take<Gpu>] = &[
    |gpu, other| gpu.uuid.clone_from(&other.uuid),
    |gpu, other| gpu.model.clone_from(&other.model),
    |gpu, other| gpu.numa_node = other.numa_node,
    |gpu, other| gpu.memory_bytes = other.memory_bytes,
    |gpu, other| gpu.facts.clone_from(&other.facts),
    |gpu, other| of_gpu(gpu, other, |facts, other| facts.pci.clone_from(&other.pci)),
    |gpu, other| of_gpu(gpu, other, |facts, other| facts.driver.clone_from(&other.driver)),
    |gpu, other| of_gpu(gpu, other, |facts, other| facts.nic.clone_from(&other.nic)),
    |gpu, other| of_gpu(gpu, other, |facts, other| facts.links.clone_from(&other.links)),
];
