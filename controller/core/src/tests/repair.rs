//! What is replaced under a gang, and what is quarantined.

use std::time::Duration;

use proto_model::{
    FailurePolicy, Observation, Observed, Phase, PlacementRequest, RailLoss, Reason, ReasonCode, Replace,
};

use super::{
    documents::{apply, reservation},
    *,
};

pub(super) fn replacing(nodes: u32, spares: u32, replace: Replace) -> JobSpec {
    let failure = FailurePolicy { replace, max_replacements: 4, ..FailurePolicy::new(Requeue::Never, 0) };
    let placement = PlacementRequest { spares, ..PlacementRequest::default() };
    JobSpec { failure, placement, ..spec(nodes, 4) }
}

pub(super) fn lost(w: &World, text: &str, n: usize) -> Observation {
    let cause = Some(Reason::new(ReasonCode::EngineLost, "killed"));
    Observation { cause, ..w.seen(text, n, Observed::Stopping) }
}

pub(super) fn spares(w: &World, text: &str) -> Vec<String> {
    let placement = w.job(text).status.placement.as_ref().unwrap();
    placement.spares.iter().map(|place| place.node.to_string()).collect()
}

#[test]
fn spares_are_held_and_survive_a_reload() {
    let mut w = World::new();
    w.submit("a", replacing(2, 1, Replace::Spares));
    assert_eq!((w.nodes("a").len(), spares(&w, "a").len()), (2, 1));
    assert_eq!(w.state.usage(&tenant("red")).gpus_used, 12);
    w.submit("b", spec(2, 4));
    assert_eq!(w.phase("b"), Phase::Pending, "the spare is not for others");
    let fresh = w.reload(8);
    assert_eq!(fresh.index.spares, w.state.index.spares);
    assert_eq!(fresh.usage(&tenant("red")).gpus_used, 12);
    w.submit("c", spec(1, 4));
}

#[test]
fn a_job_that_wants_its_nodes_alone_has_them_alone_after_a_reload_too() {
    let mut w = World::new();
    let placement = PlacementRequest { exclusive: true, ..PlacementRequest::default() };
    w.submit("a", JobSpec { placement, ..spec(3, 1) });
    w.submit(
        "b",
        JobSpec {
            rails: RailRequest { required: 1, allow_partial: true, ..RailRequest::default() },
            ..spec(1, 1)
        },
    );
    w.submit(
        "c",
        JobSpec {
            rails: RailRequest { required: 1, allow_partial: true, ..RailRequest::default() },
            ..spec(2, 1)
        },
    );
    assert_eq!(
        (w.phase("a"), w.phase("b"), w.phase("c")),
        (Phase::Reserved, Phase::Reserved, Phase::Pending)
    );
    let fresh = w.reload(8);
    for n in w.nodes("a") {
        assert!(fresh.index.snapshot.held(&name(n)).whole);
    }
}

#[test]
fn a_failed_node_is_replaced_by_the_spare_and_the_others_keep_their_ranks() {
    let mut w = World::new();
    let uid = w.submit("a", replacing(3, 1, Replace::Spares)).uid;
    w.run("a");
    let before = w.nodes("a");
    let spare: usize = spares(&w, "a")[0][1..].parse().unwrap();
    let broken = before[1];
    w.report(broken, lost(&w, "a", broken));
    assert_eq!(w.phase("a"), Phase::Recovering);
    // Those that waited get nothing of it meanwhile.
    w.submit("b", spec(1, 4));
    for n in before.clone() {
        w.report(n, w.seen("a", n, Observed::Ended));
    }
    let job = w.job("a").clone();
    assert_eq!((job.status.phase, job.status.attempt), (Phase::Reserved, 2));
    assert_eq!(w.nodes("a"), [before[0], spare, before[2]]);
    assert_eq!((job.status.replaced, job.status.restarts, spares(&w, "a").len()), (1, 0, 0));
    assert_eq!(w.codes("a"), ["Repaired"]);
    assert!(matches!(w.desired[&(name(spare), uid)], (2, DesiredState::Prepared { .. })));
    // The failed node is free again, for others.
    assert_eq!(w.nodes("b"), [broken]);
    w.run("a");
    assert_eq!(w.phase("a"), Phase::Running);
}

