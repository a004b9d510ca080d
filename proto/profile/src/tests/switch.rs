//! The switches' end: old documents mean what they meant, classes are apart, and every contradiction is named.

use crate::{
    Class, EcnThresholds, ProfileSpec, Purpose, QosProfile, from_json,
    words::{Dscp, Priority, PrioritySet, Tsa},
};

fn class(name: &str, purpose: Purpose, dscp: u8, priority: u8) -> Class {
    let (dscps, priority) = (vec![Dscp::of(dscp)], Priority::of(priority));
    Class { name: name.into(), purpose, dscps, priority, lossless: false }
}

/// Storage on priority 4 and management on 7, each with a traffic class of its own.
fn with_classes() -> ProfileSpec {
    let mut spec = ProfileSpec {
        classes: vec![
            class("nvme", Purpose::Storage, 34, 4),
            class("management", Purpose::Management, 56, 7),
        ],
        prio_tc: [0, 0, 0, 3, 4, 0, 6, 7],
        bandwidth: [20, 0, 0, 50, 25, 0, 0, 5],
        ..ProfileSpec::default()
    };
    spec.tsa[7] = Tsa::Ets;
    spec
}

#[test]
fn a_document_of_nics_alone_stays_as_it_was() {
    let text = serde_json::to_string(&QosProfile::default()).unwrap();
    assert!(!text.contains("classes") && !text.contains("switch"), "{text}");
}

#[test]
fn a_document_of_both_ends_is_read_back() {
    let mut spec = with_classes();
    spec.switch.vxlan = true;
    spec.switch.ecn = [(400, EcnThresholds { kmin: 1_000_000, kmax: 4_000_000, pmax: 10 })].into();
    let profile = QosProfile::new(spec).unwrap();
    let text = serde_json::to_string(&profile).unwrap();
    assert_eq!(from_json(&text).unwrap(), profile);
    let error = from_json(&text.replace("\"kmin\"", "\"kmln\"")).unwrap_err().to_string();
    assert!(error.contains("unknown field `kmln`"), "{error}");
}

#[test]
fn switches_have_a_class_for_each_that_is_apart() {
    let numbers = |spec: &ProfileSpec| -> Vec<u8> { spec.switch_classes().iter().map(|p| p.get()).collect() };
    assert_eq!(numbers(&ProfileSpec::default()), [0, 3, 6]);
    let spec = with_classes();
    assert_eq!(numbers(&spec), [0, 3, 4, 6, 7]);
    let class_of = |dscp| spec.switch_class(spec.priority_of(Dscp::of(dscp))).get();
    assert_eq!([0, 8, 26, 34, 35, 46, 48, 56, 63].map(class_of), [0, 0, 3, 4, 4, 0, 6, 7, 7]);
}

