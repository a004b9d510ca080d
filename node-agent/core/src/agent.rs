//! The agent: what the controller sent, what supervisors report, and what follows.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use proto_model::{
    Assignment, DesiredQos, DesiredState, Observation, Observed, RailProof, Reason, ReasonCode, Timestamp,
};

use crate::record::{Goal, Key, Life, Order, Record, Report, Snapshot};

/// Attempts that were forgotten are remembered this many deep, so that a late desired state does not start one again.
const FORGOTTEN_MAX: usize = 4096;
/// An observation is repeated when it was last reported this long ago; both sides are level-triggered.
const REPEAT: Duration = Duration::from_secs(15);
/// Grace for a job that the controller does not know, and for an attempt that a later one supersedes.
const ORPHAN_GRACE: Duration = Duration::from_secs(10);

/// Everything the agent decides from.
#[derive(Debug, Clone, Default)]
pub struct State {
    epoch: u64,
    connected: bool,
    records: BTreeMap<Key, Record>,
    /// Desired states whose supervisor waits for an older attempt to end; they hold the job's key and are never persisted.
    waiting: BTreeMap<Key, Assignment>,
    reported: BTreeMap<Key, Timestamp>,
    /// Rails of this server that the controller wants drained; `None` until it has said so.
    drained: Option<BTreeSet<u32>>,
    forgotten: VecDeque<Key>,
}

impl State {
    /// The highest epoch of which a command was accepted.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// True between [`Event::Connected`] and [`Event::Disconnected`].
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected
    }

    /// Rails of this server that a new supervisor begins with as drained.
    #[must_use]
    pub fn drained(&self) -> BTreeSet<u32> {
        self.drained.clone().unwrap_or_default()
    }

    /// All records, by job and try.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// The record of one attempt.
    #[must_use]
    pub fn record(&self, key: Key) -> Option<&Record> {
        self.records.get(&key)
    }
}

/// One record that was found on disk when the agent started.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovered {
    /// As it was last persisted, merged with the supervisor's durable state.
    pub record: Record,
    /// A supervisor's process for it lives (by lock, pid and start time).
    pub alive: bool,
    /// A supervisor ever ran for it: it left durable state.
    pub ran: bool,
}

/// What happens to the agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Once, first of all: what the data directory held.
    Recovered {
        /// The highest epoch of which a command was accepted.
        epoch: u64,
        /// Every record that was found on disk.
        records: Vec<Recovered>,
    },
    /// A stream to the controller stands.
    Connected,
    /// The stream to the controller has ended.
    Disconnected,
    /// The controller has sent a command.
    Command {
        /// The epoch of the controller's leadership term.
        epoch: u64,
        /// The command, which is refused where the epoch is lower than one that was seen.
        command: Command,
    },
    /// A supervisor has reported, or was found gone.
    Supervisor {
        /// The attempt that the supervisor is for.
        key: Key,
        /// What it reports.
        report: Box<Report>,
    },
    /// Time has passed; at least one every few seconds.
    Tick,
}

/// A command of the controller.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// All that this server should run.
    Welcome(Vec<Assignment>),
    /// The desired state of one attempt.
    Assignment(Box<Assignment>),
    /// Rails of this server that are drained now, all of them.
    Drained(BTreeSet<u32>),
    /// What the class of service of this server's NICs should be.
    Qos(Arc<DesiredQos>),
    /// Probes that this server is to take part in, all of them.
    Prove(Vec<RailProof>),
    /// The end of this attempt is stored; its record may go.
    Forget(Key),
}

