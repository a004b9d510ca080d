//! The supervisor of one attempt of one job: engine first, then ranks, then their end; nothing outlives it.
//!
//! It decides alone: the agent may be away at any moment, so every rule that keeps a job's end clean is here.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use proto_model::{Certify, Measured, NodeEndpoints, Observed, RankExit, Reason, ReasonCode, Timestamp};

use crate::record::{Order, Snapshot};

mod rails;
mod words;

use self::{
    rails::{HASTE_LIMIT, RAILS_AGAIN, RailsLook, drain_engine, rails_due, rails_seen},
    words::SIGTERM,
};
pub use self::{
    rails::{RAILS_CHECK, RAILS_HASTE, RAILS_REPORT},
    words::{Action, EngineEnd, Event, Signal},
};

/// An engine that does not listen after this long has failed.
pub const LISTEN_LIMIT: Duration = Duration::from_secs(15);
/// An engine that has not connected its rails after this long has failed; its own limit is shorter.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Between SIGTERM and SIGKILL when the engine is lost; the job must be over within 5 s.
pub const LOST_GRACE: Duration = Duration::from_secs(2);
/// Between SIGTERM and SIGKILL for processes that ranks left behind.
pub const SWEEP_GRACE: Duration = Duration::from_secs(2);
/// An engine that was asked to stop is killed after this long.
pub const ENGINE_GRACE: Duration = Duration::from_secs(3);
/// An engine that has not said what it measured this long after its own limit has measured nothing.
const MEASURE_LATE: Duration = Duration::from_secs(2);
/// SIGKILL is repeated this often until nothing is left.
const KILL_AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    New,
    Starting,
    Listening,
    /// Rails are measured, before they are connected: a rail that is dead or swapped could never be.
    Certifying,
    /// They are, and all else waits for the word.
    Held,
    Connecting,
    /// Ranks are being started.
    Launching,
    Running,
    /// The ranks' processes are ending; SIGKILL at this time.
    Draining {
        kill_at: Timestamp,
    },
    StoppingEngine,
    Ended,
}

impl Phase {
    /// The engine is up, and without it the attempt has failed.
    fn needs_engine(self) -> bool {
        match self {
            Self::Listening | Self::Connecting | Self::Certifying | Self::Held => true,
            Self::Launching | Self::Running => true,
            Self::New | Self::Starting | Self::Draining { .. } | Self::StoppingEngine | Self::Ended => false,
        }
    }
}

/// Everything a supervisor decides from.
#[derive(Debug, Clone)]
pub struct State {
    phase: Phase,
    /// Local ranks; true once started.
    ranks: BTreeMap<u32, bool>,
    engine_up: bool,
    /// We killed it: how it ended says nothing.
    engine_killed: bool,
    /// The end was ordered: how ranks ended says nothing.
    stopped: bool,
    /// What ranks get first when they are to end; 0 is SIGTERM.
    signal: i32,
    tree_empty: bool,
    deadline: Option<Timestamp>,
    /// Of measurements: the one that is under way, or the last one.
    series: u32,
    /// Rails that the engine has drained.
    engine_drained: BTreeSet<u32>,
    rails: RailsLook,
    seen: Snapshot,
}

impl State {
    /// A supervisor for these ranks of this server.
    #[must_use]
    pub fn new(local_ranks: impl IntoIterator<Item = u32>) -> Self {
        Self {
            phase: Phase::New,
            ranks: local_ranks.into_iter().map(|rank| (rank, false)).collect(),
            engine_up: false,
            engine_killed: false,
            stopped: false,
            signal: 0,
            tree_empty: true,
            deadline: None,
            series: 0,
            engine_drained: BTreeSet::new(),
            rails: RailsLook::default(),
            seen: Snapshot { drained: Some(BTreeSet::new()), ..Snapshot::default() },
        }
    }

    /// The engine shall begin with these rails drained.
    #[must_use]
    pub fn with_drained(mut self, rails: BTreeSet<u32>) -> Self {
        self.seen.drained = Some(rails);
        self
    }

    /// The engine is there and listens.
    fn engine_serves(&self) -> bool {
        self.phase.needs_engine() && self.engine_up
    }

