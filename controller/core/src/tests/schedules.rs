//! Schedules: when runs are submitted and when not, what a new leader makes of it, whose authority counts.

use std::time::Duration;

use proto_model::{
    ArraySpec, Concurrency, Cron, History, JobSchedule, Observed, Role, ScheduleName, ScheduleProgress, Zone,
};

use super::*;
use crate::ErrorKind;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn called(text: &str) -> ScheduleName {
    ScheduleName::new(text).unwrap()
}

/// As a document that somebody applies.
pub(super) fn schedule(text: &str, cron: &str, job: JobSpec) -> JobSchedule {
    JobSchedule {
        tenant: tenant("red"),
        name: called(text),
        uid: String::new(),
        generation: 0,
        created: Timestamp(0),
        cron: Cron::new(cron).unwrap(),
        zone: Zone::default(),
        labels: BTreeMap::from([("team".to_owned(), "x".to_owned())]),
        job: job.into(),
        concurrency: Concurrency::Allow,
        starting_deadline: None,
        suspended: false,
        history: History::default(),
        owner: None,
        progress: ScheduleProgress::default(),
    }
}

pub(super) fn apply(schedule: JobSchedule) -> Event {
    Event::ApplySchedule { schedule: Box::new(schedule), by: by(Role::Admin), dry_run: false }
}

fn user(text: &str) -> Authority {
    Authority { role: Role::User, user: text.to_owned() }
}

/// The jobs of a schedule in the order of their times.
fn runs(w: &World, text: &str) -> Vec<String> {
    let of = |job: &&Arc<Job>| job.status.schedule.as_ref().is_some_and(|run| run.schedule == called(text));
    w.state.jobs(None).filter(of).map(|job| job.id.name.to_string()).collect()
}

fn progress(w: &World, text: &str) -> ScheduleProgress {
    w.state.job_schedule(&tenant("red"), &called(text)).unwrap().progress.clone()
}

fn left_out(w: &World, text: &str) -> String {
    progress(w, text).last_left_out.unwrap().code.to_string()
}

fn end(w: &mut World, text: &str, code: i32) {
    w.run(text);
    for n in w.nodes(text) {
        let exited = w.exited(text, n, code);
        w.report(n, exited);
    }
}

#[test]
fn runs_are_submitted_at_their_times_and_nothing_before() {
    // It is 00:16:40.
    let mut w = World::new();
    w.ok(apply(schedule("tick", "*/5 * * * *", spec(1, 1))));
    let view = w.state.schedule_view(&tenant("red"), &called("tick"), w.now);
    assert_eq!((view.next, view.active.len()), (Some(Timestamp(1_200_000)), 0));
    let due = w.state.base.schedules.values().next().unwrap().due;
    assert_eq!(due, Some(Timestamp(1_200_000)), "00:20 is the next time");
    w.tick(Duration::from_secs(199));
    assert_eq!(runs(&w, "tick"), [""; 0]);
    w.tick(Duration::from_secs(1));
    assert_eq!(runs(&w, "tick"), ["tick-19700101-0020"]);
    let job = w.job("tick-19700101-0020");
    assert_eq!((job.labels["team"].as_str(), job.status.submitter.clone()), ("x", Some(by(Role::Admin))));
    assert_eq!(job.status.schedule.as_ref().unwrap().time, Timestamp(1_200_000));
    assert_eq!(job.status.phase, Phase::Reserved, "it is placed like any other");
    w.tick(5 * MINUTE);
    assert_eq!(runs(&w, "tick"), ["tick-19700101-0020", "tick-19700101-0025"]);
    assert_eq!((progress(&w, "tick").submitted, progress(&w, "tick").left_out), (2, 0));
    // The audit log says that it was, and by whose authority.
    let reported = |row: &Write| match row {
        Write::PutAudit(row) => {
            row.records.iter().any(|record| format!("{record:?}").contains("schedule tick"))
        }
        _ => false,
    };
    assert_eq!(w.stored.values().filter(|row| reported(row)).count(), 2);
}

