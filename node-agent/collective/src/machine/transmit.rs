//! Frames that go out.

use crate::error::Failure;
use crate::header::{HEADER_BYTES, Header, Key, Kind};
use crate::kernel;
use crate::link::way;
use crate::machine::flights::{Flight, Hold};
use crate::machine::keep::Keep;
use crate::machine::op::grant_value;
use crate::machine::scratch::Slots;
use crate::machine::{Machine, Transmit};
use crate::memory::{Memory, Region};
use crate::schedule::{Contribution, FIRST, SECOND, Source, Term, pieces};
use crate::units::{Node, Rail, Time};

/// Copies of no more bytes than this go into the keep rather than into a sending slot.
const SMALL_COPY: usize = 4096;
/// How long an operation waits before its node reports it to those who will learn of it anyhow.
pub(super) const LATE: Time = Time::from_millis(20);
/// The token of frames that have no count: flights have greater ones.
const UNCOUNTED: u64 = 0;

impl Machine {
    /// The next frame to send, if any rail that suits it has room. Call until `None`.
    pub fn poll_transmit(&mut self, memory: &mut impl Memory, now: Time) -> Option<Transmit> {
        let _ = self.replay(memory, now);
        if let Some(((rail, peer, _), header)) = self.rails.urgent.pop_first() {
            return Some(self.uncounted(rail, peer, header, now));
        }
        if let Some(frame) = self.next_control(now).or_else(|| self.next_again(now)) {
            return Some(frame);
        }
        if self.failure.is_none() {
            if let Some(frame) = self.first_announcement(now) {
                return Some(frame);
            }
            for at in 0..self.work.ages.len() {
                let key = self.work.ages[at];
                if let Some(frame) = self.next_chunk(key, memory, now) {
                    return Some(frame);
                }
            }
            if let Some(frame) = self.next_announcement(now) {
                return Some(frame);
            }
        }
        self.next_ack(now)
    }

    /// Whether the payload of a frame must not be read any more: a frame that was not begun is dropped, a rail
    /// with a frame that was begun is taken down with [`crate::RailCause::Withdrawn`].
    #[must_use]
    pub fn withdrawn(&self, token: u64) -> bool {
        self.flights.all.get(&token).is_none_or(|flight| !flight.handed)
    }

    /// All bytes of a frame were handed to the rail: its payload is not read any more, unless the rail dies before the
    /// peer has it.
    pub fn sent(&mut self, rail: Rail, peer: Node, token: u64, _now: Time) {
        self.taken(rail, peer, token);
        self.release_buffer(token);
    }

    /// All bytes of a frame were handed to the rail, which still reads its payload where it lies: no operation ends before
    /// [`Machine::release_buffer`] says that it does not any more, or the link is lost.
    pub fn taken(&mut self, rail: Rail, peer: Node, token: u64) {
        if token != UNCOUNTED {
            self.rails.links.get_mut(rail, peer).took_over();
        }
    }

    /// The payload of a frame that was taken is not read any more.
    pub fn release_buffer(&mut self, token: u64) {
        self.grounded(&[token]);
    }

    /// A frame of a few kilobytes at most was handed to a rail alone, in this time.
    pub fn handed(&mut self, took: Time) {
        self.planning.agreement.measured.handed(took);
    }

    /// Completes a header that has no count.
    fn uncounted(&mut self, rail: Rail, peer: Node, mut header: Header, now: Time) -> Transmit {
        let link = self.rails.links.get_mut(rail, peer);
        (header.acked, header.generation) = (link.report(), link.generation());
        header.sent_us = way::stamp(now);
        self.stats.control += 1;
        Transmit { rail, peer, header, payload: None, token: UNCOUNTED }
    }

    /// Hands a flight to a rail: completes its header and books it there.
    fn hand(&mut self, rail: Rail, token: u64, now: Time) -> Option<Transmit> {
        let flight = self.flights.all.get_mut(&token)?;
        let (peer, payload) = (flight.peer, flight.payload);
        flight.handed = true;
        if let Some(op) = self.work.ops.get_mut(&flight.header.key) {
            op.left.on_way += 1;
        }
        let mut header = flight.header;
        header.number = self.rails.links.hand(rail, peer, header.frame_bytes(), token, now);
        let link = self.rails.links.get_mut(rail, peer);
        (header.acked, header.generation) = (link.report(), link.generation());
        header.sent_us = way::stamp(now);
        if header.length == 0 {
            self.stats.control += 1;
        }
        Some(Transmit { rail, peer, header, payload, token })
    }