fn quota(gpus: u32) -> Event {
    let (name, description) = (tenant("red"), String::new());
    Event::ApplyTenant {
        name,
        description,
        quota: Quota::new(gpus, 0),
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    }
}

/// Its tenant may hold less by now than the job did: it waits for that, and says so.
fn waits_for_its_quota(w: &mut World) {
    assert_eq!(w.phase("a"), Phase::Pending);
    let codes = w.codes("a");
    assert!(!codes.iter().any(|code| code == "PlacementRefused"), "{codes:?}");
    assert!(codes.iter().any(|code| code.contains("Quota")), "{codes:?}");
    w.ok(quota(64));
    assert_eq!((w.phase("a"), w.job("a").status.attempt), (Phase::Reserved, 2));
}

/// Found by the simulator (seed 13506): the checker refused what a repair had chosen.
#[test]
fn a_gang_that_its_tenant_may_not_hold_any_more_waits_for_that() {
    let mut w = World::new();
    w.submit("a", replacing(3, 1, Replace::Spares));
    w.run("a");
    w.ok(quota(8));
    assert_eq!(w.phase("a"), Phase::Running, "what runs may go on");
    let (before, broken) = (w.nodes("a"), w.nodes("a")[1]);
    w.report(broken, lost(&w, "a", broken));
    for n in before {
        w.report(n, w.seen("a", n, Observed::Ended));
    }
    waits_for_its_quota(&mut w);
}

/// Found by the simulator (seed 49779): the same where the gang would go on with fewer rails.
#[test]
fn a_gang_on_fewer_rails_that_its_tenant_may_not_hold_any_more_waits_for_that() {
    let mut w = World::new();
    let mut job = replacing(4, 0, Replace::Any);
    job.rails = RailRequest { required: 2, allow_partial: true, ..RailRequest::default() };
    job.failure.on_rail_loss = RailLoss::Fail;
    w.submit("a", job);
    w.run("a");
    w.ok(quota(8));
    let broken = w.nodes("a")[1];
    lose_rail(&mut w, broken, 1);
    assert_eq!(w.phase("a"), Phase::Recovering);
    w.all("a", Observed::Ended);
    assert_eq!(w.phase("a"), Phase::Pending);
    finds(&mut w, broken, inventory(4, 2));
    waits_for_its_quota(&mut w);
}

#[test]
fn without_a_spare_the_policy_of_failures_decides() {
    let mut w = World::new();
    w.submit("a", replacing(4, 0, Replace::Any));
    w.run("a");
    let broken = w.nodes("a")[0];
    w.report(broken, lost(&w, "a", broken));
    for n in w.nodes("a") {
        w.report(n, w.seen("a", n, Observed::Ended));
    }
    assert_eq!((w.phase("a"), w.job("a").status.restarts), (Phase::Failed, 0));
    // With any node: the fourth one.
    w.submit("b", replacing(3, 0, Replace::Any));
    w.run("b");
    let before = w.nodes("b");
    w.report(before[2], lost(&w, "b", before[2]));
    for n in before.clone() {
        w.report(n, w.seen("b", n, Observed::Ended));
    }
    assert_eq!(w.phase("b"), Phase::Reserved);
    assert_eq!(w.nodes("b")[..2], before[..2]);
    assert_ne!(w.nodes("b")[2], before[2]);
}