    /// What is known so far.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.seen
    }

    /// True while the ranks' processes are being ended, so that the shell looks for what is left of them.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
    }

    fn all_started_exited(&self) -> bool {
        let exited = |rank: &u32| self.seen.exits.iter().any(|exit| exit.rank == *rank);
        self.ranks.iter().all(|(rank, started)| !started || exited(rank))
    }
}

/// The decision: what follows from `event`. Total: an event that does not fit the phase changes nothing.
pub fn step(state: &mut State, event: Event, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    match event {
        Event::Begin if state.phase == Phase::New => {
            state.phase = Phase::Starting;
            state.engine_up = true;
            state.deadline = Some(now.plus(LISTEN_LIMIT));
            actions.extend([Action::SpawnEngine, Action::Publish]);
        }
        Event::EngineListening(endpoints) if state.phase == Phase::Starting => {
            state.phase = Phase::Listening;
            state.deadline = None;
            state.seen.endpoints = endpoints;
            advance(state, Observed::Prepared);
            drain_engine(state, now, &mut actions);
            actions.push(Action::Publish);
        }
        Event::EngineConnected if state.phase == Phase::Connecting => {
            launch(state, now, &mut actions);
        }
        Event::Measured(measured) => held(state, measured, &mut actions),
        Event::EngineFailed(message) => engine_failed(state, message, now, &mut actions),
        Event::EngineBroken { why, end } => {
            if state.phase.needs_engine() {
                engine_lost(state, &why, end, now, &mut actions);
            }
        }
        Event::EngineExited { how, end } => engine_exited(state, &how, end, now, &mut actions),
        Event::Order(order) => apply_command(state, order, now, &mut actions),
        Event::RankStarted(rank) => rank_started(state, rank, &mut actions),
        Event::RankFailed { rank, message } => {
            let cause = Reason::new(ReasonCode::RankStartFailed, message).scope(format!("rank/{rank}"));
            fail(state, cause, LOST_GRACE, now, &mut actions);
        }
        Event::RanksExceeded(cause) => fail(state, cause, LOST_GRACE, now, &mut actions),
        Event::RankExited(exit) => rank_exited(state, exit, now, &mut actions),
        Event::Result(result) => {
            state.seen.result.get_or_insert(result);
        }
        Event::Stats(rails) => state.seen.rails = rails,
        Event::EngineDrained(rails) => {
            state.engine_drained = rails;
            state.rails.next = now;
        }
        Event::Rails { reports, choices } => rails_seen(state, reports, choices, now, &mut actions),
        Event::RailsSilent => state.rails.next = now.plus(RAILS_AGAIN),
        Event::TreeEmpty => {
            if state.all_started_exited() {
                state.tree_empty = true;
                tree_empty(state, now, &mut actions);
            }
        }
        Event::Tick => tick(state, now, &mut actions),
        Event::Begin | Event::EngineListening(_) | Event::EngineConnected => {}
    }
    actions
}

fn advance(state: &mut State, to: Observed) {
    state.seen.state = state.seen.state.max(to);
}

fn apply_command(state: &mut State, order: Order, now: Timestamp, actions: &mut Vec<Action>) {
    match order {
        Order::Start { peers, certify } => match state.phase {
            Phase::Listening => {
                advance(state, Observed::Starting);
                actions.push(Action::Publish);
                match certify {
                    Some(certify) => measure(state, peers, certify, now, actions),
                    None => connect(state, peers, now, actions),
                }
            }
            Phase::Certifying | Phase::Held => match certify {
                None => connect(state, peers, now, actions),
                Some(certify) if state.phase == Phase::Held && certify.series > state.series => {
                    measure(state, peers, certify, now, actions);
                }
                Some(_) => {}
            },
            _ => {}
        },
        Order::Drain { rails } => {
            if state.seen.drained.as_ref() != Some(&rails) {
                state.seen.drained = Some(rails);
                state.rails.hasty_until = now.plus(HASTE_LIMIT);
                actions.push(Action::Publish);
                drain_engine(state, now, actions);
            }
        }
        Order::Stop { grace, signal, reason } => match state.phase {
            Phase::Draining { kill_at } => {
                state.phase = Phase::Draining { kill_at: kill_at.min(now.plus(grace)) };
                tick(state, now, actions);
            }
            Phase::StoppingEngine | Phase::Ended => {}
            _ => {
                state.stopped = true;
                state.signal = signal;
                actions.push(Action::Note(format!("stopping: {reason}")));
                drain(state, grace, now, actions);
            }
        },
    }
}

