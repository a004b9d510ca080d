//! Lives that were made up, and how they are drawn.

use prost_types::Timestamp;
use proto_wire::v1::{self, job_status::Phase};
use serde_json::Value;

use super::{
    build::{Facts, timeline},
    json::json,
    model::{Stage, Timeline},
    perfetto::perfetto,
    svg::svg,
    text::text,
};
use crate::render::Paint;

const NOW: i64 = 1_000_000_000;

fn at(seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds, nanos: 0 })
}

fn reason(code: &str) -> v1::Reason {
    v1::Reason { code: code.into(), message: format!("that is {code}"), ..v1::Reason::default() }
}

fn decision(seconds: i64, phase: Phase, attempt: u32, codes: &[&str], digest: &str) -> v1::Decision {
    v1::Decision {
        time: at(seconds),
        phase: phase.into(),
        attempt,
        reasons: codes.iter().map(|code| reason(code)).collect(),
        nodes: if digest.is_empty() { 0 } else { 2 },
        placement_digest: digest.into(),
    }
}

fn exit(rank: u32, code: i32, seconds: i64) -> v1::RankExit {
    v1::RankExit { rank, code, time: at(seconds), ..v1::RankExit::default() }
}

/// Two nodes with a rank each; the first attempt fails, the second one completes.
fn repeated() -> Facts {
    let node = |name: &str| v1::NodePlace { node: name.into(), ..v1::NodePlace::default() };
    let rank = |rank: u32, node: &str| v1::RankPlace { rank, node: node.into(), ..v1::RankPlace::default() };
    let placement = v1::Placement {
        nodes: vec![node("n2"), node("n10")],
        ranks: vec![rank(0, "n2"), rank(1, "n10")],
        rails: vec![0, 1],
        ..v1::Placement::default()
    };
    let past = v1::PastAttempt {
        attempt: 1,
        start_time: at(130),
        end_time: at(160),
        reasons: vec![reason("RankFailed")],
        exits: vec![exit(1, 9, 150)],
        nodes: vec!["n2".into(), "n3".into()],
    };
    let status = v1::JobStatus {
        phase: Phase::Completed.into(),
        attempt: 2,
        submit_time: at(100),
        start_time: at(190),
        end_time: at(250),
        placement: Some(placement),
        exits: vec![exit(0, 0, 240), exit(1, 0, 260)],
        past_attempts: vec![past],
        ..v1::JobStatus::default()
    };
    let gang = v1::Gang { nodes: 2, gpus_per_node: 1, ..v1::Gang::default() };
    let job = v1::Job {
        metadata: Some(v1::Metadata {
            name: "train".into(),
            tenant: "nlp".into(),
            uid: "u-1".into(),
            ..v1::Metadata::default()
        }),
        spec: Some(v1::JobSpec { gang: Some(gang), ..v1::JobSpec::default() }),
        status: Some(status),
        ..v1::Job::default()
    };
    let decisions = vec![
        // Of an earlier job of the name.
        decision(50, Phase::Completed, 1, &[], ""),
        decision(100, Phase::Pending, 1, &["GpuCapacity", "GpuCapacity"], ""),
        decision(120, Phase::Reserved, 1, &["BestFit"], "aa"),
        decision(152, Phase::Recovering, 1, &["RankFailed"], "aa"),
        decision(160, Phase::Pending, 2, &["Requeued"], ""),
        decision(180, Phase::Reserved, 2, &["BestFit"], "bb"),
        decision(250, Phase::Completed, 2, &[], ""),
    ];
    Facts { job, decisions, ..Facts::default() }
}

fn stages(of: &Timeline) -> Vec<(Stage, u32, i64, i64)> {
    of.spans
        .iter()
        .map(|span| (span.stage, span.attempt, span.begin / 1_000_000, span.end / 1_000_000))
        .collect()
}

fn is_whole(of: &Timeline) {
    let ends: Vec<i64> = of.spans.iter().map(|span| span.begin).chain([of.end]).collect();
    assert_eq!((ends.first(), of.spans.last().map(|span| span.end)), (Some(&of.begin), Some(of.end)));
    assert!(of.spans.windows(2).all(|pair| pair[0].end == pair[1].begin), "{:?}", of.spans);
    assert!(of.spans.iter().all(|span| span.begin < span.end || span.open), "{:?}", of.spans);
    assert!(of.instants.is_sorted_by_key(|one| one.time), "{:?}", of.instants);
    assert!(of.instants.iter().all(|one| (of.begin..=of.end).contains(&one.time)));
}

