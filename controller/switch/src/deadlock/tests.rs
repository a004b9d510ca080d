//! The prover against one that knows nothing of likeness, and against fabrics whose answer is known.

use proptest::prelude::*;

use super::*;

/// Looks at every set of failures of the fabric as it is; routes and cycles by other means.
fn brute(fabric: &Fabric, routing: Routing, failures: u8) -> bool {
    let mut things: Vec<Failure> = (0..fabric.links().len()).map(Failure::Link).collect();
    things.extend((0..fabric.switches().len()).map(Failure::Switch));
    let mut sets = vec![Vec::new()];
    sets.extend(things.iter().filter(|_| failures >= 1).map(|thing| vec![*thing]));
    if failures >= 2 {
        let pair = |one: usize| (one + 1..things.len()).map(move |other| (one, other));
        sets.extend((0..things.len()).flat_map(pair).map(|(one, other)| vec![things[one], things[other]]));
    }
    sets.iter().any(|set| cyclic(&waits(fabric, routing, set)))
}

type Link = (usize, usize);

/// All pairs (link, link that it waits for), from packets that walk.
fn waits(fabric: &Fabric, routing: Routing, failures: &[Failure]) -> Vec<(Link, Link)> {
    let up = |at: usize| !failures.contains(&Failure::Switch(at));
    let mut alive = Vec::new();
    let mut all = Vec::new();
    for (link, &(a, b)) in fabric.links().iter().enumerate() {
        all.extend([(a, b), (b, a)]);
        if up(a) && up(b) && !failures.contains(&Failure::Link(link)) {
            alive.extend([(a, b), (b, a)]);
        }
    }
    let mut found = Vec::new();
    let serving = |at: &usize| fabric.switches()[*at].serves && up(*at);
    for to in (0..fabric.switches().len()).filter(serving) {
        let sends = |at: usize| -> Vec<usize> {
            let over = |links: &[Link]| match routing {
                Routing::Shortest => by_distance(fabric, links, to, at, false),
                Routing::UpDown | Routing::Bounce => by_distance(fabric, links, to, at, true),
            };
            let near = |next: usize| alive.contains(&(at, next));
            let fixed = fabric.static_routes().remove(&(at, to)).unwrap_or_default();
            let fixed: Vec<usize> = fixed.into_iter().filter(|next| near(*next)).collect();
            if at == to || !up(at) {
                return Vec::new();
            }
            if !fixed.is_empty() {
                return fixed;
            }
            if routing != Routing::Bounce {
                return over(&alive);
            }
            let before = over(&all);
            let left: Vec<usize> = before.iter().copied().filter(|next| near(*next)).collect();
            let any = || (0..fabric.switches().len()).filter(|next| near(*next)).collect();
            if left.is_empty() && !before.is_empty() { any() } else { left }
        };
        let table: Vec<Vec<usize>> = (0..fabric.switches().len()).map(sends).collect();
        let mut open: Vec<Link> = Vec::new();
        for from in (0..table.len()).filter(serving) {
            open.extend(table[from].iter().map(|next| (from, *next)));
        }
        let mut seen: Vec<Link> = Vec::new();
        while let Some((from, at)) = open.pop() {
            if seen.contains(&(from, at)) {
                continue;
            }
            seen.push((from, at));
            for &next in table[at].iter().filter(|next| **next != from) {
                found.push(((from, at), (at, next)));
                open.push((at, next));
            }
        }
    }
    found
}

/// Neighbours on a shortest way, by relaxing until nothing changes. Under the rule of up and down a state is (switch, has gone down).
fn by_distance(fabric: &Fabric, links: &[Link], to: usize, at: usize, up_down: bool) -> Vec<usize> {
    let tier = |switch: usize| fabric.switches()[switch].tier;
    let count = fabric.switches().len();
    let mut far = vec![[usize::MAX; 2]; count];
    far[to] = [0, 0];
    for _ in 0..2 * count {
        for &(a, b) in links {
            let descends = tier(b) < tier(a);
            // Whoever has gone down goes down only.
            let after = if up_down && descends { far[b][1] } else { far[b][0] };
            let cost = after.saturating_add(1);
            far[a][0] = far[a][0].min(cost);
            if descends || !up_down {
                far[a][1] = far[a][1].min(cost);
            }
        }
    }
    let best = far[at][0];
    let leads = |next: &usize| {
        let descends = tier(*next) < tier(at);
        let after = if up_down && descends { far[*next][1] } else { far[*next][0] };
        links.contains(&(at, *next)) && best != usize::MAX && after.saturating_add(1) == best
    };
    (0..count).filter(leads).collect()
}

/// Takes away links that wait for nothing until none is left.
fn cyclic(waits: &[(Link, Link)]) -> bool {
    let mut left = waits.to_vec();
    loop {
        let before = left.len();
        let starts: Vec<Link> = left.iter().map(|(link, _)| *link).collect();
        left.retain(|(_, on)| starts.contains(on));
        if left.len() == before {
            return before > 0;
        }
    }
}

fn fabric(tiers: &[(u8, bool)], links: &[(usize, usize)], routes: Vec<StaticRoute>) -> Fabric {
    let switch = |(index, (tier, serves)): (usize, &(u8, bool))| Switch {
        name: format!("s{index}"),
        tier: *tier,
        serves: *serves,
    };
    Fabric::new(tiers.iter().enumerate().map(switch).collect(), links, routes).unwrap()
}

