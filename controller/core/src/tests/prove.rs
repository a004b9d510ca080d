//! Rails that are out of use until a probe of theirs passes: who is told what, and what ends it.

use proto_model::{
    NicCondition, NicConditionCode, NicHealth, NicProbe, ProbeOutcome, RailProof, ReasonCode, Severity,
};

use super::{drains::fabric, *};

/// How one server's rail 1 is.
#[derive(Clone, Default)]
pub(super) struct Rail {
    sick: bool,
    wants: bool,
    probe: Option<NicProbe>,
}

pub(super) fn waits() -> Rail {
    Rail { sick: true, wants: true, probe: None }
}

fn reported_inventory(node: usize, rail: &Rail) -> Inventory {
    let mut all = inventory(4, 2);
    for (n, nic) in all.nics.iter_mut().enumerate() {
        nic.address = Some(IpAddr::from([10, n as u8, 0, node as u8 + 1]));
    }
    let condition = NicCondition {
        code: NicConditionCode::Lossy,
        severity: Severity::Drain,
        message: "timeout".into(),
        since: Timestamp(1),
        probe: rail.wants,
    };
    if rail.sick {
        let (device, conditions, probe) = ("rail1".into(), vec![condition], rail.probe.clone());
        all.health = vec![NicHealth { device, score: 0, conditions, probe }];
    }
    all
}

pub(super) fn reports(w: &mut World, n: usize, rail: &Rail) {
    let session = w.state.session(&name(n)).unwrap();
    let inventory = Arc::new(reported_inventory(n, rail));
    w.step(Event::AgentInventory { node: name(n), session, inventory });
}

/// All well, with addresses.
fn world() -> World {
    let mut w = World::new();
    (0..4).for_each(|n| reports(&mut w, n, &Rail::default()));
    w
}

pub(super) fn seconds(w: &mut World, seconds: u64) {
    for _ in 0..seconds {
        w.tick(Duration::from_secs(1));
    }
}

/// What a server was told last.
pub(super) fn proofs(w: &World, n: usize) -> &[RailProof] {
    w.proofs.get(&name(n)).map_or(&[], Vec::as_slice)
}

/// With whom a server's rail is being probed.
fn partner(w: &World, n: usize) -> Option<usize> {
    let first = proofs(w, n).iter().find(|proof| proof.first)?;
    Some(first.peer.as_str()[1..].parse().unwrap())
}

fn result(w: &World, n: usize, outcome: ProbeOutcome) -> NicProbe {
    let first = proofs(w, n).iter().find(|proof| proof.first).unwrap();
    let (id, peer, time) = (first.id, first.peer.clone(), w.now);
    NicProbe { id, peer, outcome, message: "3 of 1024 packets were lost".into(), time }
}

#[test]
fn both_ends_are_told_once_and_the_rail_takes_jobs_only_when_it_is_well() {
    let mut w = world();
    (1..4).for_each(|n| reports(&mut w, n, &Rail { sick: true, wants: false, probe: None }));
    reports(&mut w, 1, &Rail::default());
    reports(&mut w, 0, &waits());
    seconds(&mut w, 1);
    let [mine] = proofs(&w, 0) else { panic!("{:?}", proofs(&w, 0)) };
    let [theirs] = proofs(&w, 1) else { panic!("{:?}", proofs(&w, 1)) };
    assert_eq!((mine.first, mine.rail, mine.device.as_str(), mine.peer.as_str()), (true, 1, "rail1", "n1"));
    assert_eq!((theirs.first, theirs.peer.as_str()), (false, "n0"));
    assert_eq!(
        (mine.id, &mine.key, mine.own, mine.there),
        (theirs.id, &theirs.key, theirs.there, theirs.own)
    );
    assert_ne!(mine.own.port(), theirs.own.port(), "also where both ends have one address");
    assert!(proofs(&w, 2).is_empty() && proofs(&w, 3).is_empty());
    let reasons = w.state.proof_reasons(&name(0));
    assert!(reasons[0].message.ends_with("it is being probed with n1"), "{reasons:?}");
    assert_eq!(w.state.health().reasons[0].code, ReasonCode::RailsUnproved);
    // Rails are whole again one by one, and a job on both rails of two servers starts when the second is.
    w.submit("a", spec(2, 4));
    assert_eq!(w.phase("a"), Phase::Pending);
    let passed = result(&w, 0, ProbeOutcome::Passed);
    reports(&mut w, 0, &Rail { probe: Some(passed), wants: false, ..waits() });
    seconds(&mut w, 1);
    assert!(proofs(&w, 0).is_empty() && proofs(&w, 1).is_empty());
    assert_eq!(w.phase("a"), Phase::Pending, "its agent has the last word");
    reports(&mut w, 0, &Rail::default());
    seconds(&mut w, 1);
    assert_eq!((w.phase("a"), w.nodes("a")), (Phase::Reserved, vec![0, 1]));
    assert!(w.state.proof_reasons(&name(0)).is_empty());
}

#[test]
fn one_that_failed_is_tried_with_another_after_longer_and_longer() {
    let mut w = world();
    reports(&mut w, 2, &waits());
    let mut seen = Vec::new();
    let mut last = None;
    for second in 0..200 {
        seconds(&mut w, 1);
        let now = partner(&w, 2);
        if let (Some(partner), None) = (now, last) {
            seen.push((second, partner));
            let failed = result(&w, 2, ProbeOutcome::Failed);
            reports(&mut w, 2, &Rail { probe: Some(failed), ..waits() });
        }
        last = now;
    }
    let who: Vec<usize> = seen.iter().map(|(_, who)| *who).collect();
    assert_eq!(who, [0, 1, 3, 0, 1, 3], "{seen:?}");
    assert!(seen.windows(3).all(|three| three[2].0 - three[1].0 > three[1].0 - three[0].0), "{seen:?}");
    let reported = &w.state.proof_reasons(&name(2))[0].message;
    assert!(reported.contains("the last one, with n3, failed: 3 of 1024 packets"), "{reported}");
}

