//! Planners against published vectors and tables.

use proto_profile::{EcnThresholds, ProfileSpec, QosProfile};

use crate::{
    asic::{Asic, ROWS},
    bgp::{self, BgpRefusal},
    buffer::{self, BufferRefusal},
    ecn,
    headroom::{self, Input},
    model::{Name, Nos, Peer, Port, Role, Switch},
    vectors::{self, input},
};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// A leaf with `ports` ports of 4 lanes, half of them to servers.
fn leaf(at: usize, asic: Asic, ports: u16, speed: u32, cable_m: u16) -> Switch {
    let port = |at: u16| Port {
        name: name(&format!("Ethernet{}", at * 4)),
        lanes: (at * 4..at * 4 + 4).collect(),
        speed: Some(speed),
        optics: String::new(),
        cable_m,
        peer: if at < ports / 2 {
            Peer::Nic { server: name(&format!("n{at}")), nic: name("nic0"), rail: 0 }
        } else {
            Peer::Switch { switch: name("spine0"), port: name(&format!("Ethernet{at}")) }
        },
    };
    Switch {
        name: name(&format!("leaf{at}")),
        nos: Nos::Sonic,
        version: String::new(),
        asic,
        role: Role::Leaf,
        rails: vec![0],
        pod: None,
        plane: 0,
        loopback: None,
        asn: None,
        ports: (0..ports).map(port).collect(),
    }
}

#[test]
fn each_asic_is_in_its_place() {
    for row in &ROWS {
        assert_eq!(row.asic.row(), row);
        assert!(
            row.cell.value > 0 && row.buffer.value > 1_000_000 && !row.hashes.value.is_empty(),
            "{row:?}"
        );
    }
}

#[test]
fn names_say_nothing_but_themselves() {
    for text in ["Ethernet0", "Ethernet1/1/2", "swp1s0", "leaf-3.pod_2", "mlx5_0"] {
        assert_eq!(name(text).as_str(), text);
    }
    for text in ["", "a b", "a\"b", "a'b", "a\nb", "a\u{7}b", "-a", "a|b", "a;b", "a{b", "a\\b", "\u{e9}"] {
        assert!(Name::new(text).is_err(), "{text:?}");
    }
    assert!(Name::new(&"a".repeat(64)).is_err());
}

#[test]
fn ports_have_the_names_of_their_operating_system() {
    for (nos, third) in [
        (Nos::Sonic, "Ethernet16"),
        (Nos::Cumulus, "swp3"),
        (Nos::Eos, "Ethernet3/1"),
        (Nos::NxOs, "Ethernet1/3"),
    ] {
        assert_eq!(nos.port_name(2, 8).unwrap().as_str(), third);
        assert_eq!(nos.port_index(third, 8), Some(2));
        assert_eq!(nos.port_index("eth0", 8), None);
    }
}

#[test]
fn headroom_is_to_the_byte_what_sonics_script_finds() {
    for (lossless_mtu, percent, vectors) in vectors::HEADROOM {
        for (speed, wanted) in vectors {
            for (cable, wanted) in [5, 40, 300].into_iter().zip(wanted) {
                let input = Input { lossless_mtu, small_packet_percent: percent, ..input(speed, cable) };
                let found = headroom::plan(&input).unwrap();
                assert_eq!(found.xoff, wanted, "{speed}G {cable} m, MTU {lossless_mtu}");
                assert_eq!((found.xon, found.size), (19456, 19456));
            }
        }
    }
}

#[test]
fn headroom_without_a_pool_and_on_wide_ports() {
    let alone = headroom::plan(&Input { shared: false, ..input(400, 40) }).unwrap();
    // 2 KiB more, for packets that are not all large.
    assert_eq!((alone.xoff, alone.xon, alone.size), (103_424, 19456, 122_880));
    let wide = headroom::plan(&Input { lanes: 8, shared: false, ..input(800, 40) }).unwrap();
    assert_eq!((wide.xoff, wide.xon), (131_072, 38912));
    assert_eq!(wide.size, (131_072_u64 + 38912 + 9100).div_ceil(1024) * 1024);
    let refused = headroom::plan(&input(1600, 40)).unwrap_err().to_string();
    assert!(refused.starts_with("a port of 1600 Gbit/s on Spectrum-4"), "{refused}");
}

#[test]
fn headroom_is_near_the_static_tables() {
    for (asic, speed, cable, wanted) in vectors::STATIC {
        let found = headroom::plan(&Input { asic, ..input(speed, cable) }).unwrap().xoff;
        let off = found.abs_diff(wanted) * 100 / wanted;
        assert!(off < 10, "{asic} {speed}G {cable} m: {found} is {off} % off {wanted}");
    }
    let between = headroom::plan(&Input { asic: Asic::Tomahawk5, ..input(800, 170) }).unwrap().xoff;
    assert_eq!(between, (833_536 + 1_621_536) / 2);
}

fn profile(change: impl FnOnce(&mut ProfileSpec)) -> QosProfile {
    let mut spec = ProfileSpec::default();
    change(&mut spec);
    QosProfile::new(spec).unwrap()
}

