//! Packets of a probe between two servers that somebody on the way has recorded, sent again to a real prober: what they buy.

use std::{
    net::{Ipv4Addr, SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use node_agent_probe::{
    Config, Limits, Peer, Prober, Rail,
    packet::{Body, Packet, Seal},
};

use crate::verdict::{Verdict, held_if};

/// Who sends a recorded packet, and which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorded {
    /// The peer's own packets, from another address.
    Elsewhere,
    /// The same, for more than they are themselves.
    Amplified,
    /// From the peer's address, many times.
    Repeated,
    /// Packets of another job.
    OtherJob,
    /// Packets that nobody has sealed.
    Garbage,
}

const KEY: [u8; 32] = [9; 32];
const PEER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);
/// Times that each packet is sent.
const TIMES: usize = 20;
/// Longest wait for the first answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the prober serves before it looks whether that is enough.
const SERVES: Duration = Duration::from_millis(100);

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn socket(address: Ipv4Addr) -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind((address, 0)).map_err(text)?;
    socket.set_read_timeout(Some(Duration::from_millis(200))).map_err(text)?;
    Ok(socket)
}

/// Bytes that come back until nothing more comes.
fn heard(socket: &UdpSocket) -> usize {
    let (mut buffer, mut bytes) = (vec![0; 1 << 16], 0);
    while let Ok(length) = socket.recv(&mut buffer) {
        bytes += length;
    }
    bytes
}

/// Makes one attempt with recorded packets and judges it.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(what: Recorded) -> Result<Verdict, String> {
    tokio::task::spawn_blocking(move || sent(what)).await.map_err(text)?
}

fn sent(what: Recorded) -> Result<Verdict, String> {
    let config = Config {
        node: 0,
        key: KEY,
        job_uid: "job".to_owned(),
        attempt: 1,
        traffic_class: 0,
        rails: vec![Rail { rail: 0, address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), device: None }],
        limits: Limits::default(),
    };
    let mut prober = Prober::bind(config).map_err(text)?;
    let to = *prober.endpoints().first().ok_or("the prober has no endpoint")?;
    let peer = socket(PEER)?;
    let peers = vec![Peer { node: 1, rails: vec![peer.local_addr().map_err(text)?] }];
    let over = Arc::new(AtomicBool::new(false));
    let enough = Arc::clone(&over);
    let serving = thread::spawn(move || {
        prober.run(0, &peers, &[], Instant::now());
        while !enough.load(Ordering::Relaxed) {
            prober.serve(Instant::now() + SERVES);
        }
    });
    let made = attempt(what, to, &peer);
    over.store(true, Ordering::Relaxed);
    serving.join().map_err(|_| "the prober panicked".to_owned())?;
    let (bytes, most) = made?;
    Ok(held_if(bytes <= most, || format!("{bytes} bytes came back for {TIMES} packets; {most} are due")))
}

/// Bytes that came back from the prober at `to`, and how many are due.
fn attempt(what: Recorded, to: SocketAddr, peer: &UdpSocket) -> Result<(usize, usize), String> {
    let packet = |job: &str, sequence: u32, body: Body| {
        let packet = Packet { from: 1, to: 0, round: 0, nonce: 5, sequence, body };
        packet.encode(&Seal::new(&KEY, job, 1)).to_vec()
    };
    let large = packet("job", 2, Body::Ask { reply: 9_000 });
    let times = |from: &UdpSocket, packet: &[u8]| {
        (0..TIMES).for_each(|_| drop(from.send_to(packet, to)));
        heard(from)
    };
    // What is answered at all is answered to the peer; else the rest would prove nothing.
    // It is asked once, so that no later answer to that is taken for one to what is recorded.
    peer.send_to(&packet("job", 1, Body::Ask { reply: 0 }), to).map_err(text)?;
    let begin = Instant::now();
    while heard(peer) == 0 {
        if begin.elapsed() > PATIENCE {
            return Err("the prober answers nobody".to_owned());
        }
    }
    let stranger = socket(STRANGER)?;
    Ok(match what {
        Recorded::Elsewhere => (times(&stranger, &packet("job", 1, Body::Ask { reply: 0 })), 0),
        Recorded::Amplified => (times(&stranger, &large), 0),
        Recorded::Repeated => (times(peer, &large), 9_000),
        Recorded::OtherJob => (times(peer, &packet("other", 7, Body::Ask { reply: 9_000 })), 0),
        Recorded::Garbage => (times(peer, &[0x5a; 64]), 0),
    })
}
