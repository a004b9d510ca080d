//! The state of one operation on one node.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::call::Call;
use crate::header::Key;
use crate::machine::scratch::Slot;
use crate::machine::ticket::Ticket;
use crate::memory::Region;
use crate::schedule::{BufferOffset, Contribution, Done, FIRST, Schedule, Side, Source, Term};
use crate::shape::Layout;
use crate::units::{Node, Rank, Time};

/// What a grant says: this many chunks of the flow of a block.
pub fn grant_value(block: u32, chunks: usize) -> u64 {
    u64::from(block) << 32 | chunks as u64 & u64::from(u32::MAX)
}

/// The block and the chunks of a grant.
pub fn granted_chunks(value: u64) -> (u32, usize) {
    ((value >> 32) as u32, (value & u64::from(u32::MAX)) as usize)
}

/// A local rank's part.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    pub rank: Rank,
    pub ticket: Ticket,
    pub input: Region,
    pub output: Region,
}

/// A sent flow's progress.
#[derive(Debug, Clone, Default)]
pub struct SendState {
    /// Chunks handed to rails.
    pub next: usize,
    /// Chunks that the receiver has room for.
    pub granted: usize,
}

/// A received flow's progress.
#[derive(Debug, Clone, Default)]
pub struct ReceiveState {
    /// Which chunks are here, or are coming in right now.
    pub seen: Vec<bool>,
    /// Chunks that have begun.
    pub begun: usize,
    /// Chunks in the order in which they arrived.
    pub arrived: Vec<u32>,
    /// Which chunks have arrived.
    pub here: Vec<bool>,
}

/// How far the reduction of one schedule entry is.
#[derive(Debug, Clone, Default)]
pub struct ReduceState {
    /// Staged contributions: chunk by chunk, in the reduction's order.
    pub staged: Vec<Option<Slot>>,
    /// How many of each chunk are staged.
    pub have: Vec<u16>,
    /// Chunks all of whose contributions are staged, but that may not be reduced yet.
    pub waiting: Vec<u32>,
    /// Reduced chunks, in the order in which they were done. Without outputs: chunks that may go out, to be reduced then.
    pub ready: Vec<u32>,
    /// Which chunks are among these.
    pub done: Vec<bool>,
    /// Chunks whose staging slots are free again.
    pub freed: usize,
    /// Chunks that may be staged for each source.
    pub window: usize,
    /// Chunks that each source may send, as it was last granted.
    pub notified: Vec<usize>,
}

/// Who has made the call, and who knows that this node has.
#[derive(Debug, Clone)]
pub struct Start {
    /// Nodes whose call was seen, by node; and how many are not yet.
    pub heard: Vec<bool>,
    pub unheard: usize,
    /// Nodes that have started it: what is sent to them finds its place.
    pub started: BTreeSet<Node>,
    /// Nodes that do not know yet that this node has started.
    pub report: Vec<Node>,
    /// Those that will learn of it anyhow, and get a message of it only if that takes long.
    pub report_late: Vec<Node>,
    /// Time that it was predicted to take, if it was.
    pub predicted: Option<Time>,
    /// It takes so long that its start is announced before any data.
    pub long: bool,
    /// It is long, and all nodes that it sends to have been heard of.
    pub met: bool,
    /// Low byte of the version of the plan that the operation four later follows.
    pub plan_ahead: u8,
}

/// How much of an operation is left.
#[derive(Debug, Clone, Default)]
pub struct Left {
    /// Chunks that are not received (or, for sends, not handed out) yet.
    pub to_receive: usize,
    pub to_send: usize,
    /// Frames handed to rails whose payload may still be read.
    pub on_way: usize,
    /// Frames not acknowledged whose payloads lie in the ranks' buffers.
    pub loans: BTreeSet<u64>,
    /// Next flow of each step to be served.
    pub rotor: [usize; 2],
    /// Copies done, and bytes done of the next.
    pub copied: (usize, usize),
    /// Staging slots set aside.
    pub reserved: usize,
}