#[test]
fn marking_is_below_the_pause() {
    let auto = profile(|_| {});
    for (speed, kmin, kmax) in vectors::ECN {
        let found = ecn::plan(speed, &auto, 20_000_000).unwrap().value;
        assert_eq!(found, EcnThresholds { kmin: kmin * 1000, kmax: kmax * 1000, pmax: 20 });
    }
    let short = ecn::plan(400, &auto, 4_000_000).unwrap();
    assert_eq!(short.value, EcnThresholds { kmin: 750_000, kmax: 3_000_000, pmax: 20 });
    assert!(short.source.to_string().contains("three quarters"));
    assert!(ecn::plan(400, &auto, 10_000).unwrap_err().to_string().contains("pauses at 10000 bytes"));
    let own = profile(|spec| {
        spec.switch.ecn.insert(400, EcnThresholds { kmin: 1000, kmax: 5_000_000, pmax: 5 });
    });
    assert_eq!(ecn::plan(400, &own, 5_000_001).unwrap().value.pmax, 5);
    let late = ecn::plan(400, &own, 5_000_000).unwrap_err().to_string();
    assert!(late.contains("kmax 5000000 is not below the length of 5000000"), "{late}");
}

#[test]
fn a_buffer_is_divided_or_refused_with_the_numbers() {
    let plan = buffer::plan(&leaf(0, Asic::Spectrum4, 128, 400, 40), &profile(|_| {})).unwrap();
    assert_eq!(plan.reserved + plan.headroom_pool + plan.shared, 160_000_000);
    assert_eq!(plan.reserved, 128 * 19456);
    assert_eq!(plan.ecn[&400].value.kmax, 6_400_000);
    assert!(plan.pause.value > 6_400_000);
    let own = profile(|spec| spec.switch.headroom_shared_by = 0);
    let refused = buffer::plan(&leaf(0, Asic::Spectrum2, 128, 400, 900), &own).unwrap_err();
    assert!(matches!(refused, BufferRefusal::TooLittle { ports: 128, total: 42_000_000, shared: 0, .. }));
    let late = profile(|spec| {
        spec.switch.ecn.insert(400, EcnThresholds { kmin: 1_000_000, kmax: 60_000_000, pmax: 5 });
    });
    let refused = buffer::plan(&leaf(0, Asic::Spectrum4, 128, 400, 40), &late).unwrap_err().to_string();
    assert!(refused.contains("leaf0: switch.ecn[400]: kmax 60000000 is not below"), "{refused}");
    // Neither headroom nor marking follows from a speed that nobody knows.
    let mut unknown = leaf(0, Asic::Spectrum4, 4, 400, 40);
    unknown.ports[2].speed = None;
    let refused = buffer::plan(&unknown, &profile(|_| {})).unwrap_err();
    assert_eq!(refused.to_string(), "leaf0 Ethernet8: its speed is not known");
}

#[test]
fn one_number_for_each_leaf_and_one_for_each_tier() {
    let mut switches: Vec<Switch> = (0..3).map(|at| leaf(at, Asic::Tomahawk5, 4, 400, 5)).collect();
    for (at, tier) in [(0, 1), (1, 1), (2, 2)] {
        let mut spine = leaf(0, Asic::Tomahawk5, 0, 400, 5);
        (spine.name, spine.role) = (name(&format!("spine{at}")), Role::Spine(tier));
        switches.push(spine);
    }
    let plan = bgp::plan(&switches).unwrap();
    let numbers: Vec<u32> = plan.values().map(|plan| plan.asn.value).collect();
    assert_eq!(numbers, [65000, 65001, 65002, 64513, 64513, 64514]);
    assert_eq!(plan[&name("leaf1")].loopback.value.to_string(), "10.255.0.2");
    assert_eq!(plan[&name("leaf0")].neighbors, [name("Ethernet8"), name("Ethernet12")].into());
    let mut turned = switches.clone();
    turned.reverse();
    assert_eq!(bgp::plan(&turned).unwrap(), plan);
    switches[0].asn = Some(65001);
    switches[3].asn = Some(7);
    switches[5].loopback = Some("10.255.0.1".parse().unwrap());
    let wrong = bgp::plan(&switches).unwrap_err();
    assert_eq!(wrong.len(), 3, "{wrong:?}");
    assert!(wrong.iter().any(|one| matches!(one, BgpRefusal::Asn { asn: 65001, .. })));
    // Nor that of the spines: they would have no session.
    switches[0].asn = Some(64_513);
    switches[3].asn = None;
    let wrong = bgp::plan(&switches).unwrap_err();
    let shared =
        |why: &BgpRefusal| matches!(why, BgpRefusal::Asn { asn: 64_513, one, .. } if *one == name("leaf0"));
    assert!(wrong.iter().any(shared), "{wrong:?}");
    let many: Vec<Switch> = (0..600).map(|at| leaf(at, Asic::Tomahawk5, 0, 400, 5)).collect();
    assert!(bgp::plan(&many).unwrap().values().all(|plan| plan.asn.value >= 4_200_000_000));
}
