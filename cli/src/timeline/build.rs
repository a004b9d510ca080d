//! The life of a job out of what the API tells of it: its status, its decisions, its rails, and changes of it.

use std::collections::{BTreeMap, BTreeSet};

use controller_fabric::natural;
use prost_types::Timestamp;
use proto_model::{Names, ReasonCode, many};
use proto_wire::v1::{self, job_status::Phase, rail_report::State};

use super::model::{Cause, Instant, NodeSpan, NodeTrack, RankSpan, Span, Stage, Timeline};
use crate::render::{self, Event};

/// Earlier attempts that a status keeps at most.
const ATTEMPTS_KEPT: u32 = 8;
/// Causes for which an attempt is stopped on purpose: how its ranks end then is no failure.
const ON_PURPOSE: [ReasonCode; 11] = [
    ReasonCode::CancelRequested,
    ReasonCode::SuspendRequested,
    ReasonCode::RequeueRequested,
    ReasonCode::Preempted,
    ReasonCode::PreemptedForPriority,
    ReasonCode::Reclaimed,
    ReasonCode::MovedToGuarantee,
    ReasonCode::Resized,
    ReasonCode::Grown,
    ReasonCode::Shrunk,
    ReasonCode::EnvironmentChanged,
];
/// The first decision is written with the submit; one that comes so much later, in microseconds, is not the first.
const FIRST_WITHIN: i64 = 1_000_000;

/// What the API tells of a job.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The job.
    pub job: v1::Job,
    /// What was decided of the name, the oldest first; also of earlier jobs of that name.
    pub decisions: Vec<v1::Decision>,
    /// Of a job that runs: what its servers say of their rails.
    pub rails: Vec<v1::NodeRails>,
    /// What is drained now.
    pub drains: Vec<v1::RailDrain>,
    /// Who changed the job, where the caller may know that.
    pub changes: Vec<Event>,
    /// When it will probably start.
    pub eta: Option<v1::Eta>,
}

/// The life of a job up to `now`, in microseconds since 1970.
#[must_use]
pub fn timeline(facts: &Facts, now: i64) -> Timeline {
    let metadata = facts.job.metadata.clone().unwrap_or_default();
    let status = facts.job.status.clone().unwrap_or_default();
    let begin = status.submit_time.as_ref().or(metadata.create_time.as_ref()).map_or(now, micros);
    let open = !matches!(status.phase(), Phase::Completed | Phase::Failed | Phase::Cancelled);
    let mut marks = marks(facts, &status, begin);
    marks.sort_by_key(|mark| (mark.time, mark.order));
    let last = marks.last().map_or(begin, |mark| mark.time);
    // Another clock than ours may be ahead.
    let end = status.end_time.as_ref().filter(|_| !open).map_or(now.max(last), micros).max(begin);
    let spans = spans(marks, end, open);
    let mut made = Timeline {
        tenant: metadata.tenant,
        name: metadata.name,
        uid: metadata.uid,
        phase: render::job_phase(status.phase).to_owned(),
        begin,
        end,
        open,
        nodes: Vec::new(),
        instants: Vec::new(),
        expected: [None; 3],
        limit: None,
        missing: Vec::new(),
        spans,
    };
    made.nodes = nodes(&status, &made);
    made.instants = instants(facts, &status, &made);
    made.missing = missing(facts, &status, &made);
    if status.phase() == Phase::Pending {
        let eta = facts.eta.or(status.eta).unwrap_or_default();
        made.expected = [eta.earliest, eta.start, eta.latest].map(|time| time.as_ref().map(micros));
    }
    let limit = facts.job.spec.as_ref().and_then(|spec| spec.time_limit).filter(|_| open);
    made.limit = limit.zip(status.start_time).map(|(limit, start)| micros(&start) + length(&limit));
    made
}

/// Microseconds since 1970.
#[must_use]
pub fn micros(time: &Timestamp) -> i64 {
    time.seconds.saturating_mul(1_000_000) + i64::from(time.nanos / 1000)
}

fn length(time: &prost_types::Duration) -> i64 {
    time.seconds.saturating_mul(1_000_000) + i64::from(time.nanos / 1000)
}

/// A moment from which on a job was in a stage.
struct Mark {
    time: i64,
    /// Of marks of one moment the one with the greatest order counts.
    order: u8,
    stage: Stage,
    attempt: u32,
    causes: Vec<Cause>,
}

fn causes(reasons: &[v1::Reason]) -> Vec<Cause> {
    let cause = |one: &v1::Reason| Cause { code: one.code.clone(), message: one.message.clone() };
    reasons.iter().map(cause).collect()
}

