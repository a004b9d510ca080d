//! Rails of a known rate in virtual time: what the schedules take, against what the bounds and the model say. Processors take
//! no time here.

use std::collections::BTreeMap;

use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Rail, Time};
use node_agent_collective::{
    Algorithm, Arena, BufferId, Call, Command, Config, Dtype, Header, Landing, Machine, Memory, Operation,
    Plan, RailCause, ReduceOp, Region,
};

/// Bytes per second of a rail, in each direction.
const RATE: f64 = 25e6;
/// Time of a trip.
const TRIP: Time = Time::from_micros(50);
/// Time in which a connection is made again.
const DIAL: Time = Time::from_millis(20);

struct Host {
    machine: Machine,
    memory: Arena,
    done: usize,
    /// It looks at nothing before; what comes in meanwhile gathers.
    rests: Time,
    gathered: Vec<(Node, Rail, Header, Vec<u8>)>,
    /// Frames that have left meanwhile: rail, receiver and token.
    left: Vec<(Rail, Node, u64)>,
    /// How often it looked because something had come.
    woken: usize,
}

impl Host {
    /// Looks at what has gathered.
    fn check(&mut self, now: Time) {
        self.woken += usize::from(!self.gathered.is_empty());
        for (rail, peer, token) in self.left.drain(..) {
            self.machine.sent(rail, peer, token, now);
        }
        for (from, rail, header, payload) in self.gathered.drain(..) {
            self.machine.begin(rail, from, &header, now).unwrap();
            let mut at = 0;
            while let Landing::Into(region) = self.machine.landing(rail, from, at) {
                let bytes = self.memory.bytes_mut(region).unwrap();
                bytes.copy_from_slice(&payload[at..at + region.len]);
                at += region.len;
            }
            self.machine.received(rail, from, &mut self.memory, now).unwrap();
        }
    }
}

/// Nodes on rails with one switch each: a frame occupies the sender's port, then the receiver's, each for its length.
struct Fabric {
    now: Time,
    hosts: Vec<Host>,
    /// When each (node, rail) port has sent, and received, what it was given.
    sends: BTreeMap<(Node, Rail), Time>,
    receives: BTreeMap<(Node, Rail), Time>,
    /// Frames by the time when they reach the receiver's port, and by the time when it is through with them.
    queued: BTreeMap<(Time, u64), Frame>,
    flying: BTreeMap<(Time, u64), Frame>,
    /// Frames by the time when they have left the sender's port: sender, receiver, rail and token.
    leaving: BTreeMap<(Time, u64), (Node, Node, Rail, u64)>,
    count: u64,
    /// Which host is served first.
    turn: usize,
    /// Bytes that each rail was given.
    carried: Vec<u64>,
    /// Ports that are slower than [`RATE`], in both directions.
    slow: BTreeMap<(Node, Rail), f64>,
    /// Hosts let frames gather, as long as their machines say that they may.
    gathers: bool,
    /// Bytes that a port takes over before it sends them, as a kernel does.
    unsent: f64,
    /// Links that were given up, by the time when they are connected again: both ends, rail and the new life.
    dials: BTreeMap<(Time, u64), (Node, Node, Rail, u32)>,
    /// Whether there are any: else what is given up stays so.
    redials: bool,
}

type Frame = (Node, Node, Rail, Header, Vec<u8>);

impl Fabric {
    /// `dead` are ports without carrier.
    fn new(nodes: usize, rails: usize, tuning: Tuning, plan: &Plan, dead: &[(Node, Rail)]) -> Fabric {
        Self::with_frames(32 << 10, nodes, rails, tuning, plan, dead)
    }

