//! Ranks wait for a verdict, and a node that is named makes room for another.

use std::time::Duration;

use proto_model::{
    Certification, Certify, DesiredState, FailurePolicy, JobSpec, Measured, Observation, Observed,
    PairReport, PathMeasurement, Phase, PortReport, ReasonCode, Replace, Requeue,
};

use super::{World, drains, name, spec, switch_rollout};
use crate::Certified;

pub(super) fn world(certification: Certification) -> World {
    let mut world = World::new();
    world.state.0.config.certification = certification;
    world
}

/// What a node is to measure; `None` if its ranks may start.
fn asked(w: &World, text: &str, n: usize) -> Option<Certify> {
    let (_, desired) = &w.desired[&(name(n), w.job(text).uid)];
    let DesiredState::Running { certify, .. } = desired else { panic!("{desired:?}") };
    certify.clone()
}

/// All that a node is asked for; a rail of `slow` has a tenth of the others' speed.
fn measured(w: &World, text: &str, n: usize, slow: Option<usize>) -> Observation {
    let nodes = w.nodes(text);
    let certify = asked(w, text, n).unwrap();
    let way = |mbps| PathMeasurement {
        sent: 100,
        lost: 0,
        mtu: Some(9000),
        dscp: Some(26),
        mbps: Some(mbps),
        at_least: false,
    };
    let mut pairs = Vec::new();
    for turn in certify.turns.iter().filter(|turn| turn.first) {
        for rail in 0..2 {
            let hit = rail == 1 && slow.is_some_and(|slow| slow == n || slow == nodes[turn.peer as usize]);
            let way = way(if hit { 200 } else { 2000 });
            let (round, peer) = (turn.round, turn.peer);
            pairs.push(PairReport {
                round,
                peer,
                rail,
                there: way,
                back: way,
                rtt_us: Some(50),
                crossed: None,
            });
        }
    }
    let port = |rail| PortReport { rail, mtu: Some(9000), dscp: None, gid: None, priority_bytes: None };
    let ports = [0, 1].map(port).to_vec();
    let position = nodes.iter().position(|node| *node == n).unwrap() as u32;
    let view = w.state.base.views.get(&(w.job(text).uid, position));
    let mut measured = view.and_then(|view| view.measured.clone()).unwrap_or_default();
    measured.add(Measured { series: certify.series, pairs, ports, unable: String::new() });
    Observation { measured: Some(measured), ..w.seen(text, n, Observed::Starting) }
}

/// Both series, where a second one is asked for.
pub(super) fn measure(w: &mut World, text: &str, slow: Option<usize>) {
    measure_once(w, text, slow);
    if let DesiredState::Running { certify: Some(Certify { series: 1, .. }), .. } =
        &w.desired[&(name(w.nodes(text)[0]), w.job(text).uid)].1
    {
        measure_once(w, text, slow);
    }
}

fn measure_once(w: &mut World, text: &str, slow: Option<usize>) {
    let reports: Vec<(usize, Observation)> =
        w.nodes(text).into_iter().map(|n| (n, measured(w, text, n, slow))).collect();
    for (n, report) in reports {
        w.report(n, report);
    }
}

/// All nodes measure, twice where they are asked to; the verdicts that are told for counting.
fn verdicts(w: &mut World, text: &str, slow: Option<usize>) -> Vec<Certified> {
    let mut reported = Vec::new();
    for _ in 0..2 {
        let seen: Vec<(usize, Observation)> = w
            .nodes(text)
            .into_iter()
            .filter(|n| w.job(text).status.phase == Phase::Running && asked(w, text, *n).is_some())
            .map(|n| (n, measured(w, text, n, slow)))
            .collect();
        for (n, report) in seen {
            reported.extend(w.report(n, report).certified);
        }
    }
    reported
}

#[test]
fn each_verdict_on_a_gang_is_told_once() {
    use Certification::{Require, Warn};
    for (policy, faulty, wanted) in [
        (Require, false, Certified::Well),
        (Warn, false, Certified::Well),
        (Warn, true, Certified::Warned),
        (Require, true, Certified::Refused),
    ] {
        let mut w = world(policy);
        w.submit("a", replacing(3));
        w.all("a", Observed::Prepared);
        let slow = faulty.then(|| w.nodes("a")[1]);
        assert_eq!(verdicts(&mut w, "a", slow), [wanted], "{policy} {faulty}");
    }
    let mut w = world(Certification::Off);
    w.submit("a", replacing(3));
    w.all("a", Observed::Prepared);
    assert!(verdicts(&mut w, "a", None).is_empty(), "nothing was measured");
}