#[test]
fn one_run_is_one_job_whoever_leads() {
    let mut w = World::new();
    w.ok(apply(schedule("tick", "* * * * *", spec(1, 1))));
    w.now = w.now.plus(MINUTE);
    // The transaction fails: nothing was submitted, and the time is still due.
    let mut random = 3;
    step(&mut w.state, Event::Tick, w.now, &mut |bytes| fill(&mut random, bytes));
    w.state.rollback();
    assert_eq!(runs(&w, "tick"), [""; 0]);
    w.tick(Duration::ZERO);
    assert_eq!(runs(&w, "tick"), ["tick-19700101-0017"]);
    // A leader that comes later, and one whose clock is behind, make no second one of it.
    for back in [0, 50_000] {
        w.state = w.reload(8);
        w.state.0.epoch = 7;
        w.now = Timestamp(w.now.0 - back);
        w.tick(Duration::ZERO);
        assert_eq!((runs(&w, "tick").len(), progress(&w, "tick").submitted), (1, 1));
    }
    // Nor is one made again whose record was deleted.
    let mut w = World::new();
    w.ok(apply(schedule("tick", "* * * * *", spec(1, 1))));
    w.tick(MINUTE);
    end(&mut w, "tick-19700101-0017", 0);
    w.ok(Event::DeleteJob { by: None, id: id("tick-19700101-0017"), indices: Vec::new() });
    w.tick(Duration::ZERO);
    w.state = w.reload(8);
    w.state.0.epoch = 7;
    w.tick(Duration::ZERO);
    assert_eq!((runs(&w, "tick").len(), progress(&w, "tick").submitted), (0, 1));
}

#[test]
fn of_what_was_missed_the_last_one_runs_and_only_within_its_deadline() {
    let mut w = World::new();
    let late = |text: &str, seconds: u64| JobSchedule {
        starting_deadline: Some(Duration::from_secs(seconds)),
        ..schedule(text, "*/10 * * * *", spec(1, 1))
    };
    w.ok(apply(schedule("any", "*/10 * * * *", spec(1, 1))));
    w.ok(apply(late("hour", 3600)));
    w.ok(apply(late("soon", 60)));
    // Nobody leads from 00:16:40 to 03:25:00.
    w.now = Timestamp(12_300_000);
    w.state = w.reload(8);
    w.state.0.epoch = 7;
    w.tick(Duration::ZERO);
    assert_eq!(runs(&w, "any"), ["any-19700101-0320"]);
    assert_eq!(runs(&w, "hour"), ["hour-19700101-0320"]);
    assert_eq!((runs(&w, "soon").len(), left_out(&w, "soon").as_str()), (0, "TooLate"));
    assert_eq!(progress(&w, "soon").last_left_out.unwrap().since, Some(Timestamp(12_000_000)));
    w.tick(5 * MINUTE);
    assert_eq!(runs(&w, "soon"), ["soon-19700101-0330"], "the next one is in time");
}

#[test]
fn a_run_beside_an_earlier_one() {
    let mut w = World::new();
    let with =
        |text: &str, concurrency| JobSchedule { concurrency, ..schedule(text, "* * * * *", spec(1, 1)) };
    w.ok(apply(with("both", Concurrency::Allow)));
    w.ok(apply(with("one", Concurrency::Forbid)));
    w.ok(apply(with("last", Concurrency::Replace)));
    w.tick(MINUTE);
    ["both", "one", "last"].iter().for_each(|text| w.run(&format!("{text}-19700101-0017")));
    w.tick(MINUTE);
    assert_eq!(runs(&w, "both").len(), 2);
    assert_eq!((runs(&w, "one").len(), left_out(&w, "one").as_str()), (1, "StillRunning"));
    assert_eq!(runs(&w, "last").len(), 2);
    assert!(w.job("last-19700101-0017").status.cancel_requested);
    assert!(
        !w.job("last-19700101-0018").status.cancel_requested
            && !w.job("both-19700101-0017").status.cancel_requested
    );
    let view = |w: &World, text| w.state.schedule_view(&tenant("red"), &called(text), w.now);
    assert_eq!(view(&w, "last").active.len(), 2, "the earlier one is still ending");
    w.all("last-19700101-0017", Observed::Ended);
    end(&mut w, "one-19700101-0017", 0);
    w.tick(MINUTE);
    assert!(runs(&w, "one").contains(&"one-19700101-0019".to_owned()));
    // A leader that dies between a run and the end of the one before leaves that to the next.
    let mut w = World::new();
    w.ok(apply(with("last", Concurrency::Replace)));
    w.tick(MINUTE);
    w.now = w.now.plus(MINUTE);
    w.step(Event::Tick);
    assert!(runs(&w, "last").len() == 2 && !w.job("last-19700101-0017").status.cancel_requested);
    w.state = w.reload(8);
    w.state.0.epoch = 7;
    w.tick(Duration::ZERO);
    assert_eq!(w.state.job(&id("last-19700101-0017")).map(|job| job.status.cancel_requested), Some(true));
}

