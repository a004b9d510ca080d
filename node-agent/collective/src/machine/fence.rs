//! Rails that come and go: fences and replay, proof of what comes back, doubt of what is silent, drain.
//!
//! The rules, in the order in which a rail dies and returns:
//! 1. A link is *lost* when its connection ends, when the own port has no carrier, when the peer says so, or when it owes an
//!    acknowledgement for longer than its patience while the peer answers over another rail.
//! 2. Who loses a link takes nothing more from it (a chunk that was half there is as if it had never begun), and says so over
//!    all other rails at once, with the number of frames that it took: this is the *fence*. The peer does the same.
//! 3. Only what the peer's fence leaves out is sent again. As its number was taken after the fence, a frame of the dead life can
//!    not arrive later: nothing arrives twice, nothing is lost, and no late byte lands in a buffer that is used again.
//! 4. Fences may be lost: who has no answer asks again. A fence names one life, so that an old one means nothing to a new life.
//! 5. A connection that comes back carries no data until the fence of the life before is answered and probes came back.

use crate::error::{Failure, FrameError, RailCause};
use crate::header::{Header, Key, Kind};
use crate::link::{Link, State, UnackedGeneration};
use crate::machine::incoming::Target;
use crate::machine::{Command, Machine};
use crate::units::{Node, Rail, Time};

/// Probes that must come back in a row before a link carries data again.
const PROBES: u32 = 3;
/// Time after which a probe, or a question, is asked again: doubled up to the second one.
const AGAIN: (Time, Time) = (Time::from_millis(10), Time::from_millis(160));
/// A link that answers no probe for this long is closed and dialed again.
const PROOF_LIMIT: Time = Time::from_secs(1);
/// An answer over another rail counts against a silent one after this time: what has arrived with it is read by then.
const SETTLE: Time = Time::from_millis(10);
/// Time between the proof against a silent link and its end, in which whatever has come in is read.
const READ: Time = Time::from_millis(1);

impl Machine {
    /// A link is connected and authenticated; `generation` names this life of it, and each is greater than those before. The
    /// first life of a link carries data at once, later ones when they have proved themselves.
    pub fn rail_up(&mut self, rail: Rail, peer: Node, generation: u32, now: Time) {
        if !self.rails.links.has(rail, peer) || peer == self.job.layout.node {
            return;
        }
        let link = self.rails.links.get(rail, peer);
        if link.is_open() && link.generation() < generation {
            self.lose(rail, peer, RailCause::Closed, now);
        }
        self.rails.incoming.remove(&(rail, peer));
        if self.rails.links.get_mut(rail, peer).open(generation, now) {
            self.peers[usize::from(peer)].lost = None;
            if self.rails.links.get(rail, peer).is_up() {
                // The first life carries data at once; a probe on it shows how long a trip takes.
                self.rails.probes += 1;
                let number = self.rails.probes;
                let proof = &mut self.rails.links.get_mut(rail, peer).proof;
                (proof.number, proof.since) = (number, now);
                self.urge(rail, peer, Kind::Probe { number });
            }
            self.level();
        } else if self.rails.links.get(rail, peer).generation() != generation {
            let cause = RailCause::Fenced;
            self.rails.commands.push_back(Command::Close { rail, peer, generation, cause });
        }
    }

    /// A link's connection ended. Work goes on over the other rails; what was on its way is sent again as far as the peer
    /// has not taken it.
    pub fn rail_down(&mut self, rail: Rail, peer: Node, generation: u32, cause: RailCause, now: Time) {
        if !self.rails.links.has(rail, peer) {
            return;
        }
        let link = self.rails.links.get(rail, peer);
        if !link.is_open() || link.generation() != generation {
            return;
        }
        match cause {
            RailCause::Protocol(FrameError::Gap { .. } | FrameError::Checksum { .. }) => {
                self.lose(rail, peer, cause, now);
            }
            RailCause::Protocol(error) => {
                self.lose(rail, peer, RailCause::Local, now);
                self.fail(Failure::Protocol { node: peer, rail, error });
            }
            cause => self.lose(rail, peer, cause, now),
        }
    }