fn replacing(nodes: u32) -> JobSpec {
    let failure =
        FailurePolicy { replace: Replace::Any, max_replacements: 2, ..FailurePolicy::new(Requeue::Never, 0) };
    JobSpec { failure, ..spec(nodes, 1) }
}

#[test]
fn ranks_wait_for_all_reports_and_the_job_says_what_was_found() {
    let mut w = world(Certification::Require);
    w.submit("a", spec(3, 1));
    w.all("a", Observed::Prepared);
    assert_eq!(w.job("a").status.phase, Phase::Running);
    let nodes = w.nodes("a");
    let reports: Vec<Observation> = nodes.iter().map(|n| measured(&w, "a", *n, None)).collect();
    for (n, report) in nodes.iter().zip(&reports) {
        assert!(nodes.iter().all(|n| asked(&w, "a", *n).is_some()), "not before the last has reported");
        w.report(*n, report.clone());
    }
    assert!(nodes.iter().all(|n| asked(&w, "a", *n).is_none()), "{:?}", w.job("a").status.reasons);
    let job = w.job("a");
    let codes: Vec<&str> = job.status.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(codes.iter().filter(|code| **code == "RailCertified").count(), 2, "{codes:?}");
    assert!(codes.contains(&"Certified") && codes.contains(&"GidNotObserved"), "{codes:?}");
    w.report(nodes[0], reports[0].clone());
    w.all("a", Observed::Running);
    assert!(w.job("a").status.started.is_some());
}

#[test]
fn the_certificate_says_how_the_leaves_of_the_gang_were_read_back() {
    use proto_model::{QosState, SwitchProgress, SwitchReport, SwitchStanding};
    let report = |w: &World, standing| SwitchReport {
        agent_version: "1".into(),
        nos_version: "202505".into(),
        progress: Some(SwitchProgress {
            state: QosState::Kept,
            generation: 1,
            message: String::new(),
            observed_number: 0,
        }),
        standing,
        unreadable: String::new(),
        compared: w.state.base.switch_plans,
        sessions: Some(Vec::new()),
    };
    let certified = |standings: [Option<SwitchStanding>; 2]| {
        let mut w = world(Certification::Require);
        w.ok(drains::fabric());
        for leaf in ["p0r0", "p0r1"] {
            switch_rollout::known(&mut w, leaf, false);
        }
        for (leaf, standing) in ["p0r0", "p0r1"].into_iter().zip(standings) {
            if let Some(standing) = standing {
                let report = report(&w, standing);
                switch_rollout::say(&mut w, &switch_rollout::switch(leaf), report);
            }
        }
        w.submit("a", spec(2, 1));
        w.all("a", Observed::Prepared);
        measure(&mut w, "a", None);
        let job = w.job("a");
        let of = |reason: &&proto_model::Reason| reason.code.as_str().starts_with("Switch");
        let reasons = job.status.reasons.iter().filter(of);
        reasons.map(|reason| (reason.code.clone(), reason.message.clone())).collect::<Vec<_>>()
    };
    let same = Some(SwitchStanding::Same);
    let well = |rail: u32| {
        let message = format!("rail {rail}: 1 of 1 leaves are configured as desired");
        (ReasonCode::SwitchCertified, message)
    };
    assert_eq!(certified([same, same]), [well(0), well(1)]);
    let drifted = certified([Some(SwitchStanding::Differs(3)), same]);
    let message = "rail 0: 0 of 1 leaves are configured as desired; drifted: p0r0".to_owned();
    assert_eq!(drifted, [(ReasonCode::SwitchDrifted, message), well(1)]);
    let unread = certified([same, None]);
    let message = "rail 1: 0 of 1 leaves are configured as desired; not read: p0r1".to_owned();
    assert_eq!(unread, [well(0), (ReasonCode::SwitchUnread, message)]);
}

#[test]
fn a_named_node_is_replaced_and_the_next_gang_is_certified() {
    let mut w = world(Certification::Require);
    w.submit("a", replacing(3));
    w.all("a", Observed::Prepared);
    let slow = w.nodes("a")[1];
    measure(&mut w, "a", Some(slow));
    let job = w.job("a");
    assert_eq!(job.status.phase, Phase::Recovering, "{:?}", job.status.reasons);
    let named: Vec<&str> = job.status.reasons.iter().map(|reason| reason.scope.as_str()).collect();
    assert!(named.contains(&format!("node/{}", name(slow)).as_str()), "{:?}", job.status.reasons);
    w.all("a", Observed::Ended);
    let job = w.job("a");
    assert_eq!((job.status.attempt, job.status.replaced), (2, 1), "{:?}", job.status.reasons);
    assert!(!w.nodes("a").contains(&slow));
    w.all("a", Observed::Prepared);
    measure(&mut w, "a", Some(slow));
    assert!(w.nodes("a").iter().all(|n| asked(&w, "a", *n).is_none()));
}

