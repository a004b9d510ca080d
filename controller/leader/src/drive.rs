//! The leader loop: gather, step, commit, release. One task owns the core's state.
//!
//! Nothing leaves the controller before the writes that it follows from are durable. When the store does not take
//! them, the state goes back to the last commit; clients get the reason, and agents' reports are repeated later.

use std::{ops::ControlFlow, sync::atomic::Ordering, time::Duration};

use controller_core::{ClaimVerdict, CoreError, Event, Key, Reply, step};
use controller_election::lead::LeaderReport;
use controller_store::{Limits, StoreError, Txn};
use proto_audit::Log;
use proto_model::{NodeName, Timestamp};
use rand_chacha::rand_core::Rng as _;
use tokio::time::Instant;

use crate::{
    batch::{Batch, Stepped},
    codec,
    error::Refusal,
    leader::{self},
    leader_check::send_held,
    loop_state::Loop,
    push,
    request::{Answer, Applied, Request, answer_with, refusal},
    sessions::Delivery,
};

/// Requests of each queue in one round.
const ROUND: usize = 256;
/// Longest sleep: the core's timers are asked again after it.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// How often jobs are counted for the metrics.
const COUNT_EVERY: Duration = Duration::from_secs(2);
/// How a step is repeated whose writes do not fit into a transaction: deadlines and placements that it may handle.
const PACES: [(usize, usize); 2] = [(1, 1), (1, 0)];
/// The core's timers rest so long after a step that could not be stored whole.
const TICK_REST: Duration = Duration::from_secs(5);
/// Longest wait for the store when leadership is given up.
const LONGEST_RELEASE: Duration = Duration::from_secs(2);
/// When a deadline whose writes cannot be stored is looked at again.
const POSTPONED: Duration = Duration::from_secs(60);

/// Why the loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to.
    Asked,
    /// Another controller leads: this process must not go on.
    Deposed,
}

impl Loop {
    /// Runs until it is stopped or another controller leads.
    pub async fn run(mut self) -> Ended {
        let mut round = Vec::with_capacity(2 * ROUND);
        let ended = loop {
            if !self.gather(&mut round).await {
                break Ended::Asked;
            }
            if self.outage.is_some() && self.probe().await.is_break() {
                break Ended::Deposed;
            }
            if self.apply_leader_check().await.is_break() || self.round(&mut round).await.is_break() {
                break Ended::Deposed;
            }
            if let Some((node, seen)) = self.pacing.challenged.take()
                && self.answer_challenge(node, seen).await.is_break()
            {
                break Ended::Deposed;
            }
            self.check_leader_if_due();
        };
        if ended == Ended::Asked && self.leading.release {
            self.release_leadership().await;
        }
        self.end(round);
        ended
    }

    /// Nothing is written any more: another controller may lead at once.
    async fn release_leadership(&mut self) {
        match tokio::time::timeout(LONGEST_RELEASE, self.leading.lead.release(self.store.as_ref())).await {
            Ok(Ok(())) => tracing::info!(epoch = self.leading.epoch, "the lead is let go"),
            Ok(Err(error)) => {
                tracing::warn!(%error, "the lead could not be let go; others wait for evidence")
            }
            Err(_) => tracing::warn!("the lead could not be let go in time; others wait for evidence"),
        }
    }

    /// Whoever still waits gets the reason; agents' streams end, so that they look for the next leader.
    fn end(mut self, round: Vec<Request>) {
        self.inbox.clients.close();
        self.inbox.agents.close();
        let stopped = Refusal::Stopped { cause: "the controller is ending" };
        self.refuse_held(&stopped);
        let waiting = std::iter::from_fn(|| {
            self.inbox.clients.try_recv().ok().or_else(|| self.inbox.agents.try_recv().ok())
        });
        for request in round.into_iter().chain(waiting.collect::<Vec<_>>()) {
            if let Request::Event(_, Some(answer)) = request {
                answer.send(&Err(stopped.clone()));
            }
        }
        self.refuse_denials(&stopped);
        self.sessions.close_all();
        self.metrics.follow();
    }

