//! Pictures show what there is, whatever the names are.

use proptest::prelude::*;
use proto_model::Fabric;

use crate::{
    Shape,
    draw::{NodePicture, Picture, PodPicture, PortState, svg, text},
    generate,
};

fn fabric(nodes: u32, pod: u32, planes: u32) -> Fabric {
    let shape =
        Shape { nodes, rails: 2, radix: 32, pod: Some(pod), planes, name: "a<b".into(), ..Shape::default() };
    generate(&shape).unwrap().fabric
}

#[test]
fn a_small_fabric_is_drawn_server_by_server() {
    let mut f = fabric(6, 4, 2);
    f.leaves.iter_mut().find(|leaf| leaf.name == "r1p0-leaf2").unwrap().down = true;
    f.link_groups.retain(|group| !(group.leaf.starts_with("r0") && group.leaf.ends_with("leaf1")));
    f.spines[0].down = true;
    let picture = Picture::of(&f);
    let shown = text(&picture);
    for line in [
        "fabric a<b: 6 servers, 2 rails, 2 pods, 8 leaves, ",
        "pod1      4        r0p0-leaf1+r0p1-leaf1 0/4  r1p0-leaf1+r1p1-leaf1 4/4\n  1111\n",
        "pod2      2        r0p0-leaf2+r0p1-leaf2 2/2  ✗r1p0-leaf2+r1p1-leaf2 2/2\n  ◐◐\n",
        "\nNot whole are 6 of 6 servers:\n  pod1  gpu1: no cable on rail 0\n",
        "  pod2  gpu6: one of two ports works on rail 1\n",
    ] {
        assert!(shown.contains(line), "{line}\nis not in\n{shown}");
    }
    let drawn = svg(&picture);
    assert!(drawn.contains("fabric a&lt;b") && !drawn.contains("a<b"));
    assert_eq!(drawn.matches("<title>gpu").count(), 12, "a square per server and rail");
    assert!(drawn.contains("<title>gpu5: one of two ports up</title>") && drawn.contains("spines, 1 down"));
}

#[test]
fn a_large_fabric_is_drawn_in_sums() {
    let mut f = fabric(2000, 16, 1);
    let picture = Picture::of(&f);
    assert!(text(&picture).contains("pod001 … pod125: 125 pods, 2000 servers, all up on every rail\n"));
    let drawn = svg(&picture);
    assert!(drawn.len() < 100_000 && !drawn.contains("<title>gpu"), "{} bytes", drawn.len());
    f.leaves[2].down = true;
    let picture = Picture::of(&f);
    let shown = text(&picture);
    assert!(
        shown.contains("pod001 … pod002: 2 pods") && shown.contains("pod004 … pod125: 122 pods"),
        "{shown}"
    );
    assert!(shown.contains("Not whole are 16 of 2000 servers:") && svg(&picture).contains("1 leaves down"));
}

#[test]
fn pods_that_are_alike_share_a_line() {
    let mut picture = Picture::of(&fabric(2000, 16, 1));
    for node in picture.pods.iter_mut().take(100).flat_map(|pod| &mut pod.nodes) {
        node.ports.fill(PortState::Absent);
    }
    let shown = text(&picture);
    assert!(shown.contains("pod001 … pod100: 100 pods, 1600 servers, none has joined\n"), "{shown}");
    assert!(shown.contains("pod101 … pod125: 25 pods, 400 servers, all up on every rail\n"), "{shown}");
}

#[test]
fn leaves_are_called_by_what_tells_them_apart() {
    let mut f = fabric(4, 2, 1);
    for leaf in &mut f.leaves {
        leaf.name = format!("DC-1-{}.example", leaf.name);
    }
    for group in &mut f.link_groups {
        group.leaf = format!("DC-1-{}.example", group.leaf);
    }
    let shown = text(&Picture::of(&f));
    assert!(shown.contains(" r0-leaf1 2/2") && !shown.contains("DC-1"), "{shown}");
}

fn state() -> impl Strategy<Value = PortState> {
    use PortState::{Absent, Down, Drained, Half, Missing, Up};
    prop::sample::select(vec![Up, Half, Drained, Down, Missing, Absent])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn anything_can_be_drawn(
        pods in prop::collection::vec(
            ("\\PC{0,6}", prop::collection::vec(("\\PC{0,6}", prop::collection::vec(state(), 0..4)), 0..9)),
            0..90,
        ),
        rails in 0usize..4,
    ) {
        let mut picture = Picture { rails, ..Picture::default() };
        for (name, nodes) in pods {
            let nodes = nodes.into_iter().map(|(name, ports)| NodePicture { name, ports }).collect();
            picture.pods.push(PodPicture { name, leaves: vec![], nodes });
        }
        picture.settle();
        let drawn = svg(&picture);
        prop_assert!(drawn.starts_with("<svg ") && drawn.ends_with("</svg>\n"));
        prop_assert_eq!(drawn.matches("<g>").count() + drawn.matches("<g ").count(), drawn.matches("</g>").count());
        prop_assert!(text(&picture).ends_with('\n'));
    }
}
