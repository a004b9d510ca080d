//! The life of jobs.

use std::time::Duration;

use proto_model::{
    AllocationSpec, DesiredState, Observation, Observed, Phase, RailBytes, Reason, ReasonCode, Requeue,
    RunResult, Work,
};

use super::*;

#[test]
fn a_job_from_submit_to_completion() {
    let mut w = World::new();
    let job = w.submit("a", spec(2, 4));
    assert_eq!((job.status.phase, job.status.attempt), (Phase::Reserved, 1));
    assert_eq!(w.state.usage(&tenant("red")).gpus_used, 8);
    let [x, y] = w.nodes("a")[..] else { panic!() };
    assert!(matches!(w.desired[&(name(x), job.uid)], (1, DesiredState::Prepared { .. })));

    let out = w.report(x, w.seen("a", x, Observed::Preparing));
    assert_eq!(
        out.transitions.iter().map(|t| (t.from, t.to)).collect::<Vec<_>>(),
        [(Phase::Reserved, Phase::Preparing)]
    );
    w.report(x, w.seen("a", x, Observed::Prepared));
    assert_eq!(w.phase("a"), Phase::Preparing, "not all nodes are prepared");
    w.report(y, w.seen("a", y, Observed::Prepared));
    assert_eq!(w.phase("a"), Phase::Running);
    let (_, DesiredState::Running { peers, .. }) = &w.desired[&(name(y), job.uid)] else { panic!() };
    assert_eq!(peers.len(), 2);
    assert!(peers.iter().all(|peer| peer.endpoints.len() == 1));
    assert_eq!(w.job("a").status.started, None);
    w.all("a", Observed::Running);
    assert_eq!(w.job("a").status.started, Some(w.now));

    let result = RunResult { ranks: 2, verified: true, ..RunResult::default() };
    let rails = vec![RailBytes { rail: 0, tx_bytes: 5, rx_bytes: 6 }];
    w.report(x, Observation { result: Some(result), rails: rails.clone(), ..w.exited("a", x, 0) });
    assert_eq!(w.phase("a"), Phase::Running);
    w.report(y, Observation { rails, ..w.exited("a", y, 0) });
    let status = &w.job("a").status;
    assert_eq!((status.phase, status.exits.len(), status.reasons.len()), (Phase::Completed, 2, 0));
    let result = status.result.as_ref().unwrap();
    assert_eq!((result.verified, result.rails[0].tx_bytes, result.rails[0].rx_bytes), (true, 10, 12));
    assert!(status.placement.is_some() && status.ended.is_some());
    let stored_bytes = job.footprint();
    let usage = TenantUsage { stored_bytes, ..TenantUsage::default() };
    assert_eq!(w.state.usage(&tenant("red")), usage, "what has ended is still stored");
    assert!(w.forgotten.contains(&(name(x), job.uid, 1)) && w.forgotten.contains(&(name(y), job.uid, 1)));
    assert!(w.state.base.views.is_empty());
}

use crate::TenantUsage;

#[test]
fn repeated_late_and_reordered_reports_are_harmless() {
    let mut w = World::new();
    w.submit("a", spec(2, 4));
    let [x, y] = w.nodes("a")[..] else { panic!() };
    let prepared = w.seen("a", x, Observed::Prepared);
    w.run("a");
    let before = w.state.clone();
    w.report(x, prepared.clone());
    w.report(x, prepared);
    w.report(y, w.seen("a", y, Observed::Preparing));
    assert!(w.state.same(&before));
    w.report(x, w.exited("a", x, 0));
    w.report(x, w.seen("a", x, Observed::Running));
    w.report(y, w.exited("a", y, 0));
    assert_eq!(w.phase("a"), Phase::Completed);
    // After the end: answered by Forget, nothing else.
    let late = Observation { attempt: 1, ..w.seen("a", x, Observed::Running) };
    let out = w.report(x, late);
    assert!(out.writes.is_empty());
    assert!(matches!(out.pushes[..], [crate::Push { message: ToNode::Forget { attempt: 1, .. }, .. }]));
}

