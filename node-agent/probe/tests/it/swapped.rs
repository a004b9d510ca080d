//! Two servers whose cables are swapped, each in a network namespace of its own: this needs the right to make one, and `ip`.

use std::{
    net::{IpAddr, SocketAddr},
    process::Command,
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use node_agent_probe::{Config, Limits, Peer, Prober, Rail, Report, RoundPart, device_of};
use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};

fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// This thread is in a namespace of its own from now on; false without the right to it.
fn alone() -> bool {
    // SAFETY: only the network namespace of this thread is replaced, no table of descriptors is.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.is_ok()
}

fn address(node: u16, rail: u16) -> IpAddr {
    IpAddr::from([10, 77, rail as u8, node as u8 + 1])
}

/// Devices `ethR` with the address of rail R, in a subnet of its own.
fn ports(node: u16) {
    for rail in 0..2 {
        ip(&format!("addr add {}/24 dev eth{rail}", address(node, rail)));
        ip(&format!("link set eth{rail} up"));
        assert_eq!(device_of(address(node, rail)), Some(format!("eth{rail}")));
    }
}

/// A server's prober; rail R uses the port `order[R]`.
fn prober(node: u16, order: [u16; 2], bound: bool) -> Prober {
    let rail = |(rail, port): (u16, u16)| Rail {
        rail,
        address: SocketAddr::new(address(node, port), 0),
        device: bound.then(|| format!("eth{port}")),
    };
    Prober::bind(Config {
        node,
        key: [3; 32],
        job_uid: "job".to_owned(),
        attempt: 1,
        traffic_class: 26 << 2 | 2,
        rails: (0..).zip(order).map(rail).collect(),
        limits: Limits::default(),
    })
    .unwrap()
}

/// What both servers' rails are, and whether probes keep to their devices.
type Case = ([u16; 2], bool);
const CASES: [Case; 3] = [([0, 1], false), ([0, 1], true), ([1, 0], true)];

/// Measures all cases with the other server; the second's rails are as the case says.
fn server(node: u16, notify: &Sender<Vec<SocketAddr>>, listen: &Receiver<Vec<SocketAddr>>) -> Vec<Report> {
    let measure = |(order, bound): Case| {
        let mut own = prober(node, if node == 0 { [0, 1] } else { order }, bound);
        notify.send(own.endpoints()).unwrap();
        let peer = Peer { node: 1 - node, rails: listen.recv().unwrap() };
        let turn = RoundPart { round: 0, peer: peer.node, first: node == 0 };
        let report = own.run(0, &[peer], &[turn], Instant::now() + Duration::from_secs(20));
        own.serve(Instant::now() + Duration::from_millis(300));
        report
    };
    CASES.into_iter().map(measure).collect()
}

#[test]
fn cables_that_are_swapped_are_seen_and_used_as_they_are() {
    let (to_second, from_first) = channel();
    let (to_first, from_second) = channel();
    let (report_id, on_id) = channel::<Option<rustix::process::Pid>>();
    let (ready, go) = channel::<()>();
    let second = thread::spawn(move || {
        let id = alone().then(gettid);
        report_id.send(id).unwrap();
        if go.recv().is_ok() {
            ports(1);
            server(1, &to_first, &from_first);
        }
    });
    let first = thread::spawn(move || {
        let Some(id) = on_id.recv().unwrap().filter(|_| alone()) else {
            println!("skipped: no network namespace of one's own here");
            return None;
        };
        // Each port of this server leads to the other's port of the other rail.
        for rail in 0..2 {
            ip(&format!("link add eth{rail} type veth peer name far{rail}"));
            ip(&format!("link set far{rail} netns {} name eth{}", id.as_raw_nonzero(), 1 - rail));
        }
        ports(0);
        ready.send(()).unwrap();
        Some(server(0, &to_second, &from_second))
    });
    let reports = first.join().unwrap();
    second.join().unwrap();
    let Some(reports) = reports else { return };
    let seen = |case: usize| {
        let pairs = reports[case].pairs.iter();
        pairs.map(|pair| (pair.rail, pair.back.sent > pair.back.lost, pair.crossed)).collect::<Vec<_>>()
    };
    // A kernel answers for all of its addresses on all of its devices: nothing is to be seen.
    assert_eq!(seen(0), [(0, true, None), (1, true, None)]);
    assert_eq!(seen(1), [(0, false, Some(1)), (1, false, Some(0))]);
    // Named as they are cabled, everything is there although the addresses are of each other's subnets.
    assert_eq!(seen(2), [(0, true, None), (1, true, None)]);
    for pair in &reports[2].pairs {
        assert_eq!((pair.there.lost, pair.back.lost, pair.there.dscp), (0, 0, Some(26)), "{pair:?}");
        // Not how fast: beside other load a burst may be torn into pieces that say nothing.
        assert_eq!((pair.there.mtu, pair.back.mtu), (Some(1500), Some(1500)), "{pair:?}");
    }
}