    /// The own port of a rail has lost its carrier: so are all links over it.
    pub fn port_down(&mut self, rail: Rail, now: Time) {
        for peer in self.job.layout.peers() {
            if self.rails.links.has(rail, peer) && self.rails.links.get(rail, peer).is_open() {
                self.lose_and_close(rail, peer, RailCause::NoCarrier, now);
            }
        }
    }

    /// The own port of a rail has its carrier again: links over it are worth an attempt, from both ends.
    pub fn port_up(&mut self, rail: Rail, _now: Time) {
        for peer in self.job.layout.peers() {
            if self.rails.links.has(rail, peer) && !self.rails.links.get(rail, peer).is_open() {
                self.rails.commands.push_back(Command::Redial { rail, peer });
                if let Some(over) = self.rails.links.quickest(peer) {
                    self.urge(over, peer, Kind::Back { rail });
                }
            }
        }
    }

    /// Moves work off the own port of a rail, or back on it. What is on its way there arrives; if no other rail to a peer
    /// is up, the rail goes on to carry what must go to that peer.
    pub fn drain(&mut self, rail: Rail, on: bool) {
        if usize::from(rail) >= self.job.config.rails || self.rails.drains[usize::from(rail)].0 == on {
            return;
        }
        let drain = &mut self.rails.drains[usize::from(rail)];
        *drain = (on, drain.1 + 1);
        let value = drain.1;
        let header = Header { value, ..self.control(Kind::Drain { rail, on }, Key::Link, None) };
        for peer in self.job.layout.peers() {
            self.rails.links.get_mut(rail, peer).drained.0 = on;
            self.peers[usize::from(peer)].control.push_back(header);
        }
        self.level();
    }

    /// The next thing that the transport is to do.
    pub fn poll_command(&mut self) -> Option<Command> {
        self.rails.commands.pop_front()
    }

    /// Rails came, went, or changed their use.
    fn level(&mut self) {
        self.rails.links.level();
        self.planning.rails_changed = true;
    }

    /// A frame for one link that needs no count, to go out before everything else. A newer one of its kind replaces it.
    pub(super) fn urge(&mut self, over: Rail, peer: Node, kind: Kind) {
        let slot = match kind {
            Kind::Fence { rail, .. } => (0, rail),
            Kind::Back { rail } => (1, rail),
            Kind::Probe { .. } => (2, 0),
            _ => (3, 0),
        };
        let header = self.control(kind, Key::Link, None);
        self.rails.urgent.insert((over, peer, slot), header);
    }

    fn lose_and_close(&mut self, rail: Rail, peer: Node, cause: RailCause, now: Time) {
        let generation = self.rails.links.get(rail, peer).generation();
        self.rails.commands.push_back(Command::Close { rail, peer, generation, cause: cause.clone() });
        self.lose(rail, peer, cause, now);
    }

    /// Takes nothing more from a link, and reports it to the peer.
    fn lose(&mut self, rail: Rail, peer: Node, cause: RailCause, now: Time) {
        self.abandon(rail, peer);
        self.rails.urgent.retain(|&(over, to, _), _| (over, to) != (rail, peer));
        self.rails.links.get_mut(rail, peer).close(cause.clone(), now);
        let unacked = self.rails.links.get(rail, peer).unacked.as_ref();
        let tokens = unacked.map(|g| g.tokens.clone()).unwrap_or_default();
        self.grounded(&tokens);
        self.level();
        self.stats.losses += 1;
        #[cfg(test)]
        if self.sabotage == Some(crate::model::Sabotage::SkipFence)
            && let Some(unacked) = self.rails.links.get_mut(rail, peer).unacked.take()
        {
            let acknowledged = unacked.first - 1;
            let _ = self.rise(peer, unacked, acknowledged);
        }
        if self.rails.links.open(peer).next().is_some() {
            return;
        }
        if self.peers[usize::from(peer)].left {
            if self.work.ops.values().any(|op| op.needs(peer)) {
                self.fail(Failure::PeerLeft(peer));
            }
        } else {
            self.peers[usize::from(peer)].lost = Some((now, rail, cause));
        }
    }