    /// Waits for work; false when asked to stop.
    async fn gather(&mut self, round: &mut Vec<Request>) -> bool {
        let wait = self.wait();
        tokio::select! {
            biased;
            () = self.stop.cancelled() => return false,
            found = self.leading.leader_check.answer() => self.leading.found = Some(found),
            Some(request) = self.inbox.agents.recv() => round.push(request),
            Some(request) = self.inbox.clients.recv() => round.push(request),
            Some(refused) = self.inbox.denials.recv() => self.denied(refused, round),
            () = tokio::time::sleep(wait) => {}
        }
        // Both queues get their share, so that neither can starve the other.
        for queue in [&mut self.inbox.agents, &mut self.inbox.clients] {
            for _ in 0..ROUND {
                match queue.try_recv() {
                    Ok(request) => round.push(request),
                    Err(_) => break,
                }
            }
        }
        self.gather_denials(ROUND, round);
        for (name, queue) in [("agents", &self.inbox.agents), ("clients", &self.inbox.clients)] {
            self.metrics.queue.set([name], i64::try_from(queue.len()).unwrap_or(i64::MAX));
        }
        true
    }

    fn wait(&self) -> Duration {
        if !self.pacing.gone.is_empty() {
            return Duration::ZERO;
        }
        if let Some(outage) = &self.outage {
            return outage.next_probe.saturating_duration_since(Instant::now());
        }
        let audit = self.audit.flood.due().into_iter().chain(self.next_seal());
        let next = self.next_tick().into_iter().chain(self.leading.assurance.due()).chain(audit).min();
        next.map_or(LONGEST_SLEEP, |at| self.clock.until(at).min(LONGEST_SLEEP))
    }

    fn next_tick(&self) -> Option<Timestamp> {
        self.state.next_tick().map(|at| self.pacing.tick_after.map_or(at, |after| at.max(after)))
    }

    /// Reads first, of what is committed; then events, in order.
    pub(crate) async fn round(&mut self, round: &mut Vec<Request>) -> ControlFlow<()> {
        let now = self.clock.now();
        let mut events = Vec::with_capacity(round.len() + 1);
        events.extend(self.audit_due(now).map(|event| (event, None)));
        events.extend(self.pacing.gone.drain(..).map(|event| (event, None)));
        for request in round.drain(..) {
            match request {
                Request::Query(question) => question(&self.state, now),
                Request::Event(event, answer) => events.push((*event, answer)),
                Request::CheckLeader => self.leading.assurance.hurry(),
            }
        }
        if self.outage.is_some() {
            events.into_iter().for_each(|(event, answer)| self.while_unwritable(event, answer));
            return ControlFlow::Continue(());
        }
        if self.next_tick().is_some_and(|at| at <= now) {
            self.pacing.tick_after = None;
            events.push((Event::Tick, None));
        }
        let soft = self.store.limits().txn_ops / 2;
        let mut batch = Batch::default();
        let begin = Instant::now();
        let mut events = events.into_iter();
        while let Some((event, answer)) = events.next() {
            self.step_into(&mut batch, event, answer);
            if batch.writes.len() >= soft {
                self.commit(std::mem::take(&mut batch)).await?;
                if self.outage.is_some() {
                    events.by_ref().for_each(|(event, answer)| self.while_unwritable(event, answer));
                }
            }
        }
        self.metrics.step_seconds.observe(begin.elapsed().as_secs_f64());
        self.commit(batch).await?;
        if self.counting.counted.elapsed() > COUNT_EVERY {
            self.count_jobs();
        }
        ControlFlow::Continue(())
    }

    pub(crate) fn step_into(&mut self, batch: &mut Batch, event: Event, answer: Option<Answer>) {
        let now = self.clock.now();
        let event = self.signed(event, now);
        let output = {
            let span = push::decide_span(&event);
            let _inside = span.enter();
            let rng = &mut self.rng;
            step(&mut self.state, event.clone(), now, &mut |bytes| rng.fill_bytes(bytes))
        };
        self.count_claims(&event, &output.claims);
        batch.add(event, answer, output);
    }

