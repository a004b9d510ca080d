//! Own ports whose carrier goes and comes: on virtual cables, so this needs root and `ip`.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use node_agent_collective::units::{Node, Rail};
use node_agent_collective::{FrameError, Header, RailCause, Region};
use node_agent_engine_transport::{JobKey, Sink, TcpConfig, TcpRails, Transport, Wiring};
use node_agent_ipc::pieces::{Source, Target};

/// Set in the process that runs inside the namespace.
const INSIDE: &str = "RAIL_TEST_INSIDE_NAMESPACE";

/// Writes down what rails report, and when, and the generation that was up last.
#[derive(Default)]
struct Log(Vec<(String, Instant)>, u32);

impl Log {
    fn note(&mut self, text: String) {
        self.0.push((text, Instant::now()));
    }
}

impl Sink for Log {
    fn payload(&self, _: u64, _: Region) -> Option<Source<'_>> {
        None
    }
    fn begin(&mut self, _: Rail, _: Node, _: &Header) -> Result<(), FrameError> {
        Ok(())
    }
    fn landing(&mut self, _: Rail, _: Node, _: usize) -> Option<Target<'_>> {
        None
    }
    fn received(&mut self, _: Rail, _: Node) -> Result<(), FrameError> {
        Ok(())
    }
    fn sent(&mut self, _: Rail, _: Node, _: u64) {}
    fn rail_up(&mut self, rail: Rail, peer: Node, generation: u32) {
        self.1 = generation;
        self.note(format!("up {rail} {peer}"));
    }
    fn rail_down(&mut self, rail: Rail, peer: Node, _: u32, cause: RailCause) {
        self.note(format!("down {rail} {peer}: {cause}"));
    }
    fn port_down(&mut self, rail: Rail) {
        self.note(format!("port down {rail}"));
    }
    fn port_up(&mut self, rail: Rail) {
        self.note(format!("port up {rail}"));
    }
}

fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Cable n: port `pN` with address 10.9.N.1, its other end `qN`.
fn cable(number: u8) {
    ip(&format!("link add p{number} type veth peer name q{number}"));
    ip(&format!("link set q{number} up"));
    ip(&format!("addr add 10.9.{number}.1/24 dev p{number}"));
    ip(&format!("link set p{number} up"));
}

/// Waits until the kernel has brought a port into this state; it does so a moment after the command.
fn settled(port: &str, state: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let output = Command::new("ip").args(["-o", "link", "show", port]).output().unwrap();
        if String::from_utf8_lossy(&output.stdout).contains(&format!("state {state} ")) {
            return;
        }
        assert!(Instant::now() < deadline, "{port} is not {state}");
    }
}

fn rails(node: Node, addresses: &[[u8; 4]]) -> TcpRails {
    let config = TcpConfig {
        node,
        nodes: 2,
        rails: addresses.iter().map(|address| IpAddr::from(*address)).collect(),
        devices: Vec::new(),
        job_uid: "uid".into(),
        attempt: 1,
        epoch: 1,
        key: JobKey::new([5; 32]),
        handshake_timeout: Duration::from_secs(2),
        protection: node_agent_engine_transport::tcp::Protection::None,
    };
    TcpRails::bind(&config).unwrap()
}

/// Two nodes with two rails each on cables 1, 2 and 3, 4. They reach each other inside the kernel; only the state of the
/// ports is that of the cables.
struct World {
    ends: [TcpRails; 2],
    logs: [Log; 2],
}

impl World {
    fn poll(&mut self) {
        for (end, log) in self.ends.iter_mut().zip(&mut self.logs) {
            end.poll(Some(Duration::from_millis(2)), log).unwrap();
        }
    }

    /// Does something to the cables, and waits for these reports; gives how long the first report of node 0 took.
    #[track_caller]
    fn after(&mut self, act: impl FnOnce(), expected: [&[&str]; 2]) -> Duration {
        self.logs.iter_mut().for_each(|log| log.0.clear());
        act();
        let acted = Instant::now();
        while self.logs.iter().zip(expected).any(|(log, expected)| log.0.len() < expected.len()) {
            let logs = self.logs.each_ref().map(|l| l.0.iter().map(|(text, _)| text).collect::<Vec<_>>());
            assert!(acted.elapsed() < Duration::from_secs(10), "{logs:?} instead of {expected:?}");
            self.poll();
        }
        for (log, expected) in self.logs.iter().zip(expected) {
            assert_eq!(log.0.iter().map(|(text, _)| text).collect::<Vec<_>>(), expected);
        }
        self.logs[0].0.first().map_or(Duration::ZERO, |(_, at)| at.saturating_duration_since(acted))
    }
}

/// Runs a test in a network namespace of its own.
#[track_caller]
fn in_a_namespace(test: &str, inside: fn()) {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    if !Command::new("unshare")
        .args(["--net", "ip", "link", "add", "p0", "type", "veth"])
        .output()
        .is_ok_and(|o| o.status.success())
    {
        println!("skipped: network namespaces with virtual cables need root, unshare and ip");
        return;
    }
    let output = namespaced(test).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&text));
}

/// This program with one test, in a network namespace of its own.
fn namespaced(test: &str) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--net").arg(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(INSIDE, "1");
    command
}

#[test]
fn rails_follow_their_ports() {
    in_a_namespace("ports::rails_follow_their_ports", inside);
}

#[test]
fn what_ends_on_a_dark_port_asks_nobody_there() {
    in_a_namespace("ports::what_ends_on_a_dark_port_asks_nobody_there", in_the_dark);
}