/// Small fabrics with missing links: two or three tiers.
fn small() -> impl Strategy<Value = Fabric> {
    let sizes = (2_usize..5, 1_usize..4, 0_usize..3);
    sizes.prop_flat_map(|(leaves, spines, tops)| {
        let mut tiers = vec![(0, true); leaves];
        tiers.extend(vec![(1, false); spines]);
        tiers.extend(vec![(2, false); tops]);
        let low = (0..leaves).flat_map(move |leaf| (leaves..leaves + spines).map(move |spine| (leaf, spine)));
        let high = (leaves..leaves + spines)
            .flat_map(move |spine| (leaves + spines..leaves + spines + tops).map(move |top| (spine, top)));
        let links: Vec<(usize, usize)> = low.chain(high).collect();
        // Most links are there, so that switches are alike now and then.
        let kept = prop::collection::vec(prop::bool::weighted(0.85), links.len());
        let planted = prop::collection::vec((0..tiers.len(), 0..leaves, any::<prop::sample::Index>()), 0..2);
        (kept, planted).prop_map(move |(kept, planted)| {
            let links: Vec<_> =
                links.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(link, _)| *link).collect();
            let plain = fabric(&tiers, &links, Vec::new());
            let route = |(at, to, index): &(usize, usize, prop::sample::Index)| {
                let near = plain.neighbours(*at);
                let over = (!near.is_empty() && at != to).then(|| near[index.index(near.len())].0)?;
                Some(StaticRoute { at: *at, to: *to, over })
            };
            let routes = planted.iter().filter_map(route).collect();
            fabric(&tiers, &links, routes)
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_prover_says_what_looking_at_everything_says(fabric in small(), failures in 0_u8..3) {
        for routing in [Routing::UpDown, Routing::Shortest, Routing::Bounce] {
            let answer = prove(&fabric, routing, Limits { failures, ..Limits::default() });
            let cycle = matches!(answer, Answer::Cycle(_));
            prop_assert_eq!(cycle, brute(&fabric, routing, failures), "{:?}: {:?}", routing, answer);
            if let Answer::Cycle(cycle) = answer {
                let waits = waits(&fabric, routing, &cycle.failures);
                let next = cycle.links.iter().cycle().skip(1);
                for (link, on) in cycle.links.iter().zip(next) {
                    prop_assert!(waits.contains(&(*link, *on)), "{:?} does not wait for {:?}", link, on);
                }
                if let Prune::Turns { turns, .. } = &cycle.prune {
                    let left = waits.iter().filter(|((from, at), (_, to))| {
                        !turns.contains(&SwitchTurn { at: *at, from: *from, to: *to })
                    });
                    prop_assert!(!cyclic(&left.copied().collect::<Vec<_>>()), "the prune leaves a cycle");
                }
            }
        }
    }
}

#[test]
fn routes_that_go_up_and_down_never_wait_for_themselves() {
    let size = Clos { leaves: 64, spines: 16, rails: 2 };
    let run = Run::of(size, false, Routing::UpDown).unwrap();
    let Answer::Proof(proof) = run.answer else { panic!("{run:?}") };
    let things = 2 * (64 * 16 + 64 + 16);
    assert_eq!(proof.covered, 1 + things + things * (things - 1) / 2);
    assert!(proof.valley_free);
    // Per rail: none; a link, a leaf, a spine; two of them alike or not, tied or apart.
    assert!(proof.checked < 60, "{proof:?}");
}

#[test]
fn two_bounces_wait_for_each_other() {
    let size = Clos { leaves: 8, spines: 4, rails: 1 };
    let one =
        prove(&size.fabric(false).unwrap(), Routing::Bounce, Limits { failures: 1, ..Limits::default() });
    assert!(matches!(one, Answer::Proof(proof) if !proof.valley_free), "{one:?}");
    let run = Run::of(size, false, Routing::Bounce).unwrap();
    let Answer::Cycle(cycle) = &run.answer else { panic!("{run:?}") };
    assert_eq!((cycle.failures.len(), cycle.links.len()), (2, 4), "{run:?}");
}

#[test]
fn a_planted_valley_is_found_with_its_turns() {
    let size = Clos { leaves: 32, spines: 8, rails: 1 };
    let run = Run::of(size, true, Routing::UpDown).unwrap();
    let Answer::Cycle(cycle) = &run.answer else { panic!("{run:?}") };
    assert!(cycle.failures.is_empty(), "{run:?}");
    let Prune::Turns { turns, is_smallest: true } = &cycle.prune else { panic!("{run:?}") };
    assert_eq!(turns.len(), 1, "{run:?}");
    assert!(run.description.unwrap().contains("r0-spine0"));
}

#[test]
fn what_is_no_fabric_is_named() {
    let leaf = |name: &str| Switch { name: name.to_owned(), tier: 0, serves: true };
    let two = || vec![leaf("a"), leaf("b")];
    assert_eq!(Fabric::new(two(), &[(0, 7)], Vec::new()), Err(BadFabric::NoSwitch { link: 0, switch: 7 }));
    assert!(matches!(Fabric::new(two(), &[(0, 1)], Vec::new()), Err(BadFabric::OneTier { .. })));
    let route = StaticRoute { at: 0, to: 1, over: 1 };
    assert!(matches!(Fabric::new(two(), &[], vec![route]), Err(BadFabric::Route { .. })));
}

#[test]
fn five_hundred_leaves_take_a_blink() {
    let size = Clos { leaves: 512, spines: 64, rails: 1 };
    for routing in [Routing::UpDown, Routing::Bounce] {
        let run = Run::of(size, false, routing).unwrap();
        assert_eq!(matches!(run.answer, Answer::Proof(_)), routing == Routing::UpDown, "{run:?}");
    }
    let run = Run::of(size, true, Routing::UpDown).unwrap();
    assert!(matches!(run.answer, Answer::Cycle(_)), "{run:?}");
}
