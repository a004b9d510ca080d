//! Planted histories: the judge finds what is wrong in each, and nothing in the one that is right.

use super::*;

const UID: &str = "u1";

fn text(text: &str) -> String {
    text.to_owned()
}

fn job(revision: u64, uid: &str, phase: &str, holds: &[&str]) -> What {
    What::Job {
        watch: 0,
        revision,
        uid: text(uid),
        phase: text(phase),
        attempt: 1,
        ended: phase == "COMPLETED",
        holds: holds.iter().copied().map(text).collect(),
    }
}

fn rank(uid: &str, pid: u32, ns: u64, point: Point) -> What {
    What::Rank(Rank { uid: text(uid), attempt: 1, rank: 0, pid, ns, things: vec![text("n0/gpu/0")], point })
}

fn submit(request: &str, attempt: u32) -> What {
    What::Submit { request: text(request), attempt }
}

fn acknowledged(request: &str, uid: &str) -> What {
    What::Acknowledged { request: text(request), uid: text(uid), name: text("j"), revision: 1 }
}

fn unanswered(request: &str, refused: bool) -> What {
    What::Unanswered { request: text(request), error: text("no"), refused }
}

fn stored(request: &str, uid: &str) -> What {
    What::Stored { uid: text(uid), name: text("j"), request: text(request), phase: text("COMPLETED") }
}

fn audited(request: &str) -> What {
    What::Audited { seq: 1, rpc: text("CreateJob"), request: text(request) }
}

/// One submit whose first answer was lost, one of which nobody knows, and one that was refused.
fn good() -> Vec<What> {
    vec![
        What::Watching { watch: 0, afresh: true },
        What::Synced { watch: 0, revision: 3 },
        submit("r1", 1),
        unanswered("r1", false),
        submit("r1", 2),
        acknowledged("r1", UID),
        submit("r2", 1),
        unanswered("r2", false),
        submit("r3", 1),
        unanswered("r3", true),
        job(4, UID, "PENDING", &[]),
        job(5, UID, "RUNNING", &["n0/gpu/0"]),
        // One revision hands it over.
        job(6, UID, "COMPLETED", &[]),
        job(6, "u2", "RUNNING", &["n0/gpu/0"]),
        What::Holds { revision: 6, held: vec![(text("n0/gpu/0"), text("u2"))] },
        rank(UID, 10, 100, Point::Start),
        rank(UID, 10, 200, Point::End),
        rank("u2", 11, 300, Point::Start),
        stored("r1", UID),
        stored("r2", "u2"),
        audited("r1"),
        audited("r2"),
        What::Verified { good: true, said: String::new() },
        What::Converged { after_ms: Some(900), note: String::new() },
    ]
}

fn judge(history: Vec<What>) -> Verdict {
    let entry = |(at, what): (usize, What)| Entry { at: at as u64, what };
    check(&history.into_iter().enumerate().map(entry).collect::<Vec<_>>())
}

/// The promises that are broken once this is added to the good history.
fn broken(more: Vec<What>) -> BTreeSet<Promise> {
    let history = good().into_iter().chain(more).collect();
    judge(history).violations.into_iter().map(|violation| violation.promise).collect()
}

/// The same for what is left of it without some entries.
fn without(drop: impl Fn(&What) -> bool) -> BTreeSet<Promise> {
    let history = good().into_iter().filter(|what| !drop(what)).collect();
    judge(history).violations.into_iter().map(|violation| violation.promise).collect()
}

#[test]
fn a_good_history_breaks_nothing_and_what_is_unknown_stays_open() {
    let verdict = judge(good());
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.submitted, verdict.acknowledged, verdict.unknown), (3, 1, (1, 1)));
    assert_eq!((verdict.ranks, verdict.converged_ms), (2, Some(900)));
    // Nor does an unknown one have to be there.
    let absent = without(
        |what| matches!(what, What::Stored { request, .. } | What::Audited { request, .. } if request == "r2"),
    );
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn a_lost_submit_is_found() {
    let lost = without(|what| matches!(what, What::Stored { request, .. } if request == "r1"));
    assert_eq!(lost, [Promise::Lost].into());
}

