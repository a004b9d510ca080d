//! Machines over memory rails, and the rails' faults.

use node_agent_collective::header::{Key, Kind};
use node_agent_collective::shape::Tuning;
use node_agent_collective::{
    Arena, BufferId, Call, Completion, Config, Dtype, Failure, FrameError, Machine, Memory, Operation,
    ReduceOp, Region,
};
use node_agent_ipc::pieces::{Source, Target};

use super::*;
use crate::drive::{Bridge, Clock, drive};

const COUNT: usize = 50_000;

type End = (Vec<Completion>, Option<Failure>);

/// One node: an all-reduce, then `between`, then another; gives how each ended.
fn node(net: &MemoryNet, node: Node, between: &(dyn Fn(&mut Machine) + Sync)) -> End {
    let mut memory = Arena::new();
    let mut config = Config {
        node,
        nodes: net.nodes,
        ranks: (0..net.nodes as Node).collect(),
        rails: net.rails,
        chunk_bytes: 4096,
        op_timeout: Duration::from_secs(20),
        epoch: 1,
        scratch: Region::new(BufferId(0), 0, usize::MAX / 4),
        checksum: false,
        tuning: Tuning::default(),
    };
    config.scratch = memory.insert(vec![0; config.scratch_bytes()]);
    let mut machine = Machine::new(config).unwrap();
    let (mut rails, clock, mut ended) = (net.node(node), Clock::start(), Vec::new());
    let call = Call {
        operation: Operation::AllReduce,
        dtype: Dtype::I32,
        reduce: ReduceOp::Sum,
        count: COUNT as u64,
    };
    for round in 0..2 {
        let buffer =
            memory.insert([i32::from(node) + 1; COUNT].iter().flat_map(|v| v.to_ne_bytes()).collect());
        if machine.post(node.into(), call, buffer, buffer, clock.now()).is_err() {
            break;
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut idle = Duration::ZERO;
        while (ended.len() <= round || !machine.is_quiet()) && idle < Duration::from_millis(200) {
            assert!(Instant::now() < deadline);
            let mut external = Vec::new();
            let (machine, memory, external) = (&mut machine, &mut memory, &mut external);
            let mut bridge = Bridge { machine, memory, clock, external, callers: &() };
            drive(&mut bridge, &mut rails, Duration::from_millis(10)).unwrap();
            ended.extend(std::iter::from_fn(|| machine.poll_completion()));
            idle += if ended.len() > round { Duration::from_millis(10) } else { Duration::ZERO };
        }
        if ended.last().is_some_and(|c: &Completion| c.result.is_ok()) {
            let sum = (1..=net.nodes as i32).sum::<i32>().to_ne_bytes();
            assert!(memory.bytes(buffer).unwrap().chunks(4).all(|v| v == sum));
        }
        between(&mut machine);
    }
    (ended, machine.failure().cloned())
}

fn nodes(net: &MemoryNet, between: &(dyn Fn(&mut Machine) + Sync)) -> Vec<End> {
    std::thread::scope(|scope| {
        let start = |n| scope.spawn(move || node(net, n as Node, between));
        let threads: Vec<_> = (0..net.nodes).map(start).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    })
}

#[test]
fn nodes_of_one_process_reduce_over_delayed_rails() {
    for seed in 0..3 {
        let net = MemoryNet::new(3, 3, seed);
        net.delay(1, Duration::from_micros(300));
        for (ended, _) in nodes(&net, &|_| {}) {
            assert!(ended.len() == 2 && ended.iter().all(|c| c.result.is_ok()), "seed {seed}: {ended:?}");
        }
    }
}

#[test]
fn a_node_that_is_cut_off_is_lost_to_all() {
    let net = MemoryNet::new(3, 2, 1);
    let cut = net.clone();
    let ends = nodes(&net, &|machine| {
        if machine.config().node == 2 {
            for (peer, rail) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                cut.cut(2, peer, rail, RailCause::Closed);
            }
        }
    });
    for (ended, failure) in &ends[..2] {
        let failure = failure.as_ref().unwrap();
        assert!(matches!(failure, Failure::PeerLost { node: 2, .. } | Failure::Remote { .. }), "{failure}");
        assert!(ended[1..].iter().all(|c| c.result.is_err()));
    }
}

