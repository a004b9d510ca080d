//! The check: what is right is proved; each fault is found where it is, with a packet that a replay confirms.

use std::sync::Arc;

use proto_profile::{
    QosProfile, WatchdogAction,
    words::{PrioritySet, Trust, Tsa},
};

use proto_random::Random;

use super::{reading::unsettle, rendering::rich};
use crate::{
    asic::Asic,
    check::{Claim, Facts, Location, NicId, Packet, Setting, Traffic, Verdict, check, replay, site, through},
    model::{Name, Nos, Switch},
    read,
    render::{frr, sonic},
    sample::Shape,
    state::{BufferModel, Group, Limit, PortQos, PortState, Scheduler, SwitchState},
};

fn shape() -> Shape {
    Shape { servers: 4, rails: 2, servers_per_pod: 2, spines: 2, nos: Nos::Sonic, ..Shape::default() }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A fabric that is set as it should be.
fn right(profile: &QosProfile, model: BufferModel) -> (Vec<Switch>, Facts) {
    let switches = shape().switches().unwrap();
    let facts = Facts::desired(profile, &switches, model).unwrap();
    (switches, facts)
}

#[test]
fn what_is_right_is_proved() {
    for profile in [QosProfile::default(), rich()] {
        for model in [BufferModel::Static, BufferModel::Dynamic] {
            let (switches, mut facts) = right(&profile, model);
            // As it is read back from what was rendered.
            for state in facts.switches.values_mut() {
                let json = sonic::config_db(state).to_json().unwrap();
                *state = read::sonic(&json, Some(&frr::text(state))).unwrap().state;
            }
            let Verdict::Proof(proof) = check(&profile, &switches, &facts).unwrap() else { panic!() };
            assert_eq!((proof.switches, proof.ports, proof.nics, proof.neighbors), (6, 24, 8, 16));
            assert!(proof.port_settings <= 3 && proof.nic_settings == 1, "{proof}");
        }
    }
}

enum At {
    /// A port of a switch.
    Port(&'static str, &'static str, fn(&mut PortState)),
    /// A switch as a whole.
    Whole(&'static str, fn(&mut SwitchState)),
    /// A NIC of a server.
    Nic(&'static str, fn(&mut crate::state::NicState)),
}

fn map(map: &mut Option<Arc<crate::state::Map>>) -> &mut crate::state::Map {
    Arc::make_mut(map.as_mut().unwrap())
}

fn marking(qos: &mut PortQos) -> &mut crate::state::Marking {
    qos.queues.get_mut(&3).unwrap().marking.as_mut().unwrap()
}

fn fixed(qos: &mut PortQos, group: u8) -> &mut crate::state::Buffer {
    match qos.groups.get_mut(&group) {
        Some(Group::Fixed(buffer)) => buffer,
        other => panic!("{other:?}"),
    }
}

const LEAF: &str = "leaf-p1-r0";
const SPINE: &str = "spine1";

/// What is done, which setting is named, and what the counterexample tells.
type Case = (&'static str, At, Setting, &'static str);

const STATIC: &[Case] = &[
    (
        "SONiC's stock map",
        At::Port(LEAF, "Ethernet0", |p| {
            map(&mut p.qos.dscp_to_tc).insert(26, 1);
        }),
        Setting::Dscp(26),
        "lossy: a full port drops it",
    ),
    (
        "the same on a spine",
        At::Port(SPINE, "Ethernet8", |p| {
            map(&mut p.qos.dscp_to_tc).insert(26, 1);
        }),
        Setting::Dscp(26),
        "lossy: a full port drops it",
    ),
    (
        "a DSCP in the lossless class",
        At::Port(LEAF, "Ethernet0", |p| {
            map(&mut p.qos.dscp_to_tc).insert(10, 3);
        }),
        Setting::Dscp(10),
        "a pause of priority 3 stops it",
    ),
    (
        "a DSCP left out",
        At::Port(LEAF, "Ethernet0", |p| {
            map(&mut p.qos.dscp_to_tc).remove(&48);
        }),
        Setting::Dscp(48),
        "it is in traffic class 0, group 0, queue 0",
    ),
    ("trust on layer 2", At::Port(LEAF, "Ethernet0", |p| p.qos.dscp_to_tc = None), Setting::Trust, "lossy"),
    ("a port left out", At::Port(LEAF, "Ethernet4", |p| p.qos = PortQos::default()), Setting::Trust, "lossy"),
    (
        "PFC on 3 and 4",
        At::Port(LEAF, "Ethernet0", |p| p.qos.pfc = PrioritySet(0x18)),
        Setting::Pfc,
        "a pause of priority 4 stops it",
    ),
    (
        "no PFC",
        At::Port(LEAF, "Ethernet0", |p| p.qos.pfc = PrioritySet::EMPTY),
        Setting::Pfc,
        "makes no pause",
    ),
    (
        "PFC on 4 instead",
        At::Port(SPINE, "Ethernet0", |p| p.qos.pfc = PrioritySet(0x10)),
        Setting::Pfc,
        "makes no pause",
    ),
    (
        "pauses stop another queue",
        At::Port(LEAF, "Ethernet8", |p| {
            map(&mut p.qos.priority_to_queue).insert(3, 4);
        }),
        Setting::PauseMap(3),
        "does not obey the pause",
    ),
    (
        "pauses of another group",
        At::Port(LEAF, "Ethernet8", |p| {
            map(&mut p.qos.priority_to_group).insert(3, 0);
        }),
        Setting::PauseMap(3),
        "makes no pause",
    ),
    (
        "headroom cut",
        At::Port(LEAF, "Ethernet8", |p| fixed(&mut p.qos, 3).xoff = Some(90_000)),
        Setting::Headroom(3),
        "101376 bytes still come after a pause, 90000 have room",
    ),
    (
        "no headroom",
        At::Port(LEAF, "Ethernet0", |p| fixed(&mut p.qos, 3).xoff = None),
        Setting::Headroom(3),
        "lossy",
    ),
    (
        "no group",
        At::Port(LEAF, "Ethernet0", |p| {
            p.qos.groups.remove(&3);
        }),
        Setting::Headroom(3),
        "lossy",
    ),
    (
        "the shared headroom cut",
        At::Whole(LEAF, |s| {
            s.pools.get_mut(&Name::new("ingress_lossless_pool").unwrap()).unwrap().xoff = Some(100_000);
        }),
        Setting::HeadroomPool,
        "ports share 100000 bytes of headroom and need",
    ),
    (
        "alpha",
        At::Port(LEAF, "Ethernet0", |p| fixed(&mut p.qos, 3).limit = Limit::Alpha(3)),
        Setting::Limit(3),
        "its group takes 2^3",
    ),
    (
        "a queue that takes less than its group",
        At::Port(LEAF, "Ethernet0", |p| {
            p.qos.queues.get_mut(&3).unwrap().buffer.as_mut().unwrap().limit = Limit::Alpha(-1);
        }),
        Setting::QueueBuffer(3),
        "dropped before a pause",
    ),
    (
        "a probability of 0",
        At::Port(LEAF, "Ethernet0", |p| marking(&mut p.qos).at.pmax = 0),
        Setting::Marking(3),
        "marks 0 of a million packets",
    ),
    (
        "a shipped placeholder",
        At::Port(LEAF, "Ethernet0", |p| {
            let at = &mut marking(&mut p.qos).at;
            (at.kmin, at.kmax, at.pmax) = (266_338_050, 266_338_050, 0);
        }),
        Setting::Marking(3),
        "queue 3 of 6400000 bytes marks 0",
    ),
    (
        "no profile of marks",
        At::Port(SPINE, "Ethernet4", |p| p.qos.queues.get_mut(&3).unwrap().marking = None),
        Setting::Marking(3),
        "marks 0 of a million",
    ),
    (
        "drops instead of marks",
        At::Port(LEAF, "Ethernet0", |p| marking(&mut p.qos).ecn = false),
        Setting::Marking(3),
        "marks 0 of a million",
    ),
    (
        "Kmin alone",
        At::Port(LEAF, "Ethernet0", |p| marking(&mut p.qos).at.kmin = 100_000),
        Setting::Marking(3),
        "of a million packets, not 0",
    ),
    (
        "no watchdog",
        At::Port(LEAF, "Ethernet0", |p| p.qos.watchdog = None),
        Setting::Watchdog,
        "no watchdog: a storm never ends",
    ),
    (
        "pfcwd off",
        At::Port(LEAF, "Ethernet0", |p| p.qos.watched = PrioritySet::EMPTY),
        Setting::Watchdog,
        "nobody watches priority 3",
    ),
    (
        "a watchdog that barks",
        At::Port(LEAF, "Ethernet0", |p| p.qos.watchdog.as_mut().unwrap().action = WatchdogAction::Alert),
        Setting::Watchdog,
        "a storm is told and does not end",
    ),
    (
        "a neighbour left out",
        At::Whole(LEAF, |s| {
            s.routing.as_mut().unwrap().neighbors.pop_first();
        }),
        Setting::Neighbor,
        "no BGP neighbour: no route leads here",
    ),
    (
        "one AS for two tiers",
        At::Whole("leaf-p0-r0", |s| s.routing.as_mut().unwrap().asn = 64_513),
        Setting::Neighbor,
        "AS 64513 at both ends",
    ),
    ("nobody looks", At::Whole(SPINE, |s| s.poll_ms = None), Setting::Watchdog, "looking every 0 ms"),
    (
        "CNPs by share",
        At::Port(LEAF, "Ethernet0", |p| {
            p.qos.queues.get_mut(&6).unwrap().scheduler = Some(Scheduler::Share(10));
        }),
        Setting::Scheduler(6),
        "serves queue 6 a share of 10, not strict",
    ),
    (
        "CNPs in the queue of data",
        At::Port(LEAF, "Ethernet0", |p| {
            map(&mut p.qos.tc_to_queue).insert(6, 3);
        }),
        Setting::Queue(6),
        "a pause of priority 3 stops it",
    ),
    (
        "data in a lossy group",
        At::Port(LEAF, "Ethernet0", |p| {
            map(&mut p.qos.tc_to_group).insert(3, 0);
        }),
        Setting::Group(3),
        "lossy",
    ),
    ("MTU 1500", At::Port(LEAF, "Ethernet0", |p| p.mtu = 1500), Setting::Mtu, "MTU 1500: a packet of 9000"),
    ("a port down", At::Port(SPINE, "Ethernet0", |p| p.up = false), Setting::Up, "the port is down"),
    (
        "half as fast",
        At::Port(LEAF, "Ethernet0", |p| p.speed = Some(200)),
        Setting::Speed,
        "at one end alone",
    ),
    ("CNP DSCP 4", At::Nic("n2", |n| n.cnp_dscp = 4), Setting::Cnp, "the CNP (DSCP 4) waits in queue 0"),
    (
        "a NIC that trusts VLANs",
        At::Nic("n2", |n| n.trust = Trust::Pcp),
        Setting::Trust,
        "sends it in priority 0",
    ),
    (
        "a NIC's map",
        At::Nic("n2", |n| {
            Arc::make_mut(&mut n.dscp_to_priority).insert(26, 1);
        }),
        Setting::Dscp(26),
        "sends it in priority 1",
    ),
    (
        "a NIC with PFC on 3 and 4",
        At::Nic("n2", |n| n.pfc = PrioritySet(0x18)),
        Setting::Pfc,
        "a pause of priority 4 stops it",
    ),
    (
        "a NIC without PFC",
        At::Nic("n2", |n| n.pfc = PrioritySet::EMPTY),
        Setting::Pfc,
        "whoever sends it does not obey",
    ),
    ("a small MTU", At::Nic("n2", |n| n.mtu = 1500), Setting::Mtu, "a packet of 9000 is not sent"),
    ("a large MTU", At::Nic("n2", |n| n.mtu = 9100), Setting::Mtu, "a packet of 9100 is dropped"),
    ("ToS 104", At::Nic("n2", |n| n.tos = 104), Setting::Tos, "sends RDMA data with ToS 104"),
    (
        "nobody answers",
        At::Nic("n2", |n| n.notification = PrioritySet::EMPTY),
        Setting::Congestion,
        "answer marks",
    ),
    ("nobody heeds", At::Nic("n2", |n| n.reaction = PrioritySet::EMPTY), Setting::Congestion, "ignores CNPs"),
    (
        "a NIC's shares",
        At::Nic("n2", |n| (n.bandwidth[0], n.bandwidth[3]) = (90, 10)),
        Setting::Scheduler(0),
        "serves it a share of 90, not a share of 50",
    ),
    ("strict data", At::Nic("n2", |n| n.tsa[3] = Tsa::Strict), Setting::Scheduler(3), "serves it strict"),
    ("one class for two", At::Nic("n2", |n| n.priority_tc[4] = 3), Setting::Queue(4), "in the same class"),
];

/// Where the switch works headroom out.
const DYNAMIC: &[Case] = &[
    (
        "a cable said shorter",
        At::Port(LEAF, "Ethernet8", |p| p.cable_m = Some(5)),
        Setting::Headroom(3),
        "101376 bytes still come after a pause, 83968 have room",
    ),
    ("no cable said", At::Port(LEAF, "Ethernet8", |p| p.cable_m = None), Setting::Headroom(3), "lossy"),
    ("no pattern said", At::Whole(SPINE, |s| s.pattern = None), Setting::Headroom(3), "lossy"),
    ("the static model", At::Whole(LEAF, |s| s.model = BufferModel::Static), Setting::Headroom(3), "lossy"),
    (
        "another alpha",
        At::Whole(LEAF, |s| s.default_alpha = Some(2)),
        Setting::Limit(3),
        "its group takes 2^2",
    ),
];

fn apply(facts: &mut Facts, at: &At) {
    match at {
        At::Port(switch, port, change) => {
            change(facts.switches.get_mut(&name(switch)).unwrap().ports.get_mut(&name(port)).unwrap());
        }
        At::Whole(switch, change) => change(facts.switches.get_mut(&name(switch)).unwrap()),
        At::Nic(server, change) => {
            change(facts.nics.get_mut(&NicId { server: name(server), nic: name("mlx5_1") }).unwrap());
        }
    }
}

fn is_there(place: &Location, at: &At) -> bool {
    match (place, at) {
        (Location::Port { switch, port }, At::Port(on, at, _)) => {
            switch.as_str() == *on && port.as_str() == *at
        }
        (Location::Port { switch, .. }, At::Whole(on, _)) => switch.as_str() == *on,
        (Location::Nic(id), At::Nic(server, _)) => id.server.as_str() == *server,
        _ => false,
    }
}

fn finds(profile: &QosProfile, model: BufferModel, cases: &[Case]) {
    for (what, at, setting, wanted) in cases {
        let (switches, mut facts) = right(profile, model);
        apply(&mut facts, at);
        let Verdict::Counterexample(found) = check(profile, &switches, &facts).unwrap() else {
            panic!("{what}: is not found");
        };
        assert!(is_there(&found.place, at), "{what}: {found}");
        assert_eq!(found.fault.setting, *setting, "{what}: {found}");
        let text = found.to_string();
        assert!(text.contains(wanted), "{what}: it does not tell '{wanted}'\n{text}");
        // Once more, by itself; and where all is right the same packet meets what it should.
        let again = |facts: &Facts| {
            replay(
                &site(&switches),
                facts,
                found.route.as_ref().unwrap(),
                found.at,
                found.packet,
                found.claim,
            )
        };
        assert!(again(&facts).broken.is_some(), "{what}\n{text}");
        let (_, right) = right(profile, model);
        if *setting != Setting::Mtu && *setting != Setting::Tos {
            assert_eq!(again(&right).broken, None, "{what}\n{text}");
        }
    }
}

#[test]
fn each_fault_is_found_with_a_packet_that_shows_it() {
    finds(&QosProfile::default(), BufferModel::Static, STATIC);
    finds(&QosProfile::default(), BufferModel::Dynamic, DYNAMIC);
}

#[test]
fn jumbo_frames_inside_vxlan_over_9000_are_found() {
    let (switches, mut facts) = right(&rich(), BufferModel::Static);
    // Towards the servers 9000 is enough.
    let port = |facts: &mut Facts, switch: &str, port: &str| {
        facts.switches.get_mut(&name(switch)).unwrap().ports.get_mut(&name(port)).unwrap().mtu = 9000;
    };
    port(&mut facts, LEAF, "Ethernet0");
    assert!(matches!(check(&rich(), &switches, &facts).unwrap(), Verdict::Proof(_)));
    port(&mut facts, LEAF, "Ethernet8");
    let Verdict::Counterexample(found) = check(&rich(), &switches, &facts).unwrap() else { panic!() };
    let text = found.to_string();
    assert!(text.contains("Ethernet8: MTU is 9000, should be at least 9050"), "{text}");
    assert!(text.contains("Ethernet8: MTU 9000: a packet of 9050 is dropped"), "{text}");
}

#[test]
fn what_was_not_read_is_no_proof() {
    let profile = QosProfile::default();
    let (switches, facts) = right(&profile, BufferModel::Static);
    let missing = |change: fn(&mut Facts)| {
        let mut facts = facts.clone();
        change(&mut facts);
        let Verdict::Counterexample(found) = check(&profile, &switches, &facts).unwrap() else { panic!() };
        assert!(found.is_confirmed() && found.fault.setting == Setting::Missing, "{found}");
        found.place.to_string()
    };
    assert_eq!(missing(|f| drop(f.switches.remove(&name(SPINE)))), "spine1 Ethernet0");
    assert_eq!(missing(|f| drop(f.nics.pop_last())), "n3 mlx5_1");
    let port = missing(|f| drop(f.switches.get_mut(&name(LEAF)).unwrap().ports.remove(&name("Ethernet12"))));
    assert_eq!(port, "leaf-p1-r0 Ethernet12");
}

#[test]
fn equal_ports_are_checked_once() {
    let profile = QosProfile::default();
    let shape = Shape { asic: Asic::Tomahawk5, ..Shape::default() };
    let switches = shape.switches().unwrap();
    let facts = Facts::desired(&profile, &switches, BufferModel::Static).unwrap();
    let Verdict::Proof(proof) = check(&profile, &switches, &facts).unwrap() else { panic!() };
    assert_eq!((proof.switches, proof.ports, proof.nics), (144, 128 * 80 + 16 * 128, 8192));
    assert_eq!((proof.port_settings, proof.nic_settings), (3, 1));
}

/// Whatever a port is set to: where the check proves, no packet of any class fares otherwise.
#[test]
fn what_is_proved_holds_for_every_packet() {
    let (profile, mut proved) = (rich(), 0);
    let spec = profile.spec().clone();
    for seed in 0..600_u64 {
        let model = if seed % 2 == 0 { BufferModel::Static } else { BufferModel::Dynamic };
        let (switches, mut facts) = right(&profile, model);
        let mut random = Random::new(seed);
        let at = &switches[random.index(switches.len())];
        let port = &at.ports[random.index(at.ports.len())].name;
        unsettle(facts.switches.get_mut(&at.name).unwrap().ports.get_mut(port).unwrap(), &mut random);
        if let Verdict::Counterexample(found) = check(&profile, &switches, &facts).unwrap() {
            assert!(found.is_confirmed(), "{seed}: {found}");
            continue;
        }
        proved += 1;
        let end = &spec.switch;
        let (lossless_mtu, small_packet_percent) = (end.lossless_mtu, end.small_packet_percent);
        let traffic = Traffic { lossless_mtu, small_packet_percent, shared_by: end.headroom_shared_by };
        let (dog, poll_ms, lossless) = (end.watchdog.into(), end.watchdog.poll_ms, spec.pfc);
        let data = Packet { dscp: spec.data_dscp.get(), ect: true, bytes: lossless_mtu };
        let other = |dscp: u8| Packet { dscp, ect: false, bytes: spec.mtu };
        let trials = [
            (data, Claim::NotLost(traffic)),
            (data, Claim::Marked { queue: 6_400_000, share: 1_000_000 }),
            (data, Claim::Marked { queue: 1_599_999, share: 0 }),
            (data, Claim::StormEnds { dog, poll_ms, lossless }),
            (data, Claim::Notified { dscp: 48, priority: 6 }),
            (data, Claim::Apart(48)),
            (other(0), Claim::NeverPaused),
            (other(0), Claim::Routed),
            (other(0), Claim::Arrives { outer: 50 }),
            (other(34), Claim::Classed { tc: 4, group: 0, queue: 4 }),
            (other(48), Claim::Served { switch: Scheduler::Strict, nic: Scheduler::Strict }),
        ];
        for comes_in in [true, false] {
            let (route, hop) = through(&site(&switches), &at.name, port, comes_in).unwrap();
            for (packet, claim) in trials {
                let replay = replay(&site(&switches), &facts, &route, hop, packet, claim);
                assert_eq!(replay.broken, None, "{seed}: {packet}: {claim}\n{route}");
            }
        }
    }
    assert!(proved > 50, "{proved} of 600 were right all the same");
}