#[test]
fn a_dead_server_is_not_waited_for_and_takes_no_job_before_it_has_ended_the_old_one() {
    let mut w = World::new();
    let uid = w.submit("a", replacing(2, 1, Replace::Spares)).uid;
    w.run("a");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    w.disconnect(y);
    w.tick(Duration::from_secs(5));
    assert_eq!(w.phase("a"), Phase::Running);
    w.tick(Duration::from_secs(6));
    // NotReady: the attempt ends, and what is left of it there is not waited for.
    assert_eq!(w.phase("a"), Phase::Recovering);
    w.report(x, w.seen("a", x, Observed::Ended));
    assert_eq!((w.phase("a"), w.job("a").status.attempt), (Phase::Reserved, 2));
    assert_eq!(w.nodes("a")[0], x);
    assert!(!w.nodes("a").contains(&y));
    w.run("a");
    // It comes back and still has the old attempt: nothing starts there before that has ended.
    let old = Observation { attempt: 1, ..w.seen("a", y, Observed::Running) };
    w.connect(y, vec![old.clone()]);
    assert!(!w.desired.contains_key(&(name(y), uid)) || w.desired[&(name(y), uid)].0 == 1);
    w.submit("b", spec(1, 4));
    w.submit("c", spec(1, 4));
    assert_eq!([w.phase("b"), w.phase("c")].iter().filter(|phase| **phase == Phase::Reserved).count(), 1);
    w.report(y, Observation { state: Observed::Ended, ..old });
    w.tick(Duration::from_millis(1));
    assert_eq!((w.phase("b"), w.phase("c")), (Phase::Reserved, Phase::Reserved));
    assert_eq!(w.phase("a"), Phase::Running, "the old attempt's end is none of the new one");
}

#[test]
fn a_lost_rail_moves_the_job_where_its_policy_says_so() {
    for (policy, phase) in [
        (RailLoss::Continue, Phase::Running),
        (RailLoss::Move, Phase::Recovering),
        (RailLoss::Fail, Phase::Recovering),
    ] {
        let mut w = World::new();
        let mut spec = replacing(2, 0, Replace::Any);
        spec.failure.on_rail_loss = policy;
        w.submit("a", spec);
        w.run("a");
        let [x, y] = w.nodes("a")[..] else { panic!() };
        let mut inventory = inventory(4, 2);
        inventory.nics[1].up = false;
        let session = w.state.session(&name(y)).unwrap();
        w.step(Event::AgentInventory { node: name(y), session, inventory: Arc::new(inventory) });
        assert_eq!(w.phase("a"), phase, "{policy}");
        if phase == Phase::Recovering {
            w.all("a", Observed::Ended);
            assert_eq!(w.phase("a"), Phase::Reserved);
            assert!(w.nodes("a")[0] == x && w.nodes("a")[1] != y);
        }
    }
}

#[test]
fn a_node_that_fails_jobs_again_and_again_is_quarantined_until_proved() {
    let mut w = World::new();
    for n in 1..4 {
        w.ok(Event::UpdateNode {
            name: name(n),
            change: crate::NodeChange::unschedulable(true, String::new()),
            if_version: 0,
        });
    }
    for text in ["a", "b", "c"] {
        w.submit(text, spec(1, 4));
        w.run(text);
        w.report(0, lost(&w, text, 0));
        w.report(0, w.seen(text, 0, Observed::Ended));
        assert_eq!(w.phase(text), Phase::Failed);
    }
    let quarantined = w.state.node(&name(0)).unwrap().quarantined.clone().expect("quarantined");
    assert!(
        quarantined.message.contains("3 attempts of 3 jobs") && quarantined.message.contains("EngineLost"),
        "{quarantined}"
    );
    assert_eq!(w.state.node(&name(0)).unwrap().strikes, []);
    w.submit("d", spec(1, 4));
    assert_eq!(w.phase("d"), Phase::Pending);
    assert!(w.reload(8).node(&name(0)).unwrap().quarantined.is_some());
    w.ok(Event::ReturnNode { name: name(0) });
    assert_eq!(w.phase("d"), Phase::Reserved);
    assert!(w.state.node(&name(0)).unwrap().quarantined.is_none());
}