/// Writes down what a transport reports.
#[derive(Default)]
struct Log(Vec<String>);

impl Sink for Log {
    fn payload(&self, _: u64, _: Region) -> Option<Source<'_>> {
        None
    }
    fn begin(&mut self, rail: Rail, peer: Node, header: &Header) -> Result<(), FrameError> {
        self.0.push(format!("frame {} {rail} {peer}", header.value));
        Ok(())
    }
    fn landing(&mut self, _: Rail, _: Node, _: usize) -> Option<Target<'_>> {
        None
    }
    fn received(&mut self, _: Rail, _: Node) -> Result<(), FrameError> {
        Ok(())
    }
    fn sent(&mut self, _: Rail, _: Node, token: u64) {
        self.0.push(format!("sent {token}"));
    }
    fn rail_up(&mut self, rail: Rail, peer: Node, generation: u32) {
        self.0.push(format!("up {rail} {peer} {generation}"));
    }
    fn rail_down(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause) {
        self.0.push(format!("down {rail} {peer} {generation}: {cause}"));
    }
    fn port_down(&mut self, rail: Rail) {
        self.0.push(format!("port down {rail}"));
    }
    fn port_up(&mut self, rail: Rail) {
        self.0.push(format!("port up {rail}"));
    }
}

/// What a transport reports now.
fn check(rails: &mut MemoryRails) -> Vec<String> {
    let mut log = Log::default();
    rails.poll(Some(Duration::ZERO), &mut log).unwrap();
    log.0
}

/// What it reports once it reports something.
fn wait(rails: &mut MemoryRails) -> Vec<String> {
    let (mut log, deadline) = (Log::default(), Instant::now() + Duration::from_secs(10));
    while log.0.is_empty() {
        assert!(Instant::now() < deadline);
        rails.poll(Some(Duration::from_millis(100)), &mut log).unwrap();
    }
    log.0
}

fn numbered(peer: Node, number: u64) -> Transmit {
    let header = Header { value: number, ..Header::control(Kind::Grant, Key::Collective { seq: 0 }, 0, 0) };
    Transmit { rail: 0, peer, header, payload: None, token: number }
}

fn pair(net: &MemoryNet) -> [MemoryRails; 2] {
    let mut ends = [net.node(0), net.node(1)];
    assert_eq!(check(&mut ends[0]), ["up 0 1 1"]);
    assert_eq!(check(&mut ends[1]), ["up 0 0 1"]);
    ends
}

#[test]
fn a_closed_life_is_over_at_both_ends_and_a_newer_one_follows() {
    let [mut a, mut b] = pair(&MemoryNet::new(2, 1, 0));
    a.send(numbered(1, 7));
    a.close(0, 1, 2, RailCause::Local);
    assert_eq!(check(&mut a), ["sent 7"], "no such generation");
    a.send(numbered(1, 8));
    a.close(0, 1, 1, RailCause::Local);
    assert_eq!(wait(&mut a), ["down 0 1 1: taken down here"], "what was queued is dropped, and is not sent");
    assert_eq!(wait(&mut b), ["down 0 0 1: closed by the peer"], "what was on its way is lost");
    let asked = Instant::now();
    b.redial(0, 0);
    assert_eq!((wait(&mut b), wait(&mut a)), (vec!["up 0 0 2".into()], vec!["up 0 1 2".into()]));
    assert!(asked.elapsed() < Duration::from_secs(1));
    a.close(0, 1, 2, RailCause::Fenced);
    assert_eq!(wait(&mut a), ["down 0 1 2: given up by the peer"]);
    assert_eq!(wait(&mut a), ["up 0 1 3"], "without being asked for");
}

