//! What is rendered for FRR, on real FRR: leaves and spines in network namespaces.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use controller_switch::{
    bgp, desired,
    model::{Name, Nos, Peer, Role, Switch},
    render,
    sample::Shape,
    state::BufferModel,
};
use integration_harness::frr::{End, Frr, Spec, programs};
use integration_harness::wait::eventually;
use proto_profile::QosProfile;

const SOON: Duration = Duration::from_secs(60);

/// What is rendered for two leaves and two spines, and the cables between them.
fn rendered() -> (Vec<Switch>, Vec<Spec>, Vec<(End, End)>) {
    let shape =
        Shape { servers: 2, servers_per_pod: 1, rails: 1, spines: 2, nos: Nos::Cumulus, ..Shape::default() };
    let switches = shape.switches().unwrap();
    let states = desired::plan(&QosProfile::default(), &switches, BufferModel::Static).unwrap();
    let config = |switch: &Switch| Spec {
        name: switch.name.to_string(),
        config: Some(render::frr::text(&states[&switch.name])),
    };
    let specs = switches.iter().map(config).collect();
    let of = |name: &Name| switches.iter().position(|switch| switch.name == *name).unwrap();
    let mut cables = Vec::new();
    for (from, switch) in switches.iter().enumerate().filter(|(_, switch)| switch.role == Role::Leaf) {
        for port in &switch.ports {
            if let Peer::Switch { switch: to, port: there } = &port.peer {
                let end = |of: usize, port: &Name| End { of, port: port.to_string() };
                cables.push((end(from, &port.name), end(of(to), there)));
            }
        }
    }
    (switches, specs, cables)
}

/// A datagram from one address reaches the other.
fn hears(fabric: &Frr, from: usize, source: &str, to: usize, target: &str) -> bool {
    let listen = || UdpSocket::bind((target, 0)).unwrap();
    let listener = fabric.sockets_of(to, listen).unwrap();
    let address = listener.local_addr().unwrap();
    let speaker = fabric.sockets_of(from, || UdpSocket::bind((source, 0)).unwrap()).unwrap();
    listener.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let heard = eventually("a datagram", SOON, || {
        // The first ones may meet a neighbour that is not resolved yet.
        let _ = speaker.send_to(b"rail", address);
        listener.recv_from(&mut [0; 16]).ok()
    });
    heard.is_ok_and(|(bytes, peer)| bytes == 4 && peer == speaker.local_addr().unwrap())
}

#[test]
fn what_is_rendered_converges_and_a_spine_without_power_is_routed_around() {
    if programs().is_none() {
        println!("skipped: FRR in network namespaces needs root, ip, and FRR's package");
        return;
    }
    let begin = Instant::now();
    let (switches, specs, cables) = rendered();
    let routing = bgp::plan(&switches).unwrap();
    let loopbacks: Vec<String> =
        switches.iter().map(|switch| routing[&switch.name].loopback.value.to_string()).collect();
    let mut fabric = Frr::up(&specs, &cables).unwrap();
    for (of, loopback) in loopbacks.iter().enumerate() {
        // What SONiC does by LOOPBACK_INTERFACE.
        fabric.inside(of, &["ip", "address", "add", &format!("{loopback}/32"), "dev", "lo"]).unwrap();
    }
    println!("up after {:?}", begin.elapsed());
    let route = format!("{}/32", loopbacks[1]);
    let hops = |fabric: &Frr| {
        let routes = fabric.json(0, &format!("show ip route {route} json")).ok()?;
        let hops = routes[&route][0]["nexthops"].as_array()?.clone();
        Some(hops.iter().filter(|hop| hop["fib"] == true).count())
    };
    eventually("two ways to the other leaf", SOON, || (hops(&fabric) == Some(2)).then_some(())).unwrap();
    println!("converged after {:?}", begin.elapsed());
    let watched = || {
        let peers = fabric.json(0, "show bfd peers json").ok()?;
        let up = peers.as_array()?.iter().filter(|peer| peer["status"] == "up").count();
        (up == 2).then_some(())
    };
    eventually("BFD watches both spines", SOON, watched).unwrap();
    assert!(hears(&fabric, 0, &loopbacks[0], 1, &loopbacks[1]));
    fabric.cut(2);
    eventually("one way is left", SOON, || (hops(&fabric) == Some(1)).then_some(())).unwrap();
    assert!(hears(&fabric, 0, &loopbacks[0], 1, &loopbacks[1]));
}