#[test]
fn a_life_has_no_gaps_and_every_attempt() {
    let made = timeline(&repeated(), NOW);
    is_whole(&made);
    assert_eq!(
        stages(&made),
        [
            (Stage::Waiting, 1, 100, 120),
            (Stage::Starting, 1, 120, 130),
            (Stage::Running, 1, 130, 152),
            (Stage::Stopping, 1, 152, 160),
            (Stage::Waiting, 2, 160, 180),
            (Stage::Starting, 2, 180, 190),
            (Stage::Running, 2, 190, 250),
        ]
    );
    assert_eq!(made.spans[0].causes[0].code, "GpuCapacity");
    assert!(!made.open && made.spans.iter().all(|span| !span.open));
    let nodes: Vec<&str> = made.nodes.iter().map(|track| track.node.as_str()).collect();
    assert_eq!(nodes, ["n2", "n3", "n10", ""], "natural order, and ranks of unknown servers last");
    let held: Vec<u32> = made.nodes[0].held.iter().map(|one| one.attempt).collect();
    assert_eq!(held, [1, 2]);
    let last = &made.nodes[2].ranks[0];
    assert_eq!(
        (last.rank, last.end),
        (1, made.end),
        "a server's clock that is ahead draws nothing after the end"
    );
    let codes: Vec<&str> = made.instants.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["Submitted", "Placed", "RankFailed", "AttemptEnded", "Placed", "Completed"]);
    assert_eq!(made.missing, ["of ranks of earlier attempts only those that failed are kept"]);
}

#[test]
fn what_is_no_longer_kept_is_said() {
    let mut facts = repeated();
    facts.decisions.clear();
    facts.job.status.as_mut().unwrap().attempt = 12;
    let made = timeline(&facts, NOW);
    is_whole(&made);
    assert!(made.missing[0].starts_with("no decision about it is kept any more"), "{:?}", made.missing);
    assert!(
        made.missing[1].starts_with("of 11 attempts before this one the last 1 are kept"),
        "{:?}",
        made.missing
    );
    assert_eq!(
        stages(&made)[..3],
        [(Stage::Waiting, 1, 100, 130), (Stage::Running, 1, 130, 160), (Stage::Waiting, 2, 160, 190)]
    );
    assert_eq!(made.spans[2].causes[0].code, "RankFailed", "why it was queued again is known of the attempt");
    let mut facts = repeated();
    facts.decisions.drain(..4);
    let made = timeline(&facts, NOW);
    is_whole(&made);
    assert!(made.missing[0].starts_with("the first decisions about it are not kept"), "{:?}", made.missing);
}

#[test]
fn what_is_stopped_on_purpose_has_not_failed() {
    let mut facts = repeated();
    facts.job.status.as_mut().unwrap().past_attempts[0].reasons = vec![reason("SuspendRequested")];
    let made = timeline(&facts, NOW);
    assert!(made.instants.iter().all(|one| !one.bad && one.code != "RankFailed"), "{:?}", made.instants);
    assert_eq!(made.nodes[3].ranks[0].exit, "exit 9");
}

