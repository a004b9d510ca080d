//! Faults of every kind in gangs of every size: found and named; and nothing where there is nothing.

use std::time::Duration;

use proptest::prelude::*;
use proto_model::ReasonCode;
use proto_random::Random;

use crate::{
    Budget, Certificate, Kind, Limits, NodeReport, PairReport, PathMeasurement, PortReport, PriorityBytes,
    Remap, Subject, Verdict, judge, judge_again,
    model::{Fault, World},
    plan,
};

const RAILS: u32 = 4;

fn certify(world: &World, seed: u64) -> Certificate {
    let rounds = plan(&world.gang, seed, Budget::default());
    let outcome = world.measure(&rounds, seed ^ 0x5eed);
    judge(&world.gang, &rounds, &outcome.reports, &Limits::default())
}

/// What two series come to, of which the second has other faults. `lost`: what of the second one nobody could see.
fn certify_again(world: [&World; 2], seed: u64, lost: &dyn Fn(u32) -> bool) -> (Certificate, Certificate) {
    let gang = &world[0].gang;
    let rounds = plan(gang, seed, Budget::default());
    let mut reports = world[0].measure(&rounds, seed ^ 0x5eed).reports;
    let first = judge(gang, &rounds, &reports, &Limits::default());
    let second = world[1].measure(&rounds.clone().series(1), seed ^ 0xface).reports;
    for (all, second) in reports.iter_mut().zip(second) {
        let node = second.node;
        all.pairs.extend(second.pairs.into_iter().filter(|pair| !lost(node) && !lost(pair.peer)));
    }
    let both = judge_again(gang, &rounds, &reports, &Limits::default(), &first);
    (first, both)
}

fn with(nodes: u32, faults: Vec<Fault>) -> World {
    World { faults, ..World::new(nodes, RAILS, 16) }
}

/// Small gangs are where it is hard; a few are large.
fn sizes(least: u32) -> impl Strategy<Value = u32> {
    prop_oneof![6 => least..least + 8, 3 => least..=64, 1 => least..=512]
}

/// Of the 768 packets of a pair 31 are lost: that chance leaves 3 or fewer, which are below the limit, happens once in 5 billion pairs.
/// Of 20 per mille it would be once in 7,000.
const LOSSY: u32 = 40;

