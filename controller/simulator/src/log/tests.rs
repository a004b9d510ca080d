//! Logs say everything, and are decided again.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use controller_queue::{Act, Budget, Entry, QueueState};
use controller_scheduler::{Group, Need, Pattern, Placer, RailNeed, Snapshot, Term, Toleration, Within};
use controller_topology::NodeIx;
use proto_model::{Fabric, JobUid, ReasonCode, Timestamp};

use super::*;
use crate::{
    Replay, ReplayError, Rules, Settings, Workload, policy::ours::Ours, replay, run, tests, trace::TraceJob,
};

/// Two pods of 4 and 3 servers.
fn healthy() -> Fabric {
    tests::fabric(&[4, 3])
}

/// The same; a leaf of the second pod does not work, so that its servers are not on all rails.
fn broken() -> Fabric {
    let mut fabric = healthy();
    fabric.leaves.iter_mut().filter(|leaf| leaf.name == "leaf-1-2").for_each(|leaf| leaf.down = true);
    fabric
}

/// A day of jobs as a log.
fn recorded(fabric: Fabric, jobs: &[TraceJob]) -> Vec<String> {
    recorded_as(fabric, jobs, &Settings::default(), &Rules::default())
}

fn recorded_as(fabric: Fabric, jobs: &[TraceJob], settings: &Settings, rules: &Rules) -> Vec<String> {
    let site = crate::Site::new(fabric, 8).unwrap();
    let workload = Workload::new(jobs, &site, settings).unwrap();
    let rules = Rules { head_start: Duration::from_secs(3600), ..*rules };
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&lines);
    let recorder = Recorder::new(
        &site.fabric,
        (8, Vec::new()),
        serde_json::Value::Null,
        &rules.queueing(),
        move |line: &str| {
            sink.lock().unwrap().push(line.to_owned());
        },
    );
    let mut ours = Ours::logged(&site, &workload, &rules, recorder);
    let outcome = run(&site, &workload, &mut ours, &mut ());
    assert_eq!((outcome.violations, outcome.reported), (0, Vec::new()));
    drop(ours);
    Arc::into_inner(lines).unwrap().into_inner().unwrap()
}

fn day() -> Vec<String> {
    let jobs: Vec<(u64, u64, u32)> =
        (0..200).map(|at| (at * 11, 5 + at * 53 % 400, [1, 3, 8, 16, 32][at as usize % 5])).collect();
    recorded(healthy(), &tests::trace(&jobs))
}

fn replayed(
    lines: &[String],
    decider: Option<Box<dyn replay::Decider>>,
) -> Result<crate::Replayed, ReplayError> {
    replayed_on(healthy(), lines, decider)
}

fn replayed_on(
    fabric: Fabric,
    lines: &[String],
    decider: Option<Box<dyn replay::Decider>>,
) -> Result<crate::Replayed, ReplayError> {
    let header = replay::header(&lines[0])?;
    let mut replay = match decider {
        Some(decider) => Replay::with(&header, fabric, decider)?,
        None => Replay::new(&header, fabric)?,
    };
    lines[1..].iter().try_for_each(|line| replay.line(line))?;
    replay.finish()
}

#[test]
fn a_day_is_decided_again_the_same() {
    let lines = day();
    let done = replayed(&lines, None).unwrap();
    assert_eq!((done.lines as usize, done.jobs, done.placements), (lines.len(), 200, 200));
    assert_eq!(lines, day(), "the log is the same to the byte");
}

/// Far more comes than the cluster can take, and owners do not know how long their jobs run: the queue grows beyond what
/// one pass looks at.
#[test]
fn a_crowded_day_is_decided_again_the_same() {
    let jobs: Vec<(u64, u64, u32)> =
        (0..900).map(|at| (at * 11, 5 + at * 53 % 400, [1, 3, 8, 16, 2, 32][at as usize % 6])).collect();
    let settings = Settings { load: Some(4.0), estimate: 3.0, ..Settings::default() };
    let rules = Rules { depth: 256, ..Rules::default() };
    let lines = recorded_as(healthy(), &tests::trace(&jobs), &settings, &rules);
    let (mut waiting, mut most) = (0_i64, 0);
    for line in &lines {
        waiting += i64::from(line.contains("\"line\":\"job\""));
        waiting -= line.matches("\"act\":\"start\"").count() as i64;
        most = most.max(waiting);
    }
    assert!(most > rules.depth as i64, "{most}");
    let done = replayed(&lines, None).unwrap();
    assert_eq!((done.lines as usize, done.jobs, done.placements), (lines.len(), 900, 900));
}