    /// With frames of so many bytes at most.
    fn with_frames(
        chunk_bytes: usize,
        nodes: usize,
        rails: usize,
        tuning: Tuning,
        plan: &Plan,
        dead: &[(Node, Rail)],
    ) -> Fabric {
        let host = |node: usize| {
            let mut memory = Arena::new();
            let config = |scratch| Config {
                node: node as Node,
                nodes,
                ranks: (0..nodes as Node).collect(),
                rails,
                chunk_bytes,
                op_timeout: Time::from_secs(3600),
                epoch: 1,
                scratch,
                checksum: false,
                tuning,
            };
            let sketch = config(Region::new(BufferId(0), 0, usize::MAX / 4));
            let scratch = memory.insert(vec![0; sketch.scratch_bytes()]);
            let mut machine = Machine::new(config(scratch)).unwrap();
            machine.set_plan(plan.clone());
            for peer in (0..nodes).filter(|&p| p != node) {
                for rail in 0..rails as Rail {
                    if !dead.contains(&(node as Node, rail)) && !dead.contains(&(peer as Node, rail)) {
                        machine.rail_up(rail, peer as Node, 1, Time::ZERO);
                    }
                }
            }
            Host {
                machine,
                memory,
                done: 0,
                rests: Time::ZERO,
                gathered: Vec::new(),
                left: Vec::new(),
                woken: 0,
            }
        };
        Fabric {
            now: Time::ZERO,
            hosts: (0..nodes).map(host).collect(),
            sends: BTreeMap::new(),
            receives: BTreeMap::new(),
            queued: BTreeMap::new(),
            flying: BTreeMap::new(),
            leaving: BTreeMap::new(),
            count: 0,
            turn: 0,
            carried: vec![0; rails],
            slow: BTreeMap::new(),
            gathers: true,
            unsent: 65536.0,
            dials: BTreeMap::new(),
            redials: true,
        }
    }

    /// What a port needs for so many bytes.
    fn takes(&self, node: Node, rail: Rail, bytes: u64) -> Time {
        Time::from_secs_f64(bytes as f64 / self.slow.get(&(node, rail)).unwrap_or(&RATE))
    }

    /// Ends the lives of links that a machine gives up, at both ends, and begins those whose time has come.
    fn dial(&mut self) {
        if !self.redials {
            return;
        }
        for node in 0..self.hosts.len() {
            while let Some(command) = self.hosts[node].machine.poll_command() {
                let Command::Close { rail, peer, generation, .. } = command else { continue };
                let (now, node) = (self.now, node as Node);
                self.hosts[usize::from(peer)].machine.rail_down(
                    rail,
                    node,
                    generation,
                    RailCause::Closed,
                    now,
                );
                self.count += 1;
                self.dials.insert((now + DIAL, self.count), (node, peer, rail, generation + 1));
            }
        }
        while let Some((key, dial)) = self.dials.first_key_value().filter(|(k, _)| k.0 <= self.now) {
            let (key, (a, b, rail, generation)) = (*key, *dial);
            self.dials.remove(&key);
            for (node, peer) in [(a, b), (b, a)] {
                self.hosts[usize::from(node)].machine.rail_up(rail, peer, generation, self.now);
            }
        }
    }

    /// Everything that takes no time.
    fn pump(&mut self) {
        self.turn += 1;
        self.dial();
        for i in 0..self.hosts.len() {
            let node = (i + self.turn) % self.hosts.len();
            let host = &mut self.hosts[node];
            if self.now < host.rests {
                continue;
            }
            host.check(self.now);
            host.machine.tick(self.now);
            while host.machine.work(&mut host.memory, self.now) {}
            while let Some(frame) = host.machine.poll_transmit(&mut host.memory, self.now) {
                let payload = frame.payload.map_or(Vec::new(), |r| host.memory.bytes(r).unwrap().to_vec());
                let bytes = frame.header.frame_bytes() as f64;
                let rate = self.slow.get(&(node as Node, frame.rail)).unwrap_or(&RATE);
                let takes = Time::from_secs_f64(bytes / rate);
                let from = self.sends.entry((node as Node, frame.rail)).or_default();
                *from = (*from).max(self.now) + takes;
                self.carried[usize::from(frame.rail)] += frame.header.frame_bytes();
                self.count += 1;
                // The first byte is there a trip after it left; the last one is not received before it has come.
                let first = takes.min(Time::from_secs_f64(
                    bytes / self.slow.get(&(frame.peer, frame.rail)).unwrap_or(&RATE),
                ));
                let reaches = (*from + TRIP).saturating_sub(first);
                let token = frame.token;
                let frame = (node as Node, frame.peer, frame.rail, frame.header, payload);
                let taken = from.saturating_sub(Time::from_secs_f64(self.unsent / rate)).max(self.now);
                self.leaving.insert((taken, self.count), (node as Node, frame.1, frame.2, token));
                self.queued.insert((reaches, self.count), frame);
            }
            while let Some(end) = host.machine.poll_completion() {
                assert_eq!(end.result, Ok(()));
                host.done += 1;
            }
            if self.gathers {
                let due = host.machine.next_deadline().unwrap_or(Time::MAX);
                host.rests = due.min(self.now + host.machine.rest());
            }
        }
    }

