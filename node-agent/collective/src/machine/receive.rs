//! Frames that come in.

use crate::call::Call;
use crate::error::{Failure, FrameError};
use crate::header::{Header, Key, Kind};
use crate::machine::incoming::{Incoming, Target};
use crate::machine::op::granted_chunks;
use crate::machine::report::Report;
use crate::machine::ticket::Landing;
use crate::machine::{Machine, Notification};
use crate::memory::{Memory, Region};
use crate::schedule::{Contribution, pieces};
use crate::units::{MAX_ACTIVE, MAX_OUTSTANDING, Node, Rail, Time};

/// How an operation stands here.
enum Standing {
    Active,
    Ahead,
    Over,
}

impl Machine {
    /// The header of a frame came in on a rail. Ask [`Machine::landing`] where its payload goes; call
    /// [`Machine::received`] when all of it is there, before the next frame of this rail and peer begins.
    ///
    /// # Errors
    /// The peer violated the protocol: take the rail down with this cause.
    pub fn begin(&mut self, rail: Rail, peer: Node, header: &Header, now: Time) -> Result<(), FrameError> {
        if !self.rails.links.has(rail, peer) || peer == self.job.layout.node {
            return Err(FrameError::Field {
                field: "rail or peer",
                value: u64::from(rail) << 16 | u64::from(peer),
            });
        }
        if header.epoch != self.job.config.epoch {
            return Err(FrameError::Field { field: "epoch", value: header.epoch.into() });
        }
        // A frame that begins before the one before it has ended: that one will not.
        self.abandon(rail, peer);
        let link = self.rails.links.get_mut(rail, peer);
        let fresh = link.is_open() && link.generation() == header.generation;
        #[cfg(test)]
        let fresh = fresh || link.is_open() && self.sabotage == Some(crate::model::Sabotage::ForgetLife);
        if !fresh || header.kind.is_counted() && !link.expects(header.number)? {
            self.stats.late += 1;
            self.rails.incoming.insert((rail, peer), Incoming { header: *header, target: Target::Again });
            return Ok(());
        }
        let mut released = Vec::new();
        let notified = link.heard(header.sent_us, now);
        link.acknowledge(header.acked, notified, &mut released)?;
        self.release(&released);
        if header.shape != self.job.shape {
            self.fail(Failure::Shape { node: peer, here: self.job.layout.node });
        }
        let target = match (header.kind, header.call) {
            _ if self.failure.is_some() => Target::Nothing,
            (Kind::Data { .. }, Some(call)) => self.target(peer, header, call)?,
            _ => Target::Nothing,
        };
        self.rails.incoming.insert((rail, peer), Incoming { header: *header, target });
        Ok(())
    }

    /// Where the bytes from `at` on of the payload that is coming in on this link go. Ask before every write: it turns
    /// to [`Landing::Discard`] when the operation has failed and its buffers are not the machine's any more.
    #[must_use]
    pub fn landing(&self, rail: Rail, peer: Node, at: usize) -> Landing {
        let Some(Incoming { header, target }) = self.rails.incoming.get(&(rail, peer)) else {
            return Landing::Discard;
        };
        let left = (header.length as usize).saturating_sub(at);
        match *target {
            _ if left == 0 => Landing::Discard,
            Target::Nothing | Target::Again => Landing::Discard,
            Target::Early(slot) => Landing::Into(self.slots.early_region(slot, at + left).part(at, left)),
            Target::Staged { slot, .. } => Landing::Into(self.slots.region(slot, at + left).part(at, left)),
            Target::Placed { flow, chunk } => {
                let Some(op) = self.work.ops.get(&header.key) else { return Landing::Discard };
                let range = op.received_range(flow, chunk);
                let rest = range.start + at..range.end;
                let piece = pieces(&op.schedule.receives[flow].segments, rest).next();
                piece.map_or(Landing::Discard, |(segment, bytes)| {
                    let shift = bytes.start - segment.stream.start;
                    Landing::Into(op.region(&segment.places[0], shift, bytes.len()))
                })
            }
        }
    }