#[test]
fn records_of_ended_runs_are_kept_as_many_as_asked_for() {
    let mut w = World::new();
    let history = History { completed: 2, failed: 1 };
    w.ok(apply(JobSchedule { history, ..schedule("tick", "* * * * *", spec(1, 1)) }));
    for (at, code) in [(17, 0), (18, 1), (19, 0), (20, 1), (21, 0), (22, 0)] {
        w.tick(MINUTE);
        end(&mut w, &format!("tick-19700101-00{at}"), code);
    }
    w.tick(Duration::ZERO);
    assert_eq!(runs(&w, "tick"), ["tick-19700101-0020", "tick-19700101-0021", "tick-19700101-0022"]);
    // They go at once where fewer are asked for; one that another job waits for stays, whatever the number.
    let job = JobName::new("tick-19700101-0021").unwrap();
    let after = vec![proto_model::Dependency { job, when: proto_model::DependencyWhen::Succeeded }];
    w.submit("waits", JobSpec { after, begin: Some(w.now.plus(100 * MINUTE)), ..spec(1, 1) });
    let none = History { completed: 0, failed: 0 };
    w.ok(apply(JobSchedule { history: none, suspended: true, ..schedule("tick", "* * * * *", spec(1, 1)) }));
    w.tick(Duration::ZERO);
    assert_eq!(runs(&w, "tick"), ["tick-19700101-0021"]);
}

#[test]
fn a_suspended_one_makes_up_for_nothing() {
    let mut w = World::new();
    let with = |suspended| JobSchedule { suspended, ..schedule("tick", "*/5 * * * *", spec(1, 1)) };
    w.ok(apply(with(true)));
    assert_eq!(w.state.schedule_view(&tenant("red"), &called("tick"), w.now).next, None);
    w.tick(20 * MINUTE);
    w.ok(apply(with(false)));
    w.tick(Duration::ZERO);
    assert_eq!(runs(&w, "tick"), [""; 0]);
    w.tick(5 * MINUTE);
    assert_eq!(runs(&w, "tick").len(), 1);
    // Nor does one whose times are others now.
    w.ok(apply(schedule("tick", "36 * * * *", spec(1, 1))));
    w.tick(MINUTE);
    assert_eq!(runs(&w, "tick").len(), 1, "36 minutes past has gone by an hour ago or is to come");
}