#[test]
fn a_life_goes_on() {
    let mut facts = repeated();
    let status = facts.job.status.as_mut().unwrap();
    status.phase = Phase::Running.into();
    (status.end_time, status.exits) = (None, vec![exit(0, 0, 240)]);
    facts.job.spec.as_mut().unwrap().time_limit = Some(prost_types::Duration { seconds: 3600, nanos: 0 });
    facts.decisions.pop();
    let rail = v1::RailReport {
        rail: 1,
        state: v1::rail_report::State::Down.into(),
        since: at(200),
        cause: "port".into(),
        ..v1::RailReport::default()
    };
    facts.rails = vec![v1::NodeRails { node: "n2".into(), rails: vec![rail], time: None }];
    let drain = |target: &str| v1::RailDrain {
        target: target.into(),
        reason: "works".into(),
        by: "ann".into(),
        since: at(210),
    };
    facts.drains = vec![drain("rail/1"), drain("rail/7"), drain("leaf/x"), drain("node/n2:1")];
    let made = timeline(&facts, 300_000_000);
    is_whole(&made);
    assert_eq!((made.open, made.end, made.limit), (true, 300_000_000, Some(3_790_000_000)));
    assert!(made.spans.last().unwrap().open && made.nodes[2].ranks[0].open && !made.nodes[0].ranks[0].open);
    let codes: Vec<&str> = made.instants.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes[5..], ["RailDown", "Drain"], "only what is drained of its own: {codes:?}");
    // Another clock than ours is ahead: nothing ends before it begins.
    let early = timeline(&facts, 150_000_000);
    is_whole(&early);
    let shown = text(&made, 40, Paint::NONE);
    assert!(shown.contains("+ goes on") && shown.contains("its time limit is over in 58m10s"), "{shown}");
}

#[test]
fn one_that_waits_has_causes_and_an_expected_start() {
    let mut facts = repeated();
    let status = v1::JobStatus {
        phase: Phase::Pending.into(),
        attempt: 1,
        submit_time: at(100),
        ..v1::JobStatus::default()
    };
    facts.job.status = Some(status);
    facts.decisions.truncate(2);
    facts.eta = Some(v1::Eta { start: at(160), earliest: at(150), latest: at(200), ..v1::Eta::default() });
    let made = timeline(&facts, 110_000_000);
    is_whole(&made);
    assert_eq!(stages(&made), [(Stage::Waiting, 1, 100, 110)]);
    assert_eq!(made.expected[1], Some(160_000_000));
    let shown = text(&made, 10, Paint::NONE);
    let expected = "\
job nlp/train is Pending: 10s so far (waiting 10s)
it will probably start in 50s, at 1970-01-01T00:02:40.000Z, and by 1970-01-01T00:03:20.000Z

ATTEMPT  STAGE    FROM                      TOOK  BAR           WHY
1        waiting  1970-01-01T00:01:40.000Z  10s+  |░░░░░░░░░░|  GpuCapacity
+ goes on

what happened:
  1970-01-01T00:01:40.000Z  Submitted       2 nodes, 2 GPUs
";
    assert_eq!(shown, expected);
}

#[test]
fn bars_of_characters_stand_where_they_belong() {
    let shown = text(&timeline(&repeated(), NOW), 15, Paint::NONE);
    let bars: Vec<&str> = shown.lines().filter_map(|line| line.split('|').nth(1)).collect();
    assert_eq!(bars[0], "░░·············", "{shown}");
    assert_eq!(bars[6], "·········██████", "{shown}");
    assert!(bars.iter().all(|bar| bar.chars().count() == 15), "{shown}");
    assert!(shown.contains("! 1970-01-01T00:02:30.000Z  RankFailed"), "{shown}");
    assert!(shown.contains("! exit 9"), "{shown}");
}

