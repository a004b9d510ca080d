//! Switches of a cluster: planned one at a time as in the plan of all, and refused with the place.

use std::collections::BTreeMap;

use proto_model::{
    Fabric, ReasonCode, SwitchAsic, SwitchConfig, SwitchName, SwitchNos, SwitchPort, SwitchSpec, Timestamp,
};
use proto_profile::QosProfile;

use super::documents::document;
use crate::{
    asic::Asic,
    cluster::{Cluster, Finding, Problem, Seen, profile_of},
    desired,
    fabric::{Hardware, switches},
    model::{Nos, Peer, Role},
    render::files::files,
    state::BufferModel,
};

fn spec() -> SwitchSpec {
    SwitchSpec {
        nos: SwitchNos::Sonic,
        version: String::new(),
        asic: Some(SwitchAsic::Spectrum4),
        loopback: None,
        asn: 0,
        cable_m: 0,
        ports: Vec::new(),
        management: None,
        repair_drift: false,
    }
}

fn said(name: &str, spec: SwitchSpec) -> SwitchConfig {
    let name = SwitchName::new(name).unwrap();
    SwitchConfig { name, uid: String::new(), generation: 1, created: Timestamp(0), spec }
}

fn all(fabric: &Fabric, spec: &SwitchSpec) -> Vec<SwitchConfig> {
    let leaves = fabric.leaves.iter().map(|leaf| leaf.name.as_str());
    let spines = fabric.spines.iter().map(|spine| spine.name.as_str());
    leaves.chain(spines).map(|name| said(name, spec.clone())).collect()
}

fn port(name: &str, cable_m: u32) -> SwitchPort {
    SwitchPort { name: name.into(), cable_m, optics: "DR4".into() }
}