#[test]
fn what_only_looks_slow_is_measured_again_before_anybody_is_blamed() {
    for (policy, lasts) in
        [Certification::Require, Certification::Warn].into_iter().flat_map(|p| [(p, true), (p, false)])
    {
        let mut w = world(policy);
        w.submit("a", replacing(3));
        w.all("a", Observed::Prepared);
        let nodes = w.nodes("a");
        let first: Vec<Certify> = nodes.iter().map(|n| asked(&w, "a", *n).unwrap()).collect();
        measure_once(&mut w, "a", Some(nodes[1]));
        let second: Vec<Certify> = nodes.iter().map(|n| asked(&w, "a", *n).unwrap()).collect();
        for (first, second) in first.iter().zip(&second) {
            assert_eq!((first.series, second.series), (0, 1));
            assert!(second.turns.iter().all(|turn| turn.round >> 16 == 1) && !second.turns.is_empty());
        }
        // A new leader knows that; and who tells the first series again has not measured the second one.
        let loaded = w.reload(8);
        assert!(loaded.base.jobs[&job_uid(&w)].attempt.as_ref().unwrap().again);
        let view = w.state.base.views[&(job_uid(&w), 0)].measured.clone();
        w.report(nodes[0], Observation { measured: view, ..w.seen("a", nodes[0], Observed::Starting) });
        assert_eq!(asked(&w, "a", nodes[0]), Some(second[0].clone()));
        measure_once(&mut w, "a", lasts.then_some(nodes[1]));
        let (codes, phase) = (w.codes("a"), w.job("a").status.phase);
        let required = policy == Certification::Require;
        let wanted = if required && lasts { Phase::Recovering } else { Phase::Running };
        assert_eq!(phase, wanted, "{:?}", w.job("a").status.reasons);
        assert_eq!(codes.contains(&"NotConfirmed".to_owned()), !lasts, "{codes:?}");
        assert_eq!(codes.contains(&"Certified".to_owned()), !lasts, "{codes:?}");
        assert_eq!(codes.contains(&"RailSlow".to_owned()), lasts && !required, "{codes:?}");
    }
}

/// An agent that is too old for a second series, and an engine that cannot measure it.
#[test]
fn where_the_second_series_lacks_somebody_the_first_stands() {
    for unable in [false, true] {
        let mut w = world(Certification::Require);
        w.submit("a", replacing(3));
        w.all("a", Observed::Prepared);
        let nodes = w.nodes("a");
        measure_once(&mut w, "a", Some(nodes[1]));
        for n in &nodes {
            let mut seen = measured(&w, "a", *n, None);
            if *n == nodes[2] {
                if !unable {
                    continue;
                }
                seen.measured.as_mut().unwrap().unable = "rail-engine did not answer".into();
            }
            w.report(*n, seen);
        }
        assert_eq!(w.job("a").status.phase == Phase::Running, !unable, "{:?}", w.job("a").status.reasons);
        w.tick(Duration::from_secs(30));
        let job = w.job("a");
        assert_eq!(job.status.phase, Phase::Recovering, "{:?}", job.status.reasons);
        let named: Vec<&str> = job.status.reasons.iter().map(|reason| reason.scope.as_str()).collect();
        assert!(named.contains(&format!("node/{}", name(nodes[1])).as_str()), "{:?}", job.status.reasons);
    }
}

#[test]
fn with_warnings_only_the_ranks_start_all_the_same() {
    let mut w = world(Certification::Warn);
    w.submit("a", spec(3, 1));
    w.all("a", Observed::Prepared);
    let slow = w.nodes("a")[1];
    measure(&mut w, "a", Some(slow));
    assert!(w.nodes("a").iter().all(|n| asked(&w, "a", *n).is_none()));
    let reasons = w.job("a").status.reasons.clone();
    let slow = reasons.iter().find(|reason| reason.code == ReasonCode::RailSlow).unwrap();
    assert!(slow.message.contains(name(w.nodes("a")[1]).as_str()), "{reasons:?}");
}

