//! Generated fabrics are free of faults, whole, and as large as asked for.

use controller_topology::{RailSet, Topology, check};
use proptest::prelude::*;

use crate::{Shape, ShapeError, generate};

fn shape(nodes: u32, rails: u32, radix: u32) -> Shape {
    Shape { nodes, rails, radix, ..Shape::default() }
}

#[test]
fn ten_thousand_servers() {
    let made = generate(&shape(10_000, 8, 128)).unwrap();
    assert_eq!(check(&made.fabric), []);
    assert_eq!((made.fabric.node_count(), made.fabric.cable_count()), (10_000, 80_000));
    assert_eq!(made.fabric.leaves.len(), 8 * 157);
    assert_eq!(
        made.built,
        [
            "10000 servers with 8 NICs in 157 pods of 64 servers; 1256 leaves of 128 ports: one per pod and rail",
            "64 cables up from each leaf, 1 to each of 64 spines of its block: oversubscription 1.00",
            "157 pods are more than the 128 ports of a spine: 3 blocks of 64 pods, 1536 spines and above them 1024 core switches",
        ]
    );
    assert_eq!(
        made.uneven,
        [
            "the last pod has 16 of 64 servers",
            "the last block has 29 of 64 pods: its spines have ports free",
            "32 of 128 ports of each core switch stay free",
        ]
    );
    let mut t = Topology::new(Some(&made.fabric));
    t.furnish(8);
    let all: Vec<_> = t.servers().map(|(ix, _)| ix).collect();
    assert!(t.aligned(&all, RailSet::first(8)));
    assert_eq!(t.distance(all[0], all[1], 3), Some(1));
    assert_eq!(t.distance(all[0], all[64], 3), Some(3));
    assert_eq!(t.distance(all[0], all[9_999], 3), Some(5));
    let leaf = t.leaf(t.leaf_index("r3-leaf001").unwrap()).unwrap();
    assert_eq!((leaf.uplink_mbps, leaf.cables), (64 * 400_000, 64));
}

#[test]
fn planes_and_oversubscription() {
    let asked = Shape { planes: 2, oversubscription: 3.0, speed_mbps: 800_000, ..shape(96, 2, 64) };
    let made = generate(&asked).unwrap();
    assert_eq!(check(&made.fabric), []);
    assert_eq!(made.fabric.leaves.len(), 2 * 2 * 2);
    let mut t = Topology::new(Some(&made.fabric));
    t.furnish(8);
    let (_, server) = t.servers().next().unwrap();
    assert_eq!((server.ports[1].unwrap().mbps, server.ports[1].unwrap().leaves().count()), (800_000, 2));
    assert!(made.built[1].contains("oversubscription 3.00"), "{:?}", made.built);
    let one = generate(&shape(8, 4, 16)).unwrap();
    assert!(one.fabric.spines.is_empty() && one.built[1].starts_with("no spines"));
}

#[test]
fn what_cannot_be_is_refused_by_its_field() {
    let field =
        |shape: &Shape| generate(shape).unwrap_err().to_string().split(':').next().unwrap().to_owned();
    assert_eq!(field(&shape(0, 8, 64)), "nodes");
    assert_eq!(field(&shape(8, 0, 64)), "rails");
    assert_eq!(field(&shape(8, 65, 64)), "rails");
    assert_eq!(field(&shape(8, 8, 1)), "radix");
    assert_eq!(field(&Shape { planes: 3, ..shape(8, 8, 64) }), "planes");
    assert_eq!(field(&Shape { pod: Some(40), ..shape(100, 8, 64) }), "pod");
    assert_eq!(field(&Shape { pod: Some(0), ..shape(100, 8, 64) }), "pod");
    assert_eq!(field(&Shape { prefix: "GPU".into(), ..shape(100, 8, 64) }), "prefix");
    for ratio in [0.5, f64::NAN, f64::INFINITY, -1.0] {
        assert_eq!(field(&Shape { oversubscription: ratio, ..shape(8, 8, 64) }), "oversubscription");
    }
    assert!(matches!(generate(&shape(10_000, 1, 8)), Err(ShapeError::Layers { most: 128, .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn whatever_can_be_built_is_right(
        nodes in 1u32..600, rails in 1u32..5, radix in 2u32..40, planes in 1u32..3,
        ratio in 1.0f64..4.0, pod in prop::option::of(1u32..32),
    ) {
        let asked = Shape { planes, oversubscription: ratio, pod, ..shape(nodes, rails, radix) };
        let Ok(made) = generate(&asked) else { return Ok(()) };
        prop_assert_eq!(check(&made.fabric), []);
        prop_assert_eq!(made.fabric.cable_count(), (nodes * rails * planes) as usize);
        let mut used: std::collections::BTreeMap<String, u32> = std::collections::BTreeMap::new();
        for link in made.fabric.each_link() {
            *used.entry(link.leaf).or_default() += 1;
        }
        for uplink in &made.fabric.uplinks {
            for (names, others) in [(&uplink.lower, &uplink.upper), (&uplink.upper, &uplink.lower)] {
                for name in names.iter() {
                    *used.entry(name).or_default() += uplink.cables * u32::try_from(others.len()).unwrap();
                }
            }
        }
        prop_assert!(used.values().all(|ports| *ports <= radix), "more cables than ports: {:?}", asked);
        let mut t = Topology::new(Some(&made.fabric));
        t.furnish(1);
        let all: Vec<_> = t.servers().map(|(ix, _)| ix).collect();
        prop_assert!(t.aligned(&all, RailSet::first(rails)), "not joined: {:?}", asked);
    }
}
