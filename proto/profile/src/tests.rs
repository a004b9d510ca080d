//! Profiles: the recommended one holds, and every contradiction is named by its field, all at once.

mod switch;

use crate::{
    ProfileSpec, QosProfile, from_json,
    settings::{Buffer, CcParam},
    words::{Dscp, Ownership, Priority, PrioritySet, RoceMode, Trust, Tsa},
};

fn flaws(change: impl FnOnce(&mut ProfileSpec)) -> Vec<String> {
    let mut spec = ProfileSpec::default();
    change(&mut spec);
    QosProfile::new(spec).err().map_or(Vec::new(), |error| error.0.iter().map(ToString::to_string).collect())
}

#[test]
fn the_default_is_the_recommended_one() {
    let profile = QosProfile::new(ProfileSpec::default()).unwrap();
    assert_eq!(profile, QosProfile::default());
    let priority = |dscp| profile.priority_of(Dscp::of(dscp)).get();
    assert_eq!([0, 8, 24, 26, 34, 46, 48, 56, 63].map(priority), [0, 1, 3, 3, 4, 5, 6, 7, 7]);
    assert_eq!(profile.dscp_entries().len(), 64);
    assert_eq!(profile.spec().default_tos, 26 << 2 | 2);
}

type Case = (&'static str, fn(&mut ProfileSpec), &'static [&'static str]);

const CASES: &[Case] = &[
    ("no name", |s| s.name = String::new(), &["name: "]),
    ("a name with a space", |s| s.name = "a b".into(), &["name: 'a b'"]),
    ("no pfc", |s| s.pfc = PrioritySet::EMPTY, &["pfc: the lossless priority 3 has no flow control"]),
    ("pfc on 3 and 4", |s| s.pfc = PrioritySet(0x18), &["pfc: priority 4 has flow control"]),
    (
        "pfc on CNPs",
        |s| s.pfc = PrioritySet(0x48),
        &["cnpPriority: CNPs are on priority 6, which is lossless"],
    ),
    (
        "CNPs in the lossless class",
        |s| s.cnp_priority = Priority::of(3),
        &["cnpPriority: CNPs are on priority 3", "tsa[3]: the class of CNPs (priority 3) is 'ets'"],
    ),
    ("one DSCP for both", |s| s.cnp_dscp = Dscp::of(26), &["cnpDscp: 26 is the DSCP of data as well"]),
    (
        "the map contradicts",
        |s| s.dscp_map = [(Dscp::of(48), Priority::of(3))].into(),
        &["dscpMap[48]: priority 3, but cnpDscp puts DSCP 48 on priority 6"],
    ),
    ("CNPs by share", |s| s.tsa[6] = Tsa::Ets, &["tsa[6]: the class of CNPs (priority 6) is 'ets'"]),
    (
        "one class for both",
        |s| s.prio_tc[6] = 3,
        &["prioTc: data (priority 3) and CNPs (priority 6) share traffic class 3", "tsa[3]"],
    ),
    ("a lossless class shared", |s| s.prio_tc[4] = 3, &["prioTc[4]: priority 4 shares traffic class 3"]),
    ("class 8", |s| s.prio_tc[1] = 8, &["prioTc[1]: there is no traffic class 8"]),
    ("shares of 90", |s| s.bandwidth[0] = 40, &["bandwidth: the shares of the 'ets' classes sum to 90 %"]),
    ("a strict share", |s| s.bandwidth[6] = 10, &["bandwidth[6]: 10 %, but the class is served 'strict'"]),
    (
        "data starves",
        |s| s.bandwidth = [100, 0, 0, 0, 0, 0, 0, 0],
        &["bandwidth[3]: the class of RDMA data has no share"],
    ),
    ("vendor's scheduler", |s| s.tsa[1] = Tsa::Vendor, &["tsa[1]: 'vendor'"]),
    ("ToS 104", |s| s.default_tos = 104, &["defaultTos: 104 has no ECT bit"]),
    ("ToS of another DSCP", |s| s.default_tos = 98, &["defaultTos: 98 carries DSCP 24, data has DSCP 26"]),
    ("ToS CE", |s| s.default_tos = 107, &["defaultTos: 107 has no ECT bit"]),
    ("RoCE v1", |s| s.default_mode = RoceMode::V1, &["defaultMode: 'IB/RoCE v1' carries no DSCP"]),
    ("MTU 1500", |s| s.mtu = 1500, &["mtu: 1500 is not from 4192"]),
    ("MTU 4191", |s| s.mtu = 4191, &["mtu: 4191 is not from 4192"]),
    ("pause", |s| s.global_pause = true, &["globalPause: excludes PFC, which is on for 3"]),
    ("no cable", |s| s.cable_length = 0, &["cableLength: 0 m"]),
    ("prevention", |s| s.pfc_prevention = Some(10), &["pfcPrevention: 10 ms"]),
    (
        "half of DCQCN",
        |s| s.dcqcn.reaction = PrioritySet::EMPTY,
        &["dcqcn: priority 3 has only one of notification and reaction"],
    ),
    (
        "DCQCN elsewhere",
        |s| (s.dcqcn.reaction, s.dcqcn.notification) = (PrioritySet(1), PrioritySet(1)),
        &["dcqcn: priority 0 carries no RDMA data"],
    ),
    (
        "a parameter",
        |s| s.dcqcn.params = [(CcParam::MinDecFac, 101)].into(),
        &["dcqcn.params.min_dec_fac: 101 is more than 100"],
    ),
    ("firmware", |s| s.dcbx = Ownership::Firmware, &["dcbx: 'firmware'"]),
    (
        "VLAN tags and a map",
        |s| {
            s.trust = Trust::Pcp;
            s.dscp_map.insert(Dscp::of(1), Priority::of(1));
        },
        &["trust: 'pcp' reads VLAN tags"],
    ),
    (
        "buffers",
        |s| s.buffer = Some(Buffer { prio_buffer: [0, 0, 0, 1, 0, 0, 0, 9], size: [1, 0, 0, 0, 0, 0, 0, 0] }),
        &["buffer.size[1]: priorities use this buffer", "buffer.prioBuffer[7]: there is no buffer 9"],
    ),
];

#[test]
fn each_contradiction_is_named() {
    for (name, change, wanted) in CASES {
        let found = flaws(change);
        assert_eq!(found.len(), wanted.len(), "{name}: {found:?}");
        for (found, wanted) in found.iter().zip(*wanted) {
            assert!(found.starts_with(wanted), "{name}: '{found}' does not begin with '{wanted}'");
        }
    }
}

#[test]
fn all_contradictions_come_at_once() {
    let found = flaws(|s| {
        s.name = String::new();
        s.pfc = PrioritySet(0x10);
        s.mtu = 1500;
        s.default_tos = 104;
        s.bandwidth[0] = 40;
        s.cable_length = 2000;
    });
    let fields: Vec<&str> = found.iter().filter_map(|flaw| flaw.split(':').next()).collect();
    assert_eq!(fields, ["name", "pfc", "pfc", "bandwidth", "defaultTos", "mtu", "cableLength"]);
}

#[test]
fn documents_are_strict() {
    let profile = from_json(r#"{"name": "a", "mtu": 4200, "dscpMap": {"0": 1}, "pfc": [3]}"#).unwrap();
    assert_eq!((profile.spec().mtu, profile.priority_of(Dscp::of(0)).get()), (4200, 1));
    let again = from_json(&serde_json::to_string(&profile).unwrap()).unwrap();
    assert_eq!(again, profile);
    for (text, wanted) in [
        (r#"{"mtuu": 1}"#, "unknown field `mtuu`"),
        (r#"{"pfc": [8]}"#, "8 is no priority: it must be from 0 to 7"),
        (r#"{"dataDscp": 64}"#, "64 is no DSCP: it must be from 0 to 63"),
        (r#"{"dcqcn": {"params": {"gg": 1}}}"#, "unknown variant `gg`"),
        (r#"{"mtu": 1500, "defaultTos": 104}"#, "defaultTos: 104 has no ECT bit"),
        (r#"{"mtu": 1500}"#, "mtu: 1500"),
        ("", "line 1 column 0"),
        (&" ".repeat(65 * 1024), "larger than"),
    ] {
        let error = from_json(text).unwrap_err().to_string();
        assert!(error.contains(wanted), "'{error}' does not contain '{wanted}'");
    }
}
