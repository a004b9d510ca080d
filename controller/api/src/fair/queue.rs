//! Who goes in next: pure decisions of (state, call, now). Each flow (a tenant) has a rate, a bounded queue, and at most
//! a part of the seats; a free seat goes to the flow that holds the fewest, and among those to the one that waits longest.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use proto_model::Timestamp;

/// What is allowed; documented at the controller's flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FairLimits {
    /// Calls at work at a time, of all flows.
    pub seats: usize,
    /// Of these, what one flow may hold: less than all, so that another finds a seat at once.
    pub flow_seats: usize,
    /// Calls that one flow may begin per second in the long run; 0: any number.
    pub rate: u32,
    /// Calls that it may begin at once after a rest.
    pub burst: u32,
    /// Calls of one flow that wait.
    pub flow_queue: usize,
    /// Calls of all flows that wait.
    pub queue: usize,
    /// A call that waited so long is refused.
    pub longest_wait: Duration,
    /// Streams of one flow that are open at a time.
    pub flow_streams: usize,
    /// Of the seats, what callers without an identity may hold together.
    pub anonymous_seats: usize,
    /// Their streams that are open at a time, together.
    pub anonymous_streams: usize,
}

impl Default for FairLimits {
    fn default() -> Self {
        Self {
            seats: 128,
            flow_seats: 96,
            rate: 10_000,
            burst: 10_000,
            flow_queue: 1024,
            queue: 8192,
            longest_wait: Duration::from_secs(5),
            flow_streams: 1024,
            anonymous_seats: 16,
            anonymous_streams: 64,
        }
    }
}

/// Whose calls share a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    /// All of a tenant's users.
    Tenant(String),
    /// All administrators of the cluster.
    Admins,
    /// Callers without an identity.
    Nobody,
}

/// Number of a call that waits.
pub type Ticket = u64;

/// What becomes of a call that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It goes in, and holds a seat until `leave`.
    Admit,
    /// It waits until `next` names its ticket.
    Wait(Ticket),
    /// The call is refused at once.
    Reject {
        /// Why: `queue-full` or `flow-queue-full`.
        cause: &'static str,
        /// When trying again may help.
        retry_after: Duration,
    },
}

/// Nanoseconds since any fixed moment.
type Nanos = u128;

#[derive(Debug, Default)]
struct One {
    seats: usize,
    streams: usize,
    waiting: VecDeque<(Ticket, Timestamp)>,
    /// The bucket, as the time at which it would be full again (GCRA).
    full_at: Nanos,
    /// The number of the last call that went in.
    turn: u64,
}

/// Seats and waiting calls of all flows.
#[derive(Debug)]
pub struct FairQueue {
    limits: FairLimits,
    flows: BTreeMap<Flow, One>,
    seats: usize,
    waiting: usize,
    tickets: u64,
    turns: u64,
}

/// The shortest and the longest wait that a refused caller is given.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

fn nanos(at: Timestamp) -> Nanos {
    Nanos::from(at.0) * 1_000_000
}

impl FairQueue {
    /// A queue without calls, with these limits.
    #[must_use]
    pub fn new(limits: FairLimits) -> Self {
        Self { limits, flows: BTreeMap::new(), seats: 0, waiting: 0, tickets: 0, turns: 0 }
    }

    /// Nanoseconds between two calls of a flow in the long run.
    fn interval(&self) -> Nanos {
        if self.limits.rate == 0 { 0 } else { 1_000_000_000 / Nanos::from(self.limits.rate) }
    }

    /// How far ahead of now a bucket may be filled up.
    fn tolerance(&self) -> Nanos {
        self.interval() * Nanos::from(self.limits.burst.max(1) - u32::from(self.limits.burst > 0))
    }

    /// When this flow may begin its next call.
    fn opens(&self, one: &One) -> Nanos {
        one.full_at.saturating_sub(self.tolerance())
    }

    /// The seats that a flow may hold.
    fn most_seats(&self, flow: &Flow) -> usize {
        match flow {
            Flow::Nobody => self.limits.anonymous_seats.min(self.limits.flow_seats),
            Flow::Tenant(_) | Flow::Admins => self.limits.flow_seats,
        }
    }

    fn may_begin(&self, flow: &Flow, one: &One, now: Timestamp) -> bool {
        one.seats < self.most_seats(flow) && self.opens(one) <= nanos(now)
    }

    fn begin(&mut self, flow: &Flow, now: Timestamp) {
        let interval = self.interval();
        self.turns += 1;
        self.seats += 1;
        let turn = self.turns;
        let one = self.flows.entry(flow.clone()).or_default();
        one.seats += 1;
        one.turn = turn;
        one.full_at = one.full_at.max(nanos(now)) + interval;
    }

