//! Rails, leaves and ports out of use: what nodes are told, what is refused, who still uses them.

use proto_model::{
    AlgorithmChoice, Drain, DrainTarget, Fabric, Leaf, Link, Rail, RailReport, RailRequest, RailState,
    ReasonCode,
};

use super::*;
use crate::{Explanation, RailsView};

pub(super) fn drain(target: &str, force: bool) -> Event {
    Event::DrainRail { target: target.into(), reason: "upgrade".into(), by: "root".into(), force }
}

pub(super) fn undrain(target: &str) -> Event {
    Event::UndrainRail { target: target.into() }
}

pub(super) fn reported(w: &World, n: usize) -> Vec<u32> {
    w.drained.get(&name(n)).into_iter().flatten().copied().collect()
}

pub(super) fn report(rail: u32, state: RailState) -> RailReport {
    RailReport {
        rail,
        state: Some(state),
        since: Timestamp(5),
        tx_bytes: 1,
        rx_bytes: 2,
        tx_rate: 3,
        rx_rate: 4,
        flaps: 0,
        cause: String::new(),
        peers: 1,
        peers_up: 1,
    }
}

pub(super) fn says(w: &mut World, text: &str, n: usize, reports: &[RailReport]) {
    let seen = Observation { reports: reports.to_vec(), ..w.seen(text, n, Observed::Running) };
    w.report(n, seen);
}

pub(super) fn pending(w: &World, target: &str) -> Vec<String> {
    let target = w.state.target(target).unwrap();
    let RailsView { pending, pending_total, .. } = w.state.rails(Some(&target));
    assert_eq!(pending.len(), pending_total as usize);
    pending.iter().map(|one| format!("{} {}:{}", one.id, one.node, one.rail)).collect()
}

/// Two pods of two nodes, one leaf for each rail and pod.
pub(super) fn fabric() -> Event {
    let leaf = |pod: usize, rail: u32| format!("p{pod}r{rail}");
    let link = |n: usize, rail: u32| Link {
        node: name(n),
        nic: format!("rail{rail}"),
        leaf: leaf(n / 2, rail),
        port: String::new(),
        speed_mbps: 0,
        down: false,
        rail: None,
    };
    let rails = (0..2).map(|index| Rail { index, name: ["red", "green"][index as usize].into() });
    let leaves = (0..2).flat_map(|pod| (0..2).map(move |rail| (pod, rail)));
    let leaves = leaves.map(|(pod, rail)| Leaf {
        name: leaf(pod, rail),
        rail,
        pod: format!("p{pod}"),
        ..Leaf::default()
    });
    let links = (0..4).flat_map(|n| (0..2).map(move |rail| link(n, rail)));
    let fabric = Fabric {
        name: "f".into(),
        rails: rails.collect(),
        leaves: leaves.collect(),
        links: links.collect(),
        ..Fabric::default()
    };
    Event::ApplyFabric { fabric: Box::new(fabric), allow_shrink: false, dry_run: false }
}

#[test]
fn a_cable_that_the_document_says_is_down_cuts_its_rail_off() {
    let mut w = World::new();
    let Event::ApplyFabric { mut fabric, .. } = fabric() else { panic!() };
    let cut = |w: &World, n: usize| w.state.rails_cut(&name(n)).iter().collect::<Vec<_>>();
    assert_eq!(cut(&w, 0), [0; 0]);
    fabric.links.iter_mut().find(|link| link.node == name(0) && link.nic == "rail1").unwrap().down = true;
    fabric.leaves.iter_mut().find(|leaf| leaf.name == "p1r0").unwrap().down = true;
    w.ok(Event::ApplyFabric { fabric, allow_shrink: false, dry_run: false });
    assert_eq!([0, 1, 2, 3].map(|n| cut(&w, n)), [vec![1], vec![], vec![0], vec![0]]);
}

