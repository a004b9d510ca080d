//! A job that takes too much ends by itself, or when it is told to, and the one beside it never notices. Where this machine lets nobody
//! make control groups there is nothing to test; the agent says so then.

use std::time::{Duration, Instant};

use node_agent_rank::cgroup::{self, limits::Limits};
use proto_model::{IsolationFeature, Observed};

use super::{Supervised, cause, codes, supervisor_config};
use crate::support::{assignment, eventually, shell};

/// Whether control groups limit this here.
fn is_limited(limits: &Limits, feature: IsolationFeature) -> bool {
    let states = cgroup::available(limits).states;
    let state = states.into_iter().find(|state| state.feature == feature).unwrap();
    if !state.active {
        eprintln!("not tested: {}", state.reason);
    }
    state.active
}

fn limited(limits: &Limits, script: &str) -> Supervised {
    let supervisor_config = super::SupervisorConfig { limits: limits.clone(), ..supervisor_config() };
    Supervised::with(&assignment(1, shell(script, &[])), &supervisor_config)
}

/// A job of somebody else on the same server: it starts processes all the time, and takes memory.
fn neighbour() -> Supervised {
    let limits = Limits { memory: Some(256 << 20), pids: Some(64), ..Limits::default() };
    let mut job = limited(
        &limits,
        "n=0; while [ ! -e done ]; do n=$((n+1)); /bin/true || exit 9; echo $n > n; done; exit 0",
    );
    job.run();
    job.state(Observed::Running);
    job
}

fn count(job: &Supervised) -> u64 {
    std::fs::read_to_string(job.work("n")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// It goes on, and ends well.
fn is_unharmed(mut job: Supervised) {
    let before = count(&job);
    eventually("the neighbour goes on", || (count(&job) > before + 10).then_some(()));
    std::fs::write(job.work("done"), "").unwrap();
    assert_eq!(codes(&job.ended()), [(0, 0, 0)]);
}

#[test]
fn who_takes_too_much_memory_is_ended_and_told_how_much_it_was() {
    let limits = Limits { memory: Some(48 << 20), ..Limits::default() };
    if !is_limited(&limits, IsolationFeature::CgroupMemory) {
        return;
    }
    let neighbour = neighbour();
    // `tail` keeps what it reads of a line that never ends.
    let mut hog = limited(&limits, "head -c 400000000 /dev/zero | tail > /dev/null; exit 7");
    hog.run();
    let seen = hog.ended();
    let (code, message) = cause(&seen);
    assert_eq!(code, "OutOfMemory", "{message}");
    assert!(message.contains("48 MiB of memory together and came to 48 MiB"), "{message}");
    is_unharmed(neighbour);
}

#[test]
fn who_forks_without_end_takes_nothing_from_others_and_ends_when_told() {
    let limits = Limits { pids: Some(64), ..Limits::default() };
    if !is_limited(&limits, IsolationFeature::CgroupPids) {
        return;
    }
    let neighbour = neighbour();
    let mut bomb =
        limited(&limits, "b() { b | b & }; b; echo > lit; while :; do b; sleep 0.01; done 2> /dev/null");
    bomb.run();
    bomb.state(Observed::Running);
    let groups = bomb.saved().cgroups;
    eventually("the bomb is at its limit", || {
        let refused = |group: &std::path::PathBuf| {
            std::fs::read_to_string(group.join("pids.events")).is_ok_and(|text| !text.contains("max 0"))
        };
        groups.iter().any(refused).then_some(())
    });
    let begun = Instant::now();
    bomb.stop(Duration::from_millis(200));
    bomb.ended();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    is_unharmed(neighbour);
}

#[test]
fn a_limit_that_was_promised_and_cannot_be_set_starts_nothing() {
    let limits = Limits { cpus: Some("999999".into()), ..Limits::default() };
    let mut job = limited(&limits, "echo here > began");
    job.run();
    let seen = job.ended();
    let (code, message) = cause(&seen);
    assert_eq!(code, "RankStartFailed");
    assert!(message.contains("limits"), "{message}");
    assert!(!job.work("began").exists());
}
