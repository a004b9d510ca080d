//! Why a job waits, what would help, what was decided earlier; and plans that say what a submit does.

use proto_model::{Dependency, DependencyWhen, ReasonCode, Role};

use super::*;
use crate::explain::Change;

/// All four nodes are held by two jobs, a third waits.
fn full() -> World {
    let mut w = World::new();
    w.submit("left", spec(2, 4));
    w.submit("right", JobSpec { expected: Some(Duration::from_secs(60)), ..spec(1, 4) });
    w.submit("late", spec(2, 2));
    assert_eq!(w.phase("late"), Phase::Pending);
    w
}

#[test]
fn a_waiting_job_hears_who_holds_and_what_would_help() {
    let mut w = full();
    w.run("right");
    let reported = w.state.explain(&id("late"), w.now).unwrap();
    let detail = reported.detail.unwrap();
    assert_eq!((detail.nodes, detail.free, detail.reach), (4, 1, 1));
    let holders: Vec<(&str, u32)> =
        detail.holders.iter().map(|holding| (holding.id.name.as_str(), holding.nodes)).collect();
    assert_eq!(holders, [("left", 2), ("right", 1)]);
    assert_eq!(detail.holders[1].until, Some(w.now.plus(Duration::from_secs(60))));
    // Its quota is 16 GPUs, of which 12 are held: two nodes with two GPUs are within it.
    assert!(detail.relaxations.iter().any(|r| r.changes == [Change::Nodes { from: 2, to: 1 }]), "{detail:?}");
    let codes: Vec<&str> = reported.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert!(codes.contains(&"GangCapacity") && codes.contains(&"RailBusy"), "{codes:?}");
    // A plan of the same job says the same, and writes nothing.
    let plan = w.state.plan(&tenant("red"), &by(Role::Admin), &spec(2, 2), w.now).unwrap();
    assert!(plan.placement.is_none() && !plan.infeasible);
    assert_eq!(plan.detail.unwrap().relaxations, detail.relaxations);
    // With the change that was told it starts, once nobody waits ahead of it.
    w.ok(Event::Cancel { by: None, id: id("late"), grace: None, indices: Vec::new() });
    assert!(w.state.plan(&tenant("red"), &by(Role::Admin), &spec(1, 2), w.now).unwrap().placement.is_some());
}

#[test]
fn the_past_is_told_from_the_decision_log_also_after_a_restart() {
    let mut w = full();
    let submitted = w.now;
    w.tick(Duration::from_secs(5));
    w.ok(Event::Cancel { by: None, id: id("late"), grace: None, indices: Vec::new() });
    let past = |state: &State, text: &str, at: Timestamp| {
        let past = state.explain_at(&id(text), Timestamp(0), at).unwrap();
        past.decisions.iter().map(|(time, record)| (*time, record.phase, record.nodes)).collect::<Vec<_>>()
    };
    let reloaded = w.reload(8);
    for state in [&w.state, &reloaded] {
        assert_eq!(past(state, "left", w.now), [(submitted, Phase::Reserved, 2)]);
        assert_eq!(past(state, "late", submitted), [(submitted, Phase::Pending, 0)]);
        let all = past(state, "late", w.now);
        assert_eq!(all.last(), Some(&(w.now, Phase::Cancelled, 0)));
        let early = state.explain_at(&id("late"), Timestamp(0), Timestamp(submitted.0 - 1000)).unwrap_err();
        assert!(early.to_string().contains("1 s later"), "{early}");
        assert!(matches!(
            state.explain_at(&id("nobody"), Timestamp(0), w.now),
            Err(CoreError::JobNotFound { .. })
        ));
    }
    let waiting = w.state.explain_at(&id("late"), Timestamp(0), submitted).unwrap();
    assert!(waiting.decisions[0].1.reasons.iter().any(|reason| reason.code == ReasonCode::GangCapacity));
}

#[test]
fn the_decision_log_stays_within_its_bounds() {
    let mut w = full();
    w.state.0.config.max_decisions = 20;
    for round in 0..60 {
        let text = format!("j{round}");
        w.submit(&text, spec(2, 1));
        w.ok(Event::Cancel { by: None, id: id(&text), grace: None, indices: Vec::new() });
    }
    assert!(w.state.index.decisions <= 20 + 4, "{}", w.state.index.decisions);
    let stored = w.stored.keys().filter(|key| matches!(key, Key::Decisions(_))).count();
    assert_eq!(stored, w.state.base.decisions.len());
}

#[test]
fn lists_have_what_was_stored_since_the_job_was_read() {
    let mut w = World::new();
    w.submit("first", spec(4, 4));
    w.submit("second", spec(4, 4));
    assert_eq!(w.phase("second"), Phase::Pending);
    let reported = w.job("second").status.reasons.clone();
    assert!(!reported.is_empty(), "its reasons are stored");
    let prospect = w.state.prospects(&[id("second")], w.now).remove(0);
    assert_eq!((prospect.stored, prospect.reasons, prospect.left), (reported, Vec::new(), false));
    assert!(prospect.eta.is_some() && prospect.holds.is_empty());
    // Whoever has read it before it was held is told that it is: nobody knows when it starts.
    w.ok(Event::HoldJob { order: Box::new(holds::order("second", Role::User)), reason: String::new() });
    let held = w.state.prospects(&[id("second")], w.now).remove(0);
    assert_eq!((held.eta, held.holds.len(), held.stored.len()), (None, 1, 1));
    assert_eq!(held.stored[0].code, ReasonCode::HeldByUser);
    let left = w.state.prospects(&[id("first")], w.now).remove(0);
    assert_eq!((left.left, left.eta), (true, None));
}

/// What a job was to wait for may have come to pass before its time has come: then that time is when it starts.
#[test]
fn a_job_whose_dependency_is_met_before_its_begin_time_has_an_expected_start() {
    let mut w = World::new();
    let Event::Submit(first) = submit("first", spec(1, 1)) else { panic!("it is a submit") };
    w.ok(Event::Submit(Box::new(Submit { hold: true, ..*first })));
    let begin = w.now.plus(Duration::from_secs(600));
    let when = DependencyWhen::Ended;
    let after = vec![Dependency { job: JobName::new("first").unwrap(), when }];
    w.submit("late", JobSpec { begin: Some(begin), after, ..spec(1, 1) });
    w.ok(Event::Cancel { by: None, id: id("first"), grace: None, indices: Vec::new() });
    w.tick(Duration::from_secs(10));
    let prospect = w.state.prospects(&[id("late")], w.now).remove(0);
    assert!(w.phase("first").is_terminal() && w.phase("late") == Phase::Pending);
    assert!(prospect.stored.len() == 1 && prospect.stored[0].code == ReasonCode::BeginTime, "{prospect:?}");
    // A forecast's steps are ten seconds wide.
    let near = |eta: proto_model::Eta| eta.earliest == begin && eta.start.since(begin).as_secs() <= 10;
    assert!(prospect.eta.is_some_and(near), "{prospect:?}");
}