/// One operation that is under way on this node.
#[derive(Debug, Clone)]
pub struct Op {
    pub key: Key,
    pub call: Call,
    pub since: Time,
    pub members: Vec<Member>,
    pub schedule: Schedule,
    pub start: Start,
    pub left: Left,
    pub sends: Vec<SendState>,
    pub receives: Vec<ReceiveState>,
    /// One entry for each reduction of the schedule.
    pub reduces: Vec<ReduceState>,
    /// Whether a local rank's input and output overlap.
    pub in_place: bool,
    /// What is sent depends chunk by chunk on what comes in.
    pub chained: bool,
}

impl Op {
    /// An operation at its start. `peers` are the nodes that must make the same call.
    pub fn new(
        key: Key,
        call: Call,
        since: Time,
        members: Vec<Member>,
        schedule: Schedule,
        window: usize,
        layout: &Layout,
    ) -> Self {
        let collective = matches!(key, Key::Collective { .. });
        let own = layout.node;
        let heard: Vec<bool> = (0..layout.nodes()).map(|n| !collective || n == usize::from(own)).collect();
        // Of a message only the receiver says that it has started: the sender's data says it for the sender.
        let report: Vec<Node> = match key {
            Key::Collective { .. } => layout.peers().collect(),
            _ => schedule.receives.iter().map(|f| f.peer).collect(),
        };
        let (report_late, report) = report.into_iter().partition(|&node| schedule.hears_anyhow(node));
        let sends = schedule.sends.iter();
        let sends: Vec<SendState> = sends
            .map(|f| SendState { next: 0, granted: if f.granted { window.min(f.chunks) } else { f.chunks } })
            .collect();
        let receives: Vec<ReceiveState> = schedule
            .receives
            .iter()
            .map(|f| ReceiveState {
                seen: vec![false; f.chunks],
                begun: 0,
                arrived: Vec::new(),
                here: vec![false; f.chunks],
            })
            .collect();
        let reductions = schedule.reductions.iter();
        let reduces: Vec<ReduceState> = reductions
            .map(|r| ReduceState {
                staged: vec![None; r.chunks * r.sources.len()],
                have: vec![0; r.chunks],
                waiting: Vec::new(),
                ready: Vec::new(),
                done: vec![false; r.chunks],
                freed: 0,
                window: window.min(r.chunks),
                notified: vec![window.min(r.chunks); r.sources.len()],
            })
            .collect();
        let in_place = members.iter().any(|m| m.input.overlaps(m.output));
        Op {
            key,
            call,
            since,
            members,
            start: Start {
                unheard: heard.iter().filter(|h| !**h).count(),
                heard,
                started: BTreeSet::new(),
                report,
                report_late,
                predicted: None,
                long: false,
                met: false,
                plan_ahead: 0,
            },
            left: Left {
                to_receive: schedule.receives.iter().map(|f| f.chunks).sum(),
                to_send: schedule.sends.iter().map(|f| f.chunks).sum(),
                ..Left::default()
            },
            sends,
            receives,
            reduces,
            in_place,
            chained: schedule.is_chained(),
            schedule,
        }
    }

    /// Staging slots that the operation needs.
    pub fn stage_slots(schedule: &Schedule, window: usize) -> usize {
        schedule.reductions.iter().map(|r| window.min(r.chunks) * r.sources.len()).sum()
    }

    /// The region of `len` bytes at a place, shifted.
    pub fn region(&self, place: &BufferOffset, shift: usize, len: usize) -> Region {
        let member = &self.members[place.local];
        let whole = if place.side == Side::Input { member.input } else { member.output };
        whole.part(place.offset + shift, len)
    }

