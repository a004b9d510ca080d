//! Nodes in one process, over the loopback interface.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use node_agent_probe::{CEILING_MBPS, Config, Limits, Peer, Prober, Rail, Report, RoundPart};

/// Everybody answers for so long after its own turns.
const AFTER: Duration = Duration::from_millis(300);

fn prober(node: u16, key: u8, rails: u16, address: IpAddr) -> Prober {
    let rail = |rail| Rail { rail, address: SocketAddr::new(address, 0), device: None };
    Prober::bind(Config {
        node,
        key: [key; 32],
        job_uid: "job".to_owned(),
        attempt: 1,
        traffic_class: 26 << 2 | 2,
        rails: (0..rails).map(rail).collect(),
        limits: Limits::default(),
    })
    .unwrap()
}

fn at(node: u16, rails: Vec<SocketAddr>) -> Peer {
    Peer { node, rails }
}

/// All of them measure each other in one thread each.
fn run(probers: Vec<Prober>, peers: &[Peer], turns: &[Vec<RoundPart>]) -> Vec<Report> {
    let end = Instant::now() + Duration::from_secs(20);
    let threads: Vec<_> = probers
        .into_iter()
        .zip(turns)
        .map(|(mut prober, turns)| {
            let (peers, turns) = (peers.to_vec(), turns.clone());
            thread::spawn(move || {
                let report = prober.run(0, &peers, &turns, end);
                prober.serve(Instant::now() + AFTER);
                report
            })
        })
        .collect();
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

fn turn(round: u32, peer: u16, first: bool) -> RoundPart {
    RoundPart { round, peer, first }
}

#[test]
fn two_nodes_see_all_there_is_to_see() {
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let probers: Vec<Prober> = (0..2).map(|node| prober(node, 1, 4, address)).collect();
        let peers: Vec<Peer> = (0..).zip(&probers).map(|(node, own)| at(node, own.endpoints())).collect();
        let begun = Instant::now();
        let turns = [vec![turn(0, 1, true), turn(1, 1, false)], vec![turn(0, 0, false), turn(1, 0, true)]];
        let reports = run(probers, &peers, &turns);
        let took = begun.elapsed().saturating_sub(AFTER);
        println!("{address}: two rounds of 4 rails took {} ms", took.as_millis());
        for report in &reports {
            assert_eq!((report.pairs.len(), report.ports.len()), (4, 4), "{report:?}");
            for pair in &report.pairs {
                for way in [pair.there, pair.back] {
                    assert_eq!((way.sent, way.lost, way.dscp), (128, 0, Some(26)), "{pair:?}");
                    assert_eq!(way.mtu, report.ports[0].mtu, "{pair:?}");
                    assert!(way.mbps.is_some_and(|mbps| mbps > 0 && mbps <= CEILING_MBPS), "{pair:?}");
                }
                assert!(pair.rtt_us.is_some() && pair.crossed.is_none());
            }
        }
    }
}

#[test]
fn a_dead_rail_is_found_and_a_swapped_one_too() {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let probers: Vec<Prober> = (0..2).map(|node| prober(node, 1, 3, address)).collect();
    // Bound, and nobody answers there.
    let dead = UdpSocket::bind((address, 0)).unwrap();
    let mut there = probers[1].endpoints();
    there[2] = dead.local_addr().unwrap();
    let peers = [at(0, probers[0].endpoints()), at(1, there)];
    let reports = run(probers, &peers, &[vec![turn(0, 1, true)], vec![turn(0, 0, false)]]);
    let [good, _, lost] = reports[0].pairs[..] else { panic!("{reports:?}") };
    assert_eq!(good.back.lost, 0);
    assert_eq!((lost.back.sent, lost.there.lost), (0, lost.there.sent));
    // Over the loopback interface every port reaches every other: whichever answers first.
    assert!(matches!(lost.crossed, Some(0 | 1)), "{lost:?}");
}

#[test]
fn a_wrong_key_and_a_node_that_is_not_there_are_silent() {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let probers = vec![prober(0, 1, 1, address), prober(1, 2, 1, address)];
    let peers: Vec<Peer> = (0..).zip(&probers).map(|(node, own)| at(node, own.endpoints())).collect();
    let begun = Instant::now();
    let reports = run(probers, &peers, &[vec![turn(0, 1, true)], vec![turn(0, 0, false)]]);
    assert!(begun.elapsed() < Duration::from_secs(5));
    let pair = reports[0].pairs[0];
    assert_eq!((pair.there.lost, pair.back.sent, pair.crossed), (1, 0, None), "{pair:?}");
}

#[test]
fn rounds_go_on_although_a_partner_is_away() {
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let probers: Vec<Prober> = (0..3).map(|node| prober(node, 1, 1, address)).collect();
    let mut peers: Vec<Peer> = (0..).zip(&probers).map(|(node, own)| at(node, own.endpoints())).collect();
    let gone = UdpSocket::bind((address, 0)).unwrap();
    peers.push(at(3, vec![gone.local_addr().unwrap()]));
    let turns = [
        vec![turn(0, 3, true), turn(1, 1, true), turn(2, 2, false)],
        vec![turn(0, 2, true), turn(1, 0, false), turn(2, 3, true)],
        vec![turn(0, 1, false), turn(1, 3, false), turn(2, 0, true)],
    ];
    let reports = run(probers, &peers, &turns);
    let answered = |node: usize, peer: u16| {
        reports[node].pairs.iter().find(|pair| pair.peer == peer).is_some_and(|pair| pair.back.sent > 0)
    };
    assert!(answered(0, 1) && answered(1, 2) && answered(2, 0), "{reports:?}");
    assert!(!answered(0, 3) && !answered(1, 3));
}