    fn count_claims(&self, event: &Event, claims: &[ClaimVerdict]) {
        for claim in claims {
            let (verdict, what) = match claim {
                ClaimVerdict::Ignored(what) => ("ignored", *what),
                ClaimVerdict::Untrue(code) => ("untrue", code.as_str()),
                ClaimVerdict::Quarantined(code) => ("quarantined", code.as_str()),
            };
            if let (ClaimVerdict::Quarantined(_), Some(node)) = (claim, push::speaker(event)) {
                tracing::warn!(%node, what, "a node is quarantined: it, or who has its hardware, reported what cannot be true");
            }
            self.metrics.claims.inc([verdict, what]);
        }
    }

    /// Makes a batch durable and lets its answers and pushes go.
    async fn commit(&mut self, batch: Batch) -> ControlFlow<()> {
        if batch.is_empty() {
            return ControlFlow::Continue(());
        }
        let events = batch.stepped.len();
        if batch.writes.is_empty() {
            self.state.commit(self.shared.revision.load(Ordering::Relaxed));
            return self.release(batch, false);
        }
        let txn = self.transaction(&batch);
        if exceeds(&txn, &self.store.limits()) && events > 1 {
            return self.one_by_one(batch).await;
        }
        let (begin, begun) = (Instant::now(), self.clock.now());
        let outcome = self.store.txn(txn).await;
        self.metrics.commit_seconds.observe(begin.elapsed().as_secs_f64());
        match outcome {
            Ok(outcome) if outcome.succeeded => {
                self.state.commit(outcome.revision);
                send_held(self.leading.assurance.wrote(begun));
                self.shared.revision.store(outcome.revision, Ordering::Relaxed);
                self.webhooks.changed.by(batch.writes.keys());
                if batch.writes.keys().any(|key| matches!(key, Key::Tenant(_) | Key::Queue(..))) {
                    self.counting.named = self.state.named();
                }
                self.metrics.commits.inc();
                self.metrics.events.inc_by(events as u64);
                self.release(batch, true)
            }
            Ok(_) => self.fenced_off(batch).await,
            Err(error) if matches!(refusal(&error), Refusal::TooLarge { .. }) => {
                self.too_large(batch, &error).await
            }
            Err(error) => self.failed(batch, &error),
        }
    }

    /// The store takes no transaction or value of that size. Whose fault it is shows when each event is alone, and does
    /// as little as it can; then that event is refused alone, and what made a Tick too large waits.
    async fn too_large(&mut self, batch: Batch, error: &StoreError) -> ControlFlow<()> {
        if batch.stepped.len() > 1 {
            return self.one_by_one(batch).await;
        }
        self.state.rollback();
        let Some(Stepped { event, answer, .. }) = batch.stepped.into_iter().next() else {
            return ControlFlow::Continue(());
        };
        let again = self.clock.now().plus(TICK_REST);
        let Some(&(dues, places)) = PACES.get(self.pacing.pace) else {
            tracing::error!(%error, "an event's writes do not fit into a transaction; it is refused");
            self.metrics.failures.inc(["too-large"]);
            if matches!(event, Event::Tick) {
                let now = self.clock.now();
                if !self.state.postpone_first(now, now.plus(POSTPONED)) {
                    self.pacing.tick_after = self.pacing.tick_after.or(Some(again));
                }
            }
            self.pacing.cut_short = false;
            answer_with(answer, &refusal(error));
            return ControlFlow::Continue(());
        };
        self.pacing.pace += 1;
        self.pacing.cut_short = places == 0;
        self.state.set_pace(dues, places);
        let mut single = Batch::default();
        self.step_into(&mut single, event, answer);
        let flow = Box::pin(self.commit(single)).await;
        if std::mem::take(&mut self.pacing.cut_short) {
            self.state.want_pass();
            self.pacing.tick_after = self.pacing.tick_after.or(Some(again));
        }
        self.pacing.pace -= 1;
        if self.pacing.pace == 0 {
            self.state.set_pace(self.config.due_limit, self.config.pass_places);
        }
        flow
    }