/// A controller that starts anew knows what a node did before; and one that comes back is not forgiven.
#[test]
fn strikes_survive_restarts_and_reconnects() {
    let mut w = World::new();
    for n in 1..4 {
        let change = crate::NodeChange::unschedulable(true, String::new());
        w.ok(Event::UpdateNode { name: name(n), change, if_version: 0 });
    }
    let fail = |w: &mut World, text: &str| {
        w.submit(text, spec(1, 4));
        w.run(text);
        w.report(0, lost(w, text, 0));
        w.report(0, w.seen(text, 0, Observed::Ended));
    };
    fail(&mut w, "a");
    w.disconnect(0);
    w.connect(0, Vec::new());
    fail(&mut w, "b");
    let strikes = w.state.node(&name(0)).unwrap().strikes.clone();
    assert_eq!(strikes.iter().map(proto_model::Strike::code_text).collect::<Vec<_>>(), ["EngineLost"; 2]);
    w.state = w.reload(7);
    assert_eq!(w.state.node(&name(0)).unwrap().strikes, strikes);
    (0..4).for_each(|n| w.connect(n, Vec::new()));
    fail(&mut w, "c");
    assert!(w.state.node(&name(0)).unwrap().quarantined.is_some());
}

/// A NIC of the node goes down, as its agent sees it.
pub(super) fn lose_rail(w: &mut World, n: usize, rail: usize) {
    let mut inventory = inventory(4, 2);
    inventory.nics[rail].up = false;
    finds(w, n, inventory);
}

pub(super) fn finds(w: &mut World, n: usize, inventory: Inventory) {
    let session = w.state.session(&name(n)).unwrap();
    w.step(Event::AgentInventory { node: name(n), session, inventory: Arc::new(inventory) });
}

/// Found by the simulator (seed 410118): a node that joins anew has told of nothing yet, and what is held there still counts
/// towards the tenant's limit.
#[test]
fn gpus_that_a_node_tells_of_no_more_count_towards_the_limit() {
    let mut w = World::new();
    w.submit("a", spec(3, 4));
    w.run("a");
    for n in w.nodes("a").into_iter().take(2) {
        finds(&mut w, n, inventory(0, 2));
    }
    assert_eq!(w.phase("a"), Phase::Running);
    w.ok(quota(12));
    w.submit("b", spec(1, 4));
    assert_eq!((w.phase("b"), w.codes("b")), (Phase::Pending, vec!["QuotaExceeded".to_owned()]));
    w.ok(quota(16));
    assert_eq!(w.phase("b"), Phase::Reserved);
}

/// What is unfit for new jobs is not down for those that are there, whatever their policy.
#[test]
fn an_unfit_rail_ends_no_job_and_takes_none() {
    let mut w = World::new();
    let mut job = spec(4, 2);
    job.failure.on_rail_loss = RailLoss::Fail;
    w.submit("a", job);
    w.run("a");
    let condition = proto_model::NicCondition {
        code: proto_model::NicConditionCode::Storm,
        severity: proto_model::Severity::Drain,
        message: "0.99 of the time".into(),
        since: w.now,
        probe: false,
    };
    let sick =
        proto_model::NicHealth { device: "rail1".into(), score: 0, conditions: vec![condition], probe: None };
    let mut unfit = inventory(4, 2);
    unfit.health = vec![sick];
    (0..4).for_each(|n| finds(&mut w, n, unfit.clone()));
    assert_eq!(w.phase("a"), Phase::Running);
    let mut w = World::new();
    (0..4).for_each(|n| finds(&mut w, n, unfit.clone()));
    w.submit("b", spec(1, 4));
    assert_eq!(w.phase("b"), Phase::Pending);
    assert!(w.codes("b").contains(&"RailDown".to_owned()), "{:?}", w.codes("b"));
    // Proved well: placed at once.
    finds(&mut w, 2, inventory(4, 2));
    assert_eq!((w.phase("b"), w.nodes("b")), (Phase::Reserved, vec![2]));
}

/// No replacement of failed nodes was asked for, and none is counted.
#[test]
fn a_job_that_moves_for_a_rail_leaves_only_the_node_that_lost_it() {
    let mut w = World::new();
    let mut job = spec(2, 4);
    job.failure.on_rail_loss = RailLoss::Move;
    w.submit("a", job);
    w.run("a");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    lose_rail(&mut w, y, 1);
    assert_eq!(w.phase("a"), Phase::Recovering);
    w.all("a", Observed::Ended);
    assert_eq!(w.phase("a"), Phase::Reserved);
    assert!(w.nodes("a")[0] == x && w.nodes("a")[1] != y);
    assert_eq!((w.job("a").status.replaced, w.job("a").status.restarts), (0, 0));
}

