//! Packets that somebody has recorded on the way, and sends again: from another address nobody answers them, from the peer's they buy
//! no more than once what is larger than they are.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    thread,
    time::{Duration, Instant},
};

use node_agent_probe::{
    Config, Limits, Peer, Prober, Rail,
    packet::{Body, Packet, Seal},
};

const KEY: [u8; 32] = [9; 32];
const PEER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn socket(address: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    socket
}

/// Bytes that come back until nothing more comes.
fn heard(socket: &UdpSocket) -> usize {
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    loop {
        match socket.recv(&mut buffer) {
            Ok(length) => bytes += length,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return bytes,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn recorded_packets_are_no_amplifier() {
    let config = Config {
        node: 0,
        key: KEY,
        job_uid: "job".to_owned(),
        attempt: 1,
        traffic_class: 0,
        rails: vec![Rail { rail: 0, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), device: None }],
        limits: Limits::default(),
    };
    let mut prober = Prober::bind(config).unwrap();
    let to: SocketAddr = prober.endpoints()[0];
    let peer = socket(PEER);
    let peers = vec![Peer { node: 1, rails: vec![peer.local_addr().unwrap()] }];
    let serving = thread::spawn(move || {
        let now = Instant::now();
        prober.run(0, &peers, &[], now);
        prober.serve(now + Duration::from_secs(4));
    });
    let seal = Seal::new(&KEY, "job", 1);
    let recorded = |sequence: u32, body: Body| {
        Packet { from: 1, to: 0, round: 0, nonce: 5, sequence, body }.encode(&seal)
    };
    let small = recorded(1, Body::Ask { reply: 0 });
    let large = recorded(2, Body::Ask { reply: 9000 });
    // As many as a receive buffer holds, however late they are read.
    let burst = recorded(3, Body::Please { packets: 40, bytes: 1000 });
    let mark =
        Packet { from: 1, to: 0, round: u32::MAX, nonce: 5, sequence: 4, body: Body::Ask { reply: 0 } };
    // A stranger with the peer's own packets: nothing at all comes back to it.
    let stranger = socket(STRANGER);
    for packet in [small, large, burst, mark.encode(&seal)] {
        for _ in 0..20 {
            stranger.send_to(&packet, to).unwrap();
        }
    }
    assert_eq!(heard(&stranger), 0);
    // The peer has its answers, and its recorded packets bring the larger ones no second time.
    let asks = |packet: &[u8]| {
        peer.send_to(packet, to).unwrap();
        heard(&peer)
    };
    assert_eq!((asks(&small), asks(&large), asks(&burst)), (64, 9000, 40 * 1000 + 64));
    assert_eq!((asks(&small), asks(&large), asks(&burst)), (64, 0, 0));
    // From another port of the peer's server, too.
    let beside = socket(PEER);
    beside.send_to(&large, to).unwrap();
    assert_eq!(heard(&beside), 0);
    serving.join().unwrap();
    assert_eq!(IpAddr::from(PEER), peer.local_addr().unwrap().ip());
}