/// What the shell must do, in this order. If persisting fails, what follows it in the same list must not be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Durable before anything that follows.
    PersistEpoch(u64),
    /// Durable before anything that follows.
    PersistRecord(Box<Record>),
    /// Start the supervisor of this attempt; the desired state is `DesiredState::Prepared`.
    SpawnSupervisor(Box<Assignment>),
    /// Tell it something; if it cannot be reached now, its next `Report::State` brings the order again.
    TellSupervisor {
        /// The attempt that the supervisor is for.
        key: Key,
        /// The order for it.
        order: Order,
    },
    /// The supervisor died: kill what it had started (pid and start time, process group, cgroup), then report
    /// `Report::Reaped`.
    Reap(Key),
    /// Tell the controller; never issued while not connected.
    Send(Message),
    /// Drop the record and the attempt's directory.
    RemoveRecord(Key),
    /// Bring class of service to what is desired.
    KeepQos(Arc<DesiredQos>),
    /// Take part in these probes, in each once.
    Prove(Vec<RailProof>),
}

/// What the agent says to the controller.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// First on every stream: the shell adds node name, version and inventory.
    Register {
        /// The highest epoch of which a command was accepted.
        epoch: u64,
        /// Everything that is known here.
        observations: Vec<Observation>,
    },
    /// The observation of one attempt, because it changed.
    Observation(Box<Observation>),
    /// A command was refused.
    StaleEpoch {
        /// The epoch of the command that was refused.
        refused: u64,
        /// The highest epoch of which this agent has accepted a command.
        current: u64,
    },
}

/// The decision: what follows from `event`. Deterministic; total: no event in any state is an error.
pub fn step(state: &mut State, event: Event, now: Timestamp) -> Vec<Action> {
    let mut actions = Vec::new();
    match event {
        Event::Recovered { epoch, records } => recover(state, epoch, records, &mut actions),
        Event::Connected => {
            state.connected = true;
            state.reported = state.records.keys().map(|key| (*key, now)).collect();
            let observations = state.records.values().map(Record::observation).collect();
            actions.push(Action::Send(Message::Register { epoch: state.epoch, observations }));
        }
        Event::Disconnected => state.connected = false,
        Event::Command { epoch, command } => apply_command(state, epoch, command, now, &mut actions),
        Event::Supervisor { key, report } => on_report(state, key, *report, now, &mut actions),
        Event::Tick => repeat(state, now, &mut actions),
    }
    actions
}

fn recover(state: &mut State, epoch: u64, records: Vec<Recovered>, actions: &mut Vec<Action>) {
    state.epoch = state.epoch.max(epoch);
    for Recovered { mut record, alive, ran } in records {
        if state.records.contains_key(&record.key) {
            continue;
        }
        let key = record.key;
        record.life = match (record.ended(), alive, ran) {
            (false, false, false) => Life::None,
            (true, ..) | (false, true, _) => Life::Spawned,
            (false, false, true) => Life::Lost,
        };
        let stopped_unstarted = record.life == Life::None && matches!(record.goal, Goal::Stopped { .. });
        if stopped_unstarted {
            record.seen.state = Observed::Ended;
            actions.push(Action::PersistRecord(Box::new(record.clone())));
        }
        if record.life == Life::Lost {
            record.seen.cause.get_or_insert_with(supervisor_lost);
            actions.push(Action::Reap(key));
        }
        state.records.insert(key, record);
    }
}

fn apply_command(state: &mut State, epoch: u64, command: Command, now: Timestamp, actions: &mut Vec<Action>) {
    if epoch < state.epoch {
        if state.connected {
            actions.push(Action::Send(Message::StaleEpoch { refused: epoch, current: state.epoch }));
        }
        return;
    }
    if epoch > state.epoch {
        state.epoch = epoch;
        actions.push(Action::PersistEpoch(epoch));
    }
    match command {
        Command::Assignment(assignment) => apply(state, *assignment, now, actions),
        Command::Drained(rails) => drain(state, rails, actions),
        Command::Qos(desired) => actions.push(Action::KeepQos(desired)),
        Command::Prove(proofs) => actions.push(Action::Prove(proofs)),
        Command::Forget(key) => forget(state, key, now, actions),
        Command::Welcome(assignments) => {
            let desired: BTreeSet<Key> = assignments.iter().map(Key::of).collect();
            let orphans: Vec<Key> =
                state.records.keys().filter(|key| !desired.contains(key)).copied().collect();
            for key in orphans {
                let reason = "the controller does not know this job on this server".to_owned();
                raise(state, key, Goal::Stopped { grace: ORPHAN_GRACE, signal: 0, reason }, now, actions);
            }
            for assignment in assignments {
                apply(state, assignment, now, actions);
            }
        }
    }
}