    fn transaction(&self, batch: &Batch) -> Txn {
        let mut txn = Txn::new().when(leader::fence(self.leading.epoch));
        txn.success = batch.writes.values().map(codec::op).collect();
        txn
    }

    /// A batch that fits into no transaction is undone and repeated event by event: each event's writes stay
    /// atomic, and nothing had left the controller yet.
    async fn one_by_one(&mut self, batch: Batch) -> ControlFlow<()> {
        self.state.rollback();
        for stepped in batch.stepped {
            if self.outage.is_some() {
                self.while_unwritable(stepped.event, stepped.answer);
                continue;
            }
            let mut single = Batch::default();
            self.step_into(&mut single, stepped.event, stepped.answer);
            Box::pin(self.commit(single)).await?;
        }
        ControlFlow::Continue(())
    }

    /// An agent says that it follows a newer controller. An agent can be wrong, or lie: only the store's leader key
    /// says who leads.
    async fn answer_challenge(&mut self, node: NodeName, seen: u64) -> ControlFlow<()> {
        if self.outage.is_some() {
            return ControlFlow::Continue(());
        }
        if self.write_probe().await? {
            tracing::error!(
                epoch = self.leading.epoch, %node, seen,
                "an agent obeys an epoch that this cluster never had; it is refused and quarantined"
            );
            let mut batch = Batch::default();
            self.step_into(&mut batch, Event::AgentEpochUntrue { node, seen }, None);
            return self.commit(batch).await;
        }
        ControlFlow::Continue(())
    }

    /// Everything of the batch is durable. What was decided without a write is answered when it is sure that this controller
    /// still leads.
    fn release(&mut self, batch: Batch, wrote: bool) -> ControlFlow<()> {
        for Stepped { reply, answer, .. } in batch.stepped {
            if let Some(Err(CoreError::Fenced { node, seen, .. })) = &reply
                && self.state.node(node).is_some_and(|node| !node.is_quarantined())
            {
                // Who has spoken untruly before is not worth a look at the store.
                self.pacing.challenged = Some((node.clone(), *seen));
            }
            let Some(answer) = answer else { continue };
            let result = match reply {
                Some(Ok(reply)) => Ok(self.applied(reply)),
                Some(Err(error)) => Err(Refusal::Core(error)),
                None => Ok(Applied { reply: Reply::Done, version: 0 }),
            };
            if wrote {
                // A caller that has gone away has what it asked for all the same.
                answer.send(&result);
            } else {
                self.hold((answer, result));
            }
        }
        for transition in &batch.transitions {
            push::record_transition(&self.state, transition);
            if let Some(moved) = self.state.moved(transition, self.clock.now()) {
                self.metrics.shares.count(&self.counting.named, &moved);
            }
        }
        for verdict in &batch.certified {
            self.metrics.certified.inc([verdict.as_str()]);
        }
        self.metrics.usage_dropped.inc_by(batch.usage_dropped);
        for push in batch.pushes {
            let (node, session) = (push.node.clone(), push.session);
            match push::deliver(&self.sessions, push) {
                Delivery::Queued | Delivery::Gone => {}
                Delivery::Dropped => self.pacing.gone.push(Event::AgentDisconnected { node, session }),
            }
        }
        ControlFlow::Continue(())
    }