fn connect(state: &mut State, peers: Vec<NodeEndpoints>, now: Timestamp, actions: &mut Vec<Action>) {
    state.phase = Phase::Connecting;
    state.deadline = Some(now.plus(CONNECT_LIMIT));
    actions.push(Action::ConnectEngine(peers));
}

fn measure(
    state: &mut State,
    peers: Vec<NodeEndpoints>,
    certify: Certify,
    now: Timestamp,
    actions: &mut Vec<Action>,
) {
    state.phase = Phase::Certifying;
    state.series = certify.series;
    state.deadline = Some(now.plus(certify.limit + MEASURE_LATE));
    actions.push(Action::CertifyEngine(peers, certify));
}

/// What was measured is reported, and all else waits for the next order; what is reported of an earlier series comes too late.
fn held(state: &mut State, measured: Measured, actions: &mut Vec<Action>) {
    if state.phase == Phase::Certifying && state.series == measured.series {
        state.phase = Phase::Held;
        state.deadline = None;
        state.seen.measured.get_or_insert_default().add(measured);
        actions.push(Action::Publish);
    }
}

fn launch(state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
    state.phase = Phase::Launching;
    state.deadline = None;
    state.tree_empty = false;
    state.rails.next = now;
    actions.push(Action::SpawnRanks);
    if state.ranks.is_empty() {
        state.tree_empty = true;
        drain(state, SWEEP_GRACE, now, actions);
    }
}

fn rank_started(state: &mut State, rank: u32, actions: &mut Vec<Action>) {
    let Some(started) = state.ranks.get_mut(&rank) else { return };
    *started = true;
    if state.phase == Phase::Launching && state.ranks.values().all(|started| *started) {
        state.phase = Phase::Running;
        advance(state, Observed::Running);
    }
    // Published for each, so that the pids of the started ones are durable before anything else happens.
    actions.push(Action::Publish);
}

fn rank_exited(state: &mut State, exit: RankExit, now: Timestamp, actions: &mut Vec<Action>) {
    let known = state.seen.exits.iter().any(|known| known.rank == exit.rank);
    if known || !state.ranks.get(&exit.rank).is_some_and(|started| *started) {
        return;
    }
    state.seen.exits.push(exit);
    state.seen.exits.sort_by_key(|exit| exit.rank);
    actions.push(Action::Publish);
    if state.phase == Phase::Running && state.seen.exits.len() == state.ranks.len() {
        drain(state, SWEEP_GRACE, now, actions);
    }
}

/// Ends the ranks' processes, then the engine.
fn drain(state: &mut State, grace: Duration, now: Timestamp, actions: &mut Vec<Action>) {
    if matches!(state.phase, Phase::StoppingEngine | Phase::Ended) {
        return;
    }
    let kill_at = now.plus(grace);
    if let Phase::Draining { kill_at: earlier } = state.phase {
        state.phase = Phase::Draining { kill_at: earlier.min(kill_at) };
        return;
    }
    state.phase = Phase::Draining { kill_at };
    state.deadline = None;
    advance(state, Observed::Stopping);
    if state.tree_empty {
        tree_empty(state, now, actions);
    } else {
        let signal = match state.signal {
            0 | SIGTERM => Signal::Term,
            other => Signal::Other(other),
        };
        actions.extend([Action::SignalTree(signal), Action::Publish]);
    }
}

fn tree_empty(state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
    if !state.is_draining() {
        return;
    }
    if state.engine_up {
        state.phase = Phase::StoppingEngine;
        state.deadline = Some(now.plus(ENGINE_GRACE));
        let reason =
            state.seen.cause.as_ref().map_or_else(|| "the job has ended".to_owned(), Reason::to_string);
        actions.extend([Action::ReadStats, Action::Publish, Action::StopEngine(reason)]);
    } else {
        end(state, actions);
    }
}

fn end(state: &mut State, actions: &mut Vec<Action>) {
    state.phase = Phase::Ended;
    state.deadline = None;
    advance(state, Observed::Ended);
    actions.extend([Action::Publish, Action::Exit]);
}

/// The attempt fails here by another cause than a rank's own exit.
fn fail(state: &mut State, cause: Reason, grace: Duration, now: Timestamp, actions: &mut Vec<Action>) {
    if state.phase == Phase::Ended {
        return;
    }
    if state.seen.cause.is_none() {
        actions.push(Action::Note(format!("ending the ranks: {cause}")));
        state.seen.cause = Some(cause);
    }
    drain(state, grace, now, actions);
}

