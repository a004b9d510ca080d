//! Rail events, time, and the one way to fail.

use crate::error::{Failure, RailCause, Waiting};
use crate::header::{Key, Kind};
use crate::machine::Machine;
use crate::machine::receive::Incoming;
use crate::shape::{Node, Rail, Rank, Time};

impl Machine {
    /// A rail to a peer is up (connected and authenticated).
    pub fn rail_up(&mut self, rail: Rail, peer: Node, _now: Time) {
        if self.links.has(rail, peer) && peer != self.layout.node {
            self.links.set_up(rail, peer);
            self.incoming.remove(&(rail, peer));
        }
    }

    /// A rail to a peer is down. If nothing was on its way, work goes on over the others.
    pub fn rail_down(&mut self, rail: Rail, peer: Node, cause: RailCause, now: Time) {
        if !self.links.has(rail, peer) || !self.links.get(rail, peer).is_up() {
            return;
        }
        self.links.set_down(rail, peer);
        self.incoming.remove(&(rail, peer));
        let bytes = self.links.get(rail, peer).outstanding();
        let alone = self.links.up(peer).next().is_none();
        let left = self.peers[usize::from(peer)].left;
        match cause {
            RailCause::Protocol(error) => self.fail(Failure::Protocol { node: peer, rail, error }),
            _ if left && alone && self.ops.values().any(|op| op.needs(peer)) => {
                self.fail(Failure::PeerLeft(peer))
            }
            _ if left => {}
            cause if alone => self.fail(Failure::PeerLost { node: peer, rail, cause }),
            cause if bytes > 0 && self.suspected.is_none() => {
                let until = now + self.config.tuning.loss_grace;
                self.suspected = Some((until, Failure::RailLost { node: peer, rail, bytes, cause }));
            }
            _ => {}
        }
    }

    /// A local rank left without taking leave (its process ended): everything fails.
    pub fn rank_gone(&mut self, rank: Rank, _now: Time) {
        self.fail(Failure::RankGone(rank));
    }

    /// Fails everything, here and on all peers.
    pub fn stop(&mut self, reason: &str, _now: Time) {
        self.fail(Failure::Stopped(reason.to_owned()));
    }

    /// Ends everything with a failure, once and for all, and tells the peers.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failure.is_some() {
            return;
        }
        for peer in &mut self.peers {
            peer.control.clear();
        }
        self.tell_all(Kind::Abort(failure.told()));
        self.failure = Some(failure.clone());
        self.suspected = None;
        for incoming in self.incoming.values_mut() {
            incoming.discard();
        }
        let ops = std::mem::take(&mut self.ops);
        let gathering = std::mem::take(&mut self.gathering);
        let halves = std::mem::take(&mut self.halves);
        let members = ops.into_values().flat_map(|op| op.members);
        let members = members.chain(gathering.into_values().flat_map(|g| g.members.into_iter().flatten()));
        for member in members.chain(halves.into_values().map(|h| h.member)).collect::<Vec<_>>() {
            self.complete(member, Err(failure.clone()));
        }
        self.early.clear();
        self.ages.clear();
        self.in_flight.clear();
    }

    /// When [`Machine::tick`] and [`Machine::poll_transmit`] want to be called at the latest.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Time> {
        let (bytes, delay) = (self.config.ack_bytes(), self.config.tuning.ack_delay);
        let acks = self.links.iter().filter(|(_, _, l)| l.is_up());
        let acks = acks.filter_map(|(_, _, l)| l.ack_due(bytes, delay));
        let since = self.oldest().map(|(_, since)| since + self.config.op_timeout);
        acks.chain(since).chain(self.suspected.as_ref().map(|s| s.0)).min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        if let Some((_, failure)) = self.suspected.take_if(|(until, _)| now >= *until) {
            self.fail(failure);
        }
        if let Some((key, since)) = self.oldest()
            && now >= since + self.config.op_timeout
        {
            let failure = self.timeout(key);
            self.fail(failure);
        }
    }

    /// The outstanding operation that has waited longest, and since when. Collectives end in order, so one that waited for
    /// the one before it has waited since that ended.
    fn oldest(&self) -> Option<(Key, Time)> {
        let ops = self.ops.values().map(|op| (op.key, op.since));
        let gathering = self.gathering.iter().next().map(|(&seq, g)| (Key::Collective { seq }, g.since));
        let halves = self.halves.iter().map(|(&key, h)| (key, h.since));
        let own = |(key, since): (Key, Time)| match key {
            Key::Collective { .. } => (key, since.max(self.last_end)),
            _ => (key, since),
        };
        ops.chain(gathering).map(own).chain(halves).min_by_key(|&(key, since)| (since, key))
    }

    fn timeout(&self, key: Key) -> Failure {
        let mut waiting = Waiting::default();
        let call = if let Some(op) = self.ops.get(&key) {
            waiting.nodes = op.waits_for();
            op.call
        } else if let Some(half) = self.halves.get(&key) {
            if let Key::Pair { from, to, .. } = key {
                waiting.ranks.push(if half.member.rank == from { to } else { from });
            }
            half.call
        } else if let Some(gathering) = self.gathering.get(&key.seq()) {
            let missing = self.layout.local().iter().zip(&gathering.members).filter(|(_, m)| m.is_none());
            waiting.ranks = missing.map(|(&rank, _)| rank).collect();
            gathering.call
        } else {
            crate::call::Call::BARRIER
        };
        Failure::Timeout { seq: key.seq(), call, after: self.config.op_timeout, waiting }
    }
}

impl Incoming {
    /// The rest of its payload goes nowhere.
    pub(super) fn discard(&mut self) {
        self.target = super::receive::Target::Nothing;
    }
}