/// A fault of one rail of a node, and as what it is to be found. Sent with the DSCP as 26 and an MTU of 9,000.
fn of_a_rail(which: u8, node: u32, rail: u32) -> (Fault, Kind) {
    match which {
        0 => (Fault::SlowRail { node, rail, share: 0.8 }, Kind::Slow),
        1 => (Fault::SlowRail { node, rail, share: 0.1 }, Kind::Slow),
        2 => (Fault::SmallMtu { node, rail, mtu: 1500 }, Kind::Mtu),
        3 => (Fault::SmallPort { node, rail, mtu: 1500 }, Kind::Mtu),
        4 => (Fault::DeadRail { node, rail }, Kind::Dead),
        5 => (Fault::Lossy { node, rail, per_mille: LOSSY }, Kind::Lossy),
        6 => (Fault::DscpPort { node, rail, dscp: 0 }, Kind::Dscp),
        7 => (Fault::NoGid { node, rail }, Kind::Gid),
        8 => (Fault::OtherGid { node, rail }, Kind::OtherGid),
        _ => (Fault::WrongPriority { node, rail }, Kind::WrongPriority),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn noise_is_no_fault(nodes in sizes(2), rails in 1_u32..=8, seed: u64, noise in 0.0_f64..0.035) {
        let world = World { noise, ..World::new(nodes, rails, 16) };
        let certificate = certify(&world, seed);
        prop_assert_eq!(certificate.verdict, Verdict::Certified, "{:?}", certificate.findings);
        prop_assert_eq!(certificate.measured, certificate.planned);
        let compared = (nodes, rails) != (2, 1);
        prop_assert_eq!(certificate.unobserved.is_empty(), compared, "{:?}", certificate.unobserved);
    }

    #[test]
    fn a_rail_of_a_node_is_named(nodes in sizes(3), seed: u64, which in 0_u8..10, at: u32, rail in 0..RAILS) {
        let node = at % nodes;
        let (fault, kind) = of_a_rail(which, node, rail);
        let certificate = certify(&with(nodes, vec![fault.clone()]), seed);
        prop_assert_eq!(&certificate.verdict, &Verdict::Replace(vec![node]), "{:?}: {:?}", fault, certificate.findings);
        prop_assert_eq!(certificate.findings.len(), 1, "{:?}", certificate.findings);
        let finding = &certificate.findings[0];
        prop_assert_eq!((finding.kind, &finding.place, &finding.rails), (kind, &Subject::Node(node), &vec![rail]));
    }

    #[test]
    fn what_lasts_is_named_again_and_what_passes_is_not(
        nodes in sizes(3), seed: u64, lossy: bool, at: u32, rail in 0..RAILS, passes: bool, moves: bool,
    ) {
        let node = at % nodes;
        let fault = |node| match lossy {
            true => Fault::Lossy { node, rail, per_mille: LOSSY },
            false => Fault::SlowRail { node, rail, share: 0.5 },
        };
        let later = match (passes, moves) {
            (false, _) => vec![fault(node)],
            (true, true) => vec![fault((node + 1) % nodes)],
            (true, false) => Vec::new(),
        };
        let world = [&with(nodes, vec![fault(node)]), &with(nodes, later)];
        let (first, second) = certify_again(world, seed, &|_| false);
        prop_assert!(first.is_doubtful(), "{:?}", first.findings);
        let wanted = if passes { Verdict::Certified } else { Verdict::Replace(vec![node]) };
        prop_assert_eq!(&second.verdict, &wanted, "{:?}", second.findings);
        prop_assert_eq!(second.unconfirmed.len(), usize::from(passes), "{:?}", second.unconfirmed);
        prop_assert_eq!(second.measured, second.planned);
    }

    #[test]
    fn what_does_not_pass_is_not_doubted(nodes in sizes(4), seed: u64, which in 2_u8..10, at: u32, rail in 0..RAILS) {
        let (node, slow) = (at % nodes, Fault::SlowRail { node: (at % nodes + 1) % nodes, rail, share: 0.5 });
        let (fault, kind) = of_a_rail(which, node, rail);
        let certificate = certify(&with(nodes, vec![fault, slow.clone()]), seed);
        prop_assert_eq!(certificate.is_doubtful(), kind == Kind::Lossy, "{:?}", certificate.findings);
        // Whatever came up in between counts although the first series did not show it.
        let dead = with(nodes, vec![Fault::DeadRail { node, rail }]);
        let (_, both) = certify_again([&with(nodes, vec![slow]), &dead], seed, &|_| false);
        prop_assert_eq!(&both.verdict, &Verdict::Replace(vec![node]), "{:?}", both.findings);
    }

    /// What nobody could see the second time is no reason to forget what was seen the first time.
    #[test]
    fn what_was_seen_once_counts_as_it_is(nodes in sizes(3), seed: u64, at: u32, blind: u32, rail in 0..RAILS) {
        let node = at % nodes;
        let world = with(nodes, vec![Fault::SlowRail { node, rail, share: 0.5 }]);
        let (_, both) = certify_again([&world, &world], seed, &|other| other == blind % nodes);
        prop_assert_eq!(&both.verdict, &Verdict::Replace(vec![node]), "{:?}", both.findings);
        prop_assert!(both.unconfirmed.is_empty(), "{:?}", both.unconfirmed);
        let (_, both) = certify_again([&world, &with(nodes, Vec::new())], seed, &|_| true);
        prop_assert_eq!(&both.verdict, &Verdict::Replace(vec![node]), "{:?}", both.findings);
    }

    #[test]
    fn of_two_it_is_said_that_either_may_be_it(seed: u64, which in 0_u8..7, node in 0_u32..2, rail in 0..RAILS) {
        let (fault, kind) = of_a_rail(which, node, rail);
        let certificate = certify(&with(2, vec![fault.clone()]), seed);
        let finding = &certificate.findings[0];
        // A port that says of itself what is wrong is known even so.
        let reported = matches!(fault, Fault::SmallPort { .. });
        let place = if reported { Subject::Node(node) } else { Subject::Either(0, 1) };
        prop_assert_eq!((finding.kind, &finding.place, &finding.rails), (kind, &place, &vec![rail]));
        let verdict = if reported { Verdict::Replace(vec![node]) } else { Verdict::Warn };
        prop_assert_eq!(certificate.verdict, verdict);
    }

    #[test]
    fn slow_and_silent_nodes_are_named(nodes in sizes(4), seed: u64, slow: u32, apart in 1_u32..3) {
        let slow = slow % nodes;
        let silent = (slow + apart) % nodes;
        let share = 0.5;
        // In a small gang the one that is slow meets too few others beside the silent one.
        let faults = match nodes {
            ..8 => vec![Fault::SlowNode { node: slow, share }],
            _ => vec![Fault::SlowNode { node: slow, share }, Fault::Silent { node: silent }],
        };
        let certificate = certify(&with(nodes, faults), seed);
        let mut named = if nodes < 8 { vec![slow] } else { vec![slow, silent] };
        named.sort_unstable();
        prop_assert_eq!(certificate.verdict, Verdict::Replace(named), "{:?}", certificate.findings);
        let of = certificate.findings.iter().find(|finding| finding.kind == Kind::Slow).unwrap();
        prop_assert_eq!(&of.rails, &vec![0, 1, 2, 3]);
    }

    #[test]
    fn permutations_are_remapped(nodes in sizes(3), seed: u64, first: u32, two: bool, shuffle in 0_usize..3) {
        let first = first % nodes;
        let planes = [vec![1, 0, 2, 3], vec![3, 2, 1, 0], vec![1, 2, 3, 0]][shuffle].clone();
        let mut swapped = vec![first];
        if two && nodes > 4 {
            swapped.push((first + 1) % nodes);
        }
        swapped.sort_unstable();
        let faults = swapped.iter().map(|node| Fault::Cabled { node: *node, planes: planes.clone() });
        let certificate = certify(&with(nodes, faults.collect()), seed);
        let rails: Vec<(u32, u32)> =
            (0..).zip(&planes).map(|(own, on)| (own, *on as u32)).filter(|(own, on)| own != on).collect();
        let wanted = swapped.iter().map(|node| Remap { node: *node, rails: rails.clone() }).collect();
        prop_assert_eq!(certificate.verdict, Verdict::Remap(wanted), "{:?}", certificate.findings);
    }

    #[test]
    fn what_is_no_permutation_is_replaced(nodes in sizes(4), seed: u64, at: u32) {
        let node = at % nodes;
        let fault = Fault::Cabled { node, planes: vec![1, 1, 2, 3] };
        let certificate = certify(&with(nodes, vec![fault]), seed);
        prop_assert_eq!(certificate.verdict, Verdict::Replace(vec![node]), "{:?}", certificate.findings);
    }

    #[test]
    fn a_leaf_is_named_and_no_node(leaves in 3_u32..=16, seed: u64, at: u32, rail in 0..RAILS) {
        let leaf = rail * 10_000 + at % leaves;
        let certificate = certify(&with(leaves * 16, vec![Fault::DscpLeaf { rail, leaf, dscp: 0 }]), seed);
        prop_assert_eq!(&certificate.verdict, &Verdict::Warn);
        let places: Vec<(Kind, Subject)> =
            certificate.findings.into_iter().map(|finding| (finding.kind, finding.place)).collect();
        prop_assert_eq!(places, vec![(Kind::Dscp, Subject::Leaf(leaf))]);
    }

    #[test]
    fn a_slow_rail_is_no_nodes_fault(nodes in sizes(2), seed: u64, rail in 0..RAILS) {
        let certificate = certify(&with(nodes, vec![Fault::SlowPlane { rail, share: 0.7 }]), seed);
        prop_assert_eq!(&certificate.verdict, &Verdict::Warn);
        let place = if nodes == 2 { Subject::Either(0, 1) } else { Subject::Rail };
        prop_assert_eq!(&certificate.findings[0].place, &place);
        prop_assert_eq!(&certificate.findings[0].rails, &vec![rail]);
    }

    #[test]
    fn several_at_once_are_all_named(nodes in sizes(24), seed: u64) {
        let mut random = Random::new(seed);
        let faulty = 3;
        let start = random.below(u64::from(nodes)) as u32;
        let mut faults = Vec::new();
        let mut named: Vec<u32> = Vec::new();
        for step in 0..faulty {
            let node = (start + step * 7) % nodes;
            faults.push(of_a_rail(random.below(9) as u8, node, random.below(u64::from(RAILS)) as u32).0);
            named.push(node);
        }
        named.sort_unstable();
        let certificate = certify(&with(nodes, faults.clone()), seed);
        prop_assert_eq!(certificate.verdict, Verdict::Replace(named), "{:?}: {:?}", faults, certificate.findings);
    }

    /// What else a NIC carries is nobody's fault, and hides nothing.
    #[test]
    fn storage_beside_the_probes_is_no_fault(nodes in sizes(2), rail in 0..RAILS, seed: u64) {
        let storage: Vec<Fault> = (0..nodes).map(|node| Fault::Storage { node, rail }).collect();
        let certificate = certify(&with(nodes, storage.clone()), seed);
        prop_assert_eq!(certificate.verdict, Verdict::Certified, "{:?}", certificate.findings);
        let node = u32::try_from(seed % u64::from(nodes)).unwrap();
        let wrong = Fault::WrongPriority { node, rail };
        let certificate = certify(&with(nodes, storage.into_iter().chain([wrong]).collect()), seed);
        prop_assert_eq!(certificate.verdict, Verdict::Replace(vec![node]), "{:?}", certificate.findings);
        prop_assert_eq!(certificate.findings[0].kind, Kind::WrongPriority);
    }

    #[test]
    fn any_words_are_judged(reports in prop::collection::vec(any_report(), 0..12), nodes in 0_u32..6, seed: u64) {
        let world = World::new(nodes, RAILS, 2);
        let rounds = plan(&world.gang, seed, Budget::default());
        let certificate = judge(&world.gang, &rounds, &reports, &Limits::default());
        prop_assert!(certificate.measured <= certificate.planned);
    }
}

/// A DSCP is wrong if it is not the one that was sent: each node sends as its own class of service has it.
#[test]
fn the_dscp_that_was_sent_is_to_arrive() {
    let world = World { dscp: 24, ..World::new(4, 2, 0) };
    let certificate = certify(&world, 3);
    assert_eq!(certificate.verdict, Verdict::Certified, "{:?}", certificate.findings);
    let faults = vec![Fault::DscpPort { node: 1, rail: 0, dscp: 26 }];
    let certificate = certify(&World { faults, ..world.clone() }, 3);
    assert_eq!(certificate.verdict, Verdict::Replace(vec![1]), "{:?}", certificate.findings);
    assert_eq!(certificate.findings[0].kind, Kind::Dscp);
    // A rollout of another profile has come to half of the nodes, of which one does not say so.
    let rounds = plan(&world.gang, 3, Budget::default());
    let judged = |silent: u32| {
        let mut reports = world.measure(&rounds, 3).reports;
        let sent = |node: u32| if node < 2 { 24 } else { 26 };
        for report in &mut reports {
            let says = (report.node != silent).then_some(sent(report.node));
            report.ports.iter_mut().for_each(|port| port.dscp = says);
            for pair in &mut report.pairs {
                (pair.there.dscp, pair.back.dscp) = (Some(sent(report.node)), Some(sent(pair.peer)));
            }
        }
        judge(&world.gang, &rounds, &reports, &Limits::default()).verdict
    };
    assert_eq!(judged(9), Verdict::Certified);
    assert_eq!(judged(3), Verdict::Certified, "an agent that does not say sends 26");
    assert_eq!(judged(0), Verdict::Replace(vec![0]));
}

prop_compose! {
    fn any_report()(node in 0_u32..8, rows in prop::collection::vec(any_row(), 0..20)) -> NodeReport {
        let priority_bytes = Some(PriorityBytes { right: u64::MAX, wrong: u64::MAX });
        let port = |rail| PortReport { rail, mtu: Some(rail), dscp: None, gid: None, priority_bytes };
        NodeReport { node, pairs: rows, ports: (0..node).map(port).collect(), unable: node == 7 }
    }
}

prop_compose! {
    fn any_row()(round in 0_u32..5, peer in 0_u32..8, rail in 0_u32..6, crossed in prop::option::of(0_u32..9),
        sent in prop::sample::select(vec![0, 1, u32::MAX]), lost in prop::sample::select(vec![0, 1, u32::MAX]),
        mbps in prop::option::of(prop::sample::select(vec![0, 1000, u32::MAX]))) -> PairReport {
        let way = PathMeasurement { sent, lost, mtu: mbps, dscp: Some(26), mbps, at_least: sent == 1 };
        PairReport { round, peer, rail, there: way, back: way, rtt_us: mbps, crossed }
    }
}

#[test]
fn of_two_swapped_ones_either_is_remapped() {
    for node in 0..2 {
        let certificate = certify(&with(2, vec![Fault::Cabled { node, planes: vec![1, 0, 2, 3] }]), 5);
        let Verdict::Remap(remaps) = &certificate.verdict else { panic!("{certificate:?}") };
        assert_eq!(remaps, &[Remap { node: 1, rails: vec![(0, 1), (1, 0)] }]);
        assert_eq!(certificate.findings[0].place, Subject::Either(0, 1));
        assert!(certificate.findings[0].reason.message.contains("nothing shows which"));
    }
}

#[test]
fn who_could_measure_nothing_is_named() {
    let world = World::new(4, 2, 0);
    let rounds = plan(&world.gang, 1, Budget::default());
    let mut reports = world.measure(&rounds, 2).reports;
    let idle = rounds.rounds[0][0].first;
    reports[idle as usize].pairs.clear();
    let certificate = judge(&world.gang, &rounds, &reports, &Limits::default());
    assert_eq!(certificate.verdict, Verdict::Certified, "its partners have measured it: it was busy");
    assert!(certificate.unobserved.iter().any(|reason| reason.code == ReasonCode::NotMeasured));
    reports[idle as usize].unable = true;
    let certificate = judge(&world.gang, &rounds, &reports, &Limits::default());
    assert_eq!(certificate.verdict, Verdict::Replace(vec![idle]));
    assert!(certificate.findings[0].reason.message.contains("measured nothing"));
    assert!(certificate.unobserved.iter().any(|reason| reason.code == ReasonCode::NotMeasured));
}

/// What a node's rails showed while the node itself was too slow is no evidence of them; what they showed else is.
#[test]
fn a_busy_node_is_not_slow_and_a_slow_rail_is_beside_it() {
    let busy = |reports: &mut [NodeReport], rail: Option<u32>| {
        let rows = reports.iter_mut().flat_map(|report| {
            let node = report.node;
            report.pairs.iter_mut().filter(move |pair| node == 0 || pair.peer == 0)
        });
        for pair in rows.filter(|pair| Some(pair.rail) != rail) {
            for way in [&mut pair.there, &mut pair.back] {
                (way.mbps, way.at_least) = (way.mbps.map(|mbps| mbps / 3), true);
            }
        }
    };
    for nodes in [3, 4, 9] {
        let world = with(nodes, vec![Fault::SlowRail { node: 0, rail: 2, share: 0.5 }]);
        let rounds = plan(&world.gang, 7, Budget::default());
        let sound = with(nodes, Vec::new()).measure(&rounds, 3).reports;
        let slow = world.measure(&rounds, 3).reports;
        for (mut reports, rail, verdict) in [
            (sound.clone(), None, Verdict::Certified),
            (slow.clone(), None, Verdict::Certified),
            (slow, Some(2), Verdict::Replace(vec![0])),
        ] {
            busy(&mut reports, rail);
            let certificate = judge(&world.gang, &rounds, &reports, &Limits::default());
            assert_eq!(certificate.verdict, verdict, "{nodes} nodes: {:?}", certificate.findings);
            assert!(certificate.unobserved.iter().any(|reason| reason.code == ReasonCode::BandwidthHeldUp));
        }
    }
}

#[test]
fn what_nobody_saw_is_said() {
    let world = World { rdma: false, ..World::new(4, 2, 0) };
    let certificate = certify(&world, 1);
    assert_eq!(certificate.verdict, Verdict::Certified);
    let codes: Vec<&str> = certificate.unobserved.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(codes, ["GidNotObserved", "PriorityNotObserved"]);
    let alone = certify(&World::new(1, 2, 0), 1);
    assert_eq!(alone.verdict, Verdict::Certified);
    assert_eq!(alone.unobserved[0].code, ReasonCode::NothingToMeasure);
}

/// 512 nodes with 8 rails: healthy, and with the faults that cost the most time, which are those that do not answer.
#[test]
fn five_hundred_and_twelve_nodes_take_less_than_thirty_seconds() {
    let dead = (0..64).map(|step| Fault::DeadRail { node: step * 8, rail: 3 });
    let silent = (0..32).map(|step| Fault::Silent { node: step * 16 + 5 });
    // Those are measured a second time.
    let slow = |step: u32| Fault::SlowRail { node: step * 8 + 2, rail: 3, share: 0.1 };
    let swapped = |step: u32| Fault::Cabled { node: step * 8 + 1, planes: vec![1, 0, 3, 2, 5, 4, 7, 6] };
    for (what, faults) in [
        ("healthy", Vec::new()),
        ("one of eight without rail 3", dead.collect()),
        ("one of sixteen silent", silent.collect::<Vec<_>>()),
        ("all cables of one of eight swapped", (0..64).map(swapped).collect()),
        ("one of eight slow on rail 3", (0..64).map(slow).collect()),
    ] {
        let world = World { faults, ..World::new(512, 8, 32) };
        let rounds = plan(&world.gang, 42, Budget::default());
        let outcome = world.measure(&rounds, 43);
        let certificate = judge(&world.gang, &rounds, &outcome.reports, &Limits::default());
        println!(
            "{what}: {} ms in the model, {} findings",
            outcome.took.as_millis(),
            certificate.findings.len()
        );
        let again = certificate.is_doubtful();
        assert_eq!(again, what.contains("slow"), "{what}");
        let took = outcome.took * if again { 2 } else { 1 };
        assert!(took < Duration::from_secs(30), "{what}: {took:?}");
        // What the nodes were given was enough, and that is less than all of it, too.
        let in_turn = Duration::from_micros(512 * world.clock.take_in + 2 * world.clock.message);
        assert!(outcome.took <= rounds.limit() + in_turn, "{what}: {:?}", outcome.took);
        assert!(rounds.limit() + in_turn + Duration::from_secs(4) < Duration::from_secs(30));
        assert_eq!(certificate.planned, 256 * 8 * 8);
    }
}

/// What was missed when each rail of a small gang told for itself, by the lesser of its good ways, how far measurements scatter.
#[test]
fn what_noise_hid_in_small_gangs_is_named() {
    let is_named = |nodes: u32, node: u32, rail: u32, seed: u64| {
        let certificate = certify(&with(nodes, vec![of_a_rail(0, node, rail).0]), seed);
        certificate.verdict == Verdict::Replace(vec![node])
    };
    assert!(is_named(3, 0, 2, 3_122_611_922_320_951_938));
    assert!(is_named(3, 837_675_526 % 3, 3, 6_320_508_739_547_876_857));
    for nodes in [4, 5] {
        let of = |seed: u64| (seed % u64::from(nodes)) as u32;
        let missed: Vec<u64> =
            (0..2000).filter(|seed| !is_named(nodes, of(*seed), of(*seed) % RAILS, *seed)).collect();
        assert_eq!(missed, [], "seeds for {nodes} nodes");
    }
}

/// A node that says of one peer that its rails are swapped, which that one's pairs with others deny, has nobody named and nothing renamed.
#[test]
fn who_says_of_another_that_its_rails_are_swapped_is_not_believed_alone() {
    let mut doubted = 0;
    for (nodes, seed) in (3..9).flat_map(|nodes| (0..20).map(move |seed| (nodes, seed))) {
        let world = with(nodes, Vec::new());
        let rounds = plan(&world.gang, seed, Budget::default());
        let mut reports = world.measure(&rounds, seed).reports;
        for liar in 0..nodes {
            let honest = reports.clone();
            let own = reports.iter_mut().find(|report| report.node == liar).unwrap();
            let Some(victim) = own.pairs.first().map(|pair| pair.peer) else { continue };
            for pair in own.pairs.iter_mut().filter(|pair| pair.peer == victim && pair.rail < 2) {
                pair.back.lost = pair.back.sent;
                pair.crossed = Some(1 - pair.rail);
            }
            let Certificate { verdict, findings, .. } =
                judge(&world.gang, &rounds, &reports, &Limits::default());
            assert!(
                matches!(verdict, Verdict::Warn | Verdict::Certified),
                "{nodes} nodes, {liar} lies: {verdict:?}"
            );
            doubted += u32::from(verdict == Verdict::Warn);
            assert!(
                findings.iter().all(|finding| !matches!(finding.place, Subject::Node(_))),
                "{findings:?}"
            );
            reports = honest;
        }
    }
    assert!(doubted > 50, "{doubted}");
}

/// 20 of 1,000 packets lost are 5 times the limit, and 15 of a pair's 768: one of two series shows 3 or fewer in one of 3,000 pairs.
#[test]
fn loss_that_lasts_is_confirmed_although_one_series_had_luck() {
    let world = with(3, vec![Fault::Lossy { node: 0, rail: 0, per_mille: 20 }]);
    let doubtful = (0..3000).filter(|seed| {
        let (first, both) = certify_again([&world, &world], *seed, &|_| false);
        first.verdict == Verdict::Replace(vec![0]) && both.verdict != first.verdict
    });
    assert_eq!(doubtful.collect::<Vec<u64>>(), Vec::<u64>::new());
}
