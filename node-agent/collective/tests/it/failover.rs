//! Rails die and come back, in any order, at any moment, with and without a word: no operation fails, no bit differs.

use node_agent_collective::header::Kind;
use node_agent_collective::plan::Plan;
use node_agent_collective::shape::Tuning;
use node_agent_collective::units::{Node, Time};
use node_agent_collective::{
    Algorithm, Arena, BufferId, Call, Command, Config, Dtype, Machine, Operation, RailCause, RailState,
    ReduceOp, Region,
};
use proptest::prelude::*;
use proto_random::Random;

use crate::properties::{Case, cases, run_in, tuning};
use crate::sim::{Net, World};

/// Faults of one storm: rails that flap faster than they can prove themselves let nothing pass.
const MOST_FAULTS: usize = 400;

/// Faults at random moments, about one in so many steps; one rail of each pair of nodes is always left alone.
pub struct Storm {
    pub rng: Random,
    pub every: usize,
    /// Whether rails may go dark without a word.
    pub dark: bool,
    /// How many faults there were.
    pub faults: usize,
}

impl Storm {
    pub fn blow(&mut self, net: &mut Net, world: &World) {
        let nodes = world.nodes();
        if nodes < 2 || self.faults > MOST_FAULTS || self.rng.index(self.every) > 0 {
            return;
        }
        let a = self.rng.index(nodes);
        let b = (a + 1 + self.rng.index(nodes - 1)) % nodes;
        let (a, b) = (a.min(b), a.max(b));
        let rail = self.rng.index(world.rails);
        let bad = |r: usize| net.broken.contains(&(a, b, r)) || net.dark.contains(&(a, b, r));
        let healthy = (0..world.rails).filter(|&r| r != rail && !bad(r)).count();
        match self.rng.index(if self.dark { 4 } else { 2 }) {
            0 if healthy > 0 => net.cut(a, b, rail),
            1 => net.remediate(a, b, rail),
            2 if healthy > 0 => net.darken(a, b, rail),
            3 => net.lighten(a, b, rail),
            _ => return,
        }
        self.faults += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Any operation, any world, any faults: the reference's bits on every rank.
    #[test]
    fn results_do_not_depend_on_faults(case in cases(), every in 2usize..200, dark: bool, seed: u64) {
        let mut storm = Storm { rng: Random::new(seed), every, dark, faults: 0 };
        let (net, _) = run_in(&case, &mut |net| storm.blow(net, &case.world));
        for host in &net.hosts {
            prop_assert!(host.machine.failure().is_none(), "{:?}", host.machine.failure());
        }
    }

    /// Payloads that were damaged on their way are sent again.
    #[test]
    fn damage_is_found_and_mended(case in cases(), every in 2usize..40, seed: u64) {
        let mut case = case.clone();
        case.world.checksum = true;
        let mut first = true;
        let mut rng = Random::new(seed);
        let (net, _) = run_in(&case, &mut |net| {
            if std::mem::take(&mut first) || rng.index(50) == 0 {
                net.damage = if rng.index(2) == 0 { every } else { 0 };
            }
        });
        for host in &net.hosts {
            prop_assert!(host.machine.failure().is_none(), "{:?}", host.machine.failure());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    /// Contributions that travel with those of others, through rails that come and go, with windows that hold little.
    #[test]
    fn doubling_does_not_depend_on_faults_either(
        power in 2u32..=3, extra in prop::collection::vec(any::<u16>(), 0..6), rails in 1usize..=4, tight: bool, in_place: bool,
        counts in prop::collection::vec(1u64..24, 1..6), dtype in 0usize..6, reduce in 0usize..4, every in 2usize..300, seed: u64,
    ) {
        let nodes = 1u16 << power;
        let map = (0..nodes).chain(extra.iter().map(|e| e % nodes)).collect();
        let tuning = Tuning { algorithm: Some(Algorithm::Doubling), ..tuning(tight) };
        let world = World { map, rails, chunk: 4096, tuning, timeout: Time::from_secs(3600), checksum: false };
        let call = |&count: &u64| Call {
            operation: Operation::AllReduce,
            dtype: Dtype::ALL[dtype],
            reduce: ReduceOp::ALL[reduce],
            count: (count * 64 / u64::from(nodes)).max(1),
        };
        let calls = counts.iter().map(call).collect();
        let case = Case { world, plan: Plan::default(), calls, in_place, seed };
        let mut storm = Storm { rng: Random::new(seed), every, dark: seed % 2 == 0, faults: 0 };
        let (net, _) = run_in(&case, &mut |net| storm.blow(net, &case.world));
        for host in &net.hosts {
            prop_assert!(host.machine.failure().is_none(), "{:?}", host.machine.failure());
            let choice = host.machine.choices().next().map(|(_, _, choice)| choice.algorithm);
            prop_assert!(choice == Some(Algorithm::Doubling) || counts.iter().any(|&c| c > 16));
        }
    }
}

fn sum(count: u64) -> Call {
    Call { operation: Operation::AllReduce, dtype: Dtype::F32, reduce: ReduceOp::Sum, count }
}

fn case(rails: usize, calls: usize) -> Case {
    let world = World {
        map: vec![0, 1, 2],
        rails,
        chunk: 1024,
        tuning: Tuning::default(),
        timeout: Time::from_secs(30),
        checksum: false,
    };
    Case { world, plan: Plan::default(), calls: vec![sum(20_000); calls], in_place: true, seed: 11 }
}

/// A rail that says nothing more is given up within its patience and a little, and only what it had not carried goes again.
#[test]
fn a_dark_rail_costs_its_patience_and_no_more() {
    let case = case(3, 1);
    let (mut steps, mut began) = (0, Time::ZERO);
    let (net, _) = run_in(&case, &mut |net| {
        steps += 1;
        if steps == 900 {
            net.darken(0, 1, 2);
            began = net.now;
        }
    });
    let took = net.now - began;
    assert!(took > Time::from_millis(50) && took < Time::from_millis(100), "{took:?}");
    let stats: Vec<_> = net.hosts.iter().map(|h| h.machine.stats()).collect();
    assert_eq!(stats.iter().map(|s| s.losses).collect::<Vec<_>>(), [1, 1, 0]);
    let resent: u64 = stats.iter().map(|s| s.resent).sum();
    assert!((1..60).contains(&resent), "{stats:?}");
}

/// A rail that was cut is proved and used again, as often as it comes back.
#[test]
fn a_rail_returns_for_ever() {
    let case = case(2, 60);
    let mut rng = Random::new(5);
    let mut flaps = 0;
    let (net, _) = run_in(&case, &mut |net| {
        let rail = rng.index(2);
        match rng.index(60) {
            0 if !net.broken.contains(&(0, 1, 1 - rail)) => {
                flaps += usize::from(!net.broken.contains(&(0, 1, rail)));
                net.cut(0, 1, rail);
            }
            1..5 => net.remediate(0, 1, rail),
            _ => {}
        }
    });
    assert!(flaps > 300, "{flaps}");
    let link = net.hosts[0].machine.link(0, 1).unwrap();
    assert!(link.flaps > 50);
}

/// A drained rail is left without a loss, from both ends, and used again afterwards; the last rail goes on.
#[test]
fn a_drained_rail_is_left_and_used_again() {
    let case = case(3, 40);
    let (mut steps, mut left, mut seen) = (0, Vec::new(), Vec::new());
    let (net, _) = run_in(&case, &mut |net| {
        steps += 1;
        let state = |net: &Net| net.hosts[1].machine.rails(net.now)[2].state;
        // Nodes 0 and 2 go on to use the rail among themselves.
        let handed = |net: &Net, rail| net.handed.get(&(1, 0, rail)).copied().unwrap_or(0);
        match steps {
            1000 => {
                net.hosts[1].machine.drain(2, true);
                left.extend([handed(net, 2), handed(net, 0)]);
            }
            9000 => {
                seen.push(state(net));
                left.extend([handed(net, 2), handed(net, 0)]);
            }
            9500 => {
                net.hosts[1].machine.drain(0, true);
                net.hosts[1].machine.drain(1, true);
            }
            20_000 => {
                seen.push(state(net));
                (0..3).for_each(|rail| net.hosts[1].machine.drain(rail, false));
            }
            30_000 => seen.push(state(net)),
            _ => {}
        }
    });
    assert!(left[0] > 0 && left[2] == left[0], "nothing is handed to a drained rail: {left:?}");
    assert!(left[3] > left[1], "the others carry on: {left:?}");
    assert_eq!(seen, [RailState::Draining, RailState::Draining, RailState::Up]);
    assert!(net.hosts.iter().all(|h| h.machine.stats().losses == 0));
    let mut machine = net.hosts.into_iter().nth(1).unwrap().machine;
    machine.drain(2, true);
    let later = net.now + Time::from_secs(1);
    // Not told yet.
    assert_eq!(machine.rails(later)[2].state, RailState::Draining);
}

/// A node that has lost a rail ships less: all agree on that while operations run, and on the contrary when it is back.
#[test]
fn the_nodes_agree_on_who_is_weak() {
    let mut case = case(4, 120);
    case.world.map = vec![0, 1, 2, 3];
    case.calls.fill(sum(3000));
    let (mut steps, mut weak, mut names) = (0, Vec::new(), Vec::new());
    let (net, _) = run_in(&case, &mut |net| {
        steps += 1;
        match steps {
            2000 => (0..3).for_each(|peer| net.cut(peer, 3, 1)),
            50_000 => {
                weak = net.hosts.iter().map(|h| h.machine.plan().capacities(4)).collect();
                let chosen = net.hosts[0].machine.choices().map(|(_, _, choice)| choice.plan);
                names = chosen.collect();
                (0..3).for_each(|peer| net.remediate(peer, 3, 1));
            }
            _ => {}
        }
    });
    assert_eq!(weak, vec![vec![1024, 1024, 1024, 768]; 4], "{steps}");
    assert!(names.iter().any(|&version| version > 0), "{names:?}");
    let healed: Vec<_> = net.hosts.iter().map(|h| h.machine.plan().capacities(4)).collect();
    assert_eq!(healed, vec![vec![1024; 4]; 4]);
}

/// Links come up one after the other when a job is wired up: no node is weak because some of its rails are still to come.
#[test]
fn a_rail_that_is_still_to_come_is_not_lost() {
    let mut memory = Arena::new();
    let config = |scratch| Config {
        node: 1,
        nodes: 3,
        ranks: vec![0, 1, 2],
        rails: 4,
        chunk_bytes: 32 << 10,
        op_timeout: Time::from_secs(60),
        epoch: 1,
        scratch,
        checksum: false,
        tuning: Tuning::default(),
    };
    let sketch = config(Region::new(BufferId(0), 0, usize::MAX / 4));
    let scratch = memory.insert(vec![0; sketch.scratch_bytes()]);
    let mut machine = Machine::new(config(scratch)).unwrap();
    let mut reports = Vec::new();
    let mut now = Time::ZERO;
    let mut turn = |machine: &mut Machine, now: Time| {
        machine.tick(now);
        while let Some(frame) = machine.poll_transmit(&mut memory, now) {
            if let Kind::Report { capacity, .. } = frame.header.kind {
                reports.push(capacity);
            }
        }
    };
    for rail in 0..4 {
        for peer in [2, 0] {
            now += Time::from_millis(30);
            machine.rail_up(rail, peer, 1, now);
            turn(&mut machine, now);
        }
    }
    machine.rail_down(3, 0, 1, RailCause::NoCarrier, now);
    machine.rail_down(3, 2, 1, RailCause::NoCarrier, now);
    turn(&mut machine, now);
    assert_eq!(reports.first(), Some(&1024), "{reports:?}");
    assert_eq!(
        reports.iter().find(|&&c| c < 1024),
        Some(&768),
        "one that was up and is lost counts: {reports:?}"
    );
}

/// A link that came back and was proved waits for the peer's word of the life before. If it dies meanwhile without a word,
/// while every other rail is gone too, only its own probes can tell; else it would never be dialed again.
#[test]
fn a_proved_link_that_waits_is_asked_on() {
    let config = |node, scratch| Config {
        node,
        nodes: 2,
        ranks: vec![0, 1],
        rails: 2,
        chunk_bytes: 4096,
        op_timeout: Time::from_secs(60),
        epoch: 1,
        scratch,
        checksum: false,
        tuning: Tuning::default(),
    };
    let sketch = config(0, Region::new(BufferId(0), 0, usize::MAX / 4));
    let mut ends: Vec<(Machine, Arena)> = (0..2)
        .map(|node| {
            let mut memory = Arena::new();
            let scratch = memory.insert(vec![0; sketch.scratch_bytes()]);
            (Machine::new(config(node, scratch)).unwrap(), memory)
        })
        .collect();
    let mut now = Time::ZERO;
    for (peer, (machine, _)) in [1, 0].into_iter().zip(&mut ends) {
        (0..2).for_each(|rail| machine.rail_up(rail, peer, 1, now));
        machine.rail_down(1, peer, 1, RailCause::Closed, now);
        machine.rail_up(1, peer, 2, now);
    }
    // Rail 0 hears nothing of what is said, and rail 1 passes everything on but words of the dead life; after a second it is
    // dark too.
    let (mut closed, mut probes) = (None, 0);
    while now < Time::from_secs(10) && closed.is_none() {
        now += Time::from_millis(5);
        for from in 0..2usize {
            let (machine, memory) = &mut ends[from];
            machine.tick(now);
            let mut said = Vec::new();
            while let Some(frame) = machine.poll_transmit(memory, now) {
                let passes = frame.rail == 1 && now < Time::from_secs(1);
                probes += usize::from(passes && matches!(frame.header.kind, Kind::Probe { .. }));
                if passes && !matches!(frame.header.kind, Kind::Fence { .. }) {
                    said.push(frame.header);
                }
            }
            while let Some(command) = machine.poll_command() {
                if let Command::Close { rail: 1, generation: 2, .. } = command {
                    closed = Some(now);
                }
            }
            let (machine, memory) = &mut ends[1 - from];
            for header in said {
                machine.begin(1, from as Node, &header, now).unwrap();
                machine.received(1, from as Node, memory, now).unwrap();
            }
        }
    }
    assert!(probes > 6, "it was proved: {probes} probes");
    let closed = closed.expect("a dead link is given up");
    assert!(closed < Time::from_millis(2500) && closed > Time::from_millis(1500), "{closed:?}");
}