    /// The frame that began on this link is complete.
    ///
    /// # Errors
    /// The peer violated the protocol: take the rail down with this cause.
    pub fn received(
        &mut self,
        rail: Rail,
        peer: Node,
        memory: &mut impl Memory,
        now: Time,
    ) -> Result<(), FrameError> {
        let Some(incoming) = self.rails.incoming.get(&(rail, peer)) else { return Ok(()) };
        let Incoming { header, target } = *incoming;
        if let Target::Again = target {
            self.rails.incoming.remove(&(rail, peer));
            return Ok(());
        }
        // A link that is given up for this forgets the chunk, so it must still be known to come in.
        self.verify(&header, target, memory)?;
        self.rails.incoming.remove(&(rail, peer));
        self.learn_plan(peer, &header);
        if header.kind.is_counted() {
            let link = self.rails.links.get_mut(rail, peer);
            link.received(header.frame_bytes(), now);
            if header.key != Key::Link {
                link.last_data = now;
            }
        }
        match header.kind {
            Kind::Ack => {}
            Kind::Fence { rail: about, generation, frames, asks } => {
                self.fenced(rail, peer, (about, generation, frames, asks), now)?;
            }
            Kind::Probe { number } => self.probed(rail, peer, number),
            Kind::Echo { number } => self.echoed(rail, peer, number, now),
            Kind::Back { rail: about } => self.back(about, peer),
            Kind::Drain { rail: about, on } => self.drained(about, peer, on, header.value)?,
            _ if self.failure.is_some() => return Ok(()),
            Kind::Report { capacity, alpha_ns, beta_ps } => {
                self.reported(peer, Report { capacity, alpha_ns, beta_ps }, header.value);
            }
            Kind::PlanPart { .. } => self.plan_part(peer, header.kind)?,
            Kind::PlanTaken { version } => self.plan_taken(peer, version),
            Kind::Notify { from, to, words } => {
                self.notified(peer, Notification { from, to, words }, header.value)?;
            }
            Kind::Bye => {
                self.peers[usize::from(peer)].left = true;
                self.start_next();
            }
            Kind::Abort(cause) => self.fail(Failure::Remote { node: peer, cause }),
            Kind::Grant => self.granted(peer, &header)?,
            Kind::Ready => self.announced(peer, &header)?,
            Kind::Data { .. } => match target {
                Target::Early(slot) => {
                    self.stats.early += 1;
                    if self.work.ops.contains_key(&header.key) {
                        // The operation started while the chunk was on its way into the early slot.
                        self.work.replays.push((peer, header, slot));
                    } else {
                        self.work.early.entry(header.key).or_default().frames.push((peer, header, slot));
                    }
                }
                Target::Nothing | Target::Again => self.stats.late += 1,
                target => self.arrived(&header, target, memory, now),
            },
        }
        self.replay(memory, now)
    }

    /// Compares a payload with its checksum, where the job asks for that.
    fn verify(&self, header: &Header, target: Target, memory: &impl Memory) -> Result<(), FrameError> {
        if !self.job.config.checksum || header.length == 0 {
            return Ok(());
        }
        let length = header.length as usize;
        let mut found = 0;
        let mut add = |region: Region| {
            found = memory.checksum(region, found).unwrap_or(found);
        };
        match target {
            Target::Nothing | Target::Again => return Ok(()),
            Target::Early(slot) => add(self.slots.early_region(slot, length)),
            Target::Staged { slot, .. } => add(self.slots.region(slot, length)),
            Target::Placed { flow, chunk } => {
                let Some(op) = self.work.ops.get(&header.key) else { return Ok(()) };
                for (segment, bytes) in
                    pieces(&op.schedule.receives[flow].segments, op.received_range(flow, chunk))
                {
                    add(op.region(&segment.places[0], bytes.start - segment.stream.start, bytes.len()));
                }
            }
        }
        let (sent, length) = (header.checksum, header.length);
        if found == sent { Ok(()) } else { Err(FrameError::Checksum { found, sent, length }) }
    }

    fn standing(&self, key: Key) -> Standing {
        let over = match key {
            Key::Link => true,
            Key::Collective { seq } => seq < self.work.next_start,
            Key::Pair { from, to, tag, seq } => {
                let sends = self.job.layout.node_of.get(from as usize) == Some(&self.job.layout.node);
                self.calls.pairs.get(&(from, to, tag, sends)).is_some_and(|&next| seq < next)
            }
        };
        match (self.work.ops.contains_key(&key), over) {
            (true, _) => Standing::Active,
            (false, true) => Standing::Over,
            (false, false) => Standing::Ahead,
        }
    }