    /// Runs until every host has completed so many calls; gives the time when the last did.
    fn run(&mut self, calls: usize) -> Time {
        loop {
            self.pump();
            if self.hosts.iter().all(|h| h.done == calls) {
                return self.now;
            }
            let arrival =
                [&self.flying, &self.queued].into_iter().filter_map(|f| f.keys().next()).map(|k| k.0);
            let awake = self.hosts.iter().filter(|h| h.rests <= self.now);
            let deadline = awake.filter_map(|h| h.machine.next_deadline()).min();
            let rested = self.hosts.iter().map(|h| h.rests).filter(|&rests| rests > self.now).min();
            let left =
                [self.leaving.keys().next(), self.dials.keys().next()].into_iter().flatten().map(|k| k.0);
            let next =
                arrival.chain(left).chain(deadline).chain(rested).min().expect("nothing is on its way");
            self.now = self.now.max(next);
            while let Some((key, left)) = self.leaving.first_key_value().filter(|(k, _)| k.0 <= self.now) {
                let (key, (node, peer, rail, token)) = (*key, *left);
                self.leaving.remove(&key);
                self.hosts[usize::from(node)].left.push((rail, peer, token));
            }
            while let Some((key, _)) = self.queued.first_key_value().filter(|(k, _)| k.0 <= self.now) {
                let key = *key;
                let frame = self.queued.remove(&key).unwrap();
                let takes = self.takes(frame.1, frame.2, frame.3.frame_bytes());
                let through = self.receives.entry((frame.1, frame.2)).or_default();
                *through = (*through).max(key.0) + takes;
                self.flying.insert((*through, key.1), frame);
            }
            let Some((key, _)) = self.flying.first_key_value().filter(|(k, _)| k.0 <= self.now) else {
                continue;
            };
            let key = *key;
            let (from, to, rail, header, payload) = self.flying.remove(&key).unwrap();
            self.hosts[usize::from(to)].gathered.push((from, rail, header, payload));
        }
    }

    /// The time of an in-place all-reduce of f32, after two that warm the rates up.
    fn all_reduce(&mut self, bytes: usize) -> Time {
        (0..3).map(|_| self.once(bytes)).last().unwrap()
    }

    /// The time of an in-place all-reduce of f32.
    fn once(&mut self, bytes: usize) -> Time {
        let count = bytes as u64 / 4;
        let call = Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count };
        let (started, done) = (self.now, self.hosts[0].done);
        let buffers: Vec<Region> =
            self.hosts.iter_mut().map(|host| host.memory.insert(vec![0; bytes])).collect();
        for (rank, (host, &buffer)) in self.hosts.iter_mut().zip(&buffers).enumerate() {
            host.machine.post(rank as u32, call, buffer, buffer, self.now).unwrap();
        }
        let ended = self.run(done + 1) - started;
        self.hosts.iter_mut().zip(buffers).for_each(|(host, buffer)| drop(host.memory.remove(buffer.buffer)));
        ended
    }
}

fn forced(algorithm: Algorithm) -> Tuning {
    Tuning { algorithm: Some(algorithm), ..Tuning::default() }
}

/// Seconds that the wire needs at least for a healthy all-reduce.
fn ideal(nodes: usize, rails: usize, bytes: usize) -> f64 {
    2.0 * (nodes - 1) as f64 / nodes as f64 * bytes as f64 / (RATE * rails as f64)
}

/// The time of an all-reduce over four rails in units of [`ideal`].
fn slowdown(nodes: usize, algorithm: Algorithm, bytes: usize, plan: &Plan, dead: &[(Node, Rail)]) -> f64 {
    let took = Fabric::new(nodes, 4, forced(algorithm), plan, dead).all_reduce(bytes);
    took.as_secs_f64() / ideal(nodes, 4, bytes)
}

#[test]
fn large_operations_fill_the_rails() {
    let plan = Plan::default();
    for (nodes, algorithm, bytes, most) in [
        (2, Algorithm::Direct, 16 << 20, 1.02),
        (2, Algorithm::Direct, 1 << 20, 1.04),
        (4, Algorithm::Direct, 16 << 20, 1.04),
        (4, Algorithm::Direct, 1 << 20, 1.12),
        (4, Algorithm::Ring, 16 << 20, 1.1),
        (8, Algorithm::Ring, 16 << 20, 1.1),
    ] {
        let times = slowdown(nodes, algorithm, bytes, &plan, &[]);
        assert!(times < most, "{nodes} nodes, {algorithm}, {bytes} bytes: {times:.3} times the ideal");
    }
}

