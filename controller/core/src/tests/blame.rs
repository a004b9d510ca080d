//! Which node of a gang failed, by what its nodes say and report.

use std::time::Duration;

use proto_model::{Observation, Observed, RailLoss, RailReport, RailState, Reason, ReasonCode, Replace};

use controller_state::view::job::blame::first_to_fail;

use crate::{Ending, Outcome, job::attempt::merge_ending};

use super::{
    drains::{report, says},
    repair::{lose_rail, lost, replacing, spares},
    *,
};

/// A job on three nodes that runs, and the node that is free for it.
struct Three {
    w: World,
    before: Vec<usize>,
    free: usize,
}

impl Three {
    fn new() -> Self {
        Self::of(replacing(3, 1, Replace::Spares))
    }

    fn of(job: JobSpec) -> Self {
        let mut w = World::new();
        w.submit("a", job);
        w.run("a");
        let before = w.nodes("a");
        let free = (0..4).find(|n| !before.contains(n)).unwrap();
        Self { w, before, free }
    }

    /// One of the three says something.
    fn says(&mut self, one: usize, state: Observed, cause: Option<Reason>, reports: &[RailReport]) {
        let n = self.before[one];
        let seen = self.w.seen("a", n, state);
        self.w.report(n, Observation { cause, reports: reports.to_vec(), ..seen });
    }

    fn fails(&mut self, one: usize) {
        let n = self.before[one];
        self.w.report(n, lost(&self.w, "a", n));
    }

    /// One of the three ends because it misses a peer.
    fn misses(&mut self, one: usize, peer: Option<&str>) {
        let mut cause = Reason::new(ReasonCode::PeerLost, "a peer is lost");
        if let Some(peer) = peer {
            cause = cause.scope(format!("node/{peer}"));
        }
        self.says(one, Observed::Stopping, Some(cause), &[]);
    }

    /// All have ended: the next attempt has the free node in the place of one of the three, and of that alone.
    #[track_caller]
    fn replaces(mut self, one: usize, of: &str) -> World {
        for n in self.before.clone() {
            self.w.report(n, self.w.seen("a", n, Observed::Ended));
        }
        let mut after = self.before;
        after[one] = self.free;
        assert_eq!(self.w.nodes("a"), after, "{of}");
        self.w
    }
}

/// What an engine of three reports of its second rail.
fn rail(state: RailState, peers_up: u32) -> RailReport {
    RailReport { peers: 2, peers_up, ..report(1, state) }
}

fn up() -> RailReport {
    rail(RailState::Up, 2)
}

fn down() -> RailReport {
    rail(RailState::Down, 0)
}

/// While a gang ends its engines go one after the other, and who goes last sees no peer any more: it is not what failed.
#[test]
fn an_engine_that_sees_the_others_end_is_not_taken_for_one_without_rails() {
    let mut three = Three::new();
    assert_eq!(spares(&three.w, "a"), [name(three.free).to_string()]);
    (0..3).for_each(|one| three.says(one, Observed::Running, None, &[up()]));
    three.fails(1);
    assert_eq!(three.w.phase("a"), Phase::Recovering);
    three.says(0, Observed::Stopping, None, &[down()]);
    three.replaces(1, "the one that said so");
}

/// Reports of rails may be old, of before all were connected.
#[test]
fn what_a_node_says_of_itself_comes_before_what_others_report_of_rails() {
    let mut three = Three::new();
    (0..3).for_each(|one| three.says(one, Observed::Running, None, &[up()]));
    three.says(2, Observed::Running, None, &[down()]);
    three.fails(1);
    three.replaces(1, "the one that said so");
}

/// The attempt ends for a rail that an engine sees down, and another engine fails while it is stopped for that.
#[test]
fn a_job_that_moves_for_a_rail_leaves_the_node_that_lost_it_whoever_fails_meanwhile() {
    let mut job = replacing(3, 0, Replace::Any);
    job.failure.on_rail_loss = RailLoss::Move;
    let mut three = Three::of(job);
    (0..3).for_each(|one| three.says(one, Observed::Running, None, &[up()]));
    three.says(2, Observed::Running, None, &[down()]);
    assert_eq!((three.w.phase("a"), &three.w.codes("a")[0][..]), (Phase::Recovering, "RailLost"));
    let failed = Some(Reason::new(ReasonCode::EngineLost, "killed"));
    three.says(1, Observed::Stopping, failed, &[up()]);
    let w = three.replaces(2, "the one that lost a rail");
    assert_eq!(w.job("a").status.restarts, 0);
}