    /// Hands a new frame without a payload.
    fn frame(&mut self, rail: Rail, peer: Node, header: Header, now: Time) -> Option<Transmit> {
        let flight = Flight { peer, header, payload: None, hold: Hold::Nothing, handed: false };
        let token = self.flights.insert(flight);
        self.hand(rail, token, now)
    }

    /// The next frame that was lost with its rail.
    fn next_again(&mut self, now: Time) -> Option<Transmit> {
        for at in 0..self.peers.len() {
            let peer = at as Node;
            while let Some(token) = self.flights.again.get(&peer).and_then(|q| q.front()).copied() {
                let flight = self.flights.all.get(&token);
                let bytes = flight.map(|f| f.header.frame_bytes());
                let rail = match bytes {
                    Some(bytes) if bytes > HEADER_BYTES as u64 => {
                        self.rails.links.choose(peer, bytes, 0, now)
                    }
                    Some(_) => self.rails.links.quickest(peer),
                    None => None,
                };
                if bytes.is_some() && rail.is_none() {
                    break;
                }
                if let Some(queue) = self.flights.again.get_mut(&peer) {
                    queue.pop_front();
                }
                if let Some(frame) = rail.and_then(|rail| self.hand(rail, token, now)) {
                    return Some(frame);
                }
            }
        }
        None
    }

    fn next_control(&mut self, now: Time) -> Option<Transmit> {
        for at in 0..self.peers.len() {
            let peer = at as Node;
            if self.peers[at].control.is_empty() {
                continue;
            }
            if let Some(rail) = self.rails.links.quickest(peer)
                && let Some(header) = self.peers[at].control.pop_front()
            {
                return self.frame(rail, peer, header, now);
            }
        }
        None
    }

    /// A long operation is announced before its data: others wait for the word, and behind the data it would be late.
    fn first_announcement(&mut self, now: Time) -> Option<Transmit> {
        let untold = |key: &&Key| {
            self.work.ops.get(key).is_some_and(|op| op.start.long && !op.start.report.is_empty())
        };
        let key = *self.work.ages.iter().find(untold)?;
        self.announce(key, now)
    }

    /// "I have started", to one of those who are to know.
    fn announce(&mut self, key: Key, now: Time) -> Option<Transmit> {
        let op = self.work.ops.get_mut(&key)?;
        let reachable = |&peer: &Node| self.rails.links.quickest(peer).is_some();
        let at = op.start.report.iter().position(reachable)?;
        let peer = op.start.report.remove(at);
        let (call, plan) = (Some(op.call), op.start.plan_ahead);
        let header = Header { plan, ..self.control(Kind::Ready, key, call) };
        let rail = self.rails.links.quickest(peer)?;
        self.work.woken.push(key);
        self.frame(rail, peer, header, now)
    }

    /// "I have started" to those to whom no data says it, and grants that are due.
    fn next_announcement(&mut self, now: Time) -> Option<Transmit> {
        for at in 0..self.work.ages.len() {
            let key = self.work.ages[at];
            let Some(op) = self.work.ops.get_mut(&key) else { continue };
            if !op.start.report_late.is_empty() && now >= op.since + LATE {
                op.start.report.append(&mut op.start.report_late);
            }
            if let Some(frame) = self.announce(key, now) {
                return Some(frame);
            }
            let Some(op) = self.work.ops.get_mut(&key) else { continue };
            if let Some((index, source, chunks)) = op.due_grant() {
                let plan = &op.schedule.reductions[index];
                let (peer, value) = (plan.sources[source], grant_value(plan.block, chunks));
                if let Some(rail) = self.rails.links.quickest(peer) {
                    op.reduces[index].notified[source] = chunks;
                    let header = Header { value, ..self.control(Kind::Grant, key, None) };
                    return self.frame(rail, peer, header, now);
                }
            }
        }
        None
    }

    fn next_ack(&mut self, now: Time) -> Option<Transmit> {
        let (bytes, delay) = (self.job.config.ack_bytes(), self.job.config.tuning.ack_delay);
        let due = |(rail, peer, link): (Rail, Node, &crate::link::Link)| {
            (link.is_open() && link.ack_due(bytes, delay).is_some_and(|at| at <= now)).then_some((rail, peer))
        };
        let (rail, peer) = self.rails.links.iter().find_map(due)?;
        let header = self.control(Kind::Ack, Key::Link, None);
        Some(self.uncounted(rail, peer, header, now))
    }