#[test]
fn a_leaf_of_several_rails_is_drained_on_all_of_them() {
    let mut w = World::new();
    let Event::ApplyFabric { mut fabric, .. } = fabric() else { panic!() };
    fabric.leaves.retain(|leaf| leaf.rail == 0);
    fabric.leaves.iter_mut().for_each(|leaf| leaf.more_rails = vec![1]);
    for link in &mut fabric.links {
        link.rail = Some(u32::from(link.leaf.ends_with("r1")));
        link.leaf = link.leaf.replace("r1", "r0");
    }
    w.ok(Event::ApplyFabric { fabric, allow_shrink: false, dry_run: false });
    w.ok(drain("p1r0", false));
    assert_eq!([0, 1, 2, 3].map(|n| reported(&w, n)), [vec![], vec![], vec![0, 1], vec![0, 1]]);
    let RailsView { rails, .. } = w.state.rails(None);
    for row in &rails {
        assert_eq!((row.leaves.len(), row.drains.len()), (2, 1), "rail {}", row.rail);
    }
}

#[test]
fn a_drain_is_told_once_kept_and_taken_back() {
    let mut w = World::new();
    let Reply::Drained { drain: kept, changed } = w.ok(drain("1", false)) else { panic!() };
    assert!(changed && kept.target == DrainTarget::Rail(1) && kept.by == "root");
    assert!((0..4).all(|n| reported(&w, n) == [1]));
    // Again: nothing is written or told.
    let out = w.step(drain("rail/1", false));
    assert!(out.writes.is_empty() && out.pushes.is_empty(), "{out:?}");
    // A new controller knows it, and so does a node that comes later.
    assert_eq!(w.reload(8).drained_rails(&name(2)).iter().collect::<Vec<_>>(), [1]);
    w.drained.clear();
    w.connect(2, Vec::new());
    assert_eq!(reported(&w, 2), [1]);
    let Reply::Undrained { changed, remaining, .. } = w.ok(undrain("1")) else { panic!() };
    assert!(
        changed && remaining.is_empty() && reported(&w, 0).is_empty() && w.drained.contains_key(&name(0))
    );
    assert_eq!(w.reload(8).drained_rails(&name(2)).len(), 0);
    let Reply::Undrained { changed, .. } = w.ok(undrain("1")) else { panic!() };
    assert!(!changed);
}

#[test]
fn a_port_and_a_leaf_concern_their_nodes_only() {
    let mut w = World::new();
    w.ok(fabric());
    w.ok(drain("n3:1", false));
    w.ok(drain("p0r0", false));
    assert_eq!([0, 1, 2, 3].map(|n| reported(&w, n)), [vec![0], vec![0], vec![], vec![1]]);
    let Reply::Undrained { changed, remaining, .. } = w.ok(undrain("green")) else { panic!() };
    let remaining: Vec<String> = remaining.iter().map(|drain| drain.target.to_string()).collect();
    assert_eq!((changed, remaining), (false, vec!["node/n3:1".to_owned()]));
    // Without the document the leaf serves nobody; its drain can still be taken back.
    w.ok(Event::DeleteFabric { name: "f".to_owned(), if_version: 0, dry_run: false });
    assert_eq!([0, 1, 2, 3].map(|n| reported(&w, n)), [vec![], vec![], vec![], vec![1]]);
    w.ok(undrain("p0r0"));
    w.ok(undrain("node/n3:1"));
    assert!((0..4).all(|n| reported(&w, n).is_empty()) && w.state.rails(None).drains.is_empty());
}

#[test]
fn a_node_that_is_deleted_takes_its_drains_along() {
    let mut w = World::new();
    w.ok(drain("n3:1", false));
    w.ok(Event::DeleteNode { name: name(3), force: false, uid: None });
    assert!(w.reload(8).rails(None).drains.is_empty());
}

#[test]
fn what_does_not_exist_is_refused_with_the_nearest_name() {
    let mut w = World::new();
    w.ok(fabric());
    for (text, words) in [
        ("2", "rails are 0 to 1"),
        ("grean", "did you mean 'green'?"),
        ("p0r", "did you mean 'p0r0'?"),
        ("n3:2", "there is no rail '2'; node 'n3' has rails 0,1"),
        ("m3:1", "did you mean 'n3:1'?"),
        ("leaf/green", "'leaf/green'"),
        ("rail/p0r0", "rails are 0 to 1"),
        ("", "rails are 0 to 1"),
        ("node/", "rails are 0 to 1"),
        ("a\nb:c:d", "there is no node"),
    ] {
        for event in [drain(text, true), undrain(text)] {
            let error = w.refused(event);
            assert_eq!(error.code(), "RAIL_NOT_FOUND");
            assert!(error.to_string().contains(words), "{text}: {error}");
        }
    }
    assert_eq!(w.state.target("n3:green"), Ok(DrainTarget::Port { node: name(3), rail: 1 }));
}

