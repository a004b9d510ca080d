//! The fabric in columns says the same as the view that the topology's call is answered from.

use super::{
    drains::{drain, undrain},
    *,
};
use crate::{MapNode, MapPort, MapView, TopologyView};

/// The columns of a view.
fn columns(view: &TopologyView) -> MapView {
    let mut leaves: Vec<String> = Vec::new();
    for name in view.pods.iter().flat_map(|pod| pod.leaves.iter().flatten()) {
        if !leaves.contains(name) {
            leaves.push(name.clone());
        }
    }
    let nodes = || view.pods.iter().flat_map(|pod| &pod.nodes);
    let ports = || nodes().flat_map(|node| &node.ports);
    let kind = |port: &controller_state::view::cluster::PortView| match (port.drained, port.usable) {
        (true, _) => MapPort::Drained,
        (false, true) => MapPort::Usable,
        (false, false) => MapPort::Down,
    };
    let small = |count: u32| u8::try_from(count).unwrap();
    let place =
        |name: &String| leaves.iter().position(|leaf| leaf == name).map(|at| u32::try_from(at).unwrap());
    MapView {
        rails: view.rails,
        pods: view
            .pods
            .iter()
            .map(|pod| (pod.name.clone(), u32::try_from(pod.nodes.len()).unwrap()))
            .collect(),
        names: nodes().map(|node| node.name.clone()).collect(),
        nodes: nodes()
            .map(|node| MapNode {
                gpus: small(node.gpus),
                gpus_free: small(node.gpus_free),
                schedulable: node.schedulable,
            })
            .collect(),
        ports: ports().map(kind).collect(),
        leaf: ports().map(|port| place(&port.leaf)).collect(),
        leaves,
        findings: view.findings.clone(),
        findings_left_out: 0,
    }
}

fn same(w: &World, what: &str) -> MapView {
    let map = w.state.map();
    assert_eq!(map, columns(&w.state.topology()), "{what}");
    map
}

#[test]
fn columns_say_what_the_topology_says() {
    let mut w = World::new();
    let map = same(&w, "as it was made");
    assert!(map.names.len() > 1 && map.ports.len() == map.names.len() * map.rails as usize, "{map:?}");
    w.submit("a", spec(2, 4));
    w.run("a");
    let map = same(&w, "with a job");
    assert!(map.nodes.iter().any(|node| node.gpus_free < node.gpus), "{map:?}");
    // One after the other: a job keeps its last rail.
    for what in ["1", "n0:0"] {
        w.ok(drain(what, false));
        assert!(same(&w, what).ports.contains(&MapPort::Drained), "{what}");
        w.ok(undrain(what));
        same(&w, "it is back in use");
    }
    w.disconnect(1);
    w.tick(Duration::from_secs(3600));
    let map = same(&w, "a node is silent");
    assert!(map.nodes.iter().any(|node| !node.schedulable), "{map:?}");
}