    /// The next chunk of an operation: the own inputs first, because others wait for them to reduce, then what was reduced
    /// or relayed; within each, the peers in turn. The other way round a node that is ahead gathers while others wait
    /// for its contributions, and the rails idle at the end.
    fn next_chunk(&mut self, key: Key, memory: &mut impl Memory, now: Time) -> Option<Transmit> {
        let op = self.work.ops.get_mut(&key)?;
        let flows = op.schedule.sends.len();
        if op.start.long && !op.start.met {
            // All at once: else whoever is heard of first is sent everything that the rails take.
            op.start.met = op.schedule.sends.iter().all(|flow| op.start.started.contains(&flow.peer));
            if !op.start.met {
                return None;
            }
        }
        for step in [FIRST, SECOND] {
            for turn in 0..flows {
                let op = self.work.ops.get(&key)?;
                let flow = (op.left.rotor[usize::from(step)] + turn) % flows;
                let plan = &op.schedule.sends[flow];
                if plan.step != step {
                    continue;
                }
                let Some(chunk) = op.available(flow) else { continue };
                let (peer, bytes) = (plan.peer, op.sent_range(flow, chunk).len());
                let ahead = !op.start.started.contains(&peer);
                if ahead && !self.may_send_ahead(peer, bytes) {
                    continue;
                }
                let frame_bytes = bytes as u64 + HEADER_BYTES as u64;
                let backlog = op.backlog(peer).saturating_sub(bytes as u64);
                let Some(rail) = self.rails.links.choose(peer, frame_bytes, backlog, now) else { continue };
                let Some(frame) = self.chunk_frame(key, flow, chunk, rail, memory, now) else {
                    if self.failure.is_some() {
                        return None;
                    }
                    continue;
                };
                if ahead {
                    let peer = &mut self.peers[usize::from(peer)];
                    *peer.ahead.entry(key).or_insert(0) += 1;
                    peer.ahead_total += 1;
                }
                return Some(frame);
            }
        }
        None
    }

    fn may_send_ahead(&self, peer: Node, bytes: usize) -> bool {
        let tuning = &self.job.config.tuning;
        let room = self.peers[usize::from(peer)].ahead_total < tuning.eager_chunks.max(1);
        room && bytes <= tuning.eager_bytes.min(self.job.config.chunk_bytes)
    }

    /// Makes the frame of a chunk; `None` if there is no sending slot, or if the operation has failed.
    fn chunk_frame(
        &mut self,
        key: Key,
        flow: usize,
        chunk: usize,
        rail: Rail,
        memory: &mut impl Memory,
        now: Time,
    ) -> Option<Transmit> {
        let (payload, hold) = self.payload(key, flow, chunk, memory)?;
        let op = self.work.ops.get_mut(&key)?;
        let plan = &op.schedule.sends[flow];
        let (peer, offset) = (plan.peer, (chunk * op.schedule.chunk) as u64);
        let kind = Kind::Data { step: plan.step, block: plan.block, offset };
        let (step, flows) = (usize::from(plan.step), op.schedule.sends.len());
        op.left.rotor[step] = (flow + 1) % flows;
        op.sends[flow].next += 1;
        op.left.to_send -= 1;
        op.start.report.retain(|&p| p != peer);
        op.start.report_late.retain(|&p| p != peer);
        let call = Some(op.call);
        // What answers for node 0 says what that said, which is known by now.
        let plan = match plan.source {
            Source::Gathered { .. } => self.planning.agreement.ahead(key.seq()),
            _ => op.start.plan_ahead,
        };
        let checksum = match self.job.config.checksum {
            true => memory.checksum(payload, 0).unwrap_or(0),
            false => 0,
        };
        let header = Header { length: payload.len as u32, checksum, plan, ..self.control(kind, key, call) };
        let payload = Some(payload).filter(|p| p.len > 0);
        let token = self.flights.insert(Flight { peer, header, payload, hold, handed: false });
        if let (Hold::Loan, Some(op)) = (hold, self.work.ops.get_mut(&key)) {
            op.left.loans.insert(token);
        }
        self.stats.chunks += 1;
        self.reduce_ready(key, memory);
        self.hand(rail, token, now)
    }