    /// The frame that was coming in on a link will not end: as if it had never begun.
    pub(super) fn abandon(&mut self, rail: Rail, peer: Node) {
        let Some(incoming) = self.rails.incoming.remove(&(rail, peer)) else { return };
        let key = incoming.header.key;
        match incoming.target {
            Target::Nothing | Target::Again => {}
            Target::Early(slot) => self.slots.free_early(slot, peer, self.job.layout.node),
            Target::Staged { flow, chunk, slot } => {
                self.slots.free(slot);
                self.forget_chunk(key, flow, chunk);
            }
            Target::Placed { flow, chunk } => self.forget_chunk(key, flow, chunk),
        }
    }

    fn forget_chunk(&mut self, key: Key, flow: usize, chunk: usize) {
        if let Some(op) = self.work.ops.get_mut(&key) {
            let state = &mut op.receives[flow];
            state.seen[chunk] = false;
            state.begun -= 1;
        }
    }

    /// Time has passed: asks, probes, doubts and gives up what is due.
    pub(super) fn tend_rails(&mut self, now: Time) {
        for at in 0..self.job.layout.nodes() {
            let peer = at as Node;
            if peer == self.job.layout.node {
                continue;
            }
            for rail in 0..self.job.config.rails as Rail {
                match self.rails.links.get(rail, peer).state() {
                    State::Proving => self.tend_proof(rail, peer, now),
                    State::Up => self.tend_doubt(rail, peer, now),
                    State::Down => {}
                }
                self.tend_unacked(rail, peer, now);
            }
            let lost = self.peers[at].lost.as_ref();
            if let Some((since, rail, cause)) = lost
                && cause.is_ending()
                && now >= *since + self.job.config.tuning.peer_grace
            {
                let failure = Failure::PeerLost { node: peer, rail: *rail, cause: cause.clone() };
                self.peers[at].lost = None;
                self.fail(failure);
            }
        }
    }

    fn tend_unacked(&mut self, rail: Rail, peer: Node, now: Time) {
        let frames = |link: &Link, generation| link.took(generation);
        let link = self.rails.links.get(rail, peer);
        let Some(generation) = link.unacked.as_ref().filter(|g| g.ask.0 <= now).map(|g| g.generation) else {
            return;
        };
        let kind = Kind::Fence { rail, generation, frames: frames(link, generation), asks: true };
        let over: Vec<Rail> = self.rails.links.open(peer).collect();
        if over.is_empty() {
            return;
        }
        for over in over {
            self.urge(over, peer, kind);
        }
        if let Some(unacked) = &mut self.rails.links.get_mut(rail, peer).unacked {
            let pause = (unacked.ask.1 * 2).clamp(AGAIN.0, AGAIN.1);
            unacked.ask = (now + pause, pause);
        }
    }

    fn tend_proof(&mut self, rail: Rail, peer: Node, now: Time) {
        let allowance = 2 * self.job.config.chunk_bytes as u64 + 2 * crate::header::HEADER_BYTES as u64;
        let number = self.rails.probes + 1;
        let link = self.rails.links.get_mut(rail, peer);
        let proved = link.proof.answered >= PROBES;
        if proved && link.unacked.is_none() {
            link.prove(allowance, now);
            self.level();
            return;
        }
        if now >= link.proof.began + PROOF_LIMIT {
            return self.lose_and_close(rail, peer, RailCause::Silent(PROOF_LIMIT), now);
        }
        // While it waits for the peer's word of the life before, it is asked on and on: a connection that dies meanwhile
        // unheard would else never be dialed again.
        let idle = link.proof.number == 0;
        if (idle && !proved) || now >= link.proof.since + AGAIN.1 / 2 {
            if !idle && !proved {
                // An unanswered probe begins the row again.
                link.proof.answered = 0;
            }
            (link.proof.number, link.proof.since) = (number, now);
            self.rails.probes = number;
            self.urge(rail, peer, Kind::Probe { number });
        }
    }