#[test]
fn a_silent_way_keeps_what_is_sent_until_it_speaks_or_the_link_is_closed() {
    let net = MemoryNet::new(2, 1, 0);
    let [mut a, mut b] = pair(&net);
    for closed in [false, true] {
        net.apply(&Fault::Silence { from: 0, to: 1, rail: 0 });
        a.send(numbered(1, 1));
        assert_eq!(check(&mut a), ["sent 1"]);
        b.send(numbered(0, 2));
        assert_eq!(check(&mut b), ["sent 2"], "nobody is told");
        assert_eq!(check(&mut a), ["frame 2 0 1"], "the other direction is sound");
        if closed {
            a.close(0, 1, 1, RailCause::Silent(Duration::from_millis(100)));
            assert_eq!(check(&mut a), ["down 0 1 1: no sign of life for 100ms"]);
            assert_eq!(check(&mut b), Vec::<String>::new(), "not even the reset gets through");
        }
        net.apply(&Fault::Speak { from: 0, to: 1, rail: 0 });
        let then = if closed { "down 0 0 1: closed by the peer" } else { "frame 1 0 0" };
        assert_eq!(wait(&mut b), [then]);
    }
    assert_eq!(wait(&mut b), ["up 0 0 2"]);
}

#[test]
fn a_port_that_goes_down_is_known_to_its_own_node_alone() {
    let net = MemoryNet::new(2, 1, 0);
    let [mut a, mut b] = pair(&net);
    net.apply(&Fault::PortDown { node: 0, rail: 0 });
    assert_eq!(check(&mut a), ["port down 0", "down 0 1 1: the own port has no carrier"]);
    assert_eq!(check(&mut b), Vec::<String>::new());
    net.apply(&Fault::PortUp { node: 0, rail: 0 });
    assert_eq!(wait(&mut b), ["down 0 0 1: closed by the peer", "up 0 0 2"]);
    assert_eq!(wait(&mut a), ["port up 0", "up 0 1 2"]);
}

#[test]
fn scripts_come_by_frames_and_random_ones_by_their_seed() {
    let net = MemoryNet::new(2, 1, 0);
    let [mut a, mut b] = pair(&net);
    let cut = Fault::Cut { a: 1, b: 0, rail: 0, cause: RailCause::Closed };
    net.script(vec![(4, cut.undone().unwrap()), (3, cut)]);
    for number in 1..=2 {
        a.send(numbered(1, number));
        assert_eq!(check(&mut a), [format!("sent {number}")]);
        assert_eq!(check(&mut b), [format!("frame {number} 0 0")]);
    }
    a.send(numbered(1, 3));
    assert_eq!(check(&mut a), ["sent 3", "down 0 1 1: closed by the peer"]);
    assert_eq!(check(&mut b), ["down 0 0 1: closed by the peer"], "the third took the link with it");
    let random = |seed| Fault::random(seed, 4, 3, 50, 10);
    assert_eq!(random(1), random(1));
    assert_ne!(random(1), random(2));
    let faults = random(3);
    for (after, fault) in faults.iter().filter(|(_, f)| f.undone().is_some()) {
        let undone = fault.undone().unwrap();
        assert!(faults.iter().any(|(later, f)| later > after && *f == undone), "{fault:?} lasts");
    }
}

#[test]
fn nodes_reduce_over_rails_that_are_late_at_random() {
    for seed in 0..3 {
        let net = MemoryNet::new(3, 3, seed);
        let late = Fault::random(seed, 3, 3, 40, 20);
        net.script(late.into_iter().filter(|(_, f)| matches!(f, Fault::Delay { .. })).collect());
        for (ended, _) in nodes(&net, &|_| {}) {
            assert!(ended.len() == 2 && ended.iter().all(|c| c.result.is_ok()), "seed {seed}: {ended:?}");
        }
    }
}

#[test]
fn another_thread_ends_a_poll() {
    let mut rails = MemoryNet::new(2, 1, 0).node(0);
    let waker = rails.waker();
    let thread = std::thread::spawn(move || waker.wake());
    rails.poll(None, &mut Log::default()).unwrap();
    thread.join().unwrap();
}