#[test]
fn its_owner_is_who_applied_it_last_and_may_no_more_than_that() {
    let mut w = World::new();
    let urgent = JobSpec { priority: 10, ..spec(1, 1) };
    let by = |who: Authority, schedule| Event::ApplySchedule {
        schedule: Box::new(schedule),
        by: who,
        dry_run: false,
    };
    let refused = w.refused(by(user("ann"), schedule("tick", "* * * * *", urgent.clone())));
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Denied, "PRIORITY_TOO_HIGH"), "{refused}");
    let made = w.ok(by(super::by(Role::Admin), schedule("tick", "* * * * *", urgent)));
    let Reply::JobSchedule(made) = made else { panic!() };
    assert_eq!((made.generation, made.owner.clone()), (1, Some(super::by(Role::Admin))));
    // The administrator's authority does not go over to whoever changes it.
    let manager = Authority { role: Role::TenantAdmin, user: "ann".into() };
    let refused = w.refused(by(user("ann"), schedule("tick", "* * * * *", spec(1, 1))));
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Denied, "NOT_OWNER"), "{refused}");
    let changed = w.ok(by(manager.clone(), schedule("tick", "* * * * *", spec(1, 1))));
    let Reply::JobSchedule(changed) = changed else { panic!() };
    assert_eq!(
        (changed.generation, changed.uid == made.uid, changed.owner.clone()),
        (2, true, Some(manager.clone()))
    );
    w.tick(MINUTE);
    assert_eq!(w.job("tick-19700101-0017").status.submitter, Some(manager.clone()));
    // The same again changes nothing, nor does a dry run.
    let out = w.step(by(manager, schedule("tick", "* * * * *", spec(1, 1))));
    assert!(out.writes.is_empty());
    let dry = Event::ApplySchedule {
        schedule: Box::new(schedule("other", "* * * * *", spec(1, 1))),
        by: user("ann"),
        dry_run: true,
    };
    assert!(
        w.step(dry).writes.is_empty() && w.state.job_schedule(&tenant("red"), &called("other")).is_none()
    );
}

#[test]
fn what_a_submit_would_be_refused_is_refused_or_left_out() {
    let mut w = World::new();
    for (job, code, word) in [
        (spec(9, 1), "INFEASIBLE", "could"),
        (JobSpec { begin: Some(Timestamp(9_000_000)), ..spec(1, 1) }, "INVALID_FIELD", "spec.beginTime"),
        (JobSpec { deadline: Some(Timestamp(9_000_000)), ..spec(1, 1) }, "INVALID_FIELD", "spec.deadline"),
        (JobSpec { queue: Some("none".parse().unwrap()), ..spec(1, 1) }, "QUEUE_NOT_FOUND", "no queue"),
        (
            JobSpec { array: Some(ArraySpec { indices: (0..65).collect(), at_once: 0 }), ..spec(1, 1) },
            "INVALID_FIELD",
            "65 elements are more than the 64",
        ),
    ] {
        let refused = w.refused(apply(schedule("tick", "* * * * *", job)));
        assert_eq!(refused.code(), code, "{refused}");
        assert!(refused.to_string().starts_with("a job of its template would be refused"), "{refused}");
        assert!(refused.to_string().contains(word), "{refused}");
    }
    // The job's name is somebody else's by now; the next one is not.
    w.ok(apply(schedule("tick", "* * * * *", spec(1, 1))));
    w.submit("tick-19700101-0017", spec(1, 1));
    w.tick(MINUTE);
    assert_eq!((runs(&w, "tick").len(), left_out(&w, "tick").as_str()), (0, "Refused"));
    w.tick(MINUTE);
    assert_eq!(runs(&w, "tick").len(), 1);
    // The tenant's limit of jobs holds: what is over it is left out.
    w.ok(Event::ApplyTenant {
        name: tenant("red"),
        description: String::new(),
        quota: Quota::new(16, 2),
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    });
    w.tick(MINUTE);
    assert_eq!((runs(&w, "tick").len(), progress(&w, "tick").left_out), (1, 2));
    assert!(progress(&w, "tick").last_left_out.unwrap().message.contains("2"), "the limit is told");
}

#[test]
fn a_tenant_has_so_many_and_they_go_with_it() {
    let mut w = World::new();
    let quota = |schedules| Event::ApplyTenant {
        name: tenant("red"),
        description: String::new(),
        quota: Quota { schedules, ..Quota::new(16, 0) },
        isolation: proto_model::IsolationPolicy::BestEffort,
        dry_run: false,
    };
    w.ok(quota(2));
    for text in ["a", "b"] {
        w.ok(apply(schedule(text, "* * * * *", spec(1, 1))));
    }
    let refused = w.refused(apply(schedule("c", "* * * * *", spec(1, 1))));
    assert_eq!((refused.kind(), refused.code()), (ErrorKind::Exhausted, "QUOTA_EXCEEDED"), "{refused}");
    w.ok(apply(schedule("a", "@daily", spec(1, 1))));
    let gone = Event::DeleteSchedule { by: None, tenant: tenant("red"), name: called("d") };
    assert!(w.refused(gone).to_string().contains("did you mean"), "the nearest one is named");
    w.ok(Event::DeleteSchedule { by: None, tenant: tenant("red"), name: called("b") });
    w.ok(apply(schedule("c", "@daily", spec(1, 1))));
    w.ok(Event::DeleteTenant { name: tenant("red"), uid: None, dry_run: false });
    assert_eq!(w.state.job_schedules_of(&tenant("red")).count(), 0);
    assert!(!w.stored.keys().any(|key| matches!(key, Key::Schedule(..))));
    w.tick(2 * 24 * 60 * MINUTE);
    assert_eq!(w.state.jobs(None).count(), 0);
}