#[test]
fn a_trace_is_what_perfetto_reads() {
    let made = timeline(&repeated(), NOW);
    let trace = perfetto(&made);
    assert_eq!(trace, perfetto(&timeline(&repeated(), NOW)), "equal lives give equal bytes");
    let value: Value = serde_json::from_str(&trace).unwrap();
    let events = value["traceEvents"].as_array().unwrap();
    let timed: Vec<&Value> = events.iter().filter(|event| event["ph"] != "M").collect();
    let times: Vec<i64> = timed.iter().map(|event| event["ts"].as_i64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    let ends = timed.iter().map(|event| event["ts"].as_i64().unwrap() + event["dur"].as_i64().unwrap_or(0));
    assert_eq!((times[0], ends.max()), (made.begin, Some(made.end)));
    let name = |pid: i64| {
        let of =
            |event: &&Value| event["ph"] == "M" && event["name"] == "process_name" && event["pid"] == pid;
        events.iter().find(of).map(|event| event["args"]["name"].as_str().unwrap().to_owned())
    };
    assert_eq!(name(1).as_deref(), Some("job nlp/train"));
    assert_eq!((name(2).as_deref(), name(4).as_deref()), (Some("n2"), Some("n10")));
    // What shares a thread is nested, or one after the other.
    let mut open: std::collections::BTreeMap<(i64, i64), Vec<i64>> = std::collections::BTreeMap::new();
    for event in timed.iter().filter(|event| event["ph"] == "X") {
        let number = |name: &str| event[name].as_i64().unwrap();
        let (begin, end) = (number("ts"), number("ts") + number("dur"));
        let stack = open.entry((number("pid"), number("tid"))).or_default();
        stack.retain(|end| *end > begin);
        assert!(stack.last().is_none_or(|outer| end <= *outer), "{event}");
        stack.push(end);
    }
    let waits = timed.iter().find(|event| event["name"] == "waiting: GpuCapacity").unwrap();
    assert_eq!(waits["args"]["GpuCapacity"], "that is GpuCapacity");
}

#[test]
fn pictures_hold_no_markup_of_others() {
    let mut facts = repeated();
    let status = facts.job.status.as_mut().unwrap();
    status.reasons = vec![v1::Reason {
        code: "X".into(),
        message: "<script>&\"\u{1b}[2J".into(),
        ..v1::Reason::default()
    }];
    let made = timeline(&facts, NOW);
    let drawn = svg(&made);
    assert!(drawn.starts_with("<svg xmlns=") && drawn.ends_with("</svg>\n"));
    assert!(!drawn.contains("<script>") && drawn.contains("&lt;script&gt;&amp;&quot; [2J"), "{drawn}");
    assert!(drawn.contains("rank 1 on server not kept") && drawn.contains("attempt 2"), "{drawn}");
    assert_eq!(
        drawn.matches("<g><title>").count(),
        made.spans.len() + 3,
        "a bar for each span and each rank"
    );
    assert!(!text(&made, 20, Paint::NONE).contains('\u{1b}'));
    let value: Value = serde_json::from_str(&json(&made)).unwrap();
    assert_eq!(value["spans"].as_array().unwrap().len(), made.spans.len());
    assert_eq!(value["begin"], "1970-01-01T00:01:40.000000Z");
}

#[test]
fn many_ranks_are_counted() {
    let mut facts = repeated();
    let place = facts.job.status.as_mut().unwrap().placement.as_mut().unwrap();
    place.ranks =
        (0..5000).map(|rank| v1::RankPlace { rank, node: "n2".into(), ..v1::RankPlace::default() }).collect();
    let made = timeline(&facts, NOW);
    let shown = text(&made, 20, Paint::NONE);
    // With the one of the first attempt that failed.
    assert!(shown.contains("and 4969 more ranks; -o json has all"), "{shown}");
    assert!(svg(&made).contains("and 4745 more ranks"));
}

#[test]
fn of_many_moments_the_last_is_kept() {
    let mut facts = repeated();
    let status = facts.job.status.as_mut().unwrap();
    status.phase = Phase::Failed.into();
    status.reasons = vec![reason("RankFailed")];
    status.exits = (0..100).map(|rank| exit(rank, 1, 240)).collect();
    status.placement.as_mut().unwrap().ranks =
        (0..100).map(|rank| v1::RankPlace { rank, node: "n2".into(), ..v1::RankPlace::default() }).collect();
    let made = timeline(&facts, NOW);
    // Five of the first attempt and of the second one's start, a failure of each rank, and the end.
    assert_eq!(made.instants.len(), 106);
    let (first, left_out, last) = made.moments(40);
    assert_eq!((first.len(), left_out, last.len()), (39, 66, 1));
    assert_eq!(last[0].code, "Failed");
    assert_eq!(made.moments(106), (made.instants.as_slice(), 0, [].as_slice()));
    let shown = text(&made, 20, Paint::NONE);
    let (_, happened) = shown.split_once("what happened:\n").unwrap();
    let lines: Vec<&str> = happened.lines().take(41).collect();
    assert_eq!(lines[39], "  and 66 more moments; -o json has all");
    assert!(
        lines[40].contains("  Failed  ") && lines[40].ends_with("RankFailed: that is RankFailed"),
        "{shown}"
    );
    let drawn = svg(&made);
    assert!(drawn.contains("and 66 more moments; -o json has all"), "{drawn}");
    assert!(drawn.contains("  Failed: RankFailed: that is RankFailed</text>"), "{drawn}");
    assert_eq!(drawn.matches("h8 z").count(), 40);
}