    /// Whether a sent flow has a chunk now, and which.
    pub fn available(&self, flow: usize) -> Option<usize> {
        let (plan, state) = (&self.schedule.sends[flow], &self.sends[flow]);
        if state.next >= plan.chunks || state.next >= state.granted {
            return None;
        }
        match &plan.source {
            Source::Inputs => Some(state.next),
            &Source::Reduced(from) => self.reduces[from].ready.get(state.next).map(|&c| c as usize),
            &Source::Relayed(from) => self.receives[from].arrived.get(state.next).map(|&c| c as usize),
            Source::After(needs) => {
                let range = self.sent_range(flow, state.next);
                let met = needs.iter().all(|need| {
                    let (start, end) = (need.stream.start.max(range.start), need.stream.end.min(range.end));
                    let shifted = |at: usize| at - need.stream.start + need.at;
                    start >= end || self.covered(need.of, shifted(start)..shifted(end))
                });
                met.then_some(state.next)
            }
            Source::Gathered { reduction, parts } => {
                let staged = &self.reduces[*reduction].staged;
                let met = parts.iter().all(|(term, _)| match *term {
                    Term::Staged(source) => staged[source].is_some(),
                    _ => true,
                });
                met.then_some(state.next)
            }
        }
    }

    /// Whether all chunks that a range of a stream (which is not empty) touches are done.
    fn covered(&self, of: Done, range: Range<usize>) -> bool {
        let done = match of {
            Done::Reduced(index) => &self.reduces[index].done,
            Done::Received(index) => &self.receives[index].here,
        };
        let chunk = self.schedule.chunk;
        done[range.start / chunk..=(range.end - 1) / chunk].iter().all(|d| *d)
    }

    /// A chunk of a reduction all of whose contributions are staged and that may be reduced now.
    pub fn take_reducible(&mut self) -> Option<(usize, usize)> {
        for index in 0..self.reduces.len() {
            let waiting = &self.reduces[index].waiting;
            let free = waiting.iter().position(|&chunk| self.may_reduce(index, chunk as usize));
            if let Some(at) = free {
                return Some((index, self.reduces[index].waiting.swap_remove(at) as usize));
            }
        }
        None
    }

    /// Whether the own term of a chunk is there, the place of its result is free, and what is staged for it has been sent on
    /// where it goes on.
    fn may_reduce(&self, index: usize, chunk: usize) -> bool {
        let plan = &self.schedule.reductions[index];
        let range = self.schedule.chunk_range(plan.bytes, chunk);
        let own = plan
            .after
            .is_none_or(|(from, at)| self.covered(Done::Reduced(from), range.start + at..range.end + at));
        let blocks = |flow: usize| {
            let plan = &self.schedule.sends[flow];
            let needs = plan.overwritten && self.in_place || matches!(plan.source, Source::Gathered { .. });
            needs && self.sends[flow].next <= chunk
        };
        let free = !plan.overwrites || !(0..self.sends.len()).any(blocks);
        own && free
    }

    /// A chunk of a received flow is here.
    pub fn receive(&mut self, flow: usize, chunk: usize) {
        self.receives[flow].arrived.push(chunk as u32);
        self.receives[flow].here[chunk] = true;
    }

    /// Nodes have made this call.
    pub fn on_of(&mut self, nodes: impl Iterator<Item = Node>) {
        for node in nodes {
            if !std::mem::replace(&mut self.start.heard[usize::from(node)], true) {
                self.start.unheard -= 1;
            }
        }
    }

    /// The first flow whose contribution to the same chunk as this one's is missing: for the bug of reducing by arrival.
    #[cfg(test)]
    pub fn next_to_stage(&self, flow: usize, chunk: usize) -> usize {
        let flows = || self.schedule.receives.iter();
        let Some(Contribution { reduction, .. }) = self.schedule.receives[flow].contribution else {
            return flow;
        };
        let state = &self.reduces[reduction];
        let empty = |f: &crate::schedule::Receive| {
            f.contribution.is_some_and(|c| {
                c.reduction == reduction && state.staged[chunk * state.notified.len() + c.source].is_none()
            })
        };
        flows().position(empty).unwrap_or(flow)
    }

    /// A contribution is staged. `true` if it is the last of its chunk.
    pub fn stage(&mut self, flow: usize, chunk: usize, slot: Slot) -> bool {
        let Some(Contribution { reduction, source }) = self.schedule.receives[flow].contribution else {
            return false;
        };
        let state = &mut self.reduces[reduction];
        let sources = state.notified.len();
        state.staged[chunk * sources + source] = Some(slot);
        state.have[chunk] += 1;
        let last = usize::from(state.have[chunk]) == sources;
        if last {
            state.waiting.push(chunk as u32);
        }
        last
    }

