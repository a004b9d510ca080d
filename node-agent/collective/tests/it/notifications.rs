//! Notifications among ranks, while rails die and come back: each arrives once, in order, and nothing waits for one.

use std::collections::BTreeMap;

use node_agent_collective::header::Kind;
use node_agent_collective::units::{MAX_NOTIFICATIONS, Rank, Time};
use node_agent_collective::{CallError, Notification};
use proptest::prelude::*;
use proto_random::Random;

use crate::failover::Storm;
use crate::properties::worlds;
use crate::sim::{Net, World};

/// What came, by (from, to), in the order in which it came.
type Taken = BTreeMap<(Rank, Rank), Vec<u64>>;

fn take(net: &mut Net, taken: &mut Taken) -> usize {
    let mut count = 0;
    for host in &mut net.hosts {
        while let Some(Notification { from, to, words }) = host.machine.poll_notification() {
            assert_eq!(host.machine.layout().node_of[to as usize], host.machine.config().node);
            assert_eq!((words[1], words[2]), (u64::from(from), u64::from(to)));
            taken.entry((from, to)).or_default().push(words[0]);
            count += 1;
        }
    }
    count
}

fn two(rails: usize) -> World {
    World {
        map: vec![0, 1],
        rails,
        chunk: 4096,
        tuning: Default::default(),
        timeout: Time::from_secs(60),
        checksum: false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn each_arrives_once_and_in_order(world in worlds(), count in 1usize..300, every in 2usize..100, dark: bool, seed: u64) {
        let ranks = world.map.len();
        prop_assume!(ranks > 1);
        let mut net = Net::new(&world, seed);
        let mut rng = Random::new(seed);
        let mut storm = Storm { rng: Random::new(seed ^ 1), every, dark, faults: 0 };
        let (mut made, mut taken) = (BTreeMap::<_, Vec<u64>>::new(), Taken::new());
        let (mut sent, mut came) = (0, 0);
        for _ in 0..2_000_000 {
            if came == count {
                break;
            }
            if sent < count && rng.index(3) == 0 {
                let from = rng.index(ranks);
                let to = (from + 1 + rng.index(ranks - 1)) % ranks;
                let (from, to) = (from as Rank, to as Rank);
                let node = world.map[from as usize];
                let words = [sent as u64, from.into(), to.into()];
                let machine = &mut net.hosts[usize::from(node)].machine;
                prop_assert_eq!(machine.notify(Notification { from, to, words }), Ok(()));
                made.entry((from, to)).or_default().push(sent as u64);
                sent += 1;
            }
            storm.blow(&mut net, &world);
            let stepped = net.step();
            let new = take(&mut net, &mut taken);
            came += new;
            if !stepped && new == 0 && sent == count && came < count {
                net.jump();
            }
        }
        prop_assert_eq!(taken, made);
        for host in &net.hosts {
            prop_assert!(host.machine.failure().is_none(), "{:?}", host.machine.failure());
        }
    }
}

#[test]
fn nobody_waits_for_one_and_their_number_is_bounded() {
    let mut net = Net::new(&two(2), 1);
    let one = Notification { from: 0, to: 1, words: [1, 2, 3] };
    for _ in 0..MAX_NOTIFICATIONS {
        net.hosts[0].machine.notify(one).unwrap();
    }
    let full = CallError::TooManyNotifications { rank: 1, max: MAX_NOTIFICATIONS };
    assert_eq!(net.hosts[0].machine.notify(one), Err(full));
    assert_eq!(net.hosts[0].machine.notify(Notification { from: 1, ..one }), Err(CallError::NotLocal(1)));
    assert_eq!(net.hosts[0].machine.notify(Notification { to: 0, ..one }), Err(CallError::ToItself(0)));
    let nobody = CallError::NobodyThere { rank: 7, world: 2 };
    assert_eq!(net.hosts[0].machine.notify(Notification { to: 7, ..one }), Err(nobody));
    let mut came = 0;
    while came < MAX_NOTIFICATIONS {
        if !net.step() {
            net.jump();
        }
        while let Some(found) = net.hosts[1].machine.poll_notification() {
            assert_eq!(found, one);
            came += 1;
        }
    }
    net.settle();
    // Nothing has waited: no operation was ever outstanding.
    net.now += Time::from_secs(3600);
    net.hosts[1].machine.tick(net.now);
    assert_eq!(net.hosts[1].machine.failure(), None);
}

/// Some notifications are on a rail that says nothing, and all others arrive over another one. The peer has room for what it holds meanwhile, the
/// maker can make no more than that, and all come in order when the rail is given up.
#[test]
fn what_a_silent_rail_holds_back_bounds_both_ends_alike() {
    let mut net = Net::new(&two(2), 1);
    net.darken_one(0, 1, 0);
    let one = |n: usize| Notification { from: 0, to: 1, words: [n as u64, 0, 1] };
    let (mut made, mut came, mut taken) = (0, 0, Taken::new());
    for _ in 0..40 {
        while net.hosts[0].machine.notify(one(made)) == Ok(()) {
            made += 1;
        }
        for _ in 0..500 {
            net.step();
        }
        came += take(&mut net, &mut taken);
    }
    let full = CallError::TooManyNotifications { rank: 1, max: MAX_NOTIFICATIONS };
    assert_eq!(net.hosts[0].machine.notify(one(made)), Err(full));
    assert!(
        made <= came + MAX_NOTIFICATIONS,
        "{made} made, {came} taken: the peer cannot hold what is further"
    );
    // Else this shows nothing: many have arrived that count for nothing while an earlier one is missing.
    assert!(net.carried[1] > 100 * (came as u64 + 1000), "{} bytes, {came} taken", net.carried[1]);
    while came < made {
        if !net.step() {
            net.jump();
        }
        came += take(&mut net, &mut taken);
    }
    assert_eq!(taken[&(0, 1)], (0..made as u64).collect::<Vec<_>>());
    assert_eq!(net.hosts[0].machine.notify(one(made)), Ok(()));
    for host in &net.hosts {
        assert!(host.machine.failure().is_none(), "{:?}", host.machine.failure());
    }
}

/// A peer cannot speak for ranks that are not its own, nor of ranks that are not here.
#[test]
fn a_peer_speaks_for_its_own_ranks_alone() {
    for (from, to) in [(0, 0), (1, 1), (9, 0)] {
        let mut net = Net::new(&two(1), 1);
        // A good one, with other ranks in it.
        let good = Notification { from: 1, to: 0, words: [0; 3] };
        let peer = &mut net.hosts[1];
        peer.machine.notify(good).unwrap();
        let frames = std::iter::from_fn(|| peer.machine.poll_transmit(&mut peer.memory, Time::ZERO));
        let mut headers = frames.map(|frame| frame.header);
        let mut header = headers.find(|header| matches!(header.kind, Kind::Notify { .. })).unwrap();
        header.kind = Kind::Notify { from, to, words: [0; 3] };
        let machine = &mut net.hosts[0].machine;
        machine.begin(0, 1, &header, Time::ZERO).unwrap();
        let host = &mut net.hosts[0];
        assert!(host.machine.received(0, 1, &mut host.memory, Time::ZERO).is_err(), "{from} {to}");
    }
}