    /// The answer with the resource as it is after the whole batch, and the version that belongs to it.
    fn applied(&self, reply: Reply) -> Applied {
        let version = |key: &Key| self.state.version(key).unwrap_or(0);
        match reply {
            Reply::Job { job, existed } => {
                let version = version(&Key::Job(job.id.clone()));
                let job = self.state.job(&job.id).filter(|now| now.uid == job.uid).cloned().unwrap_or(job);
                Applied { reply: Reply::Job { job, existed }, version }
            }
            Reply::Tenant(tenant) => {
                let version = version(&Key::Tenant(tenant.name.clone()));
                Applied { reply: Reply::Tenant(tenant), version }
            }
            Reply::Node(node) => {
                let version = version(&Key::Node(node.name.clone()));
                Applied { reply: Reply::Node(node), version }
            }
            Reply::Queue(queue) => {
                let version = version(&Key::Queue(queue.tenant.clone(), queue.name.clone()));
                Applied { reply: Reply::Queue(queue), version }
            }
            Reply::ServiceClass(class) => {
                let version = version(&Key::ServiceClass(class.name.clone()));
                Applied { reply: Reply::ServiceClass(class), version }
            }
            Reply::License(license) => {
                let version = version(&Key::License(license.name.clone()));
                Applied { reply: Reply::License(license), version }
            }
            Reply::Switch(switch) => {
                let version = version(&Key::Switch(switch.name.clone()));
                Applied { reply: Reply::Switch(switch), version }
            }
            Reply::Reservation(reservation) => {
                let version = version(&Key::Reservation(reservation.name.clone()));
                Applied { reply: Reply::Reservation(reservation), version }
            }
            Reply::JobSchedule(schedule) => {
                let version = version(&Key::Schedule(schedule.tenant.clone(), schedule.name.clone()));
                Applied { reply: Reply::JobSchedule(schedule), version }
            }
            Reply::Values(values) => {
                let version = version(&Key::Values(values.id.clone()));
                Applied { reply: Reply::Values(values), version }
            }
            Reply::Webhook { webhook, secret_made } => {
                let version = version(&Key::Webhook(webhook.tenant.clone(), webhook.name.clone()));
                Applied { reply: Reply::Webhook { webhook, secret_made }, version }
            }
            reply @ Reply::Fabric { .. } => Applied { reply, version: version(&Key::Fabric) },
            reply @ (Reply::Token(_)
            | Reply::Suspended(_)
            | Reply::TenantDeleted(_)
            | Reply::FabricDeleted(_)
            | Reply::Undeleted(_)
            | Reply::Drained { .. }
            | Reply::Undrained { .. }
            | Reply::Qos { .. }
            | Reply::SwitchRollout { .. }
            | Reply::SwitchDesired { .. }
            | Reply::DryRun(_)
            | Reply::Done) => Applied { reply, version: 0 },
        }
    }

    /// The fence did not hold, so nothing of the batch was written.
    async fn fenced_off(&mut self, batch: Batch) -> ControlFlow<()> {
        self.state.rollback();
        self.leading.lead.report(LeaderReport::Fenced);
        let flow = self.lost_the_key().await;
        let refused = if flow.is_break() {
            Refusal::Stopped { cause: "another controller leads" }
        } else {
            self.unwritable()
        };
        self.undone(batch, &refused);
        flow
    }

    /// Nothing of the batch is durable, as far as is known.
    fn failed(&mut self, batch: Batch, error: &StoreError) -> ControlFlow<()> {
        self.state.rollback();
        let refused = refusal(error);
        self.metrics.failures.inc([if error.is_transient() { "transient" } else { "other" }]);
        self.open_outage(error);
        self.undone(batch, &refused);
        ControlFlow::Continue(())
    }

    /// Clients get the reason; agents' reports are repeated later.
    fn undone(&mut self, batch: Batch, refused: &Refusal) {
        for Stepped { event, answer, .. } in batch.stepped {
            match answer {
                Some(answer) => answer_with(Some(answer), refused),
                None => self.while_unwritable(event, None),
            }
        }
    }

    pub(crate) fn count_jobs(&mut self) {
        self.metrics.set_jobs(&self.state.phases());
        let figures = self.state.figures();
        self.metrics.shares.set(&figures);
        self.counting.named = figures.named;
        self.metrics.set_webhooks(self.state.all_deliveries_queued());
        for log in Log::ALL {
            let (records, _) = self.state.audit_kept(log);
            self.metrics.audit_records.set([&log.to_string()], i64::try_from(records).unwrap_or(i64::MAX));
        }
        self.counting.counted = Instant::now();
    }
}

fn exceeds(txn: &Txn, limits: &Limits) -> bool {
    txn.success.len() > limits.txn_ops || txn.bytes() > limits.txn_bytes
}