/// Rails were drained, or are used again: every supervisor that follows another order gets a new one.
fn drain(state: &mut State, rails: BTreeSet<u32>, actions: &mut Vec<Action>) {
    state.drained = Some(rails);
    for (key, record) in &state.records {
        if let Some(order) = drain_order(state, record) {
            actions.push(Action::TellSupervisor { key: *key, order });
        }
    }
}

/// The order about drained rails that a supervisor should get now. One that has not reported yet gets it when it does.
fn drain_order(state: &State, record: &Record) -> Option<Order> {
    let serves = record.life == Life::Spawned && !record.ended();
    let wanted = state.drained.as_ref().filter(|_| serves && !matches!(record.goal, Goal::Stopped { .. }))?;
    let follows = record.seen.drained.as_ref()?;
    (follows != wanted).then(|| Order::Drain { rails: wanted.clone() })
}

/// Takes in the desired state of one attempt.
fn apply(state: &mut State, assignment: Assignment, now: Timestamp, actions: &mut Vec<Action>) {
    let key = Key::of(&assignment);
    if state.records.contains_key(&key) {
        raise(state, key, Goal::of(&assignment.desired), now, actions);
        let unstarted =
            state.records.get(&key).is_some_and(|record| record.life == Life::None && !record.ended());
        if unstarted && !state.waiting.contains_key(&key) {
            // Persisted by an agent that died before it could spawn: the desired state brings the job's key again.
            adopt_unstarted(state, assignment, now, actions);
        }
        return;
    }
    let mut known = state.records.keys().chain(&state.forgotten);
    if known.any(|other| other.uid == key.uid && other.attempt >= key.attempt) {
        // Superseded by a later attempt, or forgotten: it never starts again.
        report_bare(state, &assignment, None, actions);
        return;
    }
    match &assignment.desired {
        // Kept until it is forgotten, so that no late desired state, not even after a restart of ours, starts it.
        DesiredState::Stopped { .. } => {
            let mut record = Record::new(&assignment);
            end_unstarted(&mut record, None);
            store(state, record, now, actions);
        }
        DesiredState::Running { .. } => {
            let mut record = Record::new(&assignment);
            end_unstarted(&mut record, Some(attempt_unknown()));
            store(state, record, now, actions);
        }
        DesiredState::Prepared { .. } => {
            let older: Vec<Key> =
                state.records.keys().filter(|other| other.uid == key.uid).copied().collect();
            for other in older {
                let reason = format!("attempt {} of the job replaces this one", key.attempt);
                raise(state, other, Goal::Stopped { grace: ORPHAN_GRACE, signal: 0, reason }, now, actions);
            }
            state.records.insert(key, Record::new(&assignment));
            state.waiting.insert(key, assignment);
            start_waiting(state, key, now, actions);
        }
    }
}

fn adopt_unstarted(state: &mut State, assignment: Assignment, now: Timestamp, actions: &mut Vec<Action>) {
    let key = Key::of(&assignment);
    match assignment.desired {
        DesiredState::Prepared { .. } => {
            state.waiting.insert(key, assignment);
            start_waiting(state, key, now, actions);
        }
        // Without an engine of ours the controller cannot have had our endpoints for this.
        DesiredState::Running { .. } => {
            if let Some(mut record) = state.records.get(&key).cloned() {
                end_unstarted(&mut record, Some(attempt_unknown()));
                store(state, record, now, actions);
            }
        }
        DesiredState::Stopped { .. } => {}
    }
}