    /// A source that may be granted more room, and how much it may send in all: when a quarter of the window is free, or
    /// the last chunk has room. The reduction, the source and the value.
    pub fn due_grant(&self) -> Option<(usize, usize, usize)> {
        let mut reductions = self.schedule.reductions.iter().zip(&self.reduces).enumerate();
        reductions.find_map(|(index, (plan, state))| {
            let chunks = plan.chunks;
            let room = (state.window + state.freed).min(chunks);
            let worth = (state.window / 4).max(1);
            let due = |&notified: &usize| room >= notified + worth || room == chunks && notified < chunks;
            state.notified.iter().position(due).map(|source| (index, source, room))
        })
    }

    /// Bytes that are still to be handed to rails for a peer.
    pub fn backlog(&self, peer: Node) -> u64 {
        let flows = self.schedule.sends.iter().zip(&self.sends).filter(|(f, _)| f.peer == peer);
        flows.map(|(f, s)| f.bytes.saturating_sub(s.next * self.schedule.chunk) as u64).sum()
    }

    /// The range of its stream that a chunk of a sent flow covers.
    pub fn sent_range(&self, flow: usize, chunk: usize) -> Range<usize> {
        self.schedule.chunk_range(self.schedule.sends[flow].bytes, chunk)
    }

    /// The range of its stream that a chunk of a received flow covers.
    pub fn received_range(&self, flow: usize, chunk: usize) -> Range<usize> {
        self.schedule.chunk_range(self.schedule.receives[flow].bytes, chunk)
    }

    /// Whether everything is done.
    pub fn is_done(&self) -> bool {
        let mut reductions = self.schedule.reductions.iter().zip(&self.reduces);
        let reduced = reductions.all(|(plan, state)| state.ready.len() == plan.chunks);
        self.start.unheard == 0
            && self.start.report.is_empty()
            && self.left.to_receive == 0
            && self.left.to_send == 0
            && self.left.on_way == 0
            && reduced
            && self.left.copied.0 == self.schedule.copies.len()
    }

    /// Whether anything is still to come from or to go to a node. What is to come by others from one that they answer for
    /// does not count: it may have gone, with everybody's results.
    pub fn needs(&self, node: Node) -> bool {
        let receives = self.schedule.receives.iter().zip(&self.receives);
        let sends = self.schedule.sends.iter().zip(&self.sends);
        !self.start.heard[usize::from(node)] && !self.schedule.is_answered_for(node)
            || receives.into_iter().any(|(f, s)| f.peer == node && s.arrived.len() < f.chunks)
            || sends.into_iter().any(|(f, s)| f.peer == node && s.next < f.chunks)
    }

    /// Nodes that it waits for: those that have not started it; else those whose data for the first step is missing, for
    /// others may wait for that too; else those whose data is missing at all, or that do not take what is sent.
    pub fn waits_for(&self) -> Vec<Node> {
        let nodes = || 0..self.start.heard.len() as Node;
        let lacks = |node: Node, last: u8| {
            let mut flows = self.schedule.receives.iter().zip(&self.receives);
            flows.any(|(f, s)| f.peer == node && f.step <= last && s.arrived.len() < f.chunks)
        };
        let stuck = |node: Node| {
            let mut flows = self.schedule.sends.iter().zip(&self.sends);
            flows.any(|(f, s)| f.peer == node && s.next < f.chunks)
        };
        let missing: [Vec<Node>; 4] = [
            nodes().filter(|&n| !self.start.heard[usize::from(n)]).collect(),
            nodes().filter(|&n| lacks(n, FIRST)).collect(),
            nodes().filter(|&n| lacks(n, u8::MAX)).collect(),
            nodes().filter(|&n| stuck(n)).collect(),
        ];
        missing.into_iter().find(|m| !m.is_empty()).unwrap_or_default()
    }
}
