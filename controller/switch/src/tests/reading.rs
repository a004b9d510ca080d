//! What was rendered is read back the same; what cannot be is named, all at once; what is not ours is kept.

use proptest::prelude::*;
use proto_profile::{EcnThresholds, QosProfile, WatchdogAction, words::PrioritySet};
use proto_random::Random;

use super::rendering::{rich, small};
use crate::{
    desired,
    model::{Name, Nos},
    read::{self, ReadError},
    render::{frr, sonic, tables::ConfigDb},
    state::{
        Buffer, BufferModel, Group, Limit, Marking, PortState, PortWatchdog, Queue, Scheduler, SwitchState,
    },
};

fn states(model: BufferModel) -> Vec<SwitchState> {
    let switches = small(Nos::Sonic).switches().unwrap();
    let profiles = [QosProfile::default(), rich()];
    let plan = |profile| desired::plan(profile, &switches, model).unwrap().into_values();
    profiles.iter().flat_map(plan).collect()
}

fn again(state: &SwitchState) -> read::Read {
    let json = sonic::config_db(state).to_json().unwrap();
    read::sonic(&json, Some(&frr::text(state))).unwrap()
}

#[test]
fn what_was_rendered_is_read_back_the_same() {
    for state in states(BufferModel::Static).into_iter().chain(states(BufferModel::Dynamic)) {
        let read = again(&state);
        assert_eq!(read.state, state);
        assert!(read.others.0.is_empty() && read.unknown.is_empty(), "{:?} {:?}", read.others, read.unknown);
    }
}

/// Another state, as odd as a switch can be set.
fn odd(seed: u64) -> SwitchState {
    let mut random = Random::new(seed);
    let model = if random.below(2) == 0 { BufferModel::Static } else { BufferModel::Dynamic };
    let mut all = states(model);
    let mut state = all.swap_remove(random.index(all.len()));
    for port in state.ports.values_mut() {
        unsettle(port, &mut random);
    }
    state
}