    /// Where a chunk to be sent lies: in a rank's buffer if it lies there in one piece, else it is put together in a
    /// sending slot.
    fn payload(
        &mut self,
        key: Key,
        flow: usize,
        chunk: usize,
        memory: &mut impl Memory,
    ) -> Option<(Region, Hold)> {
        let op = self.work.ops.get(&key)?;
        let plan = &op.schedule.sends[flow];
        let range = op.sent_range(flow, chunk);
        let partial = match plan.source {
            Source::Reduced(index) if op.schedule.reductions[index].outputs.is_empty() => Some(index),
            _ => None,
        };
        if let Some(index) = partial {
            let slot = self.slots.take_send()?;
            let whole = self.slots.region(slot, range.len());
            self.reduce_into(key, index, chunk, Some(whole), memory);
            return self.failure.is_none().then_some((whole, Hold::Slot(slot)));
        }
        if matches!(plan.source, Source::Gathered { .. }) {
            return self.gathered(key, flow, memory);
        }
        let first = pieces(&plan.segments, range.clone()).next();
        let combines = plan.source == Source::Inputs;
        let lasts = !plan.overwritten || !op.in_place;
        match first {
            None => return Some((Region::EMPTY, Hold::Nothing)),
            Some((segment, bytes)) if lasts && bytes == range && (segment.places.len() == 1 || !combines) => {
                let region = op.region(&segment.places[0], bytes.start - segment.stream.start, bytes.len());
                return Some((region, Hold::Loan));
            }
            Some(_) => {}
        }
        let (hold, whole) = copy_room(&mut self.keep, &mut self.slots, range.len())?;
        let mut done = Some(());
        for (segment, bytes) in pieces(&plan.segments, range.clone()) {
            let shift = bytes.start - segment.stream.start;
            let places = if combines { &segment.places[..] } else { &segment.places[..1] };
            let from: Vec<Region> = places.iter().map(|p| op.region(p, shift, bytes.len())).collect();
            let to = whole.part(bytes.start - range.start, bytes.len());
            done = done.and(match from[..] {
                [one] => memory.copy(one, to),
                _ => kernel::reduce(memory, op.call.dtype, op.call.reduce, &[&from], &[to]),
            });
        }
        let rank = op.members[0].rank;
        if done.is_none() {
            self.fail(Failure::BufferGone { rank, seq: key.seq() });
            return None;
        }
        Some((whole, hold))
    }

    /// Puts the terms of a gathered flow together: they are needed here as well, and its frame may have to go again.
    fn gathered(&mut self, key: Key, flow: usize, memory: &mut impl Memory) -> Option<(Region, Hold)> {
        let op = self.work.ops.get(&key)?;
        let plan = &op.schedule.sends[flow];
        let Source::Gathered { reduction, parts } = &plan.source else { return None };
        let (hold, whole) = copy_room(&mut self.keep, &mut self.slots, plan.bytes)?;
        let (index, reduction) = (*reduction, &op.schedule.reductions[*reduction]);
        let mut done = Some(());
        for &(term, at) in parts {
            done = done.and(match term {
                Term::Own => {
                    let to = whole.part(at, reduction.bytes);
                    let places = reduction.inputs.iter().flat_map(|segment| &segment.places);
                    let from: Vec<Region> = places.map(|p| op.region(p, 0, to.len)).collect();
                    match from[..] {
                        [one] => memory.copy(one, to),
                        _ => kernel::reduce(memory, op.call.dtype, op.call.reduce, &[&from], &[to]),
                    }
                }
                Term::Staged(source) | Term::Within { source, .. } => {
                    let contribution = Some(Contribution { reduction: index, source });
                    let mut receives = op.schedule.receives.iter();
                    let bytes = receives.find(|f| f.contribution == contribution).map_or(0, |f| f.bytes);
                    op.reduces[index].staged[source]
                        .and_then(|slot| memory.copy(self.slots.region(slot, bytes), whole.part(at, bytes)))
                }
            });
        }
        let rank = op.members[0].rank;
        if done.is_none() {
            self.fail(Failure::BufferGone { rank, seq: key.seq() });
            return None;
        }
        Some((whole, hold))
    }
}

/// Room for a copy that stays until its arrival is known. Small copies for many peers would soon take all sending slots.
fn copy_room(keep: &mut Keep, slots: &mut Slots, bytes: usize) -> Option<(Hold, Region)> {
    let kept = if bytes <= SMALL_COPY { keep.take(bytes) } else { None };
    if let Some((kept, region)) = kept {
        return Some((Hold::Copy(kept), region));
    }
    let slot = slots.take_send()?;
    Some((Hold::Slot(slot), slots.region(slot, bytes)))
}