#[test]
fn the_last_rail_of_a_job_is_not_drained_unless_forced() {
    let mut w = World::new();
    w.submit("a", spec(2, 4));
    w.run("a");
    w.submit("alone", spec(1, 4));
    w.run("alone");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    w.ok(drain(&format!("n{x}:0"), false));
    // They would share no rail, although each has one.
    let error = w.refused(drain(&format!("n{y}:1"), false));
    assert!(matches!(&error, CoreError::LastRail { jobs, .. } if *jobs == [id("a")]), "{error}");
    assert!(error.to_string().contains("red/a"), "{error}");
    w.refused(drain("1", false));
    assert_eq!((reported(&w, x), reported(&w, y)), (vec![0], vec![]));
    w.ok(drain("1", true));
    assert_eq!((reported(&w, x), reported(&w, y)), (vec![0, 1], vec![1]));
    // The job is stranded already: another drain does not make it so.
    w.ok(drain("0", false));
    for text in ["0", "1", &format!("n{x}:0")] {
        w.ok(undrain(text));
    }
    // A rail that is down is none.
    says(&mut w, "a", y, &[report(0, RailState::Down), report(1, RailState::Up)]);
    w.refused(drain("1", false));
    w.ok(drain("0", false));
}

#[test]
fn who_still_uses_a_drained_rail_is_known() {
    let mut w = World::new();
    w.submit("a", spec(2, 4));
    w.all("a", Observed::Prepared);
    let [x, y] = w.nodes("a")[..] else { panic!() };
    w.ok(drain("1", false));
    assert!(pending(&w, "1").is_empty(), "engines that are not connected yet use nothing");
    w.all("a", Observed::Running);
    assert_eq!(pending(&w, "1").len(), 2, "nothing is known of them");
    says(&mut w, "a", x, &[report(0, RailState::Up), report(1, RailState::Drained)]);
    says(&mut w, "a", y, &[report(0, RailState::Up), report(1, RailState::Draining)]);
    assert_eq!(pending(&w, "1"), [format!("red/a n{y}:1")]);
    assert!(pending(&w, &format!("n{x}:1")).is_empty() && pending(&w, "0").is_empty());
    says(&mut w, "a", y, &[report(0, RailState::Up), report(1, RailState::Down)]);
    assert!(pending(&w, "1").is_empty());
    let view = w.state.rails(None);
    let rail = &view.rails[1];
    assert_eq!((rail.nodes, rail.nodes_up, rail.nodes_drained, rail.jobs_total), (4, 4, 4, 1));
    assert_eq!((rail.jobs[0].id.clone(), rail.jobs[0].nodes), (id("a"), 2));
    assert_eq!(rail.engines[&Some(RailState::Drained)], 1);
    assert_eq!((view.rails[0].nodes_drained, view.rails[0].engines[&Some(RailState::Up)]), (0, 2));
    // What was heard before an undrain is no answer to the drain after it.
    w.ok(undrain("1"));
    w.ok(drain("1", false));
    assert_eq!(pending(&w, "1"), [format!("red/a n{x}:1")]);
}

#[test]
fn an_explanation_shows_rails_and_algorithms() {
    let mut w = World::new();
    w.submit("a", spec(2, 4));
    w.run("a");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    let choice = AlgorithmChoice {
        operation: "all-reduce".into(),
        bytes: 1024,
        algorithm: "direct".into(),
        reasons: vec!["fewest bytes".into()],
    };
    let seen = w.seen("a", x, Observed::Running);
    let reports = vec![report(0, RailState::Up), report(1, RailState::Up)];
    w.report(x, Observation { reports, choices: vec![choice.clone()], ..seen });
    says(&mut w, "a", y, &[report(0, RailState::Proving), report(1, RailState::Up)]);
    w.ok(drain("1", false));
    let Explanation { rails, rails_omitted, choices, reasons, .. } =
        w.state.explain(&id("a"), w.now).unwrap();
    assert_eq!((choices, rails_omitted), (vec![choice], 0));
    assert_eq!(rails.iter().map(|node| node.node.clone()).collect::<Vec<_>>(), [name(y), name(x)]);
    let drained =
        |view: crate::TopologyView| view.pods[0].nodes[0].ports.iter().map(|p| p.drained).collect::<Vec<_>>();
    assert_eq!(drained(w.state.topology()), [false, true]);
    assert!(w.state.health().reasons.iter().any(|reason| reason.code == ReasonCode::RailsDrained));
    assert!(rails[0].reported_at.is_some() && rails[1].reports.len() == 2);
    assert!(reasons.iter().any(|reason| reason.code == ReasonCode::RailDrained && reason.scope == "rail/1"));
}

