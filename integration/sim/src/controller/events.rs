//! What a controller does with what it is sent.

use std::{collections::VecDeque, sync::Arc};

use controller_core::{CoreError, Event as Core, Key, Output, ToNode, Write, step};

use crate::{
    audit::{self, Kind},
    calls::{Call, Outcome},
    client::Answer,
    etcd::Body,
    plant::Bug,
    world::{Event, World},
};

use super::{Batch, From, Inbound, Stepped};

/// Events that one transaction takes at most.
const BATCH_MAX: usize = 16;

impl World {
    /// A controller's process is gone, with all that was not in the store.
    pub fn controller_dies(&mut self, controller: usize, restart: Option<u64>) {
        if !std::mem::take(&mut self.controllers[controller].alive) {
            return;
        }
        self.notify(|| format!("controller {controller} dies"));
        let epoch = self.controllers[controller].epoch;
        self.stop_serving(controller);
        self.raise_evidence(epoch, 400);
        if let Some(wait) = restart {
            self.after(wait, Event::ControllerStart(self.controllers[controller].slot));
        }
    }

    /// A controller ends: another one leads. Its process is started again.
    pub fn controller_ends(&mut self, controller: usize) {
        let restart = self.rng.range(200..4000);
        self.controller_dies(controller, Some(restart));
    }