#[test]
fn a_failed_rank_fails_the_job_on_all_nodes() {
    let mut w = World::new();
    let uid = w.submit("a", requeue(spec(2, 4), Requeue::OnInfrastructure, 3)).uid;
    w.run("a");
    let [x, y] = w.nodes("a")[..] else { panic!() };
    let exit = w.exited("a", x, 3);
    w.report(x, Observation { state: Observed::Running, ..exit });
    // Both are told; what is held stays held until both have confirmed.
    for n in [x, y] {
        assert!(matches!(w.desired[&(name(n), uid)], (1, DesiredState::Stopped { .. })));
    }
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Running, vec!["RankFailed".to_owned()]));
    w.report(x, w.seen("a", x, Observed::Ended));
    assert_eq!(w.state.usage(&tenant("red")).gpus_used, 8);
    // The other rank was killed: that is no cause of its own.
    w.report(y, w.exited("a", y, 143));
    assert_eq!((w.phase("a"), w.codes("a")), (Phase::Failed, vec!["RankFailed".to_owned()]));
    assert!(w.job("a").status.reasons[0].message.contains("rank 0 with status 3"));
    assert_eq!(w.job("a").status.exits.len(), 2);
    assert_eq!(w.state.usage(&tenant("red")).gpus_used, 0);
}

fn lose_engine(w: &mut World, text: &str) {
    let [x, y] = w.nodes(text)[..] else { panic!() };
    // The peer's rank notices first and fails; the engine's node names the cause.
    let exit = w.exited(text, y, 1);
    w.report(y, Observation { state: Observed::Stopping, ..exit });
    let cause = Some(Reason::new(ReasonCode::EngineLost, "killed"));
    w.report(x, Observation { cause, ..w.seen(text, x, Observed::Stopping) });
    w.all(text, Observed::Ended);
}

/// What a job does to itself is not repeated where only failures of the infrastructure are.
#[test]
fn a_job_that_outgrows_its_memory_fails_by_its_own_doing() {
    for code in [ReasonCode::OutOfMemory, ReasonCode::TooManyProcesses, ReasonCode::RankStartFailed] {
        let mut w = World::new();
        w.submit("a", requeue(spec(1, 4), Requeue::OnInfrastructure, 3));
        w.run("a");
        let [x] = w.nodes("a")[..] else { panic!() };
        let cause = Some(Reason::new(code.clone(), "too much").scope("rank/0"));
        w.report(x, Observation { cause, ..w.seen("a", x, Observed::Stopping) });
        w.all("a", Observed::Ended);
        assert_eq!(w.phase("a"), Phase::Failed, "{code}");
        let status = &w.job("a").status;
        assert_eq!((&status.reasons[0].code, status.reasons[0].scope.as_str()), (&code, "rank/0"));
    }
}

#[test]
fn a_lost_engine_requeues_where_the_policy_says_so_and_not_for_ever() {
    let mut w = World::new();
    w.submit("a", requeue(spec(2, 4), Requeue::OnInfrastructure, 1));
    w.run("a");
    lose_engine(&mut w, "a");
    let status = &w.job("a").status;
    assert_eq!((status.phase, status.attempt), (Phase::Pending, 2));
    assert_eq!((status.placement.is_none(), status.started), (true, None));
    let codes = w.codes("a");
    assert!(codes.contains(&"EngineLost".into()) && codes.contains(&"Requeued".into()), "{codes:?}");
    w.tick(Duration::from_millis(500));
    assert_eq!(w.phase("a"), Phase::Pending, "it backs off");
    w.tick(Duration::from_millis(600));
    assert_eq!((w.phase("a"), w.job("a").status.attempt), (Phase::Reserved, 2));
    w.run("a");
    lose_engine(&mut w, "a");
    assert_eq!(w.phase("a"), Phase::Failed);
    assert!(w.codes("a").contains(&"RestartsExhausted".into()));

    let mut w = World::new();
    w.submit("b", spec(2, 4));
    w.run("b");
    lose_engine(&mut w, "b");
    assert_eq!(w.phase("b"), Phase::Failed);
}

