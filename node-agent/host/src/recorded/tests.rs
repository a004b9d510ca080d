//! Recorded servers: what they are read as, and what NCCL is told of them, as texts to read. Set `RAILYARD_BLESS=1` to write the texts
//! anew.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::PathBuf};

use node_agent_gpu::{Device, Driver, Link, Peer};
use node_agent_qos::DataClass;
use proptest::prelude::*;
use proto_model::{Inventory, NicPlace, NodeName, NodePlace};

use super::*;
use crate::{
    Discovery, FakeHost, FindingKind, Host, RealHost, from_json,
    nccl::{nccl_environment, nccl_topology},
    nvml,
    pass::DiscoveryPass,
    to_json,
};

/// Each server with the rule of its rails.
const HOSTS: [(&str, &str); 4] = [
    ("hgx-h100", "lldp:leaf-r{k}"),
    ("mi300x-bnxt", "auto"),
    ("gaudi-like", "subnet:10.64.{k}.0/24"),
    ("soft-roce", "auto"),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recorded").join(name)
}

fn recording(name: &str) -> Recording {
    Recording::parse(&fs::read_to_string(path(&format!("{name}.host"))).unwrap()).unwrap()
}

/// What is found of a recording, with what NVML told there.
fn discover(recording: &Recording, rule: &str) -> Discovery {
    let room = tempfile::tempdir().unwrap();
    recording.write(room.path()).unwrap();
    let host = RealHost::recorded(room.path(), recording.addresses.clone(), rule.parse().unwrap());
    let mut found = host.discover().unwrap();
    let device = |gpu: &proto_model::Gpu| Device {
        pci_address: gpu.pci_address.clone(),
        memory_bytes: 85_520_809_984,
        links: vec![Link { peer: Peer::Switch, count: 18, version: 4 }],
        ..Device::default()
    };
    let devices: Vec<Device> = found.inventory.gpus.iter().map(device).collect();
    let driver = Driver { devices, ..Driver::default() };
    let tree = crate::sysfs::Tree::new(room.path());
    let mut pass = DiscoveryPass { tree: &tree, findings: &mut found.findings };
    nvml::merge(&mut pass, &mut found.inventory.gpus, &driver);
    found
}

/// A job that has all of it.
fn place(inventory: &Inventory) -> NodePlace {
    let nic = |nic: &proto_model::Nic| NicPlace {
        device: nic.device.clone(),
        netdev: nic.netdev.clone(),
        rail: nic.rail,
        leaf: String::new(),
        address: nic.address,
    };
    NodePlace {
        node: NodeName::new("n0").unwrap(),
        pod: String::new(),
        gpus: inventory.gpus.iter().map(|gpu| gpu.index).collect(),
        nics: inventory.nics.iter().map(nic).collect(),
        remapped: false,
        cpus: 0,
        memory_bytes: 0,
    }
}

fn reported(found: &Discovery) -> String {
    let mut text = String::from("findings\n");
    for one in &found.findings {
        let _ = writeln!(text, "  {} {}: {}", one.kind.code(), one.subject, one.message);
    }
    text.push_str("\nnearest NICs\n");
    for gpu in &found.inventory.gpus {
        let facts = gpu.facts.as_deref().unwrap();
        let distance = facts.nic_distance.map_or("-", |distance| distance.as_str());
        let _ = writeln!(text, "  GPU {} {} {}", gpu.index, facts.nic, distance);
        let Some(direct) = &facts.gpu_direct else { continue };
        let _ = writeln!(text, "    by {}: {}", direct.path.as_str(), direct.reason);
        for cause in &direct.causes {
            let (path, fix) = (cause.path.as_str(), &cause.fix);
            let _ = writeln!(text, "    {path}: {}: {}; {fix}", cause.code, cause.message);
        }
    }
    let place = place(&found.inventory);
    text.push_str("\nNCCL's environment\n");
    let topology = Some(Path::new("/run/topology.xml"));
    for (name, value) in nccl_environment(found, &place, DataClass::default(), topology) {
        let _ = writeln!(text, "  {name}={value}");
    }
    text.push_str("\nNCCL's topology\n");
    let topology = nccl_topology(found, &place).unwrap_or_else(|| "none\n".to_owned());
    text + &topology.replace(std::env::consts::ARCH, "ARCH")
}