/// Changes a port, for better or worse.
pub fn unsettle(port: &mut PortState, random: &mut Random) {
    let qos = &mut port.qos;
    match random.below(12) {
        0 => qos.dscp_to_tc = None,
        1 => qos.pfc = PrioritySet(u8::try_from(random.below(256)).unwrap()),
        2 => qos.watchdog = None,
        3 => qos.groups.clear(),
        4 => {
            qos.queues.insert(2, Queue { scheduler: Some(Scheduler::Share(7)), ..Queue::default() });
        }
        5 => port.cable_m = None,
        6 => (port.up, port.mtu) = (false, 1500),
        7 => {
            let at = EcnThresholds { kmin: random.below(1 << 40), kmax: random.below(1 << 40), pmax: 7 };
            let marking = Marking { ecn: random.below(2) == 0, on: random.below(2) == 0, at };
            qos.queues.entry(3).or_default().marking = Some(marking);
        }
        8 => {
            let buffer = Buffer {
                pool: Name::new("pool").unwrap(),
                size: random.below(1 << 30),
                limit: Limit::Bytes(random.below(1 << 30)),
                xoff: Some(random.below(1 << 30)),
                xon: None,
            };
            qos.groups.insert(5, Group::Fixed(buffer));
        }
        9 => {
            let map = qos.tc_to_group.as_mut().unwrap();
            std::sync::Arc::make_mut(map).insert(5, 1);
        }
        10 => {
            let dog = PortWatchdog { action: WatchdogAction::Alert, detection_ms: 300, restoration_ms: 100 };
            qos.watchdog = Some(dog);
        }
        _ => qos.priority_to_queue = None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn an_odd_state_is_read_back_the_same(seed in any::<u64>()) {
        let state = odd(seed);
        prop_assert_eq!(again(&state).state, state);
    }

    #[test]
    fn no_text_breaks_the_readers(text in "\\PC{0,400}", seed in any::<u64>()) {
        let _ = read::sonic(&text, Some(&text));
        let mut json = sonic::config_db(&odd(seed)).to_json().unwrap().into_bytes();
        let at = Random::new(seed).index(json.len());
        json[at] = b'9';
        let _ = read::sonic(&String::from_utf8_lossy(&json), None);
    }
}

fn refusals(change: impl FnOnce(&mut ConfigDb)) -> Vec<String> {
    let mut db = sonic::config_db(&states(BufferModel::Static)[0]);
    change(&mut db);
    match read::sonic(&db.to_json().unwrap(), None) {
        Err(ReadError::Wrong(all)) => all.iter().map(ToString::to_string).collect(),
        Err(other) => vec![other.to_string()],
        Ok(_) => Vec::new(),
    }
}

type Case = (&'static str, fn(&mut ConfigDb), &'static [&'static str]);

const CASES: &[Case] = &[
    ("as it is", |_| {}, &[]),
    (
        "a size in words",
        |db| db.set("BUFFER_POOL", "ingress_lossless_pool", "size", "14MB"),
        &["BUFFER_POOL|ingress_lossless_pool.size: \"14MB\" is no such number"],
    ),
    (
        "a map that is not there",
        |db| db.set("PORT_QOS_MAP", "Ethernet0", "dscp_to_tc_map", "AZURE"),
        &["PORT_QOS_MAP|Ethernet0.dscp_to_tc_map: refers to \"AZURE\", which is not there"],
    ),
    (
        "a DSCP that there is not",
        |db| db.set("DSCP_TO_TC_MAP", "RAIL", "77", "3"),
        &["DSCP_TO_TC_MAP|RAIL.77: 77 -> 3 is beyond 63 -> 7"],
    ),
    (
        "a class that there is not",
        |db| db.set("TC_TO_QUEUE_MAP", "RAIL", "3", "99"),
        &["TC_TO_QUEUE_MAP|RAIL.3: 3 -> 99 is beyond 7 -> 7"],
    ),
    (
        "a priority that there is not",
        |db| db.set("PORT_QOS_MAP", "Ethernet0", "pfc_enable", "3,9"),
        &["PORT_QOS_MAP|Ethernet0.pfc_enable: \"9\" is no priority"],
    ),
    (
        "a mark that there is not",
        |db| db.set("WRED_PROFILE", "RAIL_400G", "ecn", "ecn_blue"),
        &["WRED_PROFILE|RAIL_400G.ecn: \"ecn_blue\" is none of"],
    ),
    (
        "two at once",
        |db| {
            db.set("BUFFER_PG", "Ethernet999|3", "profile", "NULL");
            db.set("QUEUE", "Ethernet0|7-3", "scheduler", "strict");
        },
        &[
            "BUFFER_PG|Ethernet999|3: there is no port \"Ethernet999\"",
            "QUEUE|Ethernet0|7-3: is no port and queues",
        ],
    ),
    (
        "a name that could say more",
        |db| db.set("PORT", "Ethernet0\"", "speed", "400000"),
        &["PORT|Ethernet0\": \"Ethernet0\\\"\" is no name"],
    ),
];

#[test]
fn what_cannot_be_is_named() {
    for (name, change, wanted) in CASES {
        let found = refusals(change);
        assert_eq!(found.len(), wanted.len(), "{name}: {found:?}");
        for (found, wanted) in found.iter().zip(*wanted) {
            assert!(found.starts_with(wanted), "{name}: '{found}' does not begin with '{wanted}'");
        }
    }
}

#[test]
fn what_is_not_ours_is_kept() {
    let state = states(BufferModel::Static).remove(0);
    let mut db = sonic::config_db(&state);
    db.set("VLAN", "Vlan100", "vlanid", 100);
    db.set("PORT_QOS_MAP", "Ethernet0", "pfc_watchdog_status", "on");
    db.set("PORT_QOS_MAP", "global", "dscp_to_tc_map", "RAIL");
    db.set("BUFFER_PG", "Ethernet0,Ethernet4|5-6", "profile", "ingress_lossy_profile");
    let frr = frr::text(&state) + "route-map X permit 10\n";
    let read = read::sonic(&db.to_json().unwrap(), Some(&frr)).unwrap();
    assert_eq!(read.others.0.keys().collect::<Vec<_>>(), ["VLAN"]);
    assert_eq!(read.unknown[0], "PORT_QOS_MAP|Ethernet0.pfc_watchdog_status");
    assert!(read.unknown[1].contains("route-map X permit 10"), "{:?}", read.unknown);
    let port = &read.state.ports[&Name::new("Ethernet4").unwrap()];
    assert!(port.qos.groups.contains_key(&5) && port.qos.groups.contains_key(&6));
}

#[test]
fn lines_of_frr_that_are_ours_are_strict() {
    let text = frr::text(&states(BufferModel::Static)[0]);
    for (from, to) in [("router bgp 65000", "router bgp x"), ("/32", ""), ("router-id 10", "router-id x")] {
        let wrong = read::sonic("{}", None).unwrap_err();
        assert!(wrong.to_string().contains("hostname is missing"));
        assert!(super::super::read::frr::read(&text.replace(from, to)).is_err(), "{from} -> {to}");
    }
}