fn inside() {
    ip("link set lo up");
    (1..=4).for_each(cable);
    // The state at the start counts too.
    ip("link set q2 down");
    ["p1", "p3", "p4"].iter().for_each(|port| settled(port, "UP"));
    settled("p2", "LOWERLAYERDOWN");
    let mut ends = [rails(0, &[[10, 9, 1, 1], [10, 9, 2, 1]]), rails(1, &[[10, 9, 3, 1], [10, 9, 4, 1]])];
    let endpoints: Vec<_> = ends.iter().map(TcpRails::endpoints).collect();
    for (node, end) in ends.iter_mut().enumerate() {
        let peer = BTreeMap::from([(1 - node as Node, endpoints[1 - node].clone())]);
        end.connect(&peer, Instant::now() + Duration::from_secs(60)).unwrap();
    }
    let mut world = World { ends, logs: Default::default() };
    world.after(|| {}, [&["port down 1", "up 0 1"], &["up 0 0"]]);
    assert!(matches!(world.ends[0].wiring(), Wiring::Waiting(missing) if missing.len() == 1));
    world.after(|| ip("link set q2 up"), [&["port up 1", "up 1 1"], &["up 1 0"]]);
    assert_eq!(world.ends[1].wiring(), Wiring::Done);

    let down: [&[&str]; 2] =
        [&["port down 0", "down 0 1: the own port has no carrier"], &["down 0 0: closed by the peer"]];
    let up: [&[&str]; 2] = [&["port up 0", "up 0 1"], &["up 0 0"]];
    let noticed = world.after(|| ip("link set q1 down"), down);
    assert!(noticed < Duration::from_secs(1), "{noticed:?} after the carrier was lost");
    world.after(|| ip("link set q1 up"), up);
    // Twice within a second is no flapping yet; what follows would be, and waits until the damping is forgotten.
    world.after(|| ip("link set p1 down"), down);
    let sound = Instant::now() + Duration::from_millis(5200);
    world.after(|| ip("link set p1 up"), up);
    while Instant::now() < sound + Duration::from_millis(500) {
        world.poll();
    }
    // Deleted, and made anew: another index, the same address.
    // A port that is gone cannot even send a reset: the peer learns of it in another way.
    world.after(|| ip("link del p1"), [down[0], &[]]);
    let generation = world.logs[1].1;
    world.ends[1].close(0, 0, generation, RailCause::Fenced);
    world.after(|| (), [&[], &["down 0 0: given up by the peer"]]);
    world.after(|| cable(1), up);
}

/// Where the rail of the other namespace's end is to dial; set in the process that is that end.
const PEER_OF: &str = "RAIL_TEST_PEER_OF";

/// Cable 1 goes to another namespace, so that the kernel needs the hardware address of whoever is there. When the port is
/// dark, the end of the connection must not leave a question for it that nobody can answer: what is sent once the port is
/// back would wait for that question's next turn, a second later.
fn in_the_dark() {
    if let Ok(peer) = std::env::var(PEER_OF) {
        return other_end(peer.parse().unwrap());
    }
    ip("link set lo up");
    cable(1);
    let mut end = rails(0, &[[10, 9, 1, 1]]);
    let mut peer = namespaced("ports::what_ends_on_a_dark_port_asks_nobody_there");
    peer.env(PEER_OF, end.endpoints()[0].to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut peer = peer.spawn().unwrap();
    let mut lines = BufReader::new(peer.stdout.take().unwrap()).lines();
    let mut reported = |what: &str| {
        let line = lines.by_ref().map(Result::unwrap).find_map(|l| l.strip_prefix(what).map(str::to_owned));
        line.unwrap()
    };
    reported("in its namespace");
    ip(&format!("link set q1 netns {}", peer.id()));
    let endpoint: SocketAddr = reported("listens at ").parse().unwrap();
    end.connect(&BTreeMap::from([(1, vec![endpoint])]), Instant::now() + Duration::from_secs(60)).unwrap();
    let mut log = Log::default();
    let mut until = |what: &str| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !log.0.iter().any(|(text, _)| text == what) {
            assert!(Instant::now() < deadline, "{:?} without {what}", log.0);
            end.poll(Some(Duration::from_millis(2)), &mut log).unwrap();
        }
    };
    until("up 0 1");
    let down = Command::new("nsenter")
        .args(["--net", "--target", &peer.id().to_string(), "ip", "link", "set", "q1", "down"])
        .status();
    assert!(down.unwrap().success());
    until("down 0 1: the own port has no carrier");
    let asked = Command::new("ip").args(["neigh", "show", "dev", "p1"]).output().unwrap();
    let asked = String::from_utf8(asked.stdout).unwrap();
    assert!(!asked.contains("10.9.1.2"), "{asked}");
    drop(peer.stdin.take());
    assert!(peer.wait().unwrap().success());
}

/// The other end of cable 1, until it is told to go.
fn other_end(peer: SocketAddr) {
    println!("in its namespace");
    let deadline = Instant::now() + Duration::from_secs(10);
    while !Command::new("ip").args(["link", "show", "q1"]).output().unwrap().status.success() {
        assert!(Instant::now() < deadline, "no cable");
    }
    ip("link set lo up");
    ip("addr add 10.9.1.2/24 dev q1");
    ip("link set q1 up");
    settled("q1", "UP");
    let mut end = rails(1, &[[10, 9, 1, 2]]);
    end.connect(&BTreeMap::from([(0, vec![peer])]), Instant::now() + Duration::from_secs(60)).unwrap();
    println!("listens at {}", end.endpoints()[0]);
    let reported = std::thread::spawn(|| std::io::stdin().read(&mut [0]));
    let mut log = Log::default();
    while !reported.is_finished() {
        end.poll(Some(Duration::from_millis(2)), &mut log).unwrap();
    }
}
