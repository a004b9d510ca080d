//! Usage records: one for each attempt, whatever becomes of the job; lists and sums of them.

use std::time::Duration;

use proto_model::{Observed, Preemption, Requeue, Role};

use super::{holds::order, *};
use crate::{
    Transition, UsageAmount, UsageBudget, UsageBy, UsageEnd, UsageFilter, UsageKey, UsagePosition,
    UsageRecord, UsageSums, UsageTooOld,
};

const WHOLE: UsageBudget = UsageBudget { records: 1000, examined: 1000, late: 1000 };

/// What the phases of jobs say of attempts: when each got its place, and when it gave that back.
#[derive(Debug, Default)]
pub(super) struct Truth {
    open: BTreeMap<JobUid, (u32, Timestamp)>,
    ended: BTreeMap<UsageKey, (Timestamp, Timestamp)>,
}

impl Truth {
    /// Follows phases that have just changed.
    pub(super) fn follow(&mut self, w: &World, transitions: &[Transition]) {
        for step in transitions {
            if step.from.holds() && !step.to.holds() {
                let (attempt, placed) = self.open.remove(&step.uid).unwrap();
                assert!(self.ended.insert((step.uid, attempt), (placed, w.now)).is_none(), "{step:?}");
            }
            if !step.from.holds() && step.to.holds() {
                assert_eq!(self.open.insert(step.uid, (step.attempt, w.now)), None);
            }
        }
    }

    /// Each attempt has its record, and there is no other.
    pub(super) fn check(&self, w: &World) {
        let held = |record: &Arc<UsageRecord>| (record.key(), (record.placed, record.ended));
        let records: BTreeMap<_, _> = w.state.base.usage.values().map(held).collect();
        assert_eq!(records, self.ended);
        let open = |entry: &controller_state::JobEntry| {
            entry.attempt.as_ref().map(|attempt| (attempt.uid, (attempt.attempt, attempt.since)))
        };
        assert_eq!(w.state.base.jobs.values().filter_map(open).collect::<BTreeMap<_, _>>(), self.open);
    }
}

fn record(w: &World, text: &str, attempt: u32) -> Arc<UsageRecord> {
    let found = w.state.base.usage.values().find(|one| one.id == id(text) && one.attempt == attempt);
    Arc::clone(found.unwrap_or_else(|| panic!("{text}.{attempt} has no record: {:?}", w.state.base.usage)))
}

fn anything() -> UsageFilter {
    UsageFilter {
        tenant: None,
        tenant_uid: None,
        queue: None,
        user: None,
        since: Timestamp(0),
        until: Timestamp(u64::MAX),
    }
}