/// Spawns the supervisor of an attempt that waits for it, unless an older attempt of the job still has something on this server.
fn start_waiting(state: &mut State, key: Key, now: Timestamp, actions: &mut Vec<Action>) {
    let blocked = state
        .records
        .values()
        .any(|other| other.key.uid == key.uid && other.key.attempt < key.attempt && !other.ended());
    let Some(record) = state.records.get_mut(&key) else { return };
    if blocked {
        actions.push(Action::PersistRecord(Box::new(record.clone())));
        notify(state, key, now, actions);
        return;
    }
    let Some(assignment) = state.waiting.remove(&key) else { return };
    actions.push(Action::PersistRecord(Box::new(record.clone())));
    record.life = Life::Spawned;
    actions.push(Action::SpawnSupervisor(Box::new(assignment)));
    notify(state, key, now, actions);
}

/// Moves a goal forward and gives the supervisor the order; a goal that is not further on changes nothing.
fn raise(state: &mut State, key: Key, goal: Goal, now: Timestamp, actions: &mut Vec<Action>) {
    let Some(record) = state.records.get_mut(&key) else { return };
    if record.ended() || !record.goal.may_become(&goal) {
        return;
    }
    if record.life == Life::None && matches!(goal, Goal::Running { .. }) {
        // `adopt_unstarted` says what becomes of it; there is nothing here that could start.
        return;
    }
    let stop = matches!(goal, Goal::Stopped { .. });
    record.goal = goal;
    if stop && record.life == Life::None {
        end_unstarted(record, None);
        state.waiting.remove(&key);
    }
    actions.push(Action::PersistRecord(Box::new(record.clone())));
    if let Some(order) = order(record) {
        actions.push(Action::TellSupervisor { key, order });
    }
    notify(state, key, now, actions);
    if stop {
        release_newer(state, key, now, actions);
    }
}

/// The order that the supervisor should get now.
fn order(record: &Record) -> Option<Order> {
    if record.life != Life::Spawned || record.ended() {
        return None;
    }
    match &record.goal {
        Goal::Prepared => None,
        Goal::Running { peers, certify } => {
            // One that has measured waits for the word that its ranks may start, or that it is to measure again.
            let measured = record.seen.measured.as_ref().filter(|_| record.seen.state == Observed::Starting);
            let more = |series: u32| certify.as_ref().is_none_or(|certify| certify.series > series);
            let next = record.seen.state == Observed::Prepared
                || measured.is_some_and(|measured| more(measured.series));
            next.then(|| Order::Start { peers: peers.clone(), certify: certify.clone() })
        }
        Goal::Stopped { grace, signal, reason } => {
            Some(Order::Stop { grace: *grace, signal: *signal, reason: reason.clone() })
        }
    }
}

fn on_report(state: &mut State, key: Key, report: Report, now: Timestamp, actions: &mut Vec<Action>) {
    let Some(record) = state.records.get_mut(&key) else { return };
    if record.ended() {
        return;
    }
    let changed = match report {
        Report::State(snapshot) => record.life == Life::Spawned && record.seen.merge(snapshot),
        Report::SpawnFailed { message } => {
            let cause = Reason::new(ReasonCode::SupervisorFailed, message);
            end_unstarted(record, Some(cause));
            true
        }
        Report::Lost => {
            if record.life != Life::Spawned {
                return;
            }
            record.life = Life::Lost;
            record.seen.cause.get_or_insert_with(supervisor_lost);
            actions.push(Action::Reap(key));
            true
        }
        Report::Reaped(snapshot) => {
            if record.life != Life::Lost {
                return;
            }
            record.seen.merge(Snapshot { state: Observed::Ended, ..snapshot });
            true
        }
    };
    let ended = record.ended();
    if ended {
        actions.push(Action::PersistRecord(Box::new(record.clone())));
    } else if let Some(order) = order(record) {
        // Also when nothing changed: a supervisor that was just re-attached may have missed it.
        actions.push(Action::TellSupervisor { key, order });
    }
    if let Some(order) = state.records.get(&key).and_then(|record| drain_order(state, record)) {
        actions.push(Action::TellSupervisor { key, order });
    }
    if changed {
        notify(state, key, now, actions);
    }
    if ended {
        release_newer(state, key, now, actions);
    }
}