    /// Refuses operations that the peer cannot have started, or takes no part in.
    fn plausible(&self, peer: Node, key: Key, data: bool) -> Result<(), FrameError> {
        match key {
            Key::Collective { seq } if seq >= self.work.next_start + MAX_ACTIVE => {
                Err(FrameError::Ahead { seq, next: self.work.next_start })
            }
            Key::Pair { from, to, .. } => {
                let (theirs, ours) = if data { (from, to) } else { (to, from) };
                let sits = |rank: u32, node: Node| self.job.layout.node_of.get(rank as usize) == Some(&node);
                if !sits(theirs, peer) {
                    return Err(FrameError::Rank(theirs));
                }
                if !sits(ours, self.job.layout.node) {
                    return Err(FrameError::Rank(ours));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Finds the place of a data frame.
    fn target(&mut self, peer: Node, header: &Header, call: Call) -> Result<Target, FrameError> {
        self.plausible(peer, header.key, true)?;
        match self.standing(header.key) {
            Standing::Over => Ok(Target::Nothing),
            Standing::Ahead => {
                if header.length as usize > self.job.config.tuning.eager_bytes {
                    return Err(FrameError::Overrun);
                }
                let slot = self.slots.take_early(peer, self.job.layout.node).ok_or(FrameError::Overrun)?;
                Ok(Target::Early(slot))
            }
            Standing::Active => {
                self.on_report(peer, header.key, call);
                if self.failure.is_some() {
                    return Ok(Target::Nothing);
                }
                self.chunk_target(peer, header)
            }
        }
    }

    fn chunk_target(&mut self, peer: Node, header: &Header) -> Result<Target, FrameError> {
        let Kind::Data { step, block, offset } = header.kind else { return Ok(Target::Nothing) };
        let (seq, length) = (header.key.seq(), header.length);
        let nowhere = FrameError::NoSuchChunk { seq, step, block, offset, length };
        let Some(op) = self.work.ops.get_mut(&header.key) else { return Ok(Target::Nothing) };
        let mut flows = op.schedule.receives.iter();
        let Some(flow) = flows.position(|f| (f.step, f.block, f.peer) == (step, block, peer)) else {
            return Err(nowhere);
        };
        let plan = &op.schedule.receives[flow];
        let chunk = usize::try_from(offset).unwrap_or(usize::MAX) / op.schedule.chunk;
        if chunk >= plan.chunks || chunk as u64 * op.schedule.chunk as u64 != offset {
            return Err(nowhere);
        }
        if op.received_range(flow, chunk).len() != length as usize {
            return Err(nowhere);
        }
        let state = &mut op.receives[flow];
        if state.seen[chunk] {
            return Err(FrameError::Twice { seq, step, block, offset });
        }
        let Some(Contribution { reduction, source }) = plan.contribution else {
            state.seen[chunk] = true;
            state.begun += 1;
            return Ok(Target::Placed { flow, chunk });
        };
        if state.begun >= op.reduces[reduction].notified[source] {
            return Err(FrameError::Overrun);
        }
        let slot = self.slots.take_stage().ok_or(FrameError::Overrun)?;
        state.seen[chunk] = true;
        state.begun += 1;
        Ok(Target::Staged { flow, chunk, slot })
    }

    /// A chunk is complete in its place.
    fn arrived(&mut self, header: &Header, target: Target, memory: &mut impl Memory, now: Time) {
        let Some(op) = self.work.ops.get_mut(&header.key) else { return };
        op.left.to_receive -= 1;
        match target {
            Target::Staged { flow, chunk, slot } => {
                op.receive(flow, chunk);
                let answered = std::mem::take(&mut op.schedule.receives[flow].answers_for);
                op.on_of(answered.iter().copied());
                self.planning.agreement.learn_by(&answered, header);
                op.schedule.receives[flow].answers_for = answered;
                #[cfg(test)]
                let flow = if self.sabotage == Some(crate::model::Sabotage::ReduceByArrival) {
                    op.next_to_stage(flow, chunk)
                } else {
                    flow
                };
                if op.stage(flow, chunk, slot) {
                    self.reduce_ready(header.key, memory);
                }
            }
            Target::Placed { flow, chunk } => {
                op.receive(flow, chunk);
                let range = op.received_range(flow, chunk);
                let mut gone = None;
                for (segment, bytes) in pieces(&op.schedule.receives[flow].segments, range) {
                    let at = |place| op.region(place, bytes.start - segment.stream.start, bytes.len());
                    let Some((first, others)) = segment.places.split_first() else { continue };
                    for other in others {
                        if memory.copy(at(first), at(other)).is_none() {
                            gone = Some(op.members[other.local].rank);
                        }
                    }
                }
                if let Some(rank) = gone {
                    let seq = header.key.seq();
                    return self.fail(Failure::BufferGone { rank, seq });
                }
            }
            Target::Nothing | Target::Again | Target::Early(_) => {}
        }
        self.finish(header.key, memory, now);
    }

    /// A peer has started an operation.
    fn announced(&mut self, peer: Node, header: &Header) -> Result<(), FrameError> {
        let Some(call) = header.call else { return Ok(()) };
        self.plausible(peer, header.key, false)?;
        match self.standing(header.key) {
            Standing::Active => self.on_report(peer, header.key, call),
            Standing::Over => self.settle(peer, header.key),
            Standing::Ahead => {
                let ranks = self.job.layout.ranks(peer).len();
                let pairs = self
                    .work
                    .early
                    .iter()
                    .filter(|(k, e)| matches!(k, Key::Pair { .. }) && e.calls.contains_key(&peer));
                if matches!(header.key, Key::Pair { .. }) && pairs.count() >= MAX_OUTSTANDING * ranks {
                    return Err(FrameError::Overrun);
                }
                self.work.early.entry(header.key).or_default().calls.insert(peer, call);
            }
        }
        Ok(())
    }

    /// A peer's call for an active operation is known: it has started it.
    fn on_report(&mut self, peer: Node, key: Key, call: Call) {
        self.settle(peer, key);
        let here = self.job.layout.node;
        let Some(op) = self.work.ops.get_mut(&key) else { return };
        if op.call != call {
            let (seq, ours) = (key.seq(), op.call);
            return self.fail(Failure::Mismatch { seq, node: peer, theirs: call, here, ours });
        }
        op.on_of(std::iter::once(peer));
        op.start.started.insert(peer);
        self.work.woken.push(key);
    }

    /// Chunks sent ahead to a peer have found their operation started.
    fn settle(&mut self, peer: Node, key: Key) {
        let peer = &mut self.peers[usize::from(peer)];
        if let Some(chunks) = peer.ahead.remove(&key) {
            peer.ahead_total -= chunks;
        }
    }

    fn granted(&mut self, peer: Node, header: &Header) -> Result<(), FrameError> {
        let Some(op) = self.work.ops.get_mut(&header.key) else { return Ok(()) };
        let (block, granted) = granted_chunks(header.value);
        let mut flows = op.schedule.sends.iter().zip(&mut op.sends);
        let Some((plan, state)) = flows.find(|(f, _)| f.peer == peer && f.granted && f.block == block) else {
            return Err(FrameError::Field { field: "grant", value: header.value });
        };
        let granted = Some(granted).filter(|&g| g <= plan.chunks);
        let granted = granted.ok_or(FrameError::Field { field: "grant", value: header.value })?;
        // Grants of different rails may overtake each other; the greatest is the latest.
        state.granted = state.granted.max(granted);
        Ok(())
    }

    /// An operation has started here: what came before counts now.
    pub(super) fn take_early(&mut self, key: Key) {
        let Some(early) = self.work.early.remove(&key) else { return };
        self.work.replays.extend(early.frames);
        for (peer, call) in early.calls {
            self.on_report(peer, key, call);
        }
    }

    /// Moves chunks that came early to where they belong.
    pub(super) fn replay(&mut self, memory: &mut impl Memory, now: Time) -> Result<(), FrameError> {
        while let Some(key) = self.work.woken.pop() {
            self.finish(key, memory, now);
        }
        for (peer, header, slot) in std::mem::take(&mut self.work.replays) {
            if self.failure.is_some() {
                return Ok(());
            }
            let Some(call) = header.call else { continue };
            let target = self.target(peer, &header, call);
            let from = self.slots.early_region(slot, header.length as usize);
            let moved = match target {
                Ok(Target::Staged { slot, .. }) => memory.copy(from, self.slots.region(slot, from.len)),
                Ok(Target::Placed { flow, chunk }) => self.scatter(header.key, flow, chunk, from, memory),
                _ => Some(()),
            };
            self.slots.free_early(slot, peer, self.job.layout.node);
            if moved.is_none() {
                let rank = self.work.ops.get(&header.key).map_or(0, |op| op.members[0].rank);
                self.fail(Failure::BufferGone { rank, seq: header.key.seq() });
            }
            match target {
                Ok(Target::Nothing) => {}
                Ok(target) => self.arrived(&header, target, memory, now),
                Err(error) => {
                    let rail = self.rails.links.up(peer).next().unwrap_or(0);
                    self.fail(Failure::Protocol { node: peer, rail, error });
                }
            }
        }
        Ok(())
    }

    fn scatter(
        &self,
        key: Key,
        flow: usize,
        chunk: usize,
        from: Region,
        memory: &mut impl Memory,
    ) -> Option<()> {
        let op = self.work.ops.get(&key)?;
        let range = op.received_range(flow, chunk);
        for (segment, bytes) in pieces(&op.schedule.receives[flow].segments, range.clone()) {
            let to = op.region(&segment.places[0], bytes.start - segment.stream.start, bytes.len());
            memory.copy(from.part(bytes.start - range.start, bytes.len()), to)?;
        }
        Some(())
    }
}
