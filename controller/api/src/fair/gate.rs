//! The queue's thin shell: a clock, a lock, and a waker for each call that waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use controller_leader::Clock;
use proto_model::Timestamp;
use proto_rpc::{
    ErrorClass, Identity, Metrics, RpcError,
    metrics::{CounterBy, GaugeBy},
};
use tokio::sync::{Notify, oneshot};

use super::queue::{FairLimits, FairQueue, Flow, Ticket, Verdict};
use crate::authz::Rpc;

/// Told to calls that waited too long, and for streams.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The gate; clones share it.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    clock: Clock,
    /// A call waits, or something that the timer waits for has changed.
    changed: Notify,
    refused: CounterBy<1>,
    waited: CounterBy<1>,
    waiting: GaugeBy<1>,
}

struct Inner {
    queue: FairQueue,
    wakers: BTreeMap<Ticket, oneshot::Sender<bool>>,
    /// The task that lets in by time runs.
    timed: bool,
}

/// A call's seat; given back when dropped.
pub struct Seat {
    gate: Gate,
    flow: Flow,
}

/// A stream's place; given back when dropped.
pub struct StreamPlace {
    gate: Gate,
    flow: Flow,
}

/// A place in the queue; given up when dropped while it waits.
struct Waiting {
    gate: Gate,
    flow: Flow,
    /// The ticket that waits; `None` once it is answered.
    ticket: Option<Ticket>,
    answer: oneshot::Receiver<bool>,
}