    /// Admits a call that arrives, has it wait, or refuses it.
    pub fn arrive(&mut self, flow: &Flow, now: Timestamp) -> Verdict {
        let one = self.flows.entry(flow.clone()).or_default();
        if one.waiting.is_empty() && self.seats < self.limits.seats {
            let one = &self.flows[flow];
            if self.may_begin(flow, one, now) {
                self.begin(flow, now);
                return Verdict::Admit;
            }
        }
        let one = &self.flows[flow];
        let full = if one.waiting.len() >= self.limits.flow_queue { Some("flow-queue-full") } else { None };
        let full = full.or((self.waiting >= self.limits.queue).then_some("queue-full"));
        if let Some(cause) = full {
            let behind = self.interval() * one.waiting.len() as Nanos;
            let wait = Duration::from_nanos(u64::try_from(behind).unwrap_or(u64::MAX));
            self.forget_idle(flow, now);
            return Verdict::Reject { cause, retry_after: wait.clamp(RETRY.0, RETRY.1) };
        }
        self.tickets += 1;
        self.waiting += 1;
        let ticket = self.tickets;
        if let Some(one) = self.flows.get_mut(flow) {
            one.waiting.push_back((ticket, now));
        }
        Verdict::Wait(ticket)
    }

    /// A call that was let in has ended.
    pub fn leave(&mut self, flow: &Flow, now: Timestamp) {
        if let Some(one) = self.flows.get_mut(flow)
            && one.seats > 0
        {
            one.seats -= 1;
            self.seats -= 1;
        }
        self.forget_idle(flow, now);
    }

    /// A waiting call's caller has gone.
    pub fn give_up(&mut self, flow: &Flow, ticket: Ticket, now: Timestamp) {
        if let Some(one) = self.flows.get_mut(flow)
            && let Some(at) = one.waiting.iter().position(|(waits, _)| *waits == ticket)
        {
            one.waiting.remove(at);
            self.waiting -= 1;
        }
        self.forget_idle(flow, now);
    }

    /// The next waiting call that goes in now; it holds a seat from then on.
    pub fn next(&mut self, now: Timestamp) -> Option<(Flow, Ticket)> {
        if self.seats >= self.limits.seats {
            return None;
        }
        let may = |flow: &Flow, one: &One| !one.waiting.is_empty() && self.may_begin(flow, one, now);
        let ready = self.flows.iter().filter(|(flow, one)| may(flow, one));
        let flow = ready.min_by_key(|(_, one)| (one.seats, one.turn)).map(|(flow, _)| flow.clone())?;
        let (ticket, _) = self.flows.get_mut(&flow)?.waiting.pop_front()?;
        self.waiting -= 1;
        self.begin(&flow, now);
        Some((flow, ticket))
    }

    /// A call that has waited too long; it waits no more.
    pub fn expired(&mut self, now: Timestamp) -> Option<(Flow, Ticket)> {
        let longest = self.limits.longest_wait;
        let old = |one: &One| one.waiting.front().is_some_and(|(_, since)| now.since(*since) >= longest);
        let flow = self.flows.iter().find(|(_, one)| old(one)).map(|(flow, _)| flow.clone())?;
        let (ticket, _) = self.flows.get_mut(&flow)?.waiting.pop_front()?;
        self.waiting -= 1;
        self.forget_idle(&flow, now);
        Some((flow, ticket))
    }

    /// When to ask again although no call ends before: a flow's rate lets its next one in, or one has waited too long.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        let waits = self.flows.iter().filter(|(_, one)| !one.waiting.is_empty());
        let opens = |(flow, one): (&Flow, &One)| {
            // Rounded up: asked earlier, the answer would be no.
            let at = self.opens(one).div_ceil(1_000_000);
            let at = Timestamp(u64::try_from(at).unwrap_or(u64::MAX));
            let too_long = one.waiting.front().map(|(_, since)| since.plus(self.limits.longest_wait));
            // Waiting for a seat, it is asked when one is given back.
            let at = (one.seats < self.most_seats(flow) && self.seats < self.limits.seats).then_some(at);
            at.into_iter().chain(too_long).min()
        };
        waits.filter_map(opens).min()
    }

    /// A stream begins; false if its flow has as many as it may.
    pub fn open_stream(&mut self, flow: &Flow) -> bool {
        let most = match flow {
            Flow::Nobody => self.limits.anonymous_streams,
            Flow::Tenant(_) | Flow::Admins => self.limits.flow_streams,
        };
        let one = self.flows.entry(flow.clone()).or_default();
        let room = one.streams < most;
        one.streams += usize::from(room);
        room
    }

    /// Frees what a stream held, which has ended.
    pub fn close_stream(&mut self, flow: &Flow, now: Timestamp) {
        if let Some(one) = self.flows.get_mut(flow) {
            one.streams = one.streams.saturating_sub(1);
        }
        self.forget_idle(flow, now);
    }

    /// Number of calls that wait, over all flows.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// A flow without calls and with a full bucket is as one that was never seen.
    fn forget_idle(&mut self, flow: &Flow, now: Timestamp) {
        let idle = |one: &One| {
            one.seats == 0 && one.streams == 0 && one.waiting.is_empty() && one.full_at <= nanos(now)
        };
        if self.flows.get(flow).is_some_and(idle) {
            self.flows.remove(flow);
        }
        // Others, whose buckets were not full when they left, go when there are many.
        if self.flows.len() > 1024 {
            self.flows.retain(|_, one| !idle(one));
        }
    }
}