fn same(name: &str, text: &str) {
    let file = path(name);
    if std::env::var_os("RAILYARD_BLESS").is_some() {
        fs::write(&file, text).unwrap();
    }
    let signed = fs::read_to_string(&file).unwrap_or_default();
    assert!(signed == text, "{} differs; look at it with RAILYARD_BLESS=1:\n{text}", file.display());
}

#[test]
fn recorded_servers_are_read_as_signed() {
    for (name, rule) in HOSTS {
        let found = discover(&recording(name), rule);
        same(&format!("{name}.json"), &(to_json(&found.inventory) + "\n"));
        same(&format!("{name}.txt"), &reported(&found));
    }
}

/// A recorded inventory is a server by itself: the fake host has the same hardware, paths and environment.
#[test]
fn the_fake_host_takes_a_recorded_inventory() {
    for (name, rule) in HOSTS {
        let found = discover(&recording(name), rule);
        let json = fs::read_to_string(path(&format!("{name}.json"))).unwrap();
        let fake = FakeHost::from_json(&json).unwrap().discover().unwrap();
        let expected = Inventory { findings: Vec::new(), ..found.inventory.clone() };
        assert_eq!(fake.inventory, expected, "{name}");
        assert_eq!(fake.pci_paths, found.pci_paths, "{name}");
        let place = place(&found.inventory);
        let reported = |of: &Discovery| nccl_environment(of, &place, DataClass::default(), None);
        assert_eq!(reported(&fake), reported(&found), "{name}");
        assert_eq!(from_json(&to_json(&fake.inventory)).unwrap(), fake.inventory, "{name}");
    }
}

#[test]
fn what_the_recordings_are_about_is_so() {
    let h100 = discover(&recording("hgx-h100"), HOSTS[0].1).inventory;
    assert_eq!((h100.gpus.len(), h100.nics.len(), h100.neighbors.len()), (8, 8, 8));
    assert!(
        h100.gpus.iter().zip(&h100.nics).all(|(gpu, nic)| gpu.facts.as_deref().unwrap().nic == nic.device)
    );
    let by_pci = discover(&recording("hgx-h100"), "pci").inventory;
    let rails = |inventory: &Inventory| -> Vec<_> {
        inventory.nics.iter().map(|nic| (nic.rail, nic.device.clone())).collect()
    };
    assert_eq!(rails(&by_pci), rails(&h100), "four rules say the same");
    for rule in [
        "pattern:mlx5_{k}",
        "subnet:10.{k}.0.0/24",
        "map:slot/1=0,slot/2=1,slot/3=2,slot/4=3,slot/5=4,slot/6=5,slot/7=6,slot/8=7",
    ] {
        let mut found = discover(&recording("hgx-h100"), rule).inventory;
        found.nics.retain(|nic| nic.device != "mlx5_8");
        assert_eq!(rails(&found), rails(&h100), "{rule}");
    }
    let kinds = |name: &str, rule: &str| -> Vec<FindingKind> {
        discover(&recording(name), rule).findings.iter().map(|one| one.kind).collect()
    };
    assert_eq!(kinds("hgx-h100", HOSTS[0].1), []);
    assert_eq!(kinds("mi300x-bnxt", "auto"), [FindingKind::PcieDegraded]);
    assert!(kinds("gaudi-like", HOSTS[2].1).contains(&FindingKind::RailShared));
    assert_eq!(kinds("soft-roce", "auto"), []);
}