/// Lines with the sums that they would have if they had been written so.
fn sealed(lines: &[String]) -> Vec<String> {
    let mut sum = Sum::default();
    let bare = |line: &String| {
        let opened = Sum::default().open(line);
        opened.map_or_else(|| line.trim_end().to_owned(), |(text, _)| text)
    };
    lines.iter().map(|line| sum.seal(&bare(line))).collect()
}

#[test]
fn the_first_difference_is_named() {
    let lines = day();
    let at = lines.iter().position(|line| line.contains("\"act\":\"start\"")).unwrap();
    let mut changed = lines.clone();
    changed[at] = changed[at].replacen("\"gpu00", "\"gpu09", 1);
    let error = replayed(&changed, None).unwrap_err();
    let ReplayError::Difference { line, which, what, .. } = &error else { panic!("{error}") };
    assert_eq!((*line, *which), (at as u64 + 1, 1));
    assert!(what.contains("job 't") && what.contains("server 1: the log has \"gpu09"), "{what}");
    assert!(what.contains(", now it is \"gpu00"), "{what}");
    // A decision too few, or too many.
    let mut changed = lines.clone();
    let head = changed[at].split("\"acts\":").next().unwrap().to_owned();
    changed[at] = format!("{head}\"acts\":[]}}");
    let error = replayed(&changed, None).unwrap_err().to_string();
    assert!(error.contains("the log has nothing, now the start of job 't"), "{error}");
    // What was told is left out: the next pass decides otherwise.
    let reported = lines.iter().position(|line| line.contains("\"line\":\"job\"")).unwrap();
    let mut changed = lines.clone();
    changed.remove(reported);
    assert!(matches!(replayed(&changed, None), Err(ReplayError::Difference { .. })));
}

/// Changes after which the same would be decided.
#[test]
fn a_line_that_was_changed_is_named_even_if_nothing_else_differs() {
    let lines = day();
    assert_eq!(sealed(&lines), lines);
    let at = lines.iter().rposition(|line| line.contains("\"line\":\"end\"")).unwrap();
    let time: u64 = lines[at].split("\"at\":").nth(1).unwrap().split(',').next().unwrap().parse().unwrap();
    let changed_time = lines[at].replacen(&format!("\"at\":{time}"), &format!("\"at\":{}", time - 1), 1);
    let more = lines[at].replacen('{', "{\"colour\":\"red\",", 1);
    let bare = format!("{}\n", Sum::default().open(&lines[at]).unwrap().0);
    for hand in [changed_time, more, bare] {
        let mut changed = lines.clone();
        changed[at] = hand;
        let error = replayed(&changed, None).unwrap_err();
        assert!(matches!(error, ReplayError::Changed { line, .. } if line == at as u64 + 1), "{error}");
    }
    let mut header = lines.clone();
    header[0] = header[0].replacen("\"gpusPerNode\":8", "\"gpusPerNode\":9", 1);
    assert!(matches!(replayed(&header, None), Err(ReplayError::Changed { line: 1, .. })));
    // The end is missing.
    let error = replayed(&lines[..lines.len() - 2], None).unwrap_err();
    assert!(matches!(error, ReplayError::Cut { decisions: 200, .. }), "{error}");
}

/// Every number of a log may be anything, sums and all: that is an error or a difference, never a panic.
#[test]
fn absurd_numbers_do_no_harm() {
    let absurd =
        ["0", "1", "9", "63", "64", "4294967295", "4294967296", "18446744073709551615", "-1", "1e308"];
    let lines = recorded(healthy(), &tests::trace(&[(0, 50, 8), (1, 40, 40), (2, 50, 3), (30, 10, 16)]));
    let mut dice = crate::dice::Dice::new(11, 0);
    let mut refused = 0;
    for _ in 0..3_000 {
        let mut changed = lines.clone();
        let at = dice.below(lines.len());
        let text = changed[at].clone();
        let numbers: Vec<(usize, &str)> = text
            .match_indices([':', '[', ','])
            .map(|(at, _)| (at + 1, text[at + 1..].split([',', '}', ']']).next().unwrap_or_default()))
            .filter(|(_, number)| number.parse::<u64>().is_ok())
            .collect();
        if numbers.is_empty() {
            continue;
        }
        let (place, number) = numbers[dice.below(numbers.len())];
        let with = absurd[dice.below(absurd.len())];
        changed[at] = format!("{}{with}{}", &text[..place], &text[place + number.len()..]);
        refused += usize::from(replayed(&sealed(&changed), None).is_err());
    }
    assert!(refused > 1_000, "{refused}");
}