/// Every moment of which it is told that a stage began.
fn marks(facts: &Facts, status: &v1::JobStatus, begin: i64) -> Vec<Mark> {
    let mut marks =
        vec![Mark { time: begin, order: 0, stage: Stage::Waiting, attempt: 1, causes: Vec::new() }];
    for one in own(&facts.decisions, begin) {
        let time = one.time.as_ref().map_or(begin, micros);
        let stage = match one.phase() {
            Phase::Pending => Stage::Waiting,
            Phase::Reserved | Phase::Preparing => Stage::Starting,
            // Servers of it were replaced while it ran.
            Phase::Running => Stage::Running,
            Phase::Recovering => Stage::Stopping,
            Phase::Unspecified | Phase::Completed | Phase::Failed | Phase::Cancelled => continue,
        };
        marks.push(Mark { time, order: 1, stage, attempt: one.attempt.max(1), causes: causes(&one.reasons) });
    }
    let mut started = |attempt: u32, start: Option<&Timestamp>| {
        marks.extend(start.map(|start| Mark {
            time: micros(start),
            order: 2,
            stage: Stage::Running,
            attempt: attempt.max(1),
            causes: Vec::new(),
        }));
    };
    for past in &status.past_attempts {
        started(past.attempt, past.start_time.as_ref());
    }
    started(status.attempt, status.start_time.as_ref());
    let decided = |attempt: u32| own(&facts.decisions, begin).any(|one| one.attempt == attempt);
    for past in status.past_attempts.iter().filter(|past| !decided(past.attempt + 1)) {
        // The next one is queued in the moment in which it has ended; its first decision says so where it is kept.
        marks.extend(past.end_time.as_ref().map(|end| Mark {
            time: micros(end),
            order: 0,
            stage: Stage::Waiting,
            attempt: past.attempt + 1,
            causes: causes(&past.reasons),
        }));
    }
    marks
}

/// Those that are not of an earlier job of the name.
fn own(decisions: &[v1::Decision], begin: i64) -> impl Iterator<Item = &v1::Decision> {
    decisions.iter().filter(move |one| one.time.as_ref().is_some_and(|time| micros(time) >= begin))
}

/// One span from mark to mark, without those of no length and repeats of the same.
fn spans(marks: Vec<Mark>, end: i64, open: bool) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for mark in marks.into_iter().filter(|mark| mark.time <= end) {
        if let Some(last) = spans.last_mut() {
            // A life goes forward: of what comes late, as another clock tells it, nothing goes back.
            let is_back = mark.attempt < last.attempt;
            let is_same = mark.attempt == last.attempt
                && mark.stage == last.stage
                && (mark.causes.is_empty() || codes(&mark.causes) == codes(&last.causes));
            if is_back || is_same {
                continue;
            }
            last.end = mark.time;
        }
        if spans.last().is_some_and(|last| last.begin == last.end) {
            spans.pop();
        }
        let Mark { time, stage, attempt, causes, .. } = mark;
        spans.push(Span { stage, attempt, begin: time, end, open: false, causes });
    }
    if let Some(last) = spans.last_mut() {
        last.open = open;
    }
    spans
}

fn codes(causes: &[Cause]) -> BTreeSet<&str> {
    causes.iter().map(|cause| cause.code.as_str()).collect()
}

/// From when to when an attempt held its servers.
fn held(made: &Timeline, attempt: u32) -> Option<NodeSpan> {
    let mut of = made.spans.iter().filter(|span| span.attempt == attempt && span.stage != Stage::Waiting);
    let first = of.next()?;
    let last = of.next_back().unwrap_or(first);
    Some(NodeSpan { attempt, begin: first.begin, end: last.end, open: last.open })
}

/// How a rank ended, and whether that is bad. Of what was stopped on purpose no end is.
fn exit(of: &v1::RankExit, reasons: &[v1::Reason]) -> (String, bool) {
    let stopped = is_on_purpose(reasons);
    match (of.signal, of.code) {
        (0, code) => (format!("exit {code}"), code != 0 && !stopped),
        (signal, _) => (format!("signal {signal}"), !stopped),
    }
}

