//! The state of one operation on one node.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::call::Call;
use crate::header::Key;
use crate::machine::Ticket;
use crate::machine::scratch::Slot;
use crate::memory::Region;
use crate::schedule::{FIRST, Place, Schedule, Side, Source};
use crate::shape::{Layout, Node, Rank, Time};

/// A local rank's part.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    pub rank: Rank,
    pub ticket: Ticket,
    pub input: Region,
    pub output: Region,
}

/// A sent flow's progress.
#[derive(Debug, Default)]
pub struct SendState {
    /// Chunks handed to rails.
    pub next: usize,
    /// Chunks that the receiver has room for.
    pub granted: usize,
}

/// A received flow's progress.
#[derive(Debug, Default)]
pub struct ReceiveState {
    /// Which chunks are here, or are coming in right now.
    pub seen: Vec<bool>,
    /// Chunks that have begun.
    pub begun: usize,
    /// Chunks in the order in which they arrived.
    pub arrived: Vec<u32>,
}

/// The own reduction's progress.
#[derive(Debug, Default)]
pub struct ReduceState {
    /// Staged contributions: chunk by chunk, in the reduction's order.
    pub staged: Vec<Option<Slot>>,
    /// How many of each chunk are staged.
    pub have: Vec<u16>,
    /// Reduced chunks, in the order in which they were done.
    pub ready: Vec<u32>,
    /// Chunks that may be staged for each source.
    pub window: usize,
    /// What each source was told that it may send.
    pub told: Vec<usize>,
}

/// One operation.
#[derive(Debug)]
pub struct Op {
    pub key: Key,
    pub call: Call,
    pub since: Time,
    pub members: Vec<Member>,
    pub schedule: Schedule,
    /// Nodes whose call was seen, by node; and how many are not yet.
    pub heard: Vec<bool>,
    pub unheard: usize,
    /// Nodes that have started it: what is sent to them finds its place.
    pub started: BTreeSet<Node>,
    /// Nodes that do not know yet that this node has started.
    pub tell: Vec<Node>,
    pub sends: Vec<SendState>,
    pub receives: Vec<ReceiveState>,
    pub reduce: ReduceState,
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
        let tell = match key {
            Key::Collective { .. } => layout.peers().collect(),
            _ => schedule.receives.iter().map(|f| f.peer).collect(),
        };
        let sends = schedule.sends.iter();
        let sends: Vec<SendState> = sends
            .map(|f| SendState { next: 0, granted: if f.granted { window.min(f.chunks) } else { f.chunks } })
            .collect();
        let receives: Vec<ReceiveState> = schedule
            .receives
            .iter()
            .map(|f| ReceiveState { seen: vec![false; f.chunks], begun: 0, arrived: Vec::new() })
            .collect();
        let reduce = schedule.reduction.as_ref().map_or_else(ReduceState::default, |r| ReduceState {
            staged: vec![None; r.chunks * r.order.len()],
            have: vec![0; r.chunks],
            ready: Vec::new(),
            window: window.min(r.chunks),
            told: vec![window.min(r.chunks); r.order.len()],
        });
        Op {
            key,
            call,
            since,
            members,
            unheard: heard.iter().filter(|h| !**h).count(),
            heard,
            started: BTreeSet::new(),
            tell,
            to_receive: schedule.receives.iter().map(|f| f.chunks).sum(),
            to_send: schedule.sends.iter().map(|f| f.chunks).sum(),
            sends,
            receives,
            reduce,
            on_way: 0,
            loans: BTreeSet::new(),
            rotor: [0; 2],
            copied: (0, 0),
            reserved: 0,
            schedule,
        }
    }

    /// Staging slots that the operation needs.
    pub fn stage_slots(schedule: &Schedule, window: usize) -> usize {
        schedule.reduction.as_ref().map_or(0, |r| window.min(r.chunks) * r.order.len())
    }

    /// The region of `len` bytes at a place, shifted.
    pub fn region(&self, place: &Place, shift: usize, len: usize) -> Region {
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
        match plan.source {
            Source::Inputs => Some(state.next),
            Source::Reduced => self.reduce.ready.get(state.next).map(|&c| c as usize),
            Source::Relayed(from) => self.receives[from].arrived.get(state.next).map(|&c| c as usize),
        }
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
        let reduced = self.schedule.reduction.as_ref().is_none_or(|r| self.reduce.ready.len() == r.chunks);
        self.unheard == 0
            && self.tell.is_empty()
            && self.to_receive == 0
            && self.to_send == 0
            && self.on_way == 0
            && reduced
            && self.copied.0 == self.schedule.copies.len()
    }

    /// Whether anything is still to come from or to go to a node.
    pub fn needs(&self, node: Node) -> bool {
        let receives = self.schedule.receives.iter().zip(&self.receives);
        let sends = self.schedule.sends.iter().zip(&self.sends);
        !self.heard[usize::from(node)]
            || receives.into_iter().any(|(f, s)| f.peer == node && s.arrived.len() < f.chunks)
            || sends.into_iter().any(|(f, s)| f.peer == node && s.next < f.chunks)
    }

    /// Nodes that it waits for: those that have not started it; else those whose data for the first step is missing, for
    /// others may wait for that too; else those whose data is missing at all, or that do not take what is sent.
    pub fn waits_for(&self) -> Vec<Node> {
        let nodes = || 0..self.heard.len() as Node;
        let lacks = |node: Node, last: u8| {
            let mut flows = self.schedule.receives.iter().zip(&self.receives);
            flows.any(|(f, s)| f.peer == node && f.step <= last && s.arrived.len() < f.chunks)
        };
        let stuck = |node: Node| {
            let mut flows = self.schedule.sends.iter().zip(&self.sends);
            flows.any(|(f, s)| f.peer == node && s.next < f.chunks)
        };
        let missing: [Vec<Node>; 4] = [
            nodes().filter(|&n| !self.heard[usize::from(n)]).collect(),
            nodes().filter(|&n| lacks(n, FIRST)).collect(),
            nodes().filter(|&n| lacks(n, u8::MAX)).collect(),
            nodes().filter(|&n| stuck(n)).collect(),
        ];
        missing.into_iter().find(|m| !m.is_empty()).unwrap_or_default()
    }
}