fn engine_failed(state: &mut State, message: String, now: Timestamp, actions: &mut Vec<Action>) {
    if matches!(state.phase, Phase::Starting | Phase::Connecting) {
        fail(state, Reason::new(ReasonCode::EngineFailed, message), LOST_GRACE, now, actions);
    }
}

/// A peer that is lost is reported by its own server; who merely misses it must not be taken for what failed. The cause is about
/// the peer, where that is known.
fn engine_lost(state: &mut State, why: &str, end: EngineEnd, now: Timestamp, actions: &mut Vec<Action>) {
    let cause = match end {
        EngineEnd::PeerLost { peer: Some(peer) } => Reason::new(
            ReasonCode::PeerLost,
            format!("rail-engine of this server lost its peer on '{peer}': {why}"),
        )
        .scope(format!("node/{peer}")),
        EngineEnd::PeerLost { peer: None } => {
            Reason::new(ReasonCode::PeerLost, format!("rail-engine of this server lost a peer: {why}"))
        }
        EngineEnd::Clean | EngineEnd::Failed => Reason::new(
            ReasonCode::EngineLost,
            format!("rail-engine of this server failed under the job: {why}"),
        ),
    };
    fail(state, cause, LOST_GRACE, now, actions);
}

fn engine_exited(state: &mut State, how: &str, end_of: EngineEnd, now: Timestamp, actions: &mut Vec<Action>) {
    if !state.engine_up {
        return;
    }
    state.engine_up = false;
    match state.phase {
        Phase::New | Phase::Ended => {}
        Phase::Starting => {
            let message = format!("rail-engine did not come up: {how}");
            fail(state, Reason::new(ReasonCode::EngineFailed, message), LOST_GRACE, now, actions);
        }
        Phase::Listening
        | Phase::Connecting
        | Phase::Certifying
        | Phase::Held
        | Phase::Launching
        | Phase::Running => engine_lost(state, how, end_of, now, actions),
        Phase::Draining { .. } | Phase::StoppingEngine => {
            // Ranks that failed because their engine went may be seen to end before it is.
            let rank_failed = state.seen.exits.iter().any(|exit| !exit.is_success());
            // Peers that miss an engine may report it, and all be ordered to stop, before its own end is seen. Until it is ordered to
            // stop itself it has no reason to fail: of peers that are ordered to stop it learns that they leave.
            let before_reported = end_of == EngineEnd::Failed && state.phase != Phase::StoppingEngine;
            let failed =
                if state.stopped { before_reported } else { end_of != EngineEnd::Clean && rank_failed };
            if failed && !state.engine_killed {
                engine_lost(state, how, end_of, now, actions);
            }
            if state.phase == Phase::StoppingEngine {
                end(state, actions);
            }
        }
    }
}

fn tick(state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
    if let Phase::Draining { kill_at } = state.phase
        && now >= kill_at
    {
        state.phase = Phase::Draining { kill_at: now.plus(KILL_AGAIN) };
        actions.push(Action::SignalTree(Signal::Kill));
    }
    rails_due(state, now, actions);
    if state.deadline.is_none_or(|deadline| now < deadline) {
        return;
    }
    match state.phase {
        Phase::Starting => {
            let limit = LISTEN_LIMIT.as_secs();
            let message = format!("rail-engine did not listen on every rail within {limit} s");
            fail(state, Reason::new(ReasonCode::EngineFailed, message), LOST_GRACE, now, actions);
        }
        Phase::Connecting => {
            let limit = CONNECT_LIMIT.as_secs();
            let message = format!("rail-engine did not connect to every peer within {limit} s");
            fail(state, Reason::new(ReasonCode::EngineFailed, message), LOST_GRACE, now, actions);
        }
        Phase::Certifying => {
            let unable = "rail-engine did not say in time what it measured".to_owned();
            held(state, Measured { series: state.series, unable, ..Measured::default() }, actions);
        }
        Phase::StoppingEngine => {
            state.deadline = Some(now.plus(KILL_AGAIN));
            state.engine_killed = true;
            actions.push(Action::KillEngine);
        }
        _ => state.deadline = None,
    }
}