fn nodes(status: &v1::JobStatus, made: &Timeline) -> Vec<NodeTrack> {
    let mut tracks: BTreeMap<String, NodeTrack> = BTreeMap::new();
    for past in &status.past_attempts {
        for node in &past.nodes {
            track(&mut tracks, node).held.extend(held(made, past.attempt));
        }
        let Some(begin) = past.start_time.as_ref().map(micros) else { continue };
        let until = past.end_time.as_ref().map_or(made.end, micros);
        for one in &past.exits {
            // Of which server, is kept of the present attempt alone; one server leaves no choice.
            let node = if let [node] = past.nodes.as_slice() { node } else { "" };
            let end = one.time.as_ref().map_or(until, micros).clamp(begin, until.max(begin));
            let (exit, failed) = exit(one, &past.reasons);
            let (rank, attempt) = (one.rank, past.attempt);
            let span = RankSpan { rank, attempt, begin, end, open: false, exit, failed };
            track(&mut tracks, node).ranks.push(span);
        }
    }
    for node in status.placement.iter().flat_map(|place| &place.nodes) {
        track(&mut tracks, &node.node).held.extend(held(made, status.attempt.max(1)));
    }
    if let Some(begin) = status.start_time.as_ref().map(micros).filter(|begin| *begin <= made.end) {
        // Of several exits of a rank the first one counts.
        let exits: BTreeMap<u32, &v1::RankExit> =
            status.exits.iter().rev().map(|exit| (exit.rank, exit)).collect();
        for place in status.placement.iter().flat_map(|place| &place.ranks) {
            let found = exits.get(&place.rank).copied();
            let span = rank(status, made, (place.rank, found), begin);
            track(&mut tracks, &place.node).ranks.push(span);
        }
    }
    let mut tracks: Vec<NodeTrack> = tracks.into_values().collect();
    tracks.sort_by(|a, b| a.node.is_empty().cmp(&b.node.is_empty()).then(natural::compare(&a.node, &b.node)));
    for track in &mut tracks {
        track.ranks.sort_by_key(|one| (one.attempt, one.rank));
    }
    tracks
}

fn track<'a>(tracks: &'a mut BTreeMap<String, NodeTrack>, node: &str) -> &'a mut NodeTrack {
    tracks
        .entry(node.to_owned())
        .or_insert_with(|| NodeTrack { node: node.to_owned(), ..NodeTrack::default() })
}

/// A rank of the present attempt, with its exit where it has ended.
fn rank(
    status: &v1::JobStatus,
    made: &Timeline,
    (rank, found): (u32, Option<&v1::RankExit>),
    begin: i64,
) -> RankSpan {
    let (exit, failed) = found.map_or((String::new(), false), |one| exit(one, &status.reasons));
    // Servers' clocks may differ from the controller's a little.
    let end =
        found.and_then(|exit| exit.time.as_ref()).map_or(made.end, micros).clamp(begin, made.end.max(begin));
    let attempt = status.attempt.max(1);
    RankSpan { rank, attempt, begin, end, open: found.is_none() && made.open, exit, failed }
}

fn instant(time: i64, code: &str, message: String) -> Instant {
    Instant { time, code: code.to_owned(), message, node: String::new(), bad: false }
}

/// `cause: sentence` of each.
fn because(causes: &[Cause]) -> String {
    causes.iter().map(|cause| format!("{}: {}", cause.code, cause.message)).collect::<Vec<_>>().join("; ")
}

fn instants(facts: &Facts, status: &v1::JobStatus, made: &Timeline) -> Vec<Instant> {
    let mut all = Vec::new();
    let mut digest = String::new();
    for one in own(&facts.decisions, made.begin).filter(|one| !one.placement_digest.is_empty()) {
        let time = one.time.as_ref().map_or(made.begin, micros);
        if one.phase() != Phase::Recovering
            && (digest != one.placement_digest || one.phase() == Phase::Reserved)
        {
            let message = format!(
                "attempt {} on {}; {}",
                one.attempt,
                many(one.nodes, "node"),
                because(&causes(&one.reasons))
            );
            all.push(instant(time, "Placed", message.trim_end_matches("; ").to_owned()));
        }
        digest.clone_from(&one.placement_digest);
    }
    for past in &status.past_attempts {
        let nodes = Names::of(past.nodes.iter().map(String::as_str)).to_string();
        let Some(end) = past.end_time.as_ref().map(micros) else { continue };
        let message = format!("attempt {} on {nodes}: {}", past.attempt, because(&causes(&past.reasons)));
        all.push(Instant { bad: is_failure(past), ..instant(end, "AttemptEnded", message) });
    }
    for track in &made.nodes {
        for one in track.ranks.iter().filter(|one| one.failed) {
            let message = format!("rank {} of attempt {}: {}", one.rank, one.attempt, one.exit);
            let node = track.node.clone();
            all.push(Instant { node, bad: true, ..instant(one.end, "RankFailed", message) });
        }
    }
    for hold in &status.holds {
        let code = if hold.suspended { "Suspended" } else { "Held" };
        let why = if hold.reason.is_empty() { String::new() } else { format!(": {}", hold.reason) };
        let message = format!("by {} ({}){why}", hold.by, render::role(hold.role));
        all.extend(hold.since.as_ref().map(|since| instant(micros(since), code, message)));
    }
    for change in &facts.changes {
        all.push(instant(micros(&change.timestamp()), &change.code, change.message.clone()));
    }
    all.extend(rails(facts, status, made));
    all.retain(|one| one.time >= made.begin && one.time <= made.end);
    all.sort();
    all.dedup();
    // The submit is the first and the end the last of what happened in one moment.
    all.insert(0, instant(made.begin, "Submitted", submitted(&facts.job, status)));
    if !made.open {
        let bad = status.phase() == Phase::Failed;
        all.push(Instant { bad, ..instant(made.end, &made.phase, because(&causes(&status.reasons))) });
    }
    all
}

