//! The controller's shell: an inbox, batches, transactions, and only then replies and pushes. It can crash anywhere.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use controller_core::{
    Config as CoreConfig, CoreError, Event as Core, Key, Output, State, ToNode, Write, step,
};

use crate::{
    client::Answer,
    config::Bug,
    store::Refused,
    world::{Event, World},
};

/// Events that one transaction takes at most.
const BATCH_MAX: usize = 16;

/// Who waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// A client's request.
    Client(usize, u64),
    /// An agent's connection.
    Agent(u64),
    /// Nobody.
    Timer,
}

/// An event on its way into the core.
#[derive(Debug, Clone)]
pub struct Inbound {
    /// What.
    pub event: Core,
    /// Who waits.
    pub from: From,
}

struct Batch {
    steps: Vec<(Inbound, Output)>,
    writes: BTreeMap<Key, Write>,
}

/// A controller's process.
pub struct Controller {
    /// Its epoch.
    pub epoch: u64,
    /// Its memory; gone when it has crashed.
    pub state: Option<State>,
    inbox: VecDeque<Inbound>,
    scheduled: bool,
    busy: Option<Batch>,
    tick_at: Option<u64>,
    ticking: bool,
    /// Its process is stopped until this time.
    pub frozen_until: u64,
    /// It could not write; it tries again then.
    pause_until: u64,
    /// It crashes at its next transaction: before it, or after it and before anybody is told.
    pub crash_at_commit: Option<bool>,
}

impl Controller {
    /// Whether it has nothing to do.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.busy.is_none()
    }
}

fn core_config() -> CoreConfig {
    CoreConfig {
        heartbeat_interval: Duration::from_secs(5),
        heartbeat_limit: Duration::from_secs(15),
        prepare_timeout: Duration::from_secs(20),
        start_timeout: Duration::from_secs(20),
        // Small, so that passes are cut and continued.
        pass_limit: 5,
        pass_places: 2,
        reason_writes: 2,
        due_limit: 3,
        resize_after: Some(Duration::from_secs(2)),
        ..CoreConfig::default()
    }
}