/// Frames that gather before they are looked at save most of the wakes of a large operation, and cost it next to nothing; others
/// know nothing of it.
#[test]
fn frames_gather_at_no_cost() {
    for (nodes, bytes, cost, wakes) in [
        (2, 32 << 20, 1.001, 0.45),
        (2, 16 << 20, 1.001, 0.6),
        (4, 32 << 20, 1.001, 0.35),
        (4, 16 << 20, 1.001, 0.5),
        (8, 16 << 20, 1.0, 1.0),
        (2, 1 << 20, 1.0, 1.0),
        (4, 1 << 20, 1.0, 1.0),
        (4, 64 << 10, 1.0, 1.0),
    ] {
        let run = |gathers| {
            let mut fabric = Fabric::new(nodes, 4, Tuning::default(), &Plan::default(), &[]);
            fabric.gathers = gathers;
            let took = fabric.all_reduce(bytes).as_secs_f64();
            (took, fabric.hosts.iter().map(|h| h.woken).sum::<usize>() as f64)
        };
        let (alone, gathered) = (run(false), run(true));
        let (took, woken) = (gathered.0 / alone.0, gathered.1 / alone.1);
        assert!(took <= cost, "{nodes} nodes, {bytes} bytes: {took:.4} times as long");
        assert!(woken <= wakes, "{nodes} nodes, {bytes} bytes: {woken:.3} times the wakes");
    }
}

/// Waiting asleep would take as long as a small operation does; for a large one, and for callers, nobody need stay awake.
#[test]
fn only_small_operations_are_brief() {
    for (bytes, small) in [(1 << 10, true), (16 << 20, false)] {
        let mut fabric = Fabric::new(4, 4, Tuning::default(), &Plan::default(), &[]);
        assert!(!fabric.hosts[0].machine.is_small(), "nothing is under way");
        let call = Call {
            operation: Operation::AllReduce,
            dtype: Dtype::F32,
            reduce: ReduceOp::Sum,
            count: bytes / 4,
        };
        let host = &mut fabric.hosts[0];
        let buffer = host.memory.insert(vec![0; bytes as usize]);
        host.machine.post(0, call, buffer, buffer, Time::ZERO).unwrap();
        assert_eq!(host.machine.is_small(), small, "{bytes} bytes");
    }
}

/// Equal rails carry equally much, whatever the algorithm.
#[test]
fn equal_rails_carry_the_same() {
    for rails in [2, 3, 4, 8] {
        for (nodes, algorithm) in [(2, Algorithm::Direct), (4, Algorithm::Direct), (4, Algorithm::Ring)] {
            let mut fabric = Fabric::new(nodes, rails, forced(algorithm), &Plan::default(), &[]);
            (fabric.gathers, fabric.unsent) = (false, 0.0);
            fabric.all_reduce(4 << 20);
            let (least, most) = (fabric.carried.iter().min().unwrap(), fabric.carried.iter().max().unwrap());
            assert!((most - least) * 20 < *most, "{rails} rails, {nodes} nodes: {:?}", fabric.carried);
        }
    }
}

/// One of four rails of one of four nodes is dead: 1.333 if it is to carry as much as before, 1.067 at best.
#[test]
fn shares_by_capacity_spare_the_weak_node() {
    let dead = [(1, 2)];
    let weak = Plan { capacity: vec![1024, 768], ..Plan::default() };
    // The first operation begins before anybody has said what it lacks.
    let first = Fabric::new(4, 4, forced(Algorithm::Direct), &Plan::default(), &dead).once(16 << 20);
    let even = first.as_secs_f64() / ideal(4, 4, 16 << 20);
    let fair = slowdown(4, Algorithm::Direct, 16 << 20, &weak, &dead);
    assert!((1.25..1.5).contains(&even), "even shares: {even:.3} times the ideal");
    assert!(fair < 1.1, "shares by capacity: {fair:.3} times the ideal");
}