/// All pages, of so many records each.
fn listed(w: &World, filter: &UsageFilter, as_of: Timestamp, budget: UsageBudget) -> Vec<Arc<UsageRecord>> {
    let (mut all, mut after) = (Vec::new(), None);
    for _ in 0..1000 {
        let page = w.state.usage_page(filter, as_of, after, budget).unwrap();
        assert!(page.records.len() <= budget.records);
        all.extend(page.records);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
    panic!("a list without end");
}

/// A job of one server and one GPU that runs for some seconds and completes.
fn completed(w: &mut World, text: &str, seconds: u64) {
    w.submit(text, spec(1, 1));
    w.run(text);
    w.tick(Duration::from_secs(seconds));
    for n in w.nodes(text) {
        let observation = w.exited(text, n, 0);
        w.report(n, observation);
    }
    assert_eq!(w.phase(text), Phase::Completed);
}

#[test]
fn an_attempt_is_counted_from_its_place_to_its_end_and_outlives_its_job() {
    let mut w = World::new();
    let submitted = w.now;
    w.submit("a", spec(2, 4));
    w.tick(Duration::from_secs(3));
    w.run("a");
    let started = w.now;
    w.tick(Duration::from_millis(7500));
    for n in w.nodes("a") {
        let observation = w.exited("a", n, 0);
        w.report(n, observation);
    }
    let one = record(&w, "a", 1);
    assert_eq!((one.submitted, one.placed, one.started), (submitted, submitted, Some(started)));
    assert_eq!((one.end, &one.reason, one.ended), (UsageEnd::Completed, &None, w.now));
    assert_eq!((one.held.nodes, one.held.gpus, one.asked.gpus), (2, 8, 8));
    assert_eq!(one.held.nics, u64::from(one.held.nodes * one.held.rails));
    assert_eq!(one.submitter, Some(by(Role::User)));
    let tenant = w.state.tenant(&tenant("red")).unwrap();
    assert_eq!(one.tenant_uid, tenant.uid);
    let amount = UsageAmount::of(&one, Timestamp(0), Timestamp(u64::MAX));
    assert_eq!((amount.held_ms, amount.gpu_ms, amount.node_ms), (10_500, 84_000, 21_000));
    assert_eq!(amount.startup_gpu_ms, 24_000);
    // A part of it.
    let part = UsageAmount::of(&one, started, started.plus(Duration::from_secs(1)));
    assert_eq!((part.gpu_ms, part.startup_gpu_ms), (8000, 0));
    w.ok(Event::DeleteJob { id: id("a"), indices: Vec::new(), by: None });
    assert_eq!(record(&w, "a", 1), one, "the job is gone, and its record is not");
    assert_eq!(w.reload(8).base.usage, w.state.base.usage);
    assert_eq!(w.reload(8).index.usage, w.state.index.usage);
}

/// When changes of a job by authority were recorded.
fn audited(w: &World, text: &str) -> Vec<Timestamp> {
    let rows = w.stored.values().filter_map(|write| match write {
        Write::PutAudit(row) => Some(&row.records),
        _ => None,
    });
    let of_job = |record: &&Arc<proto_audit::Record>| match &record.content {
        proto_audit::Content::Change(change) => change.object.kind == "job" && change.object.name == text,
        _ => false,
    };
    let mut times: Vec<Timestamp> =
        rows.flatten().filter(of_job).map(|record| Timestamp(record.time_ms)).collect();
    times.sort();
    times
}

#[test]
fn a_record_agrees_with_the_audit_log_to_the_millisecond() {
    let mut w = World::new();
    w.submit("a", spec(1, 1));
    w.tick(Duration::from_millis(1234));
    w.run("a");
    w.tick(Duration::from_millis(4321));
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    let cancelled = w.now;
    w.tick(Duration::from_millis(777));
    w.all("a", Observed::Ended);
    let one = record(&w, "a", 1);
    assert_eq!(audited(&w, "a"), [one.submitted, cancelled]);
    assert_eq!(one.ended, cancelled.plus(Duration::from_millis(777)), "to the last word of its servers");
    w.ok(Event::DeleteJob { id: id("a"), indices: Vec::new(), by: None });
    assert_eq!((audited(&w, "a").len(), record(&w, "a", 1)), (3, one));
}

#[test]
fn each_attempt_has_a_record_with_why_it_ended() {
    let mut w = World::new();
    w.submit("a", requeue(spec(1, 1), Requeue::OnAny, 1));
    w.run("a");
    w.tick(Duration::from_secs(5));
    let [n] = w.nodes("a")[..] else { panic!() };
    w.report(n, w.exited("a", n, 3));
    assert_eq!((w.phase("a"), w.state.base.usage.len()), (Phase::Pending, 1));
    let first = record(&w, "a", 1);
    assert_eq!((first.end, first.ended), (UsageEnd::Requeued, w.now));
    assert_eq!(first.reason, Some(proto_model::ReasonCode::RankFailed));
    w.tick(Duration::from_secs(5));
    // Again, on request; that waits for the server's word.
    w.run("a");
    w.ok(Event::RequeueJob { order: Box::new(order("a", Role::User)), reason: String::new() });
    w.tick(Duration::from_secs(2));
    assert_eq!(w.state.base.usage.len(), 1, "it holds until its servers say that it does not");
    w.all("a", Observed::Ended);
    assert_eq!((record(&w, "a", 2).end, record(&w, "a", 2).ended), (UsageEnd::Preempted, w.now));
    w.tick(Duration::from_secs(5));
    w.run("a");
    w.ok(Event::Cancel { by: None, id: id("a"), indices: Vec::new(), grace: None });
    w.all("a", Observed::Ended);
    let last = record(&w, "a", 3);
    assert_eq!(
        (last.end, last.reason.clone()),
        (UsageEnd::Cancelled, Some(proto_model::ReasonCode::CancelRequested))
    );
    assert_eq!(w.state.base.usage.len(), 3);
    // What never got a place has held nothing.
    w.submit("full", spec(4, 4));
    w.submit("b", spec(4, 4));
    w.ok(Event::Cancel { by: None, id: id("b"), indices: Vec::new(), grace: None });
    assert!(w.state.base.usage.values().all(|one| one.id != id("b")));
}

#[test]
fn who_is_stopped_for_another_job_is_counted_to_the_last_word_of_its_servers() {
    let mut w = World::new();
    let preemption = Preemption::of_priority(-5);
    w.submit("low", JobSpec { preemption, priority: -5, ..spec(4, 4) });
    w.run("low");
    w.tick(Duration::from_secs(1));
    w.submit("high", JobSpec { priority: 50, ..spec(2, 4) });
    w.tick(Duration::from_secs(1));
    assert_eq!(w.phase("low"), Phase::Recovering);
    w.all("low", Observed::Ended);
    let low = record(&w, "low", 1);
    assert_eq!((low.end, low.ended, low.held.gpus), (UsageEnd::Preempted, w.now, 16));
    assert!(w.state.base.usage.values().all(|one| one.id != id("high")));
}

#[test]
fn a_commit_that_fails_takes_the_record_back() {
    let mut w = World::new();
    w.submit("a", spec(1, 1));
    w.run("a");
    let [n] = w.nodes("a")[..] else { panic!() };
    let (before, session) = (w.state.clone(), w.state.session(&name(n)).unwrap());
    let observation = Box::new(w.exited("a", n, 0));
    let ended = Event::AgentObserved { node: name(n), session, observation };
    let mut random = 5;
    let out = step(&mut w.state, ended.clone(), w.now, &mut |buffer| fill(&mut random, buffer));
    let puts = out.writes.iter().filter(|write| matches!(write, Write::PutUsage(_)));
    assert_eq!(puts.count(), 1, "in the writes of the step that ends the attempt");
    w.state.rollback();
    assert!(w.state.same(&before) && w.state.base.usage.is_empty());
    // Told again, later: it counts to then, once.
    w.tick(Duration::from_secs(4));
    w.step(ended);
    assert_eq!((w.state.base.usage.len(), record(&w, "a", 1).ended), (1, w.now));
}

#[test]
fn a_new_controller_counts_on_from_the_place_that_it_has_read() {
    let mut w = World::new();
    w.submit("a", spec(1, 2));
    w.run("a");
    let placed = w.now;
    w.tick(Duration::from_secs(5));
    w.state = w.reload(7);
    let [n] = w.nodes("a")[..] else { panic!() };
    let running = w.seen("a", n, Observed::Running);
    w.connect(n, vec![running]);
    w.tick(Duration::from_secs(5));
    w.report(n, w.exited("a", n, 0));
    let one = record(&w, "a", 1);
    assert_eq!((one.placed, one.ended), (placed, placed.plus(Duration::from_secs(10))));
}

#[test]
fn records_go_after_their_time_and_the_oldest_of_whoever_has_most_make_room() {
    let mut w = World::new();
    let day = Duration::from_secs(86_400);
    w.state.0.config.usage_retention = Some(day);
    completed(&mut w, "a", 1);
    w.tick(day / 2);
    completed(&mut w, "b", 1);
    w.tick(day / 2);
    let names = |w: &World| w.state.base.usage.values().map(|one| one.id.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&w), ["red/b"]);
    w.state.0.config.max_usage = 3;
    // Another tenant's one record stays, however many this one has.
    w.ok(submit_as("blue", "z", spec(1, 1), None));
    let blue = |text: &str| JobId { tenant: tenant("blue"), ..id(text) };
    let job = Arc::clone(w.state.job(&blue("z")).unwrap());
    let node = job.status.placement.as_ref().unwrap().nodes[0].node.clone();
    w.ok(Event::Cancel { by: None, id: blue("z"), indices: Vec::new(), grace: None });
    let observation = Box::new(Observation {
        uid: job.uid,
        attempt: 1,
        state: Observed::Ended,
        endpoints: Vec::new(),
        exits: Vec::new(),
        cause: None,
        result: None,
        rails: Vec::new(),
        reports: Vec::new(),
        choices: Vec::new(),
        measured: None,
    });
    let session = w.state.session(&node).unwrap();
    w.step(Event::AgentObserved { node, session, observation });
    for text in ["c", "d", "e"] {
        completed(&mut w, text, 1);
    }
    let mut left = names(&w);
    left.sort();
    assert_eq!(left, ["blue/z", "red/d", "red/e"]);
    assert_eq!(w.reload(8).index.usage, w.state.index.usage);
    // Of whoever is asked for nothing is missing from then on; of all tenants from when on that is so of each.
    let of = |name: &str| UsageFilter { tenant: Some(tenant(name)), ..anything() };
    let oldest = |name: &str| {
        let own = w.state.base.usage.values().filter(|one| one.id.tenant == tenant(name));
        own.map(|one| one.ended).min()
    };
    let asked = [of("blue"), of("red"), of("none"), anything()].map(|filter| w.state.oldest_usage(&filter));
    assert_eq!(asked, [oldest("blue"), oldest("red"), None, oldest("red")]);
    assert!(oldest("blue") < oldest("red"), "whose oldest had to go");
    // A lower limit is reached without another attempt's end.
    w.state.0.config.max_usage = 1;
    assert!(w.state.next_tick().is_some_and(|time| time <= w.now));
    assert_eq!((w.step(Event::Tick).usage_dropped, names(&w)), (2, vec!["blue/z".to_owned()]));
    assert!(w.state.next_tick().is_none_or(|time| time > w.now));
}