/// A newer attempt of the same job may have waited for the end of this one.
fn release_newer(state: &mut State, key: Key, now: Timestamp, actions: &mut Vec<Action>) {
    let newer: Vec<Key> = state.waiting.keys().filter(|other| other.uid == key.uid).copied().collect();
    let ended = state.records.get(&key).is_none_or(Record::ended);
    for other in newer.into_iter().filter(|_| ended) {
        start_waiting(state, other, now, actions);
    }
}

fn forget(state: &mut State, key: Key, now: Timestamp, actions: &mut Vec<Action>) {
    remember_forgotten(state, key);
    let Some(record) = state.records.get(&key) else { return };
    if record.ended() {
        state.records.remove(&key);
        state.reported.remove(&key);
        actions.push(Action::RemoveRecord(key));
    } else {
        // The controller holds it ended while something of it is here: end it; it is forgotten the next time.
        let reason = "the controller has stored the end of this attempt".to_owned();
        raise(state, key, Goal::Stopped { grace: ORPHAN_GRACE, signal: 0, reason }, now, actions);
    }
}

fn remember_forgotten(state: &mut State, key: Key) {
    if !state.forgotten.contains(&key) {
        if state.forgotten.len() == FORGOTTEN_MAX {
            state.forgotten.pop_front();
        }
        state.forgotten.push_back(key);
    }
}

fn repeat(state: &mut State, now: Timestamp, actions: &mut Vec<Action>) {
    let due: Vec<Key> = state
        .records
        .keys()
        .filter(|key| state.reported.get(key).is_none_or(|reported| now.since(*reported) >= REPEAT))
        .copied()
        .collect();
    for key in due {
        notify(state, key, now, actions);
    }
}

fn store(state: &mut State, record: Record, now: Timestamp, actions: &mut Vec<Action>) {
    let key = record.key;
    actions.push(Action::PersistRecord(Box::new(record.clone())));
    state.records.insert(key, record);
    state.waiting.remove(&key);
    notify(state, key, now, actions);
}

fn notify(state: &mut State, key: Key, now: Timestamp, actions: &mut Vec<Action>) {
    let Some(record) = state.records.get(&key) else { return };
    if state.connected {
        state.reported.insert(key, now);
        actions.push(Action::Send(Message::Observation(Box::new(record.observation()))));
    }
}

/// Answers desired state for which there is no record and shall be none: nothing of it is here.
fn report_bare(state: &State, assignment: &Assignment, cause: Option<Reason>, actions: &mut Vec<Action>) {
    if state.connected {
        let mut record = Record::new(assignment);
        end_unstarted(&mut record, cause);
        actions.push(Action::Send(Message::Observation(Box::new(record.observation()))));
    }
}

fn end_unstarted(record: &mut Record, cause: Option<Reason>) {
    record.seen.state = Observed::Ended;
    record.seen.cause = record.seen.cause.take().or(cause);
}

fn supervisor_lost() -> Reason {
    Reason::new(
        ReasonCode::SupervisorLost,
        "the job's supervisor on this server ended without recording the job's end (killed, or the server was \
         restarted); what it had started is killed",
    )
}

fn attempt_unknown() -> Reason {
    Reason::new(
        ReasonCode::AttemptUnknown,
        "this server has no engine for the attempt that it is asked to start; its data directory was lost or \
         the attempt never got here",
    )
}
