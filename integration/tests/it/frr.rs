//! Real FRR on leaves and spines in network namespaces.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use integration_harness::frr::{End, Frr, Spec, programs};
use integration_harness::wait::eventually;

const SOON: Duration = Duration::from_secs(60);

fn config(name: &str, asn: u32, loopback: &str, ports: &[&str]) -> String {
    let mut text =
        format!("frr defaults datacenter\nhostname {name}\ninterface lo\n ip address {loopback}/32\nexit\n");
    text += &format!(
        "router bgp {asn}\n bgp router-id {loopback}\n no bgp ebgp-requires-policy\n neighbor fabric peer-group\n neighbor fabric remote-as external\n"
    );
    for port in ports {
        text += &format!(" neighbor {port} interface peer-group fabric\n");
    }
    text += &format!(" address-family ipv4 unicast\n  network {loopback}/32\n exit-address-family\nexit\n");
    text
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
fn leaves_reach_each_other_over_spines() {
    if programs().is_none() {
        println!("skipped: FRR in network namespaces needs root, ip, and FRR's package");
        return;
    }
    let begin = Instant::now();
    let spec = |name: &str, asn, loopback: &str| Spec {
        name: name.to_owned(),
        config: Some(config(name, asn, loopback, &["up1", "up2"])),
    };
    let specs = [
        spec("leaf1", 65001, "10.255.0.1"),
        spec("leaf2", 65002, "10.255.0.2"),
        spec("spine1", 65100, "10.255.0.11"),
        spec("spine2", 65100, "10.255.0.12"),
    ];
    let end = |of: usize, port: &str| End { of, port: port.to_owned() };
    let cables = [
        (end(0, "up1"), end(2, "up1")),
        (end(0, "up2"), end(3, "up1")),
        (end(1, "up1"), end(2, "up2")),
        (end(1, "up2"), end(3, "up2")),
    ];
    let mut fabric = Frr::up(&specs, &cables).unwrap();
    println!("up after {:?}", begin.elapsed());
    let hops = |fabric: &Frr| {
        let routes = fabric.json(0, "show ip route 10.255.0.2/32 json").ok()?;
        routes["10.255.0.2/32"][0]["nexthops"]
            .as_array()
            .map(|hops| hops.iter().filter(|hop| hop["fib"] == true).count())
    };
    eventually("two ways to the other leaf", SOON, || (hops(&fabric) == Some(2)).then_some(())).unwrap();
    println!("converged after {:?}", begin.elapsed());
    assert!(hears(&fabric, 0, "10.255.0.1", 1, "10.255.0.2"));
    fabric.cut(2);
    eventually("one way is left", SOON, || (hops(&fabric) == Some(1)).then_some(())).unwrap();
    assert!(hears(&fabric, 0, "10.255.0.1", 1, "10.255.0.2"));
}