type Case = (&'static str, fn(&mut ProfileSpec), &'static [&'static str]);

const CASES: &[Case] = &[
    ("as it is", |_| {}, &[]),
    ("a quote in a name", |s| s.classes[0].name = "a\"b".into(), &["classes: name \"a\\\"b\""]),
    ("a new line in a name", |s| s.classes[0].name = "a\nb".into(), &["classes: name \"a\\nb\""]),
    ("a control character", |s| s.classes[0].name = "a\u{7}".into(), &["classes: name \"a\\u{7}\""]),
    ("a profile's name", |s| s.name = "a'b\n".into(), &["name: "]),
    ("one name twice", |s| s.classes[1].name = "nvme".into(), &["classes: 'nvme' is there twice"]),
    ("nothing in it", |s| s.classes[0].dscps.clear(), &["classes.nvme: has no DSCP"]),
    (
        "the DSCP of data",
        |s| s.classes[0].dscps = vec![Dscp::of(26)],
        &["classes.nvme: DSCP 26 is that of data"],
    ),
    (
        "a DSCP twice",
        |s| s.classes[1].dscps = vec![Dscp::of(34)],
        &["classes.management: DSCP 34 is that of nvme"],
    ),
    (
        "a DSCP mapped elsewhere",
        |s| s.dscp_map = [(Dscp::of(34), Priority::of(1))].into(),
        &["classes.nvme: DSCP 34 is that of dscpMap (priority 1)"],
    ),
    (
        "a priority twice",
        |s| s.classes[1].priority = Priority::of(4),
        &["classes.management: priority 4 is that of nvme"],
    ),
    (
        "lossless without PFC",
        |s| s.classes[0].lossless = true,
        &["classes.nvme: is lossless, but pfc has not"],
    ),
    ("PFC without need", |s| s.pfc = PrioritySet(0x18), &["pfc: priority 4 has flow control but carries no"]),
    (
        "two lossless classes that are asked for",
        |s| (s.classes[0].lossless, s.pfc) = (true, PrioritySet(0x18)),
        &[],
    ),
    (
        "a traffic class shared",
        |s| (s.prio_tc[4], s.bandwidth) = (0, [45, 0, 0, 50, 0, 0, 0, 5]),
        &[
            "prioTc[0]: priority 0 shares traffic class 0 with class nvme",
            "prioTc[1]",
            "prioTc[2]",
            "prioTc[5]",
        ],
    ),
    ("shares of 95", |s| s.bandwidth[0] = 15, &["bandwidth: the shares of the 'ets' classes sum to 95 %"]),
    ("a small MTU", |s| s.switch.mtu = 8999, &["switch.mtu: 8999 is less than the servers' mtu 9000 and 0"]),
    (
        "9000 inside VXLAN over 9000",
        |s| (s.switch.mtu, s.switch.vxlan) = (9000, true),
        &["switch.mtu: 9000 is less than the servers' mtu 9000 and 50"],
    ),
    ("alpha", |s| s.switch.lossless_alpha = 8, &["switch.losslessAlpha: 8 is not from -8 to 7"]),
    ("small packets", |s| s.switch.small_packet_percent = 101, &["switch.smallPacketPercent: 101"]),
    ("lossless MTU", |s| s.switch.lossless_mtu = 100, &["switch.losslessMtu: 100"]),
    ("an odd speed", |s| ecn(s, 300, 1000, 2000, 20), &["switch.ecn[300]: there are no ports"]),
    ("the wrong way round", |s| ecn(s, 400, 2000, 2000, 20), &["switch.ecn[400]: kmin 2000 must be"]),
    (
        "never marks",
        |s| ecn(s, 400, 1000, 2000, 0),
        &["switch.ecn[400]: kmin 1000, kmax 2000, pmax 0 % never"],
    ),
    (
        "a shipped placeholder",
        |s| ecn(s, 800, 266_338_050, 266_338_050, 0),
        &["switch.ecn[800]: kmin 266338050, kmax 266338050, pmax 0 % never marks"],
    ),
    ("too many", |s| ecn(s, 400, 1000, 2000, 101), &["switch.ecn[400]: pmax 101 % is more than 100"]),
    (
        "pause before ECN",
        |s| {
            ecn(s, 400, 1000, 2000, 20);
            s.switch.pause_bytes = Some(2000);
        },
        &["switch.ecn[400]: kmax 2000 is not below the length of 2000 bytes"],
    ),
    (
        "times of the watchdog",
        |s| (s.switch.watchdog.detection_ms, s.switch.watchdog.poll_ms) = (150, 99),
        &["switch.watchdog.pollMs: 99 ms is not from 100 to 1000"],
    ),
    (
        "a slow look",
        |s| s.switch.watchdog.poll_ms = 300,
        &[
            "switch.watchdog.detectionMs: 200 ms is shorter than pollMs 300",
            "switch.watchdog.restorationMs: 200 ms is shorter than pollMs 300",
        ],
    ),
];

fn ecn(spec: &mut ProfileSpec, speed: u32, kmin: u64, kmax: u64, pmax: u8) {
    spec.switch.ecn.insert(speed, EcnThresholds { kmin, kmax, pmax });
}

#[test]
fn each_contradiction_is_named() {
    for (name, change, wanted) in CASES {
        let mut spec = with_classes();
        change(&mut spec);
        let found = QosProfile::new(spec).err().map_or(Vec::new(), |error| error.0);
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), wanted.len(), "{name}: {found:?}");
        for (found, wanted) in found.iter().zip(*wanted) {
            assert!(found.starts_with(wanted), "{name}: '{found}' does not begin with '{wanted}'");
        }
    }
}

#[test]
fn all_contradictions_come_at_once() {
    let mut spec = with_classes();
    spec.classes[0].name = "a\"".into();
    spec.pfc = PrioritySet(0x18);
    spec.bandwidth[0] = 0;
    spec.switch.mtu = 1500;
    ecn(&mut spec, 400, 9, 9, 0);
    let found = QosProfile::new(spec).unwrap_err();
    assert_eq!(found.0.len(), 6, "{found}");
}

/// What docs/qos.md shows.
#[test]
fn the_documents_profile_holds() {
    let text = include_str!("../../../../docs/qos.md");
    let json = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let profile = from_json(json).unwrap();
    assert_eq!(profile.priority_of(Dscp::of(34)).get(), 4);
    assert!(profile.spec().switch.vxlan && profile.spec().switch.ecn.contains_key(&400));
}