#[test]
fn attempts_that_were_followed_by_another_are_remembered_within_bounds() {
    let mut w = World::new();
    w.submit("a", requeue(spec(2, 4), Requeue::OnAny, 20));
    for attempt in 1..=10_u32 {
        w.run("a");
        let nodes = w.nodes("a");
        let started = w.job("a").status.started;
        assert!(started.is_some());
        let exit = w.exited("a", nodes[1], 7);
        w.report(nodes[1], Observation { state: Observed::Stopping, ..exit });
        w.all("a", Observed::Ended);
        let status = &w.job("a").status;
        let past = status.past_attempts.last().unwrap();
        assert_eq!((past.attempt, past.started), (attempt, started));
        assert!(past.ended >= started.unwrap());
        assert_eq!(past.nodes, nodes.iter().map(|n| name(*n)).collect::<Vec<_>>());
        assert!(past.exits.iter().any(|exit| exit.code == 7), "{past:?}");
        assert!(past.reasons.iter().any(|reason| reason.code == ReasonCode::RankFailed), "{past:?}");
        assert!(status.past_attempts.len() <= proto_model::PastAttempt::MAX && status.exits.is_empty());
        w.tick(Duration::from_secs(600));
    }
    let known: Vec<u32> = w.job("a").status.past_attempts.iter().map(|past| past.attempt).collect();
    assert_eq!(known, [3, 4, 5, 6, 7, 8, 9, 10]);
    assert_eq!(w.reload(9).job(&id("a")).map(|job| job.status.past_attempts.len()), Some(8), "it is stored");
}

#[test]
fn cancel_in_every_phase() {
    let cancel =
        |w: &mut World| w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("a"), grace: None });
    for reached in 0..5 {
        let mut w = World::new();
        if reached == 0 {
            w.submit("first", spec(4, 4));
            w.submit("a", spec(1, 4));
            assert_eq!(w.phase("a"), Phase::Pending);
            cancel(&mut w);
        } else {
            let policy = requeue(spec(2, 4), Requeue::OnAny, 3);
            w.submit("a", policy);
            if reached > 1 {
                w.all("a", Observed::Preparing);
            }
            if reached > 2 {
                w.run("a");
            }
            if reached > 3 {
                let exit = w.exited("a", w.nodes("a")[0], 1);
                w.report(w.nodes("a")[0], Observation { state: Observed::Stopping, ..exit });
                assert_eq!(w.phase("a"), Phase::Recovering);
            }
            cancel(&mut w);
            assert!(w.job("a").status.cancel_requested && !w.phase("a").is_terminal());
            let before = w.state.clone();
            cancel(&mut w);
            assert!(w.state.same(&before), "a second cancel changes nothing");
            w.all("a", Observed::Ended);
        }
        assert_eq!(w.phase("a"), Phase::Cancelled, "from {reached}");
        assert_eq!(w.state.usage(&tenant("red")).gpus_used, if reached == 0 { 16 } else { 0 });
        cancel(&mut w);
        assert_eq!(w.ok(Event::DeleteJob { by: None, indices: Vec::new(), id: id("a") }), Reply::Done);
        assert!(w.state.job(&id("a")).is_none());
    }
}

#[test]
fn less_grace_is_told_again() {
    let mut w = World::new();
    let uid = w.submit("a", spec(1, 4)).uid;
    w.run("a");
    let n = w.nodes("a")[0];
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("a"), grace: None });
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("a"), grace: Some(Duration::from_secs(1)) });
    let (_, DesiredState::Stopped { grace, .. }) = &w.desired[&(name(n), uid)] else { panic!() };
    assert_eq!(*grace, Duration::from_secs(1));
}

#[test]
fn no_phase_hangs() {
    let mut w = World::new();
    w.submit("prepare", requeue(spec(1, 4), Requeue::OnInfrastructure, 3));
    w.submit("start", spec(1, 4));
    w.submit(
        "run",
        JobSpec { time_limit: Some(Duration::from_secs(90)), ..requeue(spec(1, 4), Requeue::OnAny, 9) },
    );
    w.all("start", Observed::Prepared);
    w.run("run");
    w.tick(Duration::from_secs(61));
    assert_eq!(
        (w.phase("prepare"), w.codes("prepare")),
        (Phase::Recovering, vec!["PrepareTimeout".to_owned()])
    );
    assert_eq!(w.codes("start"), ["StartTimeout"]);
    assert_eq!(w.phase("run"), Phase::Running);
    w.tick(Duration::from_secs(30));
    assert_eq!(w.codes("run"), ["TimeLimit"]);
    w.all("prepare", Observed::Ended);
    w.all("start", Observed::Ended);
    w.all("run", Observed::Ended);
    assert_eq!(
        (w.phase("prepare"), w.phase("start"), w.phase("run")),
        (Phase::Pending, Phase::Failed, Phase::Failed)
    );
}