/// Of two that report one rail down nobody is believed, but for the one whose own inventory said so when the attempt was stopped for it,
/// although its cable is back before the attempt has ended.
#[test]
fn the_node_that_a_try_was_stopped_for_is_left_although_its_rail_is_back() {
    let mut w = World::new();
    let mut job = replacing(2, 0, Replace::Any);
    job.failure.on_rail_loss = RailLoss::Move;
    w.submit("a", job);
    w.run("a");
    let before = w.nodes("a");
    let down = RailReport { peers: 1, peers_up: 0, ..report(1, RailState::Down) };
    for n in &before {
        w.report(*n, Observation { reports: vec![down.clone()], ..w.seen("a", *n, Observed::Running) });
    }
    assert_eq!(w.phase("a"), Phase::Running);
    lose_rail(&mut w, before[0], 1);
    assert_eq!(w.phase("a"), Phase::Recovering);
    let session = w.state.session(&name(before[0])).unwrap();
    let inventory = Arc::new(inventory(4, 2));
    w.step(Event::AgentInventory { node: name(before[0]), session, inventory });
    w.all("a", Observed::Ended);
    let after = w.nodes("a");
    assert!(after[0] != before[0] && after[1] == before[1], "{before:?} {after:?}");
}

/// Those that miss a peer may be heard before the one that failed.
#[test]
fn who_misses_a_peer_is_not_what_failed() {
    // In the second nobody says that itself failed.
    for said in [true, false] {
        let mut three = Three::new();
        three.misses(0, None);
        three.misses(2, None);
        if said {
            three.fails(1);
        }
        three.replaces(usize::from(said), &format!("said: {said}"));
    }
}

/// More nodes miss it than there are causes kept.
#[test]
fn the_one_that_failed_is_kept_among_all_that_miss_it() {
    let cause = |code: ReasonCode, n: usize| Reason::new(code, "").scope(format!("node/n{n}"));
    let mut ending = Ending {
        outcome: Outcome::Move,
        grace: Duration::ZERO,
        signal: 0,
        since: Timestamp(0),
        causes: vec![cause(ReasonCode::PeerLost, 0)],
    };
    for n in 1..100 {
        ending = merge_ending(&ending, Outcome::Move, Duration::ZERO, vec![cause(ReasonCode::PeerLost, n)]);
    }
    let kept = ending.causes.len();
    ending = merge_ending(&ending, Outcome::Move, Duration::ZERO, vec![cause(ReasonCode::EngineLost, 100)]);
    assert_eq!((ending.causes.len(), first_to_fail(&ending.causes)), (kept, Some(name(100))));
}

/// Nobody speaks for itself: whom most miss is replaced. One that misses all others is missed by them.
#[test]
fn the_one_that_most_miss_is_replaced() {
    // Who says it, whom it misses, and who is replaced.
    let said: [(&[(usize, usize)], usize); 5] = [
        (&[(0, 1), (2, 1)], 1),
        (&[(1, 0), (0, 1), (2, 1)], 1),
        (&[(2, 0), (1, 0)], 0),
        (&[(2, 0), (0, 2)], 0),
        // Nobody misses itself.
        (&[(2, 2)], 2),
    ];
    for (said, failed) in said {
        let mut three = Three::new();
        for (one, peer) in said {
            let peer = name(three.before[*peer]);
            three.misses(*one, Some(peer.as_str()));
            // A second time says no more.
            three.misses(*one, Some(peer.as_str()));
        }
        three.replaces(failed, &format!("said: {said:?}"));
    }
    // One that is no server of the job's is nobody's peer.
    let mut three = Three::new();
    three.misses(1, Some("elsewhere"));
    three.replaces(1, "elsewhere");
}

/// Engines that come up see links down that nobody has lost; and of two nobody knows whose it is.
#[test]
fn what_engines_see_before_all_are_up_is_no_loss() {
    let down = || RailReport { peers_up: 0, ..report(1, RailState::Down) };
    let up = || report(1, RailState::Up);
    for gang in [2, 3] {
        let mut w = World::new();
        let mut job = spec(gang, 4);
        job.failure.on_rail_loss = RailLoss::Fail;
        w.submit("a", job);
        w.all("a", Observed::Prepared);
        let nodes = w.nodes("a");
        says(&mut w, "a", nodes[0], &[down()]);
        w.all("a", Observed::Running);
        assert!(!w.codes("a").contains(&"RailLost".to_owned()), "the first to speak: {:?}", w.codes("a"));
        says(&mut w, "a", nodes[0], &[up()]);
        for n in &nodes[1..] {
            says(&mut w, "a", *n, &[up()]);
        }
        says(&mut w, "a", nodes[1], &[down()]);
        let reported = w.codes("a").contains(&"RailLost".to_owned());
        assert_eq!(reported, gang == 3, "{gang} nodes: {:?}", w.codes("a"));
    }
}