#[test]
fn an_attempt_of_a_release_that_did_not_say_when_it_was_placed_is_not_charged_for_its_wait() {
    let mut w = World::new();
    for text in ["runs", "prepares"] {
        w.submit(text, spec(1, 1));
    }
    w.tick(Duration::from_secs(1));
    w.run("runs");
    let started = w.now;
    w.tick(Duration::from_secs(1));
    for write in w.stored.values_mut() {
        if let Write::PutAttempt(attempt) = write {
            Arc::make_mut(attempt).since = Timestamp::default();
        }
    }
    let state = w.reload(7);
    let since = |text: &str| state.base.jobs[&w.job(text).uid].attempt.as_ref().unwrap().since;
    assert_eq!((since("runs"), since("prepares")), (started, w.now));
}

#[test]
fn an_attempt_is_of_the_intervals_in_which_it_held() {
    let mut w = World::new();
    completed(&mut w, "a", 3);
    let one = record(&w, "a", 1);
    let (placed, ended) = (one.placed, one.ended);
    let instant = UsageRecord { placed: ended, ..UsageRecord::clone(&one) };
    let ms = Duration::from_millis(1);
    let (before, last) = (Timestamp(placed.0 - 1), Timestamp(ended.0 - 1));
    for (since, until, whole, at_once) in [
        (before, placed, false, false),
        (placed, placed.plus(ms), true, false),
        (last, ended, true, false),
        (ended, ended.plus(ms), false, true),
        (ended.plus(ms), ended.plus(ms * 2), false, false),
    ] {
        let filter = UsageFilter { since, until, ..anything() };
        assert_eq!((filter.takes(&one), filter.takes(&instant)), (whole, at_once), "{since} {until}");
        assert_eq!(listed(&w, &filter, ended.plus(ms * 2), WHOLE).len(), usize::from(whole));
    }
}