    fn tend_doubt(&mut self, rail: Rail, peer: Node, now: Time) {
        let link = self.rails.links.get(rail, peer);
        let (silence, patience) = (link.silence(now), link.patience(self.job.config.tuning.patience));
        if silence < patience / 2 || self.rails.links.open(peer).count() < 2 {
            return;
        }
        let (asked, echoed) = (link.asked, self.peers[usize::from(peer)].echoed);
        match link.doubt {
            None => {
                self.rails.probes += 1;
                self.ask_about(rail, peer, self.rails.probes, now);
            }
            // The question or its answer was lost with the rails that carried them.
            Some((number, None)) if echoed.0 < number => {
                #[cfg(test)]
                if self.sabotage == Some(crate::model::Sabotage::AskOnce) {
                    return;
                }
                if now >= asked + AGAIN.1 {
                    self.ask_about(rail, peer, number, now);
                }
            }
            // This node itself may have been away: what came meanwhile is read before the verdict.
            Some((number, None)) if silence >= patience && now >= echoed.1 + SETTLE => {
                self.rails.links.get_mut(rail, peer).doubt = Some((number, Some(now)));
            }
            Some((_, Some(known))) if silence >= patience && now >= known + READ => {
                self.lose_and_close(rail, peer, RailCause::Silent(silence), now);
            }
            Some(_) => {}
        }
    }

    /// Asks a peer over all rails in use whether it is there, because one is silent.
    fn ask_about(&mut self, rail: Rail, peer: Node, number: u64, now: Time) {
        let link = self.rails.links.get_mut(rail, peer);
        (link.doubt, link.asked) = (Some((number, None)), now);
        for over in self.rails.links.open(peer).collect::<Vec<_>>() {
            if self.rails.links.get(over, peer).is_up() {
                self.urge(over, peer, Kind::Probe { number });
            }
        }
    }

    /// When [`Machine::tend_rails`] has something to do for a link.
    pub(super) fn rail_due(&self, rail: Rail, peer: Node, link: &Link) -> Option<Time> {
        let others = self.rails.links.open(peer).count();
        let asked = link.unacked.as_ref().filter(|_| others > 0).map(|g| g.ask.0);
        let tended = match link.state() {
            State::Down => None,
            State::Proving if link.proof.answered >= PROBES && link.unacked.is_none() => Some(Time::ZERO),
            State::Proving if link.proof.answered < PROBES && link.proof.number == 0 => Some(Time::ZERO),
            State::Proving => Some((link.proof.since + AGAIN.1 / 2).min(link.proof.began + PROOF_LIMIT)),
            State::Up => link.owes_since().filter(|_| others > 1).map(|since| {
                let patience = link.patience(self.job.config.tuning.patience);
                match link.doubt {
                    None => since + patience / 2,
                    Some((_, Some(known))) => (known + READ).max(since + patience),
                    Some((number, None)) => {
                        let echoed = self.peers[usize::from(peer)].echoed;
                        let answered = echoed.0 >= number;
                        if answered {
                            (since + patience).max(echoed.1 + SETTLE)
                        } else {
                            link.asked + AGAIN.1
                        }
                    }
                }
            }),
        };
        let _ = rail;
        asked.into_iter().chain(tended).min()
    }

    /// The peer has fenced a life of a link.
    pub(super) fn fenced(
        &mut self,
        over: Rail,
        peer: Node,
        about: (Rail, u32, u32, bool),
        now: Time,
    ) -> Result<(), FrameError> {
        let (rail, generation, frames, asks) = about;
        if !self.rails.links.has(rail, peer) {
            return Err(FrameError::Field { field: "rail", value: rail.into() });
        }
        let link = self.rails.links.get(rail, peer);
        if link.is_open() && link.generation() <= generation {
            self.lose_and_close(rail, peer, RailCause::Fenced, now);
        }
        let link = self.rails.links.get_mut(rail, peer);
        link.bury(generation);
        #[cfg(test)]
        let generation = match (&link.unacked, self.sabotage) {
            (Some(unacked), Some(crate::model::Sabotage::ForgetLifeOfFence)) => unacked.generation,
            _ => generation,
        };
        let risen = link.unacked.take_if(|unacked| unacked.generation == generation);
        let kind = Kind::Fence { rail, generation, frames: link.took(generation), asks: false };
        if let Some(unacked) = risen {
            self.rise(peer, unacked, frames)?;
        }
        if asks && self.rails.links.get(over, peer).is_open() {
            self.urge(over, peer, kind);
        }
        Ok(())
    }

