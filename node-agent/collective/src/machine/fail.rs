//! Time, and the one way to fail.

use std::collections::BTreeSet;

use crate::error::{Failure, Waiting};
use crate::header::{Key, Kind};
use crate::machine::Machine;
use crate::machine::flights::Hold;
use crate::machine::incoming::Incoming;
use crate::machine::transmit::LATE;
use crate::units::{Node, Rank, Time};

impl Machine {
    /// A local rank left without taking leave (its process ended): everything fails.
    pub fn rank_gone(&mut self, rank: Rank, _now: Time) {
        self.fail(Failure::RankGone(rank));
    }

    /// Fails everything, here and on all peers.
    pub fn stop(&mut self, reason: &str, _now: Time) {
        self.fail(Failure::Stopped(reason.to_owned()));
    }

    /// A call has passed the limit that its rank gave it: fails everything, here and on all peers, as what timed out.
    pub fn expire(&mut self, reason: &str, _now: Time) {
        self.fail(Failure::Expired(reason.to_owned()));
    }

    /// Ends everything with a failure, once and for all, and reports it to the peers.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failure.is_some() {
            return;
        }
        for peer in &mut self.peers {
            peer.control.clear();
        }
        self.report_all(Kind::Abort(failure.reported()));
        self.failure = Some(failure.clone());
        for incoming in self.rails.incoming.values_mut() {
            incoming.discard();
        }
        let ops = std::mem::take(&mut self.work.ops);
        let gathering = std::mem::take(&mut self.calls.gathering);
        let halves = std::mem::take(&mut self.calls.halves);
        let members = ops.into_values().flat_map(|op| op.members);
        let members = members.chain(gathering.into_values().flat_map(|g| g.members.into_iter().flatten()));
        for member in members.chain(halves.into_values().map(|h| h.member)).collect::<Vec<_>>() {
            self.complete(member, Err(failure.clone()));
        }
        self.work.early.clear();
        self.work.ages.clear();
        // Payloads are not the machine's any more; what has none still goes out, and again if it must.
        self.flights.all.retain(|_, flight| matches!(flight.hold, Hold::Nothing));
    }

    /// When [`Machine::tick`] and [`Machine::poll_transmit`] want to be called at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        if !(self.calls.completions.is_empty() && self.work.woken.is_empty() && self.rails.urgent.is_empty())
        {
            return Some(Time::ZERO);
        }
        let (bytes, delay) = (self.job.config.ack_bytes(), self.job.config.tuning.ack_delay);
        let acks = self.rails.links.iter().filter(|(_, _, l)| l.is_open());
        let acks = acks.filter_map(|(_, _, l)| l.ack_due(bytes, delay));
        let since = self.oldest().map(|(_, since)| since + self.job.config.op_timeout);
        let late =
            self.work.ops.values().filter(|op| !op.start.report_late.is_empty()).map(|op| op.since + LATE);
        let rails = self.rails.links.iter().filter(|&(_, peer, _)| peer != self.job.layout.node);
        let rails = rails.filter_map(|(rail, peer, link)| self.rail_due(rail, peer, link));
        let grace = self.job.config.tuning.peer_grace;
        let lost = self.peers.iter().filter_map(|p| p.lost.as_ref());
        let lost = lost.filter(|l| l.2.is_ending()).map(|l| l.0 + grace);
        acks.chain(since).chain(late).chain(rails).chain(lost.filter(|_| self.failure.is_none())).min()
    }

    /// Does what is due by `now`: rails and links that have been silent too long, operations whose time is over.
    pub fn tick(&mut self, now: Time) {
        self.tend_rails(now);
        self.tend_plan(now);
        self.tend_pace(now);
        if let Some((key, since)) = self.oldest()
            && now >= since + self.job.config.op_timeout
        {
            let failure = self.timeout(key);
            self.fail(failure);
        }
    }

    /// The outstanding operation that has waited longest, and since when. Collectives end in order, so one that waited for
    /// the one before it has waited since that ended.
    fn oldest(&self) -> Option<(Key, Time)> {
        let ops = self.work.ops.values().map(|op| (op.key, op.since));
        let gathering =
            self.calls.gathering.iter().next().map(|(&seq, g)| (Key::Collective { seq }, g.since));
        let halves = self.calls.halves.iter().map(|(&key, h)| (key, h.since));
        let own = |(key, since): (Key, Time)| match key {
            Key::Collective { .. } => (key, since.max(self.work.last_end)),
            _ => (key, since),
        };
        ops.chain(gathering).map(own).chain(halves).min_by_key(|&(key, since)| (since, key))
    }

    fn timeout(&self, key: Key) -> Failure {
        let mut waiting = Waiting::default();
        let call = if let Some(op) = self.work.ops.get(&key) {
            waiting.nodes = op.waits_for();
            if waiting.nodes.is_empty() {
                // All is here, but not all has gone: to those who do not know it, or who have not taken what they were sent.
                let flying = self.flights.all.values().filter(|f| f.header.key == key).map(|f| f.peer);
                let missing: BTreeSet<Node> = flying.chain(op.start.report.iter().copied()).collect();
                waiting.nodes.extend(missing);
            }
            op.call
        } else if let Some(half) = self.calls.halves.get(&key) {
            if let Key::Pair { from, to, .. } = key {
                waiting.ranks.push(if half.member.rank == from { to } else { from });
            }
            half.call
        } else if let Some(gathering) = self.calls.gathering.get(&key.seq()) {
            let missing = self.job.layout.local().iter().zip(&gathering.members).filter(|(_, m)| m.is_none());
            waiting.ranks = missing.map(|(&rank, _)| rank).collect();
            if waiting.ranks.is_empty() {
                waiting.nodes.extend(self.waits_for_plan(key.seq()));
            }
            gathering.call
        } else {
            crate::call::Call::BARRIER
        };
        let down =
            self.rails.links.iter().filter(|&(_, node, link)| waiting.nodes.contains(&node) && !link.is_up());
        let named = down.filter_map(|(rail, node, link)| Some((node, rail, link.cause.clone()?)));
        waiting.rails = named.collect();
        Failure::Timeout { seq: key.seq(), call, after: self.job.config.op_timeout, waiting }
    }
}

impl Incoming {
    /// The rest of its payload goes nowhere.
    pub(super) fn discard(&mut self) {
        self.target = super::incoming::Target::Nothing;
    }
}
