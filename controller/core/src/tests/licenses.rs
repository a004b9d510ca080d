//! Licenses: who holds how many, who waits for one and why, and what a new total changes.

use proto_model::{License, LicenseName, ReasonCode};

use super::*;
use crate::{ErrorKind, LicenseUse};

fn license_name(text: &str) -> LicenseName {
    LicenseName::new(text).unwrap()
}

fn license(text: &str, total: u32) -> License {
    License {
        name: license_name(text),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        description: String::new(),
        total,
    }
}

fn apply(text: &str, total: u32) -> Event {
    Event::ApplyLicense(Box::new(license(text, total)), false)
}

fn asking(text: &str, count: u32) -> JobSpec {
    JobSpec { licenses: [(license_name(text), count)].into(), ..spec(1, 1) }
}

fn used(state: &State, text: &str) -> LicenseUse {
    state.license_use(&license_name(text))
}

fn why(w: &World, text: &str) -> Vec<String> {
    let reasons = w.state.explain(&id(text), w.now).unwrap().reasons;
    reasons
        .iter()
        .filter(|reason| reason.code == ReasonCode::License)
        .map(|reason| reason.message.clone())
        .collect()
}

/// The refusal of a submit, which a plan gives too.
fn refused(w: &mut World, spec: JobSpec) -> CoreError {
    let planned = w.state.plan(&tenant("red"), &by(Role::Admin), &spec, w.now);
    let error = w.refused(submit("refused", spec));
    assert_eq!(planned.unwrap_err(), error);
    error
}

#[test]
fn a_job_waits_for_a_license_with_the_reason_and_starts_at_the_end_of_who_holds_it() {
    let mut w = World::new();
    w.ok(apply("matlab", 4));
    w.submit("a", asking("matlab", 3));
    w.run("a");
    w.submit("b", asking("matlab", 2));
    // Of another tenant, with what is left.
    w.ok(submit_as("blue", "c", asking("matlab", 1), None));
    let reasons = &w.job("b").status.reasons;
    assert_eq!((w.phase("b"), w.codes("b")), (Phase::Pending, vec!["License".to_owned()]));
    assert_eq!(reasons[0].message, "license matlab: 3 of 4 in use, the job asks for 2");
    assert_eq!((reasons[0].scope.as_str(), reasons[0].count), ("license/matlab", 1));
    assert_eq!(why(&w, "b").len(), 1);
    assert_eq!(used(&w.state, "matlab"), LicenseUse { held: 4, running: 2, waiting: 1 });
    // A new controller counts the same, and lets nobody start.
    w.state = w.reload(7);
    assert_eq!(used(&w.state, "matlab"), LicenseUse { held: 4, running: 2, waiting: 1 });
    for n in 0..4 {
        let seen = w.seen("a", n, Observed::Running);
        w.connect(n, if w.nodes("a").contains(&n) { vec![seen] } else { Vec::new() });
    }
    w.tick(Duration::from_secs(2));
    assert_eq!((w.phase("b"), why(&w, "b").len()), (Phase::Pending, 1));
    let n = w.nodes("a")[0];
    let end = w.exited("a", n, 0);
    w.report(n, end);
    assert_eq!(w.phase("a"), Phase::Completed);
    w.tick(Duration::from_secs(2));
    assert!(w.phase("b").holds());
    assert_eq!(used(&w.state, "matlab"), LicenseUse { held: 3, running: 2, waiting: 0 });
}

#[test]
fn a_license_that_is_not_there_or_that_there_are_too_few_of_is_refused_at_submit() {
    let mut w = World::new();
    w.ok(apply("matlab", 4));
    w.ok(apply("none", 0));
    let unknown = refused(&mut w, asking("matlba", 1));
    assert_eq!((unknown.kind(), unknown.code()), (ErrorKind::NotFound, "LICENSE_NOT_FOUND"));
    assert_eq!(unknown.to_string(), "there is no license 'matlba'; did you mean 'matlab'?");
    for (name, asked, total) in [("matlab", 5, 4), ("none", 1, 0)] {
        let never = refused(&mut w, asking(name, asked));
        assert_eq!((never.kind(), never.code()), (ErrorKind::Infeasible, "LICENSE_TOO_FEW"));
        let text = format!("it asks for {asked}, there are {total} in all");
        assert!(never.to_string().ends_with(&text), "{never}");
    }
    w.submit("all", asking("matlab", 4));
    assert!(w.phase("all").holds());
}

#[test]
fn a_lower_total_stops_nobody_and_a_higher_one_starts_who_waits() {
    let mut w = World::new();
    w.ok(apply("matlab", 4));
    w.submit("a", asking("matlab", 3));
    w.run("a");
    w.submit("b", asking("matlab", 3));
    w.ok(apply("matlab", 2));
    w.tick(Duration::from_secs(2));
    assert_eq!((w.phase("a"), w.phase("b")), (Phase::Running, Phase::Pending));
    assert_eq!(why(&w, "b"), ["license matlab: the job asks for 3, there are 2 in all"]);
    assert_eq!(w.job("b").status.eta, None);
    // What else changes of the job is no new submit.
    let order = crate::JobOrder { id: id("b"), indices: Vec::new(), by: by(Role::Admin), asked: None };
    let change = crate::JobChange { priority: Some(5), ..Default::default() };
    w.ok(Event::UpdateJob(Box::new(crate::JobUpdate { order, change, if_version: 0 })));
    w.ok(apply("matlab", 6));
    w.tick(Duration::from_millis(1));
    assert!(w.phase("b").holds());
    assert_eq!(used(&w.state, "matlab").held, 6);
}

#[test]
fn a_license_is_made_changed_and_removed() {
    let mut w = World::new();
    let Reply::License(made) = w.ok(apply("matlab", 4)) else { panic!() };
    assert_eq!((made.generation, made.uid.is_empty()), (1, false));
    assert!(w.step(apply("matlab", 4)).writes.is_empty(), "the same again is no change");
    assert!(w.step(Event::ApplyLicense(Box::new(license("dry", 1)), true)).writes.is_empty());
    let Reply::License(more) = w.ok(apply("matlab", 5)) else { panic!() };
    assert_eq!((more.generation, &more.uid, more.created), (2, &made.uid, made.created));
    w.submit("a", asking("matlab", 1));
    let delete = || Event::DeleteLicense(license_name("matlab"));
    let busy = w.refused(delete());
    assert_eq!((busy.kind(), busy.code()), (ErrorKind::Precondition, "LICENSE_BUSY"));
    assert!(busy.to_string().starts_with("1 job that"), "{busy}");
    // An undone step leaves nothing.
    let mut other = w.state.clone();
    for event in [apply("matlab", 9), apply("other", 1)] {
        let event = super::attributed(&other, event);
        assert!(step(&mut other, event, w.now, &mut |bytes| bytes.fill(7)).reply.unwrap().is_ok());
    }
    assert!(!other.same(&w.state));
    other.rollback();
    assert!(other.same(&w.state));
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    assert_eq!(used(&w.state, "matlab"), LicenseUse::default());
    w.ok(delete());
    assert!(matches!(w.refused(delete()), CoreError::LicenseNotFound { .. }));
    assert!(w.state.base.licenses.is_empty() && w.reload(8).base.licenses.is_empty());
    for number in 0..256 {
        w.ok(apply(&format!("l{number}"), 1));
    }
    assert!(matches!(w.refused(apply("more", 1)), CoreError::Full { what: "licenses", limit: 256, .. }));
    assert_eq!(w.reload(8).base.licenses.len(), 256);
}
