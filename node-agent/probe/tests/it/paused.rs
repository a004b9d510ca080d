//! Nodes that do not run for a while, as on a busy server: each is a process of its own, which is stopped and continued in the middle of
//! what it measures. A sound rail stays sound, and what is wrong with a rail is found all the same.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use node_agent_probe::{Config, Limits, PairReport, PathMeasurement, Peer, Prober, Rail, RoundPart};
use rustix::process::{Pid, Signal, kill_process};

use crate::relay::{self, Fault};

const NODE: &str = "RAIL_TEST_PROBE_NODE";
/// Says where what is meant for the other side begins; the harness of tests writes lines of its own.
const SAYS: &str = "probe:";
const RAILS: u16 = 4;
/// Who begins with whom, by round.
const ROUNDS: [(u16, u16); 3] = [(0, 1), (1, 2), (2, 0)];
const NODES: u16 = 3;
/// How long partners wait for each other: far longer than the test, or a busy machine, stops one of them. An undisturbed turn ends when
/// it is over.
const TURN: Duration = Duration::from_secs(10);
/// For all turns; more than one share of each and one at the end.
const GIVEN: Duration = Duration::from_secs(60);

/// The words of the next line that was said; none at the end.
fn listen(from: &mut impl BufRead) -> Vec<String> {
    let mut line = String::new();
    while from.read_line(&mut line).unwrap() > 0 {
        if let Some((_, rest)) = line.split_once(SAYS) {
            return rest.split_whitespace().map(str::to_owned).collect();
        }
        line.clear();
    }
    Vec::new()
}

/// The other side of [`Node`]. As a test of its own it does nothing.
#[test]
fn a_node() {
    let Some(node) = std::env::var(NODE).ok().and_then(|node| node.parse::<u16>().ok()) else { return };
    let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
    let mut own = Prober::bind(Config {
        node,
        key: [9; 32],
        job_uid: "job".to_owned(),
        attempt: 1,
        traffic_class: 26 << 2 | 2,
        rails: (0..RAILS).map(|rail| Rail { rail, address, device: None }).collect(),
        limits: Limits { turn: TURN, ..Limits::default() },
    })
    .unwrap();
    let shown: Vec<String> = own.endpoints().iter().map(ToString::to_string).collect();
    println!("\n{SAYS} {}", shown.join(" "));
    let reported: Vec<SocketAddr> =
        listen(&mut std::io::stdin().lock()).iter().map(|word| word.parse().unwrap()).collect();
    let peers: Vec<Peer> = (0..)
        .zip(reported.chunks(usize::from(RAILS)))
        .filter(|(peer, _)| *peer != node)
        .map(|(node, rails)| Peer { node, rails: rails.to_vec() })
        .collect();
    let turn = |(round, (first, second)): (u32, (u16, u16))| {
        let peer = if first == node { second } else { first };
        (first == node || second == node).then_some(RoundPart { round, peer, first: first == node })
    };
    let turns: Vec<RoundPart> = (0..).zip(ROUNDS).filter_map(turn).collect();
    let end = Instant::now() + GIVEN;
    let report = own.run(0, &peers, &turns, end);
    let mut text = String::new();
    for pair in &report.pairs {
        assert_eq!(Some(pair.round), turns.iter().find(|turn| turn.first).map(|turn| turn.round));
        write!(text, "{SAYS} {} {}", pair.rail, pair.crossed.map_or(0, |other| u32::from(other) + 1))
            .unwrap();
        for way in [pair.there, pair.back] {
            let (mtu, mbps) = (way.mtu.unwrap_or_default(), way.mbps.unwrap_or_default());
            let port = report.ports[usize::from(pair.rail)].mtu.unwrap_or_default();
            write!(text, " {} {} {mtu} {port} {mbps} {}", way.sent, way.lost, u8::from(way.at_least))
                .unwrap();
        }
        text.push('\n');
    }
    println!("{text}{SAYS} over");
    thread::spawn(move || own.serve(end));
    listen(&mut std::io::stdin().lock());
}