fn submitted(job: &v1::Job, status: &v1::JobStatus) -> String {
    let spec = job.spec.clone().unwrap_or_default();
    let gpus = many(spec.total_gpus(), "GPU");
    let by = status.submitter.as_ref().map(|by| format!(" by {}", by.user)).unwrap_or_default();
    format!("{}, {gpus}{by}", render::gang_words(&spec.gang.unwrap_or_default()))
}

/// Whether an attempt ended for a cause that nobody wanted.
fn is_failure(past: &v1::PastAttempt) -> bool {
    !is_on_purpose(&past.reasons)
}

/// Whether somebody wanted that an attempt ends.
fn is_on_purpose(reasons: &[v1::Reason]) -> bool {
    reasons.iter().any(|reason| ON_PURPOSE.contains(&ReasonCode::from_text(&reason.code)))
}

/// What became of rails while the job had them: as its servers tell, and as somebody drained them.
fn rails(facts: &Facts, status: &v1::JobStatus, made: &Timeline) -> Vec<Instant> {
    let mut all = Vec::new();
    for node in facts.rails.iter().filter(|_| made.open) {
        for rail in &node.rails {
            let code = match rail.state() {
                State::Unspecified | State::Up => continue,
                State::Draining => "RailDraining",
                State::Drained => "RailDrained",
                State::Down => "RailDown",
                State::Proving => "RailProving",
            };
            let Some(since) = rail.since.as_ref().map(micros) else { continue };
            let why = if rail.cause.is_empty() { String::new() } else { format!(": {}", rail.cause) };
            let message = format!("rail {} of {}{why}", rail.rail, node.node);
            let bad = rail.state() == State::Down;
            all.push(Instant { node: node.node.clone(), bad, ..instant(since, code, message) });
        }
    }
    let Some(place) = &status.placement else { return all };
    for drain in facts.drains.iter().filter(|drain| concerns(place, &drain.target)) {
        let why = if drain.reason.is_empty() { String::new() } else { format!(": {}", drain.reason) };
        let message = format!("{} by {}{why}", drain.target, drain.by);
        all.extend(drain.since.as_ref().map(|since| instant(micros(since), "Drain", message)));
    }
    all
}

/// Whether what is drained is part of a placement: rail/1, leaf/NAME, or node/NAME:1.
fn concerns(place: &v1::Placement, target: &str) -> bool {
    let Some((kind, name)) = target.split_once('/') else { return false };
    match kind {
        "rail" => name.parse().is_ok_and(|rail: u32| place.rails.contains(&rail)),
        "leaf" => place.nodes.iter().flat_map(|node| &node.nics).any(|nic| nic.leaf == name),
        "node" => name.rsplit_once(':').is_some_and(|(name, rail)| {
            place
                .nodes
                .iter()
                .any(|node| node.node == name && node.nics.iter().any(|nic| nic.rail.to_string() == rail))
        }),
        _ => false,
    }
}

/// What is not known any more of so old a life.
fn missing(facts: &Facts, status: &v1::JobStatus, made: &Timeline) -> Vec<String> {
    let mut all = Vec::new();
    let first = own(&facts.decisions, made.begin).next();
    match first.and_then(|one| one.time.as_ref()).map(micros) {
        None => all.push(
            "no decision about it is kept any more: what it waited for, and when it was placed, is not known"
                .to_owned(),
        ),
        Some(time) if time > made.begin + FIRST_WITHIN => all.push(
            "the first decisions about it are not kept any more: what it waited for at first is not known"
                .to_owned(),
        ),
        Some(_) => {}
    }
    let kept = u32::try_from(status.past_attempts.len()).unwrap_or(u32::MAX);
    let before = status.attempt.saturating_sub(1);
    if kept < before {
        all.push(format!(
            "of {} before this one the last {kept} are kept, of many at most {ATTEMPTS_KEPT}",
            many(before, "attempt")
        ));
    }
    if kept > 0 {
        all.push("of ranks of earlier attempts only those that failed are kept".to_owned());
    }
    all
}