#[test]
fn what_is_no_log_is_refused_with_its_line() {
    let lines = day();
    assert_eq!(replay::header("\n"), Err(ReplayError::Empty));
    assert!(matches!(replay::header("{}"), Err(ReplayError::Line { line: 1, .. })));
    assert!(matches!(replay::header(&lines[1]), Err(ReplayError::Line { line: 1, .. })));
    let newer = lines[0].replace("\"version\":2", "\"version\":3");
    assert!(matches!(replay::header(&newer), Err(ReplayError::Version { version: 3, .. })));
    let header = replay::header(&lines[0]).unwrap();
    let other = Replay::new(&header, tests::fabric(&[3, 4])).err().unwrap();
    assert!(matches!(other, ReplayError::Fabric { .. }), "{other}");
    for hostile in [
        "x",
        "{\"line\":\"end\",\"at\":0,\"uid\":\"x\",\"whole\":true}",
        "{\"line\":\"end\",\"at\":0,\"uid\":\"00000000-0000-7000-8000-000000000000\",\"whole\":true}",
        "{\"line\":\"node\",\"at\":0,\"node\":\"nobody\",\"open\":true}",
        "{\"line\":\"tenant\",\"at\":0,\"tenant\":\"A B\",\"limit\":null,\"jobs\":null,\"guaranteed\":{\"pods\":0,\"nodes\":0,\"gpus\":0},\"weight\":1}",
        &lines[0],
    ] {
        let mut changed = lines.clone();
        changed.insert(1, hostile.to_owned());
        let changed = if hostile == "x" { changed } else { sealed(&changed) };
        assert!(matches!(replayed(&changed, None), Err(ReplayError::Line { line: 2, .. })), "{hostile}");
    }
    let mut backwards = lines.clone();
    let late = backwards.remove(lines.len() - 2);
    backwards.insert(2, late);
    assert!(matches!(replayed(&sealed(&backwards), None), Err(ReplayError::Line { line: 4, .. })));
}

#[test]
fn digests_tell_fabrics_apart_and_not_their_spelling() {
    let fabric = healthy();
    let mut spelled = fabric.clone();
    spelled.links = spelled.each_link().collect();
    spelled.link_groups.clear();
    spelled.leaves.reverse();
    assert_eq!(digest(&fabric), digest(&spelled));
    spelled.links[5].down = true;
    assert_ne!(digest(&fabric), digest(&spelled));
}

#[test]
fn a_job_survives_its_line() {
    let site = tests::site(&[4]);
    let node = NodeIx::at(2);
    let mut need = Need::plain(4, 4, RailNeed::Any(2));
    need.within = Within::Pod;
    need.groups = vec![Group { size: 2, within: Within::Leaves, required: true }];
    need.pattern = Pattern::Pipeline(2);
    need.exclusive = true;
    need.host = controller_scheduler::Host { cpus: 32, memory: 64 << 30 };
    need.spares = 1;
    need.exclude = vec![node];
    need.filter = Arc::new(controller_scheduler::Filter {
        selector: vec![
            Term::NotIn("zone".into(), ["a".to_owned()].into()),
            Term::Exists("x".into()),
            Term::Any([Term::Exists("a100".into()), Term::Absent("old".into())].into()),
        ],
        gpu_models: [proto_model::GpuModel::new("H100 80GB").unwrap()].into(),
        tolerations: vec![Toleration { key: Some("slow".into()), value: None }],
        ..controller_scheduler::Filter::default()
    });
    let job = &Workload::new(&tests::trace(&[(0, 5, 16)]), &site, &tests::as_is()).unwrap().jobs[0];
    let plain = crate::policy::ours::entry(job, Timestamp(7));
    let second = std::time::Duration::from_secs(1);
    let entry = Entry {
        need,
        min_nodes: 2,
        queue: Some(proto_model::QueueName::new("prod").unwrap()),
        priority: -3,
        not_before: Some(Timestamp(9)),
        hold: vec![proto_model::Reason::new(ReasonCode::Dependency, "waits")],
        after: vec![job.uid],
        preemption: proto_model::Preemption {
            preemptible: true,
            grace: Some(second),
            signal: 10,
            checkpoint_every: Some(second * 2),
            restart_cost: Some(second * 3),
        },
        preempted: 4,
        cap: Some(3),
        ..plain.clone()
    };
    for entry in [entry, plain] {
        let line = JobLine::new(Timestamp(1), &entry, &site.snapshot);
        let text = serde_json::to_string(&line).unwrap();
        let back: JobLine = serde_json::from_str(&text).unwrap();
        assert_eq!(back.entry(&site.snapshot).unwrap(), entry, "{text}");
    }
}