/// What a NIC says whose link is down: no speed, and as the rate of its port that of a link that it has not got.
#[test]
fn a_link_that_is_down_moves_no_rail() {
    let whole = recording("hgx-h100");
    let rails = |inventory: &Inventory| -> Vec<_> {
        inventory.nics.iter().map(|nic| (nic.rail, nic.device.clone())).collect()
    };
    for rate in ["40 Gb/sec (4X QDR)", "2.5 Gb/sec (1X SDR)", "400 Gb/sec (4X NDR)", "-1"] {
        let room = tempfile::tempdir().unwrap();
        whole.write(room.path()).unwrap();
        let host =
            |rule: &str| RealHost::recorded(room.path(), whole.addresses.clone(), rule.parse().unwrap());
        let seen = ["auto", "pci"].map(host);
        let before = seen.each_ref().map(|host| host.discover().unwrap().inventory);
        assert_eq!(rails(&before[0]), (0..8).map(|k| (k, format!("mlx5_{k}"))).collect::<Vec<_>>());
        for (file, text) in [
            ("net/ens3np0/speed", "-1"),
            ("net/ens3np0/operstate", "down"),
            ("infiniband/mlx5_2/ports/1/state", "1: DOWN"),
            ("infiniband/mlx5_2/ports/1/phys_state", "3: Disabled"),
            ("infiniband/mlx5_2/ports/1/rate", rate),
        ] {
            fs::write(room.path().join("sys/class").join(file), text).unwrap();
        }
        for host in seen.iter().chain(&["auto", "pci"].map(host)) {
            let found = host.discover().unwrap();
            assert_eq!(rails(&found.inventory), rails(&before[0]), "{rate}");
            let nic = &found.inventory.nics[2];
            assert_eq!((nic.up, nic.speed_mbps), (false, 0), "{rate}");
            assert_eq!(found.findings, []);
        }
    }
}

/// Whatever file of a recorded server is cut short, filled with rubbish or gone: nothing fails, and the NICs beside it are read.
#[test]
fn every_file_may_be_hostile_or_gone() {
    let whole = recording("soft-roce");
    let room = tempfile::tempdir().unwrap();
    whole.write(room.path()).unwrap();
    let host = RealHost::recorded(room.path(), whole.addresses.clone(), "pattern:rail{k}".parse().unwrap());
    let rubbish = ["", "\u{0}\u{1}\u{1b}[2J", "99999999999999999999999999", "-", "../../../etc/passwd", "0x"];
    for (file, good) in &whole.files {
        let at = room.path().join(file);
        for text in rubbish.iter().map(|text| Some(*text)).chain([None]) {
            match text {
                Some(text) => fs::write(&at, text).unwrap(),
                None => fs::remove_file(&at).unwrap(),
            }
            let found = host.discover().unwrap();
            let beside = found.inventory.nics.iter().filter(|nic| nic.up && nic.gid_index.is_some()).count();
            assert!(beside >= 3, "{file} = {text:?}: {:?}", found.inventory.nics);
            assert!(from_json(&to_json(&found.inventory)).is_ok(), "{file} = {text:?}");
        }
        fs::write(&at, good).unwrap();
    }
    assert_eq!(host.discover().unwrap().findings, []);
}

#[test]
fn wrong_recordings_say_where() {
    for (text, words) in [
        ("a = 1", "line 1"),
        ("[a]\n\nb", "line 3"),
        ("[a/../b]", "without '..'"),
        ("[/etc]", "below the root"),
        ("[a]\n../b = 1", "line 2"),
        ("[a]\nb -> /etc/passwd", "line 2"),
        ("[addresses]\neth0 = 10.0.0", "'10.0.0'"),
        ("[lldp]\neth0 = leaf e1", "NUMBER"),
    ] {
        let error = Recording::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let empty: BTreeMap<String, String> = BTreeMap::new();
    assert_eq!(Recording::parse("# nothing\n").unwrap().files, empty);
}

proptest! {
    #[test]
    fn any_text_is_a_recording_or_an_error(text in "(\\[[a-z/.]{0,9}\\]|[a-z/.]{0,5} (=|->) [a-z0-9/. ]{0,9}|\n){0,12}") {
        let _ = Recording::parse(&text);
    }
}