fn text(cluster: &Cluster<'_>, name: &str) -> BTreeMap<&'static str, String> {
    let files = cluster.files(&QosProfile::default(), name).unwrap();
    files.into_iter().map(|file| (file.name, file.content)).collect()
}

/// With cables of the same length as a cluster takes where nothing is said.
fn hardware(role: Role) -> Hardware {
    let cable_m = if role == Role::Leaf { 5 } else { 40 };
    Hardware { nos: Nos::Sonic, version: String::new(), asic: Asic::Spectrum4, lanes: 4, cable_m }
}

#[test]
fn a_switch_planned_alone_is_as_in_the_plan_of_all() {
    let fabric = document();
    let known = all(&fabric, &spec());
    let cluster = Cluster::new(&fabric, &known);
    let whole = switches(&fabric, &hardware).unwrap();
    let states = desired::plan(&QosProfile::default(), &whole, BufferModel::Static).unwrap();
    assert_eq!(states.len(), 5);
    for (name, state) in &states {
        let expected: BTreeMap<_, _> = files(Nos::Sonic, state).unwrap().into_iter().collect();
        assert_eq!(text(&cluster, name.as_str()), expected, "{name}");
        assert!(cluster.findings(name.as_str()).is_empty());
    }
    let seat = cluster.seat("top").unwrap();
    assert_eq!((seat.role, seat.rails.as_slice(), seat.pod.as_str()), (Role::Spine(2), &[0, 1][..], ""));
    assert_eq!(cluster.seat("leaf1").unwrap().pod, "p0");
    assert_eq!(cluster.seat("leaf7"), None);
}

#[test]
fn what_is_said_of_a_switch_and_its_ports_is_rendered() {
    let fabric = document();
    let own = SwitchSpec {
        asn: 65_123,
        loopback: Some("10.7.7.7".parse().unwrap()),
        ports: vec![port("Ethernet8", 300)],
        ..spec()
    };
    let known = [said("leaf0", own)];
    let cluster = Cluster::new(&fabric, &known);
    let files = text(&cluster, "leaf0");
    let routing = &files["frr.conf"];
    assert!(routing.contains("router bgp 65123") && routing.contains("network 10.7.7.7/32"), "{routing}");
    let lengths: Vec<&str> = files["config_db.json"].matches("\"300m\"").collect();
    assert_eq!(lengths.len(), 1, "{}", files["config_db.json"]);
}

#[test]
fn each_operating_system_has_its_files_and_linux_its_own_ports() {
    let fabric = document();
    let linux = |ports| SwitchSpec { nos: SwitchNos::Linux, asic: None, ports, ..spec() };
    let named = ["eth1", "eth2", "eth3", "eth4", "eth5", "eth6", "eth7"].map(|name| port(name, 0));
    for (nos, expected) in [
        (SwitchNos::Sonic, vec!["config_db.json", "frr.conf"]),
        (SwitchNos::Cumulus, vec!["nvue.txt"]),
        (SwitchNos::Eos, vec!["eos.txt"]),
        (SwitchNos::NxOs, vec!["nx-os.txt"]),
    ] {
        let known = [said("leaf1", SwitchSpec { nos, ..spec() })];
        let files = text(&Cluster::new(&fabric, &known), "leaf1");
        assert_eq!(files.keys().copied().collect::<Vec<_>>(), expected);
    }
    let neighbors = |spec: SwitchSpec| -> Vec<String> {
        let known = [said("leaf1", spec)];
        let cluster = Cluster::new(&fabric, &known);
        assert_eq!(cluster.findings("leaf1"), []);
        let files = text(&cluster, "leaf1");
        assert_eq!(files.len(), 1);
        let lines = files["frr.conf"]
            .lines()
            .filter_map(|line| line.trim().strip_suffix("interface peer-group fabric"));
        lines.filter_map(|line| line.trim().strip_prefix("neighbor ")).map(str::to_owned).collect()
    };
    // Two servers first, then two cables to each of two spines.
    assert_eq!(neighbors(linux(named.to_vec())), ["eth3", "eth4", "eth5", "eth6"]);
    assert_eq!(neighbors(linux(named[..3].to_vec())), ["eth3", "swp1", "swp2", "swp3"]);
    assert_eq!(neighbors(linux(Vec::new())), ["swp3", "swp4", "swp5", "swp6"]);
}

fn codes(found: &[Finding]) -> Vec<(String, ReasonCode)> {
    found.iter().map(|one| (one.at.clone(), one.problem.code())).collect()
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_of_this_switch_alone() {
    let fabric = document();
    let same = |name: &str| {
        let loopback = Some("10.7.7.7".parse().unwrap());
        said(name, SwitchSpec { loopback, asn: 65_123, ..spec() })
    };
    let known = [same("leaf0"), same("leaf1"), said("s0", spec()), said("leaf9", spec())];
    let cluster = Cluster::new(&fabric, &known);
    let clash = || ("switch/leaf0".to_owned(), ReasonCode::SwitchNumbersClash);
    assert_eq!(codes(&cluster.findings("leaf0")), [clash(), clash()]);
    assert_eq!(cluster.findings("leaf1").len(), 2);
    // Others are none of its concern.
    assert!(cluster.findings("s0").is_empty() && cluster.files(&QosProfile::default(), "s0").is_ok());
    assert_eq!(cluster.files(&QosProfile::default(), "leaf0").unwrap_err().len(), 2);
    let lost = cluster.files(&QosProfile::default(), "leaf9").unwrap_err();
    assert_eq!(codes(&lost), [("switch/leaf9".to_owned(), ReasonCode::SwitchNotInFabric)]);
    let unsaid = cluster.files(&QosProfile::default(), "s1").unwrap_err();
    assert!(matches!(unsaid[0].problem, Problem::Unknown));
    // Spines of a tier have one number, whichever of them says another.
    let known = [said("s1", SwitchSpec { asn: 64_999, ..spec() }), said("s0", spec())];
    let cluster = Cluster::new(&fabric, &known);
    for name in ["s0", "s1"] {
        assert_eq!(cluster.findings(name).len(), 1, "{name}");
    }
    assert!(cluster.findings("top").is_empty());
    // Ports that the plan has not.
    let known = [said("leaf0", SwitchSpec { ports: vec![port("Ethernet999", 0)], ..spec() })];
    let found = Cluster::new(&fabric, &known).findings("leaf0");
    assert_eq!(codes(&found), [("switch/leaf0/Ethernet999".to_owned(), ReasonCode::SwitchPortUnknown)]);
    assert!(found[0].to_string().contains("it has 6, from Ethernet8 to Ethernet"), "{}", found[0]);
}

#[test]
fn sessions_are_with_the_switches_at_the_other_ends_and_what_lldp_says_there_is_compared() {
    let fabric = document();
    let known = all(&fabric, &spec());
    let cluster = Cluster::new(&fabric, &known);
    let whole = switches(&fabric, &hardware).unwrap();
    let leaf = whole.iter().find(|switch| switch.name.as_str() == "leaf1").unwrap();
    let (mut expected, mut right) = (Vec::new(), Vec::new());
    for port in &leaf.ports {
        let device = match &port.peer {
            Peer::Switch { switch, .. } => {
                expected.push((port.name.clone(), switch.clone()));
                switch
            }
            Peer::Nic { server, .. } => server,
        };
        right.push(Seen { port: port.name.as_str(), device: device.as_str(), device_port: "x" });
    }
    assert!(!expected.is_empty() && expected.len() < leaf.ports.len());
    assert_eq!(cluster.sessions("leaf1"), expected);
    assert_eq!(cluster.sessions("leaf7"), []);
    assert_eq!(cluster.miscabled("leaf1", &right), []);
    // With a domain, in capitals, without a name, on a port that is not planned.
    let device = right[0].device;
    let (long, loud) = (format!("{device}.example.net"), device.to_uppercase());
    for device in [long.as_str(), loud.as_str(), "00:11:22:33:44:55", ""] {
        assert_eq!(cluster.miscabled("leaf1", &[Seen { device, ..right[0] }]), [], "{device}");
    }
    assert_eq!(cluster.miscabled("leaf1", &[Seen { port: "eth0", device: "bmc", device_port: "" }]), []);
    // Two cables changed for each other: a server's and a spine's.
    let (server, spine) = (right[0], *right.last().unwrap());
    let crossed =
        [Seen { device: spine.device, ..server }, Seen { device: server.device, device_port: "", ..spine }];
    let found = cluster.miscabled("leaf1", &crossed);
    let at = |seen: Seen<'_>| (format!("switch/leaf1/{}", seen.port), ReasonCode::SwitchMiscabled);
    assert_eq!(codes(&found), [at(server), at(spine)]);
    let text = found[1].problem.to_string();
    let planned = format!(
        "{} is at the other end by LLDP; by the fabric document it is switch {}",
        server.device, spine.device
    );
    assert_eq!(text, planned);
    assert!(found[0].problem.to_string().starts_with(&format!("{} x is at the other end", spine.device)));
    assert_eq!(
        cluster.miscabled("leaf1", &[Seen { device: "leaf11", ..server }]).len(),
        1,
        "no prefix is a name"
    );
}

#[test]
fn a_document_that_cannot_be_planned_is_a_finding_of_the_switches_it_touches() {
    let mut fabric = document();
    fabric.links[0].speed_mbps = 0;
    let known = all(&fabric, &spec());
    let cluster = Cluster::new(&fabric, &known);
    assert_eq!(codes(&cluster.findings("leaf0")), [("switch/leaf0".to_owned(), ReasonCode::SwitchUnplanned)]);
    assert!(cluster.findings("leaf1").is_empty());
    assert!(cluster.files(&QosProfile::default(), "leaf1").is_ok());
    // Routing, which is all that Linux has, follows from no speed.
    let linux = said("leaf0", SwitchSpec { nos: SwitchNos::Linux, asic: None, ..spec() });
    let cluster = Cluster::new(&fabric, std::slice::from_ref(&linux));
    assert_eq!(cluster.findings("leaf0"), []);
    assert!(text(&cluster, "leaf0")["frr.conf"].contains("interface peer-group fabric"));
    assert!(profile_of(Some("{\"nonsense\": 1}")).is_err());
    assert_eq!(profile_of(None).unwrap(), QosProfile::default());
}