/// A job that asks to be moved for a rail is not a failed one: that takes nothing from what it may lose by failures. One that asks
/// to fail has failed, also where no node is free.
#[test]
fn what_a_lost_rail_counts_is_what_the_job_asks_for() {
    for (policy, replaced) in [(RailLoss::Move, 0), (RailLoss::Fail, 1)] {
        for free in [true, false] {
            let mut w = World::new();
            let mut job = JobSpec { gang: Gang::new(2, 4, 1), ..replacing(2, 0, Replace::Any) };
            job.failure.on_rail_loss = policy;
            w.submit("a", job);
            w.run("a");
            if !free {
                w.submit("other", spec(2, 4));
                w.run("other");
            }
            let last = w.nodes("a")[1];
            lose_rail(&mut w, last, 1);
            w.all("a", Observed::Ended);
            let phase = match (policy, free) {
                (_, true) => Phase::Reserved,
                (RailLoss::Move, false) => Phase::Pending,
                _ => Phase::Failed,
            };
            let job = w.job("a");
            assert_eq!(job.status.phase, phase, "{policy}, free: {free}: {:?}", job.status.reasons);
            assert_eq!((job.status.replaced, job.status.restarts), (if free { replaced } else { 0 }, 0));
        }
    }
}

#[test]
fn a_job_that_may_do_with_fewer_rails_stays_until_there_is_something_better() {
    let mut w = World::new();
    let mut job = spec(3, 4);
    job.rails = RailRequest { required: 2, allow_partial: true, ..RailRequest::default() };
    job.failure.on_rail_loss = RailLoss::Move;
    w.submit("a", job.clone());
    w.submit("other", spec(1, 4));
    w.run("a");
    w.run("other");
    let lost_on = w.nodes("a")[2];
    lose_rail(&mut w, lost_on, 1);
    assert_eq!(w.phase("a"), Phase::Running);
    for n in w.nodes("other") {
        let end = w.exited("other", n, 0);
        w.report(n, end);
    }
    // Its engines report, and now there is a node that has all rails.
    let mut seen = w.seen("a", lost_on, Observed::Running);
    seen.rails = vec![proto_model::RailBytes { rail: 0, tx_bytes: 1, rx_bytes: 1 }];
    w.report(lost_on, seen);
    assert_eq!(w.phase("a"), Phase::Recovering);
    // Somebody comes between: it goes on where it was, on the rail that is left.
    w.submit("quick", JobSpec { priority: 9, ..spec(1, 4) });
    w.all("a", Observed::Ended);
    assert_eq!(w.phase("a"), Phase::Reserved);
    let placement = w.job("a").status.placement.clone().unwrap();
    assert_eq!((placement.rails.clone(), placement.nodes[2].nics.len()), (vec![0], 1));
    assert!(w.nodes("a").contains(&lost_on));
    assert!(w.job("a").status.reasons[0].message.contains("without rails 1"), "{:?}", w.job("a").status);
    w.run("a");
    assert_eq!(w.phase("a"), Phase::Running);
    // One that must have both waits.
    job.rails.allow_partial = false;
    job.gang.nodes = 4;
    w.submit("strict", job);
    assert_eq!(w.phase("strict"), Phase::Pending);
}

#[test]
fn a_reserved_node_replaces_nothing() {
    for (from, replaced) in [(600, true), (7200, false)] {
        let mut w = World::new();
        let start = w.now.plus(Duration::from_secs(from));
        let mut job = replacing(3, 0, Replace::Any);
        job.time_limit = Some(Duration::from_secs(3600));
        w.submit("a", job);
        w.run("a");
        let free = (0..4).find(|n| !w.nodes("a").contains(n)).unwrap();
        w.ok(apply(reservation("window", &[free], start)));
        let broken = w.nodes("a")[1];
        w.report(broken, lost(&w, "a", broken));
        w.all("a", Observed::Ended);
        assert_eq!(w.phase("a"), if replaced { Phase::Failed } else { Phase::Reserved }, "from {from}");
    }
}