impl World {
    /// The present controller, if it lives.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let last = self.controllers.len().checked_sub(1)?;
        self.controllers[last].state.is_some().then_some(last)
    }

    /// A controller starts: the next epoch, everything from the store.
    pub fn controller_start(&mut self) {
        if self.leader().is_some() && !self.replacing {
            return;
        }
        self.replacing = false;
        self.store.epoch += 1;
        let epoch = self.store.epoch;
        let mut stored = self.store.load();
        if self.config.bug == Some(Bug::LoseJobsOnLoad) {
            stored.jobs.retain(|(job, _)| !job.status.phase.holds());
            stored.attempts.clear();
        }
        self.tell(|| format!("controller starts with epoch {epoch}, {} jobs", stored.jobs.len()));
        let state = match State::load(core_config(), epoch, self.time(), stored) {
            Ok(state) => Some(state),
            Err(error) => {
                self.violated(format!("a new controller cannot start: {error}"));
                None
            }
        };
        if let Some(state) = &state {
            self.check_loaded(state);
        }
        self.controllers.push(Controller {
            epoch,
            state,
            inbox: VecDeque::new(),
            scheduled: false,
            busy: None,
            tick_at: None,
            ticking: false,
            frozen_until: 0,
            pause_until: 0,
            crash_at_commit: None,
        });
        self.arm(self.controllers.len() - 1);
    }

    /// A controller's process is gone, with all that was not in the store.
    pub fn controller_dies(&mut self, controller: usize, restart: Option<u64>) {
        if self.controllers[controller].state.take().is_none() {
            return;
        }
        self.tell(|| format!("controller {controller} dies"));
        let dead = &mut self.controllers[controller];
        dead.inbox.clear();
        dead.busy = None;
        let open: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, stream)| stream.controller == controller && stream.controller_open)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in open {
            if let Some(stream) = self.connections.get_mut(&connection) {
                stream.controller_open = false;
            }
            let wait = self.rng.range(1..800);
            self.after(wait, Event::Lost(connection, true));
        }
        if let Some(wait) = restart {
            self.after(wait, Event::ControllerStart);
        }
    }

    /// An event arrives at a controller.
    pub fn deliver(&mut self, controller: usize, inbound: Inbound) {
        if self.controllers[controller].state.is_none() {
            return;
        }
        self.controllers[controller].inbox.push_back(inbound);
        let wait = self.rng.range(0..2);
        self.wake(controller, wait);
    }

    fn wake(&mut self, controller: usize, wait: u64) {
        let this = &mut self.controllers[controller];
        if !this.scheduled && this.busy.is_none() && !this.inbox.is_empty() {
            this.scheduled = true;
            let at = (self.now + wait).max(this.pause_until);
            self.at(at, Event::Batch(controller));
        }
    }

    /// A controller steps through what it has got, and begins a transaction if something changed.
    pub fn batch(&mut self, controller: usize) {
        self.controllers[controller].scheduled = false;
        if self.controllers[controller].busy.is_some() {
            return;
        }
        let Some(mut state) = self.controllers[controller].state.take() else { return };
        let mut steps = Vec::new();
        let mut writes = BTreeMap::new();
        let now = self.time();
        while steps.len() < BATCH_MAX {
            let Some(mut inbound) = self.controllers[controller].inbox.pop_front() else { break };
            if inbound.from == From::Timer {
                self.controllers[controller].ticking = false;
            }
            if self.config.bug == Some(Bug::FreeOnUnknown) {
                self.free_on_unknown(&mut state, &mut inbound);
            }
            let rng = &mut self.rng;
            let mut out = step(&mut state, inbound.event.clone(), now, &mut |buffer| rng.fill(buffer));
            if self.config.bug == Some(Bug::ForgetRequests) {
                out.writes.retain(|write| !matches!(write, Write::PutRequest(_)));
            }
            writes.extend(out.writes.iter().map(|write| (write.key(), write.clone())));
            if self.config.story {
                self.tell_step(controller, &inbound, &out);
            }
            steps.push((inbound, out));
        }
        self.controllers[controller].state = Some(state);
        if self.config.bug == Some(Bug::ReplyBeforeCommit) {
            for (inbound, out) in &mut steps {
                self.answer(controller, inbound.from, out.reply.take());
            }
        }
        if self.config.bug == Some(Bug::PushBeforeCommit) {
            for (_, out) in &mut steps {
                std::mem::take(&mut out.pushes).into_iter().for_each(|push| self.send_to_agent(push));
            }
        }
        if writes.is_empty() {
            // A refusal, too, is only as good as the leadership of who gives it: it is confirmed before it is told.
            let clients = steps.iter().any(|(inbound, _)| matches!(inbound.from, From::Client(..)));
            let replaced = self.controllers[controller].epoch != self.store.epoch;
            if clients && replaced && self.config.bug != Some(Bug::NoFence) {
                self.controller_dies(controller, None);
                return;
            }
            let revision = self.store.revision;
            if let Some(state) = &mut self.controllers[controller].state {
                state.commit(revision);
            }
            self.release(controller, steps);
            self.wake(controller, 1);
            self.arm(controller);
        } else {
            self.controllers[controller].busy = Some(Batch { steps, writes });
            let slow = self.now < self.slow_until;
            let wait = if slow { self.rng.range(50..900) } else { self.rng.range(1..4) };
            self.after(wait, Event::Commit(controller));
        }
    }

    /// The planted bug: jobs of a node whose stream has ended are taken to have ended there.
    fn free_on_unknown(&mut self, state: &mut State, inbound: &mut Inbound) {
        let Core::AgentDisconnected { node, session } = &inbound.event else { return };
        let (node, session) = (node.clone(), *session);
        let Some(hold) = state.holds(&node).into_iter().next() else { return };
        let Some(job) = state.job_by_uid(&hold.uid) else { return };
        let observation = Box::new(proto_model::Observation {
            uid: hold.uid,
            attempt: job.status.attempt,
            state: proto_model::Observed::Ended,
            endpoints: Vec::new(),
            exits: Vec::new(),
            cause: None,
            result: None,
            rails: Vec::new(),
            reports: Vec::new(),
            choices: Vec::new(),
        });
        inbound.event = Core::AgentObserved { node, session, observation };
    }

    /// A transaction reaches the store.
    pub fn commit(&mut self, controller: usize) {
        if self.controllers[controller].state.is_none() {
            return;
        }
        let Some(batch) = self.controllers[controller].busy.take() else { return };
        let crash = self.controllers[controller].crash_at_commit.take();
        let restart = self.rng.range(100..4000);
        if crash == Some(false) {
            self.controller_dies(controller, Some(restart));
            return;
        }
        let before: BTreeMap<Key, Write> = batch
            .writes
            .keys()
            .filter_map(|key| Some((key.clone(), self.store.rows.get(key)?.0.clone())))
            .collect();
        let (epoch, fence) = (self.controllers[controller].epoch, self.config.bug != Some(Bug::NoFence));
        match self.store.commit(epoch, fence, self.now, &batch.writes) {
            Ok(revision) => {
                let transitions: Vec<_> =
                    batch.steps.iter().flat_map(|(_, out)| out.transitions.iter().copied()).collect();
                self.check_commit(epoch, &before, &batch.writes, &transitions);
                if crash == Some(true) {
                    self.controller_dies(controller, Some(restart));
                    return;
                }
                if let Some(state) = &mut self.controllers[controller].state {
                    state.commit(revision);
                }
                self.release(controller, batch.steps);
            }
            Err(Refused::Full) => self.not_committed(controller, batch),
            Err(Refused::Fenced) => {
                self.tell(|| format!("controller {controller} is fenced off"));
                self.controller_dies(controller, None);
                return;
            }
        }
        self.wake(controller, 1);
        self.arm(controller);
    }

    /// The disk is full: memory goes back, clients are told, agents' words are heard again later.
    fn not_committed(&mut self, controller: usize, batch: Batch) {
        self.tell(|| format!("controller {controller} could not write"));
        let revision = self.store.revision;
        let bug = self.config.bug == Some(Bug::NoRollback);
        if let Some(state) = &mut self.controllers[controller].state {
            if bug {
                state.commit(revision);
            } else {
                state.rollback();
            }
        }
        let again = self.rng.chance(500);
        let mut kept = VecDeque::new();
        for (inbound, _) in batch.steps {
            match inbound.from {
                From::Client(client, number) => self.send_answer(client, number, Answer::Unavailable),
                From::Agent(_) if again => kept.push_back(inbound),
                From::Agent(connection) => self.cut(connection),
                From::Timer => {}
            }
        }
        let pause = self.now + self.rng.range(100..1000);
        let this = &mut self.controllers[controller];
        this.pause_until = pause;
        kept.append(&mut this.inbox);
        this.inbox = kept;
    }

    fn release(&mut self, controller: usize, steps: Vec<(Inbound, Output)>) {
        for (inbound, out) in steps {
            self.answer(controller, inbound.from, out.reply);
            for push in out.pushes {
                if matches!(push.message, ToNode::Close { .. }) {
                    self.close(push.session);
                } else {
                    self.send_to_agent(push);
                }
            }
        }
    }

    fn answer(
        &mut self,
        controller: usize,
        from: From,
        reply: Option<Result<controller_core::Reply, CoreError>>,
    ) {
        match (from, reply) {
            (From::Client(client, number), Some(reply)) => {
                self.send_answer(client, number, Answer::Done(Box::new(reply)));
            }
            (From::Agent(_), Some(Err(CoreError::Fenced { .. }))) => self.controller_dies(controller, None),
            (From::Agent(connection), Some(Err(CoreError::NodeNotFound { .. }))) => self.close(connection),
            _ => {}
        }
    }

    /// A controller ends a stream.
    fn close(&mut self, connection: u64) {
        if let Some(stream) = self.connections.get_mut(&connection) {
            stream.controller_open = false;
            let wait = self.rng.range(1..300);
            self.after(wait, Event::Lost(connection, true));
        }
    }

    /// Sets a controller's timer.
    fn arm(&mut self, controller: usize) {
        let this = &self.controllers[controller];
        let Some(next) = this.state.as_ref().and_then(State::next_tick) else { return };
        let at = next.0.max(self.now + 1);
        if this.tick_at.is_none_or(|armed| at < armed || armed <= self.now) {
            self.controllers[controller].tick_at = Some(at);
            self.at(at, Event::ControllerTick(controller));
        }
    }

    /// A controller's timer rings.
    pub fn controller_tick(&mut self, controller: usize) {
        let now = self.time();
        let this = &mut self.controllers[controller];
        if this.tick_at.is_some_and(|at| at <= now.0) {
            this.tick_at = None;
        }
        let due = this.state.as_ref().and_then(State::next_tick).is_some_and(|next| next <= now);
        if due && !this.ticking {
            this.ticking = true;
            self.deliver(controller, Inbound { event: Core::Tick, from: From::Timer });
        } else {
            self.arm(controller);
        }
    }

    fn tell_step(&mut self, controller: usize, inbound: &Inbound, out: &Output) {
        let name = match &inbound.event {
            Core::AgentHeartbeat { .. } => return,
            Core::Submit(submit) => format!("submit {:?} {:?}", submit.name, submit.spec.gang),
            Core::AgentConnected(register) => format!(
                "connected {} epoch {} {:?}",
                register.node,
                register.epoch,
                register
                    .observations
                    .iter()
                    .map(|o| (o.uid.to_string(), o.attempt, o.state))
                    .collect::<Vec<_>>()
            ),
            Core::AgentObserved { node, observation, .. } => format!(
                "{node} reports {}.{} {:?} exits {:?} cause {:?}",
                observation.uid,
                observation.attempt,
                observation.state,
                observation.exits.iter().map(|exit| (exit.rank, exit.code, exit.signal)).collect::<Vec<_>>(),
                observation.cause.as_ref().map(|cause| cause.code.to_string())
            ),
            Core::AgentInventory { node, .. } => format!("inventory of {node}"),
            other => format!("{other:?}"),
        };
        let refused = match &out.reply {
            Some(Err(error)) => format!(" REFUSED {error}"),
            _ => String::new(),
        };
        let moves: Vec<String> =
            out.transitions.iter().map(|t| format!("{}.{} {}>{}", t.uid, t.attempt, t.from, t.to)).collect();
        self.tell(|| {
            format!("controller {controller}: {name}{refused} {moves:?} {} writes", out.writes.len())
        });
    }
}