impl Gate {
    /// Registers `rail_calls_limited_total{cause}`, `rail_calls_queued_total{flow}` and `rail_calls_waiting`; once per
    /// process.
    #[must_use]
    pub fn new(limits: FairLimits, metrics: &Metrics) -> Self {
        let kinds = "Calls that waited for their flow's turn: of tenants, administrators, nobody";
        Self(Arc::new(Shared {
            inner: Mutex::new(Inner { queue: FairQueue::new(limits), wakers: BTreeMap::new(), timed: false }),
            clock: Clock::start(),
            changed: Notify::new(),
            refused: metrics.counter_by("calls_limited", "Calls refused by a limit of their flow", ["cause"]),
            waited: metrics.counter_by("calls_queued", kinds, ["flow"]),
            waiting: metrics.gauge_by("calls_waiting", "Calls that wait for their flow's turn", ["queue"]),
        }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn limited(&self, cause: &'static str, text: &str, retry_after: Duration) -> RpcError {
        self.0.refused.inc([cause]);
        RpcError::new(ErrorClass::Overloaded, "TENANT_LIMIT", text).with_retry_after(retry_after)
    }

    /// What a call needs to go on: a seat until its answer begins, and for a stream a place until it ends. Agents need nothing,
    /// nor do single questions for the health; whoever watches the health holds a stream like any other.
    ///
    /// # Errors
    /// As `enter`.
    pub async fn turn(
        &self,
        rpc: Rpc,
        identity: &Identity,
    ) -> Result<(Option<Seat>, Option<StreamPlace>), RpcError> {
        let Some(flow) = flow(identity) else { return Ok((None, None)) };
        match rpc {
            Rpc::GetHealth | Rpc::HealthCheck => return Ok((None, None)),
            Rpc::HealthWatch => return Ok((None, Some(self.stream(flow)?))),
            _ => {}
        }
        let place = if rpc.is_stream() { Some(self.stream(flow.clone())?) } else { None };
        Ok((Some(self.enter(flow).await?), place))
    }

    /// A seat for a call, at once or in its turn.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED with the time after which trying again may help.
    pub async fn enter(&self, flow: Flow) -> Result<Seat, RpcError> {
        let mut waiting = {
            let mut inner = self.inner();
            match inner.queue.arrive(&flow, self.0.clock.now()) {
                Verdict::Admit => return Ok(Seat { gate: self.clone(), flow }),
                Verdict::Reject { cause, retry_after } => {
                    drop(inner);
                    let text = "too many calls of this tenant wait already; try again later";
                    return Err(self.limited(cause, text, retry_after));
                }
                Verdict::Wait(ticket) => {
                    let (waker, answer) = oneshot::channel();
                    inner.wakers.insert(ticket, waker);
                    self.count(&inner);
                    self.keep_time(&mut inner);
                    Waiting { gate: self.clone(), flow, ticket: Some(ticket), answer }
                }
            }
        };
        self.0.waited.inc([kind(&waiting.flow)]);
        // Without an answer the queue is gone, and the process with it.
        let admitted = (&mut waiting.answer).await.unwrap_or(false);
        waiting.ticket = None;
        if admitted {
            return Ok(Seat { gate: self.clone(), flow: waiting.flow.clone() });
        }
        let text = "the call has waited too long behind others of its tenant";
        Err(self.limited("waited-too-long", text, RETRY_AFTER))
    }

    /// A place for a stream.
    ///
    /// # Errors
    /// As `enter`.
    pub fn stream(&self, flow: Flow) -> Result<StreamPlace, RpcError> {
        if self.inner().queue.open_stream(&flow) {
            return Ok(StreamPlace { gate: self.clone(), flow });
        }
        Err(self.limited(
            "streams",
            "this tenant, or callers without an identity, have as many streams open as they may",
            RETRY_AFTER,
        ))
    }

    /// Lets in whoever can go, and sends away whoever waited too long.
    fn pump(&self, inner: &mut Inner, now: Timestamp) {
        while let Some((_, ticket)) = inner.queue.expired(now) {
            if let Some(waker) = inner.wakers.remove(&ticket) {
                // Whoever went away meanwhile has no seat to give back.
                let _ = waker.send(false);
            }
        }
        while let Some((flow, ticket)) = inner.queue.next(now) {
            let reported = inner.wakers.remove(&ticket).is_some_and(|waker| waker.send(true).is_ok());
            if !reported {
                inner.queue.leave(&flow, now);
            }
        }
        self.count(inner);
    }

    fn count(&self, inner: &Inner) {
        self.0.waiting.set(["all"], i64::try_from(inner.queue.waiting()).unwrap_or(i64::MAX));
    }

    /// One task at most lets in by time, while somebody waits.
    fn keep_time(&self, inner: &mut Inner) {
        if std::mem::replace(&mut inner.timed, true) {
            self.0.changed.notify_one();
            return;
        }
        let gate = self.clone();
        tokio::spawn(async move {
            loop {
                let due = {
                    let mut inner = gate.inner();
                    gate.pump(&mut inner, gate.0.clock.now());
                    let due = inner.queue.due();
                    inner.timed = due.is_some();
                    due
                };
                let Some(due) = due else { return };
                // The clock counts whole milliseconds.
                let wait = gate.0.clock.until(due) + Duration::from_millis(1);
                tokio::select! {
                    () = tokio::time::sleep(wait) => {}
                    () = gate.0.changed.notified() => {}
                }
            }
        });
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let (mut inner, now) = (self.gate.inner(), self.gate.0.clock.now());
        inner.queue.leave(&self.flow, now);
        if inner.queue.waiting() > 0 {
            self.gate.pump(&mut inner, now);
        }
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let now = self.gate.0.clock.now();
        self.gate.inner().queue.close_stream(&self.flow, now);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let (mut inner, now) = (self.gate.inner(), self.gate.0.clock.now());
        if inner.wakers.remove(&ticket).is_some() {
            inner.queue.give_up(&self.flow, ticket, now);
        } else if self.answer.try_recv() == Ok(true) {
            // Let in at this very moment: the seat is nobody's.
            inner.queue.leave(&self.flow, now);
            self.gate.pump(&mut inner, now);
        }
        self.gate.count(&inner);
    }
}

fn kind(flow: &Flow) -> &'static str {
    match flow {
        Flow::Tenant(_) => "tenant",
        Flow::Admins => "admins",
        Flow::Nobody => "nobody",
    }
}

/// Whose turn a call waits for; none for calls that pass by.
fn flow(identity: &Identity) -> Option<Flow> {
    match identity {
        Identity::Controller | Identity::Node { .. } | Identity::Switch { .. } => None,
        Identity::User { tenant, .. } => Some(Flow::Tenant(tenant.clone())),
        Identity::Admin { .. } => Some(Flow::Admins),
        Identity::Anonymous => Some(Flow::Nobody),
    }
}