    /// A controller leads no more: memory, inbox and streams are gone.
    pub fn stop_serving(&mut self, controller: usize) {
        let this = &mut self.controllers[controller];
        (this.state, this.busy, this.ticking) = (None, None, false);
        this.inbox.clear();
        let open: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, stream)| stream.controller == controller && stream.controller_open)
            .map(|(connection, _)| *connection)
            .collect();
        for connection in open {
            self.close(connection);
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
        let mut steps = std::mem::take(&mut self.spare_steps);
        let mut writes = Vec::new();
        let now = self.time_of(controller);
        if let Some(event) = audit::checkpoint(&state, now) {
            let rng = &mut self.rng;
            let mut out = step(&mut state, event, now, &mut |buffer| rng.fill(buffer));
            writes.append(&mut out.writes);
            steps.push(Stepped { again: None, from: From::Timer, out, call: 0, kind: Kind::Other });
        }
        while steps.len() < BATCH_MAX {
            let Some(mut inbound) = self.controllers[controller].inbox.pop_front() else { break };
            if inbound.from == From::Timer {
                self.controllers[controller].ticking = false;
            }
            self.spoil_inbound(&state, &mut inbound);
            let reported = self.config.story.then(|| inbound.clone());
            let again = matches!(inbound.from, From::Agent(_)).then(|| inbound.event.clone());
            let (kind, mut call) = (Kind::of(&inbound.event, &state), 0);
            if let From::Client(client, _) = inbound.from {
                call = self.number();
                inbound.event = audit::by(inbound.event, format!("client {client}"), call);
            }
            let rng = &mut self.rng;
            let mut out = step(&mut state, inbound.event, now, &mut |buffer| rng.fill(buffer));
            self.spoil_denial(kind, &mut out);
            if let Some(inbound) = reported {
                self.report_step(controller, &inbound, &out);
            }
            writes.append(&mut out.writes);
            steps.push(Stepped { again, from: inbound.from, out, call, kind });
        }
        self.controllers[controller].state = Some(state);
        self.spoil_steps(controller, &mut steps);
        if !writes.is_empty() {
            return self.begin_commit(controller, steps, writes);
        }
        // A refusal, too, is only as good as the leadership of who gives it: it is confirmed before it is sent.
        if steps.iter().any(|step| matches!(step.from, From::Client(..))) && !self.bug(Bug::RefuseUnconfirmed)
        {
            let number = self.call(controller, Call::Confirm(self.controllers[controller].epoch));
            let body = Arc::new(Body::default());
            self.controllers[controller].busy = Some(Batch { number, steps, body });
            return;
        }
        let revision = self.etcd.revision;
        if let Some(state) = &mut self.controllers[controller].state {
            state.commit(revision);
        }
        self.release(controller, steps);
        self.wake(controller, 1);
        self.arm(controller);
    }

    fn begin_commit(&mut self, controller: usize, mut steps: Vec<Stepped>, writes: Vec<Write>) {
        if self.controllers[controller].crash_at_commit == Some(false) {
            return self.controller_ends(controller);
        }
        // Of each key the last one, in the order of keys.
        let mut last: Vec<(Key, Write)> =
            writes.into_iter().rev().map(|write| (write.key(), write)).collect();
        last.sort_by(|(a, _), (b, _)| a.cmp(b));
        last.dedup_by(|(a, _), (b, _)| a == b);
        let transitions =
            steps.iter_mut().flat_map(|step| std::mem::take(&mut step.out.transitions)).collect();
        let epoch = self.controllers[controller].epoch;
        // Where clocks are right, it is the world's own.
        let time = if self.skewed { self.time_of(controller) } else { self.time() };
        let mut body = Body { epoch, from: controller, writes: last, transitions, time };
        self.spoil_body(controller, &mut body);
        let body = Arc::new(body);
        let number = self.call(controller, Call::Commit(Arc::clone(&body)));
        self.controllers[controller].busy = Some(Batch { number, steps, body });
    }

    /// A transaction was answered, or was not.
    pub fn committed(&mut self, controller: usize, outcome: &Outcome) {
        let Some(batch) = self.controllers[controller].busy.take() else { return };
        match outcome {
            Outcome::Done(revision) => {
                if self.controllers[controller].crash_at_commit == Some(true) {
                    return self.controller_ends(controller);
                }
                if let Some(state) = &mut self.controllers[controller].state {
                    state.commit(*revision);
                }
                self.release(controller, batch.steps);
            }
            Outcome::Fenced => {
                self.notify(|| format!("controller {controller} is fenced off"));
                return self.controller_ends(controller);
            }
            Outcome::Unknown if !batch.body.writes.is_empty() && !self.spoil_unknown() => {
                self.notify(|| {
                    format!("controller {controller} does not know what became of its transaction")
                });
                return self.doubt(controller);
            }
            Outcome::Unknown if self.bug(Bug::UnknownIsDone) => self.release_as_done(controller, batch),
            _ if self.bug(Bug::ErrorIsDone) => self.release_as_done(controller, batch),
            _ => self.not_committed(controller, batch),
        }
        self.wake(controller, 1);
        self.arm(controller);
    }

    fn release_as_done(&mut self, controller: usize, batch: Batch) {
        let revision = self.etcd.revision;
        if let Some(state) = &mut self.controllers[controller].state {
            state.commit(revision);
        }
        self.release(controller, batch.steps);
    }

    /// Nothing was stored: memory goes back, clients get the reason, agents' reports are handled again later.
    fn not_committed(&mut self, controller: usize, batch: Batch) {
        self.notify(|| format!("controller {controller} could not write"));
        let (revision, alarm) = (self.etcd.revision, self.etcd.alarm);
        let keeps = self.bug(Bug::NoRollback);
        self.keep_head(controller, &batch.body);
        if let Some(state) = &mut self.controllers[controller].state {
            if keeps {
                state.commit(revision);
            } else {
                state.rollback();
            }
        }
        let again = self.rng.chance(500);
        let mut kept = VecDeque::new();
        for step in batch.steps {
            match (step.from, step.again) {
                (From::Client(client, number), _) => {
                    self.send_answer(controller, client, number, Answer::Unavailable)
                }
                (from @ From::Agent(_), Some(event)) if again => kept.push_back(Inbound { event, from }),
                (From::Agent(connection), _) => self.cut(connection),
                (From::Timer, _) => {}
            }
        }
        if alarm && !self.bug(Bug::NeverCompact) {
            self.call(controller, Call::Compact(revision.saturating_sub(8)));
        }
        let pause = self.now + self.rng.range(100..1000);
        let this = &mut self.controllers[controller];
        this.pause_until = pause;
        kept.append(&mut this.inbox);
        this.inbox = kept;
    }

    fn release(&mut self, controller: usize, mut steps: Vec<Stepped>) {
        for mut step in steps.drain(..) {
            self.report_client(controller, &mut step);
            for push in step.out.pushes {
                if matches!(push.message, ToNode::Close { .. }) {
                    self.close(push.session);
                } else {
                    self.send_to_agent(controller, push);
                }
            }
        }
        self.spare_steps = steps;
    }

    /// An answer goes to whoever waits for it.
    pub fn answer(
        &mut self,
        controller: usize,
        from: From,
        reply: Option<Result<controller_core::Reply, CoreError>>,
    ) {
        match (from, reply) {
            (From::Client(client, number), Some(reply)) => {
                self.send_answer(controller, client, number, Answer::Done(Box::new(reply)));
            }
            (From::Agent(_), Some(Err(CoreError::Fenced { .. }))) => {
                self.controller_ends(controller);
            }
            (From::Agent(connection), Some(Err(CoreError::NodeNotFound { .. }))) => self.close(connection),
            _ => {}
        }
    }

    /// A controller ends a stream.
    pub fn close(&mut self, connection: u64) {
        if let Some(stream) = self.connections.get_mut(&connection) {
            stream.controller_open = false;
            let wait = self.rng.range(1..300);
            self.after(wait, Event::Lost(connection, true));
        }
    }

    /// Sets a controller's timer.
    pub fn arm(&mut self, controller: usize) {
        let this = &self.controllers[controller];
        let Some(next) = this.state.as_ref().and_then(|state| state.next_tick()) else { return };
        let armed = this.tick_at;
        let at = self.when(controller, next).max(self.now + 1);
        if armed.is_none_or(|armed| at < armed || armed <= self.now) {
            self.controllers[controller].tick_at = Some(at);
            self.at(at, Event::ControllerTick(controller));
        }
    }

    /// A controller's timer rings.
    pub fn controller_tick(&mut self, controller: usize) {
        let (now, time) = (self.now, self.time_of(controller));
        let this = &mut self.controllers[controller];
        if this.tick_at.is_some_and(|at| at <= now) {
            this.tick_at = None;
        }
        let due = this.state.as_ref().and_then(|state| state.next_tick()).is_some_and(|next| next <= time);
        if due && !this.ticking {
            this.ticking = true;
            self.deliver(controller, Inbound { event: Core::Tick, from: From::Timer });
        } else if !this.ticking {
            self.arm(controller);
        }
    }

    fn report_step(&mut self, controller: usize, inbound: &Inbound, out: &Output) {
        let name = match &inbound.event {
            Core::AgentHeartbeat { .. } => return,
            Core::Tick if out.writes.is_empty() => return,
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
        self.notify(|| {
            format!("controller {controller}: {name}{refused} {moves:?} {} writes", out.writes.len())
        });
    }
}