#[test]
fn a_list_has_each_attempt_once_whatever_happens_between_its_pages() {
    let mut w = World::new();
    for text in ["a", "b", "c"] {
        completed(&mut w, text, 1);
    }
    w.submit("run", spec(1, 1));
    w.run("run");
    w.submit("ends", spec(1, 1));
    w.run("ends");
    w.tick(Duration::from_secs(10));
    let as_of = w.now;
    let one = UsageBudget { records: 1, examined: 1, late: 2 };
    let first = w.state.usage_page(&anything(), as_of, None, one).unwrap();
    assert_eq!(first.records[0].id, id("a"));
    // One ends in that very moment, another begins and ends.
    let [n] = w.nodes("ends")[..] else { panic!() };
    w.report(n, w.exited("ends", n, 0));
    completed(&mut w, "late", 1);
    let all = listed(&w, &anything(), as_of, one);
    let names: Vec<String> = all.iter().map(|record| record.id.name.to_string()).collect();
    assert_eq!(names, ["a", "b", "c", "run", "ends"]);
    assert_eq!(all, listed(&w, &anything(), as_of, WHOLE));
    // Two have ended since the list was begun: where one is the limit it is too old.
    let (open, less) = (Some(UsagePosition::Open(None)), UsageBudget { late: 1, ..one });
    assert_eq!(w.state.usage_page(&anything(), as_of, open, less), Err(UsageTooOld));
    let run = &all[3];
    assert_eq!(
        (run.end, run.ended),
        (UsageEnd::Running, as_of),
        "what still holds counts to the list's time"
    );
    // By interval, user and tenant.
    let (a, b) = (record(&w, "a", 1), record(&w, "b", 1));
    let since = UsageFilter { since: a.ended, until: b.ended, ..anything() };
    let found = listed(&w, &since, w.now, one);
    assert_eq!(found.iter().map(|one| one.id.clone()).collect::<Vec<_>>(), [id("b")]);
    let nobody = UsageFilter { user: Some("eve".into()), ..anything() };
    assert!(listed(&w, &nobody, w.now, one).is_empty());
    let earlier = UsageFilter { tenant: Some(tenant("red")), tenant_uid: Some("x".into()), ..anything() };
    assert!(listed(&w, &earlier, w.now, one).is_empty(), "of an earlier tenant of the name");
    assert!(matches!(
        w.state.usage_page(&UsageFilter { since: w.now, ..anything() }, w.now, None, one).unwrap().next,
        Some(UsagePosition::Open(None))
    ));
}