#[test]
fn an_allocation_that_has_had_its_time_is_cancelled_and_has_not_failed() {
    let mut w = World::new();
    let work = Work::Allocation(AllocationSpec::default());
    let time_limit = Some(Duration::from_secs(90));
    w.submit("held", JobSpec { work, time_limit, ..requeue(spec(1, 4), Requeue::OnAny, 9) });
    w.run("held");
    w.tick(Duration::from_secs(91));
    assert_eq!(w.codes("held"), ["TimeLimit"]);
    w.all("held", Observed::Ended);
    assert_eq!(w.phase("held"), Phase::Cancelled);
}

#[test]
fn waiting_jobs_start_in_order_when_something_is_freed() {
    let mut w = World::new();
    w.submit("first", spec(4, 4));
    for (text, priority) in [("low", 0), ("high", 5), ("small", 0)] {
        let nodes = if text == "small" { 1 } else { 2 };
        w.submit(text, JobSpec { priority, ..spec(nodes, 4) });
        assert_eq!(w.phase(text), Phase::Pending);
        assert!(w.codes(text).contains(&"QuotaExceeded".to_owned()), "{:?}", w.codes(text));
    }
    assert_eq!(w.state.explain(&id("low"), w.now).unwrap().queue_position, 1);
    w.run("first");
    for n in 0..4 {
        let end = w.exited("first", n, 0);
        w.report(n, end);
    }
    assert_eq!(
        [w.phase("high"), w.phase("low"), w.phase("small")],
        [Phase::Reserved, Phase::Reserved, Phase::Pending]
    );
}

#[test]
fn a_queue_longer_than_one_step_looks_at_is_reached_to_its_end() {
    let mut w = World::new();
    w.state.0.config.pass_limit = 3;
    w.submit("first", spec(4, 1));
    for n in 0..8 {
        w.submit(&format!("big-{n}"), JobSpec { priority: 9, ..spec(4, 3) });
    }
    w.submit("small", spec(1, 0));
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("big-0"), grace: None });
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("first"), grace: None });
    w.all("first", Observed::Ended);
    w.tick(Duration::ZERO);
    let placed = (1..8).filter(|n| w.phase(&format!("big-{n}")) == Phase::Reserved).count();
    assert_eq!(placed, 1);
    w.ok(Event::Cancel { by: None, indices: Vec::new(), id: id("big-1"), grace: None });
    w.all("big-1", Observed::Ended);
    w.tick(Duration::ZERO);
    assert_eq!(w.phase("big-2"), Phase::Reserved);
}

#[test]
fn a_plan_is_what_a_submit_does() {
    let mut w = World::new();
    for (n, size) in [2, 1, 3, 1, 1].into_iter().enumerate() {
        let plan = w.state.plan(&tenant("red"), &by(Role::Admin), &spec(size, 4), w.now).unwrap();
        let job = w.submit(&format!("j{n}"), spec(size, 4));
        assert_eq!(plan.placement.as_ref(), job.status.placement.as_deref());
        if plan.placement.is_none() {
            let codes: Vec<_> = plan.reasons.iter().map(|reason| reason.code.to_string()).collect();
            assert_eq!(codes, w.codes(&format!("j{n}")));
        }
    }
}

#[test]
fn the_rails_of_a_job_are_protected_as_it_asks_and_as_the_cluster_asks_at_least() {
    use proto_model::RailProtection::{Encrypted, Integrity, None};
    for (least, asked, taken) in [
        (None, None, None),
        (None, Encrypted, Encrypted),
        (Integrity, None, Integrity),
        (Integrity, Encrypted, Encrypted),
    ] {
        let mut w = World::new();
        w.state.0.config.rail_protection = least;
        let mut job = spec(2, 1);
        job.engine.protection = asked;
        w.submit("a", job);
        assert_eq!(w.job("a").spec.engine.protection, taken);
        let n = w.nodes("a")[0];
        let DesiredState::Prepared { spec, .. } = &w.desired[&(name(n), w.job("a").uid)].1 else { panic!() };
        assert_eq!(spec.engine.protection, taken, "engines are told");
    }
}