/// A fault in what the production code sees.
type Fault = fn(&mut QueueState, &mut Snapshot);

/// The production code with a fault planted.
struct Planted(Fault, Placer);

impl replay::Decider for Planted {
    fn pass(
        &mut self,
        queue_state: &mut QueueState,
        snapshot: &mut Snapshot,
        now: Timestamp,
        depth: usize,
    ) -> Vec<Act> {
        let (mut other, mut seen) = (queue_state.clone(), snapshot.clone());
        (self.0)(&mut other, &mut seen);
        other.pass(&mut seen, &mut self.1, now, Budget { jobs: depth, starts: usize::MAX })
    }
}

/// Replays the log that the faulty code would have written, so that nothing but the proof can tell.
fn planted(fabric: &Fabric, mut lines: Vec<String>, fault: Fault) -> Result<crate::Replayed, ReplayError> {
    for _ in 0..8 {
        let decider = Box::new(Planted(fault, Placer::default()));
        match replayed_on(fabric.clone(), &sealed(&lines), Some(decider)) {
            Err(ReplayError::Difference { line, now, .. }) => {
                let acts = now.map_or_else(String::new, |now| serde_json::to_string(&now).unwrap());
                let at = &mut lines[line as usize - 1];
                let head = at.split("\"acts\":").next().unwrap().to_owned();
                *at = format!("{head}\"acts\":[{acts}]}}\n");
            }
            other => return other,
        }
    }
    panic!("the log does not settle")
}

#[test]
fn without_a_fault_nothing_is_found() {
    let jobs = tests::trace(&[(0, 50, 8), (1, 50, 32)]);
    for fabric in [healthy(), broken()] {
        let done = planted(&fabric, recorded(fabric.clone(), &jobs), |_, _| {}).unwrap();
        assert_eq!(done.placements, 2);
    }
}

/// The code that aligns gangs takes a leaf that is down for one that works.
#[test]
fn a_fault_in_the_alignment_is_found_by_the_proof() {
    let jobs = tests::trace(&[(0, 50, 8), (1, 50, 32)]);
    let lines = recorded(broken(), &jobs);
    let found = planted(&broken(), lines, |_, seen| seen.set_fabric(Some(&healthy())));
    let Err(ReplayError::Violation { what, .. }) = &found else { panic!("{found:?}") };
    assert!(what.contains("rails") || what.contains("aligned"), "{what}");
}

/// The code that counts quotas forgets them.
#[test]
fn a_fault_in_the_quota_is_found_by_the_proof() {
    let mut lines = recorded(healthy(), &tests::trace(&[(0, 50, 56), (1, 50, 8)]));
    for line in lines.iter_mut().filter(|line| line.contains("\"line\":\"tenant\"")) {
        *line = line.replace("\"limit\":56", "\"limit\":48");
    }
    let found = planted(&healthy(), lines, |queue_state, _| {
        for tenant in ["t0", "t1", "t2"] {
            let tenant = proto_model::TenantName::new(tenant).unwrap();
            queue_state.set_tenant(&tenant, Some(controller_queue::TenantDef::default()));
        }
    });
    let Err(ReplayError::Violation { what, .. }) = &found else { panic!("{found:?}") };
    assert!(what.contains("would hold 56 GPUs of 48"), "{what}");
}

#[test]
fn uids_are_told_as_they_are() {
    let uid = JobUid::ordered(Timestamp(3), 0, [0; 8]);
    assert_eq!(super::uid(&uid.to_string()), Ok(uid));
}