#[test]
fn sums_of_parts_are_the_sum_of_the_whole() {
    let mut w = World::new();
    for text in ["a", "b", "c"] {
        completed(&mut w, text, 3);
    }
    w.submit("run", spec(2, 4));
    w.run("run");
    w.tick(Duration::from_secs(7));
    let all = listed(&w, &anything(), w.now, WHOLE);
    let sums = |by, since, until| {
        let mut sums = UsageSums::new(by, since, until);
        all.iter().for_each(|record| sums.add(record).unwrap());
        sums
    };
    let whole = sums(UsageBy::Tenant, Timestamp(0), w.now);
    assert_eq!((whole.total().attempts, whole.total().running), (4, 1));
    assert_eq!(whole.total().amount.gpu_ms, 3 * 3000 + 8 * 7000);
    let (groups, left_out) = sums(UsageBy::Job, Timestamp(0), w.now).largest(2);
    assert_eq!((groups.len(), left_out, groups[0].1.amount.gpu_ms), (2, 2, 56_000));
    assert_eq!(groups[0].0.job.as_ref().map(|(job, _)| job.clone()), Some(id("run")));
    // Cut anywhere, the parts add up.
    for cut in [1_001_500, 1_005_000, 1_009_001, 1_012_345].map(Timestamp) {
        let mut both = sums(UsageBy::User, Timestamp(0), cut).total().amount;
        both.add(&sums(UsageBy::User, cut, w.now).total().amount);
        assert_eq!(both, whole.total().amount, "{cut}");
    }
}