#[test]
fn a_job_is_not_held_up_for_ever() {
    for (policy, phase) in
        [(Certification::Warn, Phase::Running), (Certification::Require, Phase::Recovering)]
    {
        let mut w = world(policy);
        w.submit("a", replacing(3));
        w.all("a", Observed::Prepared);
        let (first, last) = (w.nodes("a")[0], w.nodes("a")[2]);
        for n in w.nodes("a").into_iter().filter(|n| *n != last) {
            let report = measured(&w, "a", n, None);
            w.report(n, report);
        }
        assert!(asked(&w, "a", first).is_some());
        w.tick(Duration::from_secs(30));
        let job = w.job("a");
        assert_eq!(job.status.phase, phase, "{:?}", job.status.reasons);
        let silent = job.status.reasons.iter().any(|reason| reason.message.contains("has not said"));
        assert!(silent, "{:?}", job.status.reasons);
    }
}

#[test]
fn a_job_may_ask_for_more_than_the_controller_and_not_for_less() {
    use Certification::{Off, Require, Warn};
    for (controller, job, held, started) in [
        (Off, Off, false, true),
        (Off, Warn, true, true),
        (Off, Require, true, false),
        (Warn, Off, true, true),
        (Warn, Require, true, false),
        (Require, Off, true, false),
        (Require, Warn, true, false),
    ] {
        let mut w = world(controller);
        w.submit("a", JobSpec { certification: job, ..spec(3, 1) });
        w.all("a", Observed::Prepared);
        let first = w.nodes("a")[0];
        assert_eq!(asked(&w, "a", first).is_some(), held, "{controller} {job}");
        if held {
            measure(&mut w, "a", Some(first));
            let phase = if started { Phase::Running } else { Phase::Failed };
            w.all("a", if started { Observed::Running } else { Observed::Ended });
            assert_eq!(w.job("a").status.phase, phase, "{controller} {job}");
        }
    }
}

#[test]
fn one_node_alone_or_without_certification_starts_at_once() {
    for (policy, nodes) in [(Certification::Require, 1), (Certification::Off, 3)] {
        let mut w = world(policy);
        w.submit("a", spec(nodes, 1));
        w.all("a", Observed::Prepared);
        assert!(w.nodes("a").iter().all(|n| asked(&w, "a", *n).is_none()));
    }
}

/// As [`measured`], but the cables of rails 0 and 1 of `crossed` are swapped: each rail of a pair with it answers only to the other.
fn crossing(w: &World, text: &str, n: usize, crossed: usize) -> Observation {
    let mut seen = measured(w, text, n, None);
    let nodes = w.nodes(text);
    for pair in seen.measured.iter_mut().flat_map(|measured| &mut measured.pairs) {
        if crossed == n || crossed == nodes[pair.peer as usize] {
            let dark = PathMeasurement { sent: 16, lost: 16, ..PathMeasurement::default() };
            (pair.there, pair.back, pair.rtt_us) = (dark, dark, None);
            pair.crossed = Some(1 - pair.rail);
        }
    }
    seen
}

pub(super) fn cross(w: &mut World, text: &str, crossed: usize) {
    let nodes = w.nodes(text);
    let reports: Vec<(usize, Observation)> =
        nodes.into_iter().map(|n| (n, crossing(w, text, n, crossed))).collect();
    for (n, report) in reports {
        w.report(n, report);
    }
}

/// What a node of the job's placement has: (rail, device) of its NICs, and whether that is not what its inventory says.
pub(super) fn nics(w: &World, text: &str, n: usize) -> (Vec<(u32, String)>, bool) {
    let placement = w.job(text).status.placement.as_ref().unwrap();
    let place = placement.nodes.iter().find(|place| place.node == name(n)).unwrap();
    (place.nics.iter().map(|nic| (nic.rail, nic.device.clone())).collect(), place.remapped)
}

fn reported(w: &World, n: usize) -> Option<String> {
    let node = &w.state.base.nodes[&name(n)];
    node.reasons
        .iter()
        .find(|reason| reason.code == ReasonCode::RailsSwapped)
        .map(|reason| reason.message.clone())
}