    /// The peer took this many frames of a life that is over: the rest is sent again.
    fn rise(&mut self, peer: Node, unacked: UnackedGeneration, frames: u32) -> Result<(), FrameError> {
        let taken = (frames.wrapping_add(1)).wrapping_sub(unacked.first) as usize;
        if taken > unacked.tokens.len() {
            let sent = u64::from(unacked.first) + unacked.tokens.len() as u64 - 1;
            return Err(FrameError::Ack { acked: frames.into(), sent });
        }
        let (taken, lost) = unacked.tokens.split_at(taken);
        self.release(taken);
        self.stats.resent += lost.len() as u64;
        let mut short = Vec::new();
        for token in lost {
            // A new name: nothing that the dead rail's transport may still say of the frame can be meant for this attempt.
            let Some(flight) = self.flights.all.remove(token) else { continue };
            let again = self.flights.insert(flight);
            if let Some(op) = self.work.ops.get_mut(&flight.header.key)
                && op.left.loans.remove(token)
            {
                op.left.loans.insert(again);
            }
            if flight.payload.is_none() {
                short.push(again);
            } else {
                self.flights.again.entry(peer).or_default().push_back(again);
            }
        }
        // What carries no payload goes over any rail at once, and the peer may be waiting for nothing but that; it must not wait behind a
        // chunk for which no rail has room yet. Frames are in no order between rails.
        let queue = self.flights.again.entry(peer).or_default();
        short.into_iter().rev().for_each(|again| queue.push_front(again));
        Ok(())
    }

    /// The peer answered a probe that came over this link.
    pub(super) fn echoed(&mut self, rail: Rail, peer: Node, number: u64, now: Time) {
        let sent = self.rails.links.get(rail, peer).proof;
        if sent.number == number {
            let trip = now.saturating_sub(sent.since);
            self.planning.agreement.measured.timed(trip);
        }
        let echoed = &mut self.peers[usize::from(peer)].echoed;
        if number > echoed.0 && number <= self.rails.probes {
            *echoed = (number, now);
        }
        let link = self.rails.links.get_mut(rail, peer);
        let proving = link.state() == State::Proving;
        if proving && number == link.proof.number {
            link.bear_with(now.saturating_sub(link.proof.since));
        }
        let proof = &mut link.proof;
        if number == proof.number {
            // The row is never longer than it needs to be; once it is whole, the limit counts from the last answer.
            if proving && proof.answered >= PROBES {
                proof.began = now;
            }
            proof.answered = (proof.answered + 1).min(PROBES);
            proof.number = 0;
        }
    }

    /// The peer asks whether this node is there.
    pub(super) fn probed(&mut self, rail: Rail, peer: Node, number: u64) {
        self.urge(rail, peer, Kind::Echo { number });
    }

    /// The peer's port of a rail is back.
    pub(super) fn back(&mut self, rail: Rail, peer: Node) {
        if self.rails.links.has(rail, peer) && !self.rails.links.get(rail, peer).is_open() {
            self.rails.commands.push_back(Command::Redial { rail, peer });
        }
    }

    /// The peer drains its port of a rail, or uses it again.
    pub(super) fn drained(&mut self, rail: Rail, peer: Node, on: bool, value: u64) -> Result<(), FrameError> {
        if !self.rails.links.has(rail, peer) {
            return Err(FrameError::Field { field: "rail", value: rail.into() });
        }
        let seen = self.peers[usize::from(peer)].drains.entry(rail).or_insert(0);
        if value > *seen {
            *seen = value;
            self.rails.links.get_mut(rail, peer).drained.1 = on;
            self.level();
        }
        Ok(())
    }
}
