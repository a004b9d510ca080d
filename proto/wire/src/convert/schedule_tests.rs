//! Schedules: round trips, and every wrong field named.

use std::time::Duration;

use proptest::{collection::btree_map, option, prelude::*, sample::select};
use prost::Message as _;
use proto_model::{
    Authority, Concurrency, Cron, Gang, History, JobName, JobSchedule, JobSpec, Reason, ReasonCode, Role,
    ScheduleName, ScheduleProgress, TenantName, Timestamp, Zone,
};

use super::documents_tests::spec;
use crate::v1;

fn progress() -> impl Strategy<Value = ScheduleProgress> {
    let time = || (1_u64..4_000_000_000_000).prop_map(Timestamp);
    (time(), option::of(time()), option::of(time()), 0_u64..9).prop_map(
        |(checked_until, last, left, count)| {
            let reason =
                |time| Reason::new(ReasonCode::StillRunning, "the run of then has not ended").since(time);
            ScheduleProgress {
                checked_until,
                last: last.map(|time| (time, JobName::new("nightly-20261126-0230").unwrap())),
                submitted: count,
                left_out: count + 1,
                last_left_out: left.map(reason),
            }
        },
    )
}

fn schedule() -> impl Strategy<Value = JobSchedule> {
    let cron = select(vec!["*/5 8-18 * * mon-fri", "@daily", "0 0 29 2 *"]);
    let zone = select(vec!["UTC", "Europe/Berlin", "America/New_York"]);
    let labels = btree_map("[a-z]{1,9}", "[a-z ]{0,9}", 0..4);
    let history = (0..=History::MAX, 0..=History::MAX);
    let deadline = option::of((1_u64..1_000_000).prop_map(Duration::from_secs));
    let more = (select(Concurrency::ALL), deadline, any::<bool>(), history, option::of("[a-z]{1,9}"));
    (cron, zone, labels, spec(), more, progress()).prop_map(|(cron, zone, labels, job, more, progress)| {
        let (concurrency, starting_deadline, suspended, (completed, failed), owner) = more;
        JobSchedule {
            tenant: TenantName::new("nlp").unwrap(),
            name: ScheduleName::new("nightly").unwrap(),
            uid: "u".into(),
            generation: 3,
            created: Timestamp(1000),
            cron: Cron::new(cron).unwrap(),
            zone: Zone::new(zone).unwrap(),
            labels,
            job: JobSpec { begin: None, start_before: None, deadline: None, ..job }.into(),
            concurrency,
            starting_deadline,
            suspended,
            history: History { completed, failed },
            owner: owner.map(|user| Authority { role: Role::User, user }),
            progress,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn schedules_survive_the_wire(schedule in schedule()) {
        let bytes = v1::Schedule::from(&schedule).encode_to_vec();
        prop_assert_eq!(JobSchedule::try_from(v1::Schedule::decode(bytes.as_slice()).unwrap()), Ok(schedule));
    }
}

/// The least that a document says.
fn least() -> v1::Schedule {
    let work = proto_model::Work::Command(proto_model::CommandSpec {
        argv: vec!["true".into()],
        env: Default::default(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    let spec = v1::JobSpec::from(&JobSpec::new(Gang::new(1, 1, 1), work));
    v1::Schedule {
        metadata: Some(v1::Metadata { name: "nightly".into(), tenant: "nlp".into(), ..Default::default() }),
        spec: Some(v1::ScheduleSpec {
            cron: "@daily".into(),
            job_template: Some(v1::JobTemplate { spec: Some(spec), ..Default::default() }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

#[test]
fn what_is_not_said_has_its_default() {
    let schedule = JobSchedule::try_from(least()).unwrap();
    assert_eq!(
        (schedule.concurrency, schedule.history),
        (Concurrency::Allow, History { completed: 3, failed: 1 })
    );
    assert!(schedule.zone.is_utc() && !schedule.suspended && schedule.starting_deadline.is_none());
    assert_eq!((schedule.owner, schedule.progress), (None, ScheduleProgress::default()));
}

#[test]
fn every_wrong_field_is_named() {
    let wrong = |change: fn(&mut v1::Schedule, &mut v1::ScheduleSpec)| -> Vec<String> {
        let mut wire = least();
        let mut spec = wire.spec.take().unwrap();
        change(&mut wire, &mut spec);
        wire.spec = Some(spec);
        JobSchedule::try_from(wire).unwrap_err().0.into_iter().map(|error| error.field).collect()
    };
    fn job(spec: &mut v1::ScheduleSpec) -> &mut v1::JobSpec {
        spec.job_template.as_mut().unwrap().spec.as_mut().unwrap()
    }
    assert_eq!(wrong(|wire, _| wire.kind = "Job".into()), ["kind"]);
    assert_eq!(wrong(|wire, _| wire.metadata.as_mut().unwrap().name = "x".repeat(49)), ["metadata.name"]);
    assert_eq!(wrong(|_, spec| spec.cron = "* * * *".into()), ["spec.cron"]);
    assert_eq!(wrong(|_, spec| spec.time_zone = "Berlin".into()), ["spec.timeZone"]);
    assert_eq!(wrong(|_, spec| spec.concurrency = 9), ["spec.concurrency"]);
    assert_eq!(wrong(|_, spec| spec.completed_history = Some(101)), ["spec.completedHistory"]);
    assert_eq!(wrong(|_, spec| spec.failed_history = Some(101)), ["spec.failedHistory"]);
    let zero = |_: &mut v1::Schedule, spec: &mut v1::ScheduleSpec| {
        spec.starting_deadline = Some(prost_types::Duration::default());
    };
    assert_eq!(wrong(zero), ["spec.startingDeadline"]);
    assert_eq!(wrong(|_, spec| spec.job_template = None), ["spec.jobTemplate"]);
    let begin = |_: &mut v1::Schedule, spec: &mut v1::ScheduleSpec| {
        job(spec).begin_time = Some(prost_types::Timestamp { seconds: 9, nanos: 0 });
    };
    assert_eq!(wrong(begin), ["spec.jobTemplate.spec.beginTime"]);
    assert_eq!(wrong(|_, spec| job(spec).gang = None), ["spec.jobTemplate.spec.gang"]);
    let label = |_: &mut v1::Schedule, spec: &mut v1::ScheduleSpec| {
        spec.job_template.as_mut().unwrap().labels.insert("a\nb".into(), String::new());
    };
    assert_eq!(wrong(label), ["spec.jobTemplate.labels"]);
    // Elements have names of their own, behind that of the run.
    let long = |wire: &mut v1::Schedule, spec: &mut v1::ScheduleSpec| {
        wire.metadata.as_mut().unwrap().name = "x".repeat(47);
        job(spec).array = "0-100000:50000".into();
    };
    assert_eq!(wrong(long).len(), 1);
}