/// One rail of node 1 falls to a tenth while a ring runs, in which each node sends to one peer only: the plan that comes of it
/// calls node 1 weak and nobody else, not even for a while.
#[test]
fn who_sends_to_a_slow_node_is_not_taken_for_it() {
    const BYTES: usize = 4 << 20;
    for rail in [0, 2] {
        let mut fabric = Fabric::new(4, 4, Tuning::default(), &Plan::default(), &[]);
        // A frame on the slow rail takes a fifth of such an operation: the plan is looked at, not how often links are given up.
        fabric.redials = false;
        for _ in 0..20 {
            fabric.once(BYTES);
        }
        assert!(fabric.hosts[0].machine.plan().capacity.is_empty());
        fabric.slow.insert((1, rail), RATE / 10.0);
        let mut weak_for = 0;
        while weak_for < 16 {
            let took = fabric.once(BYTES);
            assert!(fabric.now < Time::from_secs(20), "nobody was found weak");
            let capacity = fabric.hosts[0].machine.plan().capacity.clone();
            let weak: Vec<usize> = (0..capacity.len()).filter(|&n| capacity[n] < 1024).collect();
            assert!(weak.is_empty() || weak == [1], "rail {rail}: {capacity:?}");
            weak_for = if weak.is_empty() { 0 } else { weak_for + 1 };
            // With shares by capacity 1.066 of the healthy time; with even ones 1.29.
            let times = took.as_secs_f64() / ideal(4, 4, BYTES);
            assert!(weak_for < 12 || times < 1.25, "rail {rail}: {times:.3} times the ideal");
        }
    }
}

/// Operations of a quarter of a second are soon done by what the rails are now: one rail of one node falls to a tenth, and
/// rises again when the others have long taken over most of its share.
#[test]
fn long_operations_follow_a_change_at_once() {
    const BYTES: usize = 16 << 20;
    const SHARE: f64 = 0.92;
    let mut fabric = Fabric::with_frames(64 << 10, 4, 4, Tuning::default(), &Plan::default(), &[]);
    let mut until = |slow: bool, rails: f64, after: usize| {
        match slow {
            true => fabric.slow.insert((1, 2), RATE / 10.0),
            false => fabric.slow.remove(&(1, 2)),
        };
        let times: Vec<f64> =
            (0..after).map(|_| fabric.once(BYTES).as_secs_f64() / ideal(4, 4, BYTES)).collect();
        let fair = 4.0 / rails / SHARE;
        let settled = times.iter().position(|t| *t <= fair).unwrap_or(times.len());
        let losses: u64 = fabric.hosts.iter().map(|host| host.machine.stats().losses).sum();
        (settled, times, losses)
    };
    until(false, 4.0, 8);
    let (mut settled, mut losses) = (Vec::new(), 0);
    for _ in 0..6 {
        let (fell, slow, _) = until(true, 3.1, 15);
        let last = &slow[10..];
        assert!(last.iter().all(|t| *t < 1.2), "shares by capacity: {slow:.3?}");
        let (rose, fast, lost) = until(false, 4.0, 10);
        assert!(fast[3..].iter().all(|t| *t < 1.1), "{fast:.3?}");
        (settled, losses) = ([settled, vec![fell, rose]].concat(), lost);
    }
    assert!(settled.iter().all(|operations| *operations <= 3), "{settled:?}");
    assert!(losses <= 80, "given up {losses} times, at either end");
}

/// What the model says of these rails is what they take, for operations that are not so large that queues matter.
#[test]
fn the_model_predicts_the_fastest() {
    let plan = Plan {
        alpha_ns: 60_000,
        overhead_ns: 1000,
        beta_ps_per_byte: 40_000,
        gamma_ps_per_byte: 0,
        ..Plan::default()
    };
    for nodes in [2usize, 4, 8] {
        for bytes in [256, 1 << 10, 8 << 10, 64 << 10] {
            let choose = Tuning::default();
            let chosen = Fabric::new(nodes, 4, choose, &plan, &[]).all_reduce(bytes);
            for algorithm in [Algorithm::Direct, Algorithm::OneShot, Algorithm::Ring] {
                let other = Fabric::new(nodes, 4, forced(algorithm), &plan, &[]).all_reduce(bytes);
                let (chosen, other) = (chosen.as_secs_f64(), other.as_secs_f64());
                assert!(
                    chosen < 1.5 * other,
                    "{nodes} nodes, {bytes} bytes: chosen {:.0} us, {algorithm} {:.0} us",
                    chosen * 1e6,
                    other * 1e6
                );
            }
        }
    }
}