#[test]
fn the_jobs_of_a_deleted_one_stay_and_are_nobodys_history() {
    let mut w = World::new();
    w.ok(apply(schedule("tick", "* * * * *", spec(1, 1))));
    w.tick(MINUTE);
    w.ok(Event::DeleteSchedule { by: None, tenant: tenant("red"), name: called("tick") });
    end(&mut w, "tick-19700101-0017", 1);
    w.tick(5 * MINUTE);
    assert_eq!(runs(&w, "tick"), ["tick-19700101-0017"]);
    assert_eq!(w.phase("tick-19700101-0017"), Phase::Failed);
}

#[test]
fn a_run_may_be_an_array() {
    let mut w = World::new();
    let array = Some(ArraySpec { indices: (0..3).collect(), at_once: 0 });
    let history = History { completed: 1, failed: 0 };
    let forbid = Concurrency::Forbid;
    w.ok(apply(JobSchedule {
        history,
        concurrency: forbid,
        ..schedule("tick", "* * * * *", JobSpec { array, ..spec(1, 1) })
    }));
    w.tick(MINUTE);
    assert_eq!(runs(&w, "tick").len(), 3);
    let view = w.state.schedule_view(&tenant("red"), &called("tick"), w.now);
    assert_eq!(view.active.iter().map(JobName::as_str).collect::<Vec<_>>(), ["tick-19700101-0017"]);
    for index in 0..2 {
        end(&mut w, &format!("tick-19700101-0017-{index}"), 0);
    }
    w.tick(MINUTE);
    assert_eq!(left_out(&w, "tick"), "StillRunning", "the last element has not ended");
    end(&mut w, "tick-19700101-0017-2", 1);
    w.tick(MINUTE);
    let left = runs(&w, "tick");
    assert!(
        left.len() == 3 && left[0].starts_with("tick-19700101-0019"),
        "the failed one is forgotten as a whole: {left:?}"
    );
}

#[test]
fn whoever_is_revoked_owns_nothing_that_goes_on() {
    let mut w = World::new();
    let by = |who: Authority, text: &str| Event::ApplySchedule {
        schedule: Box::new(schedule(text, "* * * * *", spec(1, 1))),
        by: who,
        dry_run: false,
    };
    w.ok(by(user("ann"), "hers"));
    w.ok(by(user("bob"), "his"));
    // An administrator of that name is somebody else.
    w.ok(by(Authority { role: Role::Admin, user: "ann".into() }, "site"));
    let revoke = |tenant: Option<&str>| Event::SuspendSchedules(tenant.map(super::tenant), "ann".into());
    assert_eq!(w.ok(revoke(Some("blue"))), Reply::Suspended(0));
    assert_eq!(w.ok(revoke(Some("red"))), Reply::Suspended(1));
    assert_eq!(w.ok(revoke(Some("red"))), Reply::Suspended(0));
    w.tick(MINUTE);
    assert_eq!(["hers", "his", "site"].map(|text| runs(&w, text).len()), [0, 1, 1]);
    assert_eq!(left_out(&w, "hers"), "OwnerRevoked");
    assert_eq!(w.ok(revoke(None)), Reply::Suspended(1));
    assert_eq!(w.refused(by(user("bob"), "hers")).code(), "NOT_OWNER");
    w.ok(by(Authority { role: Role::TenantAdmin, user: "boss".into() }, "hers"));
    w.tick(MINUTE);
    assert_eq!(["hers", "his", "site"].map(|text| runs(&w, text).len()), [1, 2, 1]);
}