struct Node {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Node {
    fn start(node: u16) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["paused::a_node", "--exact", "--nocapture"])
            .env(NODE, node.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it has measured, and the MTU of its ports both ways.
    fn reports(&mut self, node: usize) -> Vec<(PairReport, u32)> {
        let mut reports = Vec::new();
        loop {
            let words = listen(&mut self.stdout);
            if words.len() < 2 {
                assert_eq!(words, ["over"]);
                return reports;
            }
            let n: Vec<u32> = words.iter().map(|word| word.parse().unwrap()).collect();
            let way = |at: usize| PathMeasurement {
                sent: n[at],
                lost: n[at + 1],
                mtu: Some(n[at + 2]).filter(|mtu| *mtu > 0),
                dscp: None,
                mbps: Some(n[at + 4]).filter(|mbps| *mbps > 0),
                at_least: n[at + 5] > 0,
            };
            let rail = u16::try_from(n[0]).unwrap();
            let crossed = n[1].checked_sub(1).map(|rail| u16::try_from(rail).unwrap());
            let (round, peer) = (node as u32, ROUNDS[node].1);
            let (there, back) = (way(2), way(8));
            reports.push((PairReport { round, peer, rail, there, back, rtt_us: None, crossed }, n[5]));
        }
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }
}

/// Three nodes measure each other, and three times one of them stops for 50 to 500 ms. Rail R of node 0 has the fault `faults[R]`.
fn run(seed: u64, faults: [Fault; RAILS as usize]) -> Vec<(PairReport, u32)> {
    let mut nodes: Vec<Node> = (0..NODES).map(Node::start).collect();
    let parse = |word: &String| word.parse::<SocketAddr>().unwrap();
    let all: Vec<Vec<SocketAddr>> =
        nodes.iter_mut().map(|node| listen(&mut node.stdout).iter().map(parse).collect()).collect();
    let whole = faults.iter().all(|fault| *fault == Fault::None);
    // What is said to node 0 passes its faults, and what it says itself.
    let past = |to: SocketAddr, fault: Fault| if whole { to } else { relay::start(to, fault, seed) };
    for (node, own) in nodes.iter_mut().enumerate() {
        let mut line = SAYS.to_owned();
        for (to, rails) in all.iter().enumerate() {
            let faulty = (node == 0) != (to == 0);
            for (address, fault) in rails.iter().zip(faults) {
                write!(line, " {}", if faulty { past(*address, fault) } else { *address }).unwrap();
            }
        }
        writeln!(own.stdin, "{line}").unwrap();
    }
    let mut random = Random(seed);
    for first in [true, false, false] {
        let node = &nodes[random.below(NODES.into()) as usize];
        // Undisturbed all of it takes about 50 ms; later pauses come soon after the ones before.
        thread::sleep(Duration::from_micros(random.below(if first { 50_000 } else { 20_000 })));
        node.signal(Signal::STOP);
        thread::sleep(Duration::from_millis(50 + random.below(450)));
        node.signal(Signal::CONT);
    }
    let reports = nodes.iter_mut().enumerate().flat_map(|(at, node)| node.reports(at)).collect();
    for mut node in nodes {
        drop(node.stdin);
        node.child.wait().unwrap();
    }
    reports
}

/// So many runs; with `RAIL_TEST_SEEDS` more of them.
fn seeds(least: u64) -> impl Iterator<Item = u64> {
    let asked = std::env::var("RAIL_TEST_SEEDS").ok().and_then(|number| number.parse().ok());
    (1..=asked.unwrap_or(least)).map(|seed: u64| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[test]
fn a_node_that_is_stopped_for_a_while_makes_no_rail_bad() {
    for seed in seeds(6) {
        let reports = run(seed, [Fault::None; RAILS as usize]);
        assert_eq!(reports.len(), 12, "seed {seed:#x}: {reports:?}");
        for (pair, port) in reports {
            assert_eq!(pair.crossed, None, "seed {seed:#x}: {pair:?}");
            for way in [pair.there, pair.back] {
                assert_eq!((way.sent, way.lost, way.mtu), (128, 0, Some(port)), "seed {seed:#x}: {pair:?}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_rail_is_found_although_nodes_are_stopped() {
    let faults =
        [Fault::None, Fault::Lossy { one_in: 12 }, Fault::Slow { mbps: 100 }, Fault::Small { bytes: 4_000 }];
    let mut pairs = 0;
    for seed in seeds(3) {
        for (pair, port) in run(seed, faults) {
            let faulty = pair.peer == 0 || pair.round == 0;
            let (ways, said) = ([pair.there, pair.back], format!("seed {seed:#x}: {pair:?}"));
            pairs += usize::from(faulty);
            let lost: u32 = ways.iter().map(|way| way.lost).sum();
            let small = ways.iter().any(|way| way.mtu.is_some_and(|mtu| mtu < port));
            let slow = ways.iter().any(|way| way.mbps.is_some_and(|mbps| mbps < 200) && !way.at_least);
            match (faulty, pair.rail) {
                (true, 1) => assert!(lost >= 2, "{said}"),
                (true, 2) => assert!(lost == 0 && slow, "{said}"),
                (true, 3) => assert!(lost == 0 && small, "{said}"),
                _ => assert!(lost == 0 && !small, "{said}"),
            }
            assert!(pair.back.sent > pair.back.lost && pair.crossed.is_none(), "{said}");
        }
    }
    assert!(pairs > 0, "none was measured");
}