#[test]
fn a_doubled_submit_is_found() {
    assert_eq!(broken(vec![stored("r1", "u9")]), [Promise::Doubled].into());
    // Also one of which nobody knew.
    assert_eq!(broken(vec![stored("r2", "u9")]), [Promise::Doubled].into());
    // One that was refused, and one that nobody sent.
    assert_eq!(broken(vec![stored("r3", "u9")]), [Promise::Doubled].into());
    assert_eq!(broken(vec![stored("r4", "u9")]), [Promise::Doubled].into());
    // Two answers that do not agree: whichever is stored, the other one was lost.
    assert_eq!(broken(vec![acknowledged("r1", "u9")]), [Promise::Lost, Promise::Doubled].into());
}

#[test]
fn a_thing_with_two_owners_is_found_as_stored() {
    assert_eq!(broken(vec![job(7, "u3", "RESERVED", &["n0/gpu/0"])]), [Promise::HeldTwice].into());
    assert!(broken(vec![job(7, "u3", "RESERVED", &["n0/gpu/1"])]).is_empty());
    let held = vec![(text("n0/nic/rail0"), text("u1")), (text("n0/nic/rail0"), text("u2"))];
    assert_eq!(broken(vec![What::Holds { revision: 9, held }]), [Promise::HeldTwice].into());
    // A present state that is told anew is no second owner.
    let afresh = vec![
        What::Watching { watch: 0, afresh: true },
        job(7, "u3", "RUNNING", &["n0/gpu/0"]),
        What::Synced { watch: 0, revision: 8 },
    ];
    assert!(broken(afresh).is_empty());
}

#[test]
fn a_thing_that_two_processes_use_is_found() {
    assert_eq!(broken(vec![rank("u3", 12, 150, Point::Start)]), [Promise::RanTwice].into());
    assert!(broken(vec![rank("u3", 12, 250, Point::Start)]).is_empty());
    assert_eq!(broken(vec![rank("u3", 12, 250, Point::Clash)]), [Promise::RanTwice].into());
    // The same rank of the same attempt, once more.
    assert_eq!(broken(vec![rank(UID, 13, 250, Point::Start)]), [Promise::RanTwice].into());
    // A long life hides a short one.
    let hidden = vec![
        rank("u3", 20, 1000, Point::Start),
        rank("u3", 20, 2000, Point::Beat),
        rank("u4", 21, 1100, Point::Start),
        rank("u4", 21, 1200, Point::End),
        rank("u5", 22, 1500, Point::Start),
    ];
    let history = good().into_iter().chain(hidden).collect();
    assert_eq!(judge(history).broken(Promise::RanTwice), 2);
}

#[test]
fn a_job_that_lives_again_and_a_watch_that_goes_back_are_found() {
    assert_eq!(broken(vec![job(7, UID, "RUNNING", &[])]), [Promise::Revived].into());
    assert_eq!(broken(vec![job(3, "u7", "PENDING", &[])]), [Promise::Backwards].into());
}

#[test]
fn a_gap_in_the_audit_log_is_found() {
    let gap = without(|what| matches!(what, What::Audited { request, .. } if request == "r1"));
    assert_eq!(gap, [Promise::AuditGap].into());
    assert_eq!(broken(vec![audited("r1")]), [Promise::AuditGap].into());
    assert_eq!(
        broken(vec![What::Verified { good: false, said: text("record 7") }]),
        [Promise::AuditGap].into()
    );
    assert_eq!(without(|what| matches!(what, What::Verified { .. })), [Promise::AuditGap].into());
}

#[test]
fn a_cluster_that_does_not_converge_is_found() {
    let late = What::Converged { after_ms: None, note: text("n3 is not ready") };
    assert_eq!(broken(vec![late]), [Promise::NotConverged].into());
    assert_eq!(without(|what| matches!(what, What::Converged { .. })), [Promise::NotConverged].into());
}