#[test]
fn drains_are_bounded_and_a_new_reason_is_a_change() {
    let mut w = World::new();
    w.state.0.config.max_drains = 1;
    w.ok(drain("0", false));
    assert!(matches!(w.refused(drain("1", true)), CoreError::Full { .. }));
    let Reply::Drained { drain: kept, changed } = w.ok(Event::DrainRail {
        target: "0".into(),
        reason: "cable".into(),
        by: "other".into(),
        force: false,
    }) else {
        panic!()
    };
    assert!(changed);
    let Drain { reason, by, since, .. } = (*kept).clone();
    assert_eq!((reason.as_str(), by.as_str(), since), ("cable", "other", w.now));
}

fn any_rail(avoid_drained: bool) -> JobSpec {
    JobSpec {
        rails: RailRequest { required: 1, allow_partial: true, avoid_drained, ..RailRequest::default() },
        ..spec(1, 1)
    }
}

/// The node and the rail of a job of one node and one rail.
fn port_of(w: &World, text: &str) -> (usize, u32) {
    let placement = w.job(text).status.placement.as_ref().unwrap();
    (w.nodes(text)[0], placement.rails[0])
}

#[test]
fn jobs_that_come_take_drained_rails_last_and_say_so() {
    let mut w = World::new();
    w.ok(fabric());
    w.ok(drain("n0:0", false));
    w.ok(drain("p1r1", false));
    // Two rails of four nodes: five ports are not drained.
    for at in 0..5 {
        let text = format!("j{at}");
        w.submit(&text, any_rail(at % 2 == 0));
        let (node, rail) = port_of(&w, &text);
        assert!((node, rail) != (0, 0) && (node < 2 || rail == 0), "{text} is on n{node}:{rail}");
        let reasons = &w.job(&text).status.placement.as_ref().unwrap().reasons;
        assert!(reasons.iter().all(|reason| reason.code != ReasonCode::DrainedRails), "{reasons:?}");
    }
    // The next one has no other, and that is said; one that does not want it waits, and is told what would help.
    w.submit("strict", any_rail(true));
    assert_eq!(w.phase("strict"), Phase::Pending);
    assert!(w.codes("strict").contains(&"RailDrained".to_owned()), "{:?}", w.job("strict").status.reasons);
    w.submit("last", any_rail(false));
    let (node, rail) = port_of(&w, "last");
    let reasons = &w.job("last").status.placement.as_ref().unwrap().reasons;
    let message = &reasons.iter().find(|reason| reason.code == ReasonCode::DrainedRails).unwrap().message;
    let said = format!("no gang without drained rails can be had: rail {rail} drained on n{node}");
    assert!(message.contains(&said), "{message}");
    w.ok(undrain("n0:0"));
    w.ok(undrain("p1r1"));
    assert_ne!(w.phase("strict"), Phase::Pending, "it starts when the rail is used again");
}

#[test]
fn a_gang_lies_elsewhere_rather_than_on_a_drained_rail() {
    let mut w = World::new();
    w.ok(fabric());
    // All rails: the first pod would fit best.
    w.ok(drain("n1:1", false));
    w.submit("a", spec(2, 4));
    assert_eq!(w.nodes("a"), [2, 3]);
    let all = JobSpec { rails: RailRequest { avoid_drained: true, ..RailRequest::default() }, ..spec(2, 4) };
    w.submit("strict", all);
    assert_eq!(w.phase("strict"), Phase::Pending);
    // What is drained does not keep others away.
    w.submit("b", spec(2, 4));
    assert_eq!(w.nodes("b"), [0, 1]);
}