#[test]
fn a_drained_node_is_left_by_jobs_that_can_go_on_elsewhere_and_the_others_end_there() {
    let mut w = World::new();
    w.submit("moves", replacing(2, 0, Replace::Any));
    w.submit("stays", spec(1, 4));
    w.run("moves");
    w.run("stays");
    let drain = |n: usize| {
        let taint =
            proto_model::Taint { key: crate::node::quarantine::DRAINED.to_owned(), value: String::new() };
        let change = crate::NodeChange { taints: Some([taint].into()), ..crate::NodeChange::default() };
        Event::UpdateNode { name: name(n), change, if_version: 0 }
    };
    let before = w.nodes("moves");
    let stays = w.nodes("stays")[0];
    w.ok(drain(before[1]));
    w.ok(drain(stays));
    assert_eq!((w.phase("moves"), w.phase("stays")), (Phase::Recovering, Phase::Running));
    assert_eq!(w.codes("moves")[0], "NodeDrained");
    w.all("moves", Observed::Ended);
    assert_eq!((w.phase("moves"), w.nodes("moves")[0]), (Phase::Reserved, before[0]));
    assert!(!w.nodes("moves").contains(&before[1]) && !w.nodes("moves").contains(&stays));
    assert_eq!(w.job("moves").status.restarts, 0);
}

#[test]
fn a_job_that_yields_is_signalled_as_it_asks_and_comes_back_when_there_is_room() {
    let mut w = World::new();
    let preemption = proto_model::Preemption {
        preemptible: true,
        grace: Some(Duration::from_secs(20)),
        signal: 10,
        ..proto_model::Preemption::of_priority(-5)
    };
    let patient = JobSpec {
        preemption,
        priority: -5,
        expected: Some(Duration::from_secs(3600)),
        ..requeue(spec(4, 4), Requeue::OnAny, 0)
    };
    let uid = w.submit("patient", patient).uid;
    w.run("patient");
    w.tick(Duration::from_secs(5));
    w.submit("urgent", JobSpec { priority: 50, ..spec(2, 4) });
    let gang = w.nodes("patient");
    let (_, DesiredState::Stopped { grace, signal, .. }) = &w.desired[&(name(gang[0]), uid)] else {
        panic!("{:?} {:?}", w.phase("patient"), w.codes("urgent"))
    };
    assert_eq!((*grace, *signal), (Duration::from_secs(20), 10));
    // Some save their work and end well, some are killed: none of that is a failure.
    for n in gang {
        let end = w.exited("patient", n, i32::from(n == 1));
        w.report(n, end);
    }
    w.tick(Duration::from_millis(1));
    let status = &w.job("patient").status;
    assert_eq!((status.phase, status.attempt, status.preempted, status.restarts), (Phase::Pending, 2, 1, 0));
    assert!(w.codes("patient").contains(&"Preempted".to_owned()), "{:?}", w.codes("patient"));
    assert_eq!(w.phase("urgent"), Phase::Reserved);
    w.run("urgent");
    for n in w.nodes("urgent") {
        let end = w.exited("urgent", n, 0);
        w.report(n, end);
    }
    w.tick(Duration::from_millis(1));
    assert_eq!(w.phase("patient"), Phase::Reserved);
}

#[test]
fn an_elastic_job_starts_with_the_nodes_that_there_are() {
    let mut w = World::new();
    w.submit("other", spec(2, 4));
    let mut elastic = spec(4, 4);
    elastic.gang.min_nodes = 1;
    w.submit("elastic", elastic);
    assert_eq!((w.phase("elastic"), w.nodes("elastic").len()), (Phase::Reserved, 2));
    assert_eq!(w.job("elastic").status.placement.as_ref().unwrap().ranks.len(), 2);
    w.run("elastic");
    assert_eq!(w.phase("elastic"), Phase::Running);
}