#[test]
fn swapped_rails_are_named_as_they_are_and_the_next_try_is_certified() {
    let mut w = world(Certification::Require);
    w.submit("a", spec(3, 1));
    w.all("a", Observed::Prepared);
    let crossed = w.nodes("a")[1];
    let nodes = w.nodes("a");
    cross(&mut w, "a", crossed);
    assert_eq!(w.job("a").status.phase, Phase::Recovering, "{:?}", w.job("a").status.reasons);
    w.all("a", Observed::Ended);
    let job = w.job("a");
    assert_eq!((job.status.attempt, job.status.replaced, job.status.restarts), (2, 0, 0));
    assert_eq!(w.nodes("a"), nodes, "nobody is replaced");
    assert_eq!(nics(&w, "a", crossed), (vec![(0, "rail1".into()), (1, "rail0".into())], true));
    assert_eq!(nics(&w, "a", nodes[0]), (vec![(0, "rail0".into()), (1, "rail1".into())], false));
    let rank = &job.status.placement.as_ref().unwrap().ranks[1];
    let nic = nics(&w, "a", crossed).0.into_iter().find(|(_, device)| *device == rank.nic).unwrap();
    assert_eq!(rank.rail, nic.0, "the rank's NIC stays, its rail is the one that it is on");
    let remapped = job.status.reasons.iter().find(|reason| reason.code == ReasonCode::RailsRemapped).unwrap();
    assert!(remapped.message.contains("rail0 of rail 0 is on rail 1"), "{remapped:?}");
    assert!(reported(&w, crossed).unwrap().contains("--rails map:..., with rail0=1,rail1=0"));
    // What its agent does changes nothing about its cables.
    w.disconnect(crossed);
    let prepared = w.seen("a", crossed, Observed::Preparing);
    w.connect(crossed, vec![prepared]);
    assert!(reported(&w, crossed).is_some());
    let loaded = w.reload(8);
    assert_eq!(loaded.base.jobs[&job_uid(&w)].job.status.placement, w.job("a").status.placement);
    // A new leader knows it all, and with these names nothing is wrong.
    w.all("a", Observed::Prepared);
    measure(&mut w, "a", None);
    assert!(w.nodes("a").iter().all(|n| asked(&w, "a", *n).is_none()), "{:?}", w.job("a").status.reasons);
    assert!(
        w.codes("a").contains(&"Certified".to_owned()) && w.codes("a").contains(&"RailsRemapped".to_owned())
    );
    assert!(reported(&w, crossed).is_some(), "its inventory still says otherwise");
}

fn job_uid(w: &World) -> proto_model::JobUid {
    w.job("a").uid
}

#[test]
fn a_node_that_was_remapped_in_vain_is_replaced() {
    let mut w = world(Certification::Require);
    w.submit("a", replacing(3));
    w.all("a", Observed::Prepared);
    let crossed = w.nodes("a")[2];
    for attempt in [2, 3] {
        cross(&mut w, "a", crossed);
        w.all("a", Observed::Ended);
        assert_eq!(w.job("a").status.attempt, attempt, "{:?}", w.job("a").status.reasons);
        w.all("a", Observed::Prepared);
    }
    assert_eq!(w.job("a").status.replaced, 1);
    assert!(!w.nodes("a").contains(&crossed));
    measure(&mut w, "a", None);
    assert!(w.nodes("a").iter().all(|n| asked(&w, "a", *n).is_none()));
}

#[test]
fn a_node_that_is_lost_while_its_rails_are_renamed_is_replaced() {
    let mut w = world(Certification::Require);
    w.submit("a", replacing(3));
    w.all("a", Observed::Prepared);
    let nodes = w.nodes("a");
    cross(&mut w, "a", nodes[0]);
    w.disconnect(nodes[1]);
    for n in [nodes[0], nodes[2]] {
        let ended = w.seen("a", n, Observed::Ended);
        w.report(n, ended);
    }
    w.tick(Duration::from_secs(11));
    let job = w.job("a");
    assert_eq!((job.status.attempt, job.status.replaced), (2, 1), "{:?}", job.status.reasons);
    assert!(!w.nodes("a").contains(&nodes[1]) && nics(&w, "a", nodes[0]).1, "{:?}", job.status.reasons);
    assert!(w.codes("a").contains(&"RailsRemapped".to_owned()), "{:?}", w.codes("a"));
}

#[test]
fn with_warnings_only_swapped_rails_are_told_and_stay_until_somebody_has_seen_to_them() {
    let mut w = world(Certification::Warn);
    w.submit("a", spec(3, 1));
    w.all("a", Observed::Prepared);
    let crossed = w.nodes("a")[1];
    cross(&mut w, "a", crossed);
    assert!(w.nodes("a").iter().all(|n| asked(&w, "a", *n).is_none()));
    assert_eq!((w.job("a").status.attempt, nics(&w, "a", crossed).1), (1, false));
    assert!(w.codes("a").contains(&"RailsSwapped".to_owned()) && reported(&w, crossed).is_some());
    w.run("a");
    for n in w.nodes("a") {
        let exited = w.exited("a", n, 0);
        w.report(n, exited);
    }
    w.submit("b", spec(4, 1));
    w.all("b", Observed::Prepared);
    measure(&mut w, "b", None);
    assert_eq!(reported(&w, crossed), None, "the cables are right now");
}