#[test]
fn servers_of_the_same_leaf_come_first_and_drained_or_sick_ones_never() {
    let mut w = world();
    w.ok(fabric());
    reports(&mut w, 3, &waits());
    seconds(&mut w, 1);
    assert_eq!(partner(&w, 3), Some(2));
    let mut w = world();
    let drain = |target: &str| Event::DrainRail {
        target: target.into(),
        reason: "x".into(),
        by: "root".into(),
        force: true,
    };
    w.ok(drain("n0:1"));
    reports(&mut w, 1, &Rail { sick: true, wants: false, probe: None });
    reports(&mut w, 3, &waits());
    seconds(&mut w, 1);
    assert_eq!(partner(&w, 3), Some(2));
    // What an administrator has drained is not probed either.
    let mut w = world();
    w.ok(drain("n3:1"));
    reports(&mut w, 3, &waits());
    seconds(&mut w, 30);
    assert_eq!(partner(&w, 3), None);
    w.ok(Event::UndrainRail { target: "n3:1".into() });
    seconds(&mut w, 1);
    assert!(partner(&w, 3).is_some());
    // One that was silent for a while, and has nothing new to tell.
    let mut w = world();
    reports(&mut w, 3, &Rail { wants: false, ..waits() });
    let session = w.state.session(&name(3)).unwrap();
    w.now = w.now.plus(Duration::from_secs(600));
    while w.state.next_tick().is_some_and(|tick| tick <= w.now) {
        w.step(Event::Tick);
    }
    reports(&mut w, 0, &Rail::default());
    assert_eq!(w.state.node(&name(3)).unwrap().health, proto_model::Health::NotReady);
    w.step(Event::AgentHeartbeat { node: name(3), session });
    seconds(&mut w, 1);
    assert!(w.state.health().reasons.iter().any(|reason| reason.code == ReasonCode::RailsUnproved));
}

#[test]
fn a_partner_or_a_server_that_vanishes_ends_nothing_for_good() {
    let mut w = world();
    reports(&mut w, 3, &waits());
    seconds(&mut w, 1);
    assert_eq!(partner(&w, 3), Some(0));
    w.disconnect(0);
    seconds(&mut w, 9);
    assert_eq!(partner(&w, 3), None, "it lasts no longer than it may");
    seconds(&mut w, 10);
    assert_eq!(partner(&w, 3), Some(2), "the second of those that are left");
    // The sick server itself: nothing goes on for it until it is back.
    w.disconnect(3);
    seconds(&mut w, 60);
    assert!(
        proofs(&w, 2).is_empty()
            && w.state.health().reasons.iter().all(|one| one.code != ReasonCode::RailsUnproved)
    );
    w.connect(3, Vec::new());
    assert!(proofs(&w, 3).is_empty());
    reports(&mut w, 3, &waits());
    seconds(&mut w, 1);
    assert!(partner(&w, 3).is_some());
}

#[test]
fn who_comes_back_is_told_again_and_a_new_controller_begins_anew() {
    let mut w = world();
    reports(&mut w, 3, &waits());
    seconds(&mut w, 1);
    let before = proofs(&w, 0).to_vec();
    w.disconnect(0);
    w.session += 1;
    let register = Register {
        node: name(0),
        session: w.session,
        agent_version: "1".into(),
        inventory: Arc::new(reported_inventory(0, &Rail::default())),
        observations: Vec::new(),
        epoch: 7,
    };
    w.ok(Event::AgentConnected(Box::new(register.clone())));
    assert_eq!((proofs(&w, 0), before.len()), (&before[..], 1), "the same one, by its id");
    // Nothing of it is stored.
    let mut state = w.reload(9);
    let mut random = 99;
    let sick =
        Register { node: name(3), inventory: Arc::new(reported_inventory(3, &waits())), ..register.clone() };
    let tick = || Event::Tick;
    let mut now = w.now;
    let mut reported = Vec::new();
    for event in [
        Event::AgentConnected(Box::new(Register { session: 1, epoch: 9, ..register })),
        Event::AgentConnected(Box::new(Register { session: 2, epoch: 9, ..sick })),
        tick(),
        tick(),
    ] {
        now = now.plus(Duration::from_secs(1));
        reported.extend(step(&mut state, event, now, &mut |buffer| fill(&mut random, buffer)).pushes);
    }
    let fresh = reported.iter().find_map(|push| match &push.message {
        ToNode::Drained { proofs, .. } if push.node == name(3) => proofs.first(),
        _ => None,
    });
    let fresh = fresh.unwrap();
    assert!(fresh.first && fresh.id != before[0].id && fresh.key != before[0].key);
    // What was not committed is undone, as everything else.
    let loaded = w.reload(9);
    state.rollback();
    assert!(state.same(&loaded));
}

#[test]
fn an_agent_that_asks_for_no_probe_is_told_of_none() {
    // One of an older release never does.
    let mut w = world();
    reports(&mut w, 3, &Rail { wants: false, ..waits() });
    seconds(&mut w, 600);
    assert!((0..4).all(|n| proofs(&w, n).is_empty()));
    let reported = &w.state.proof_reasons(&name(3))[0].message;
    assert!(reported.ends_with("its agent asks for a probe when it was quiet for long enough"), "{reported}");
    assert_eq!(w.state.next_tick().map(|tick| tick > w.now), Some(true));
}
