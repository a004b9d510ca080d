//! Calls of local ranks, from the post to the start of the operation.

use std::collections::BTreeSet;

use crate::call::{Call, Operation};
use crate::error::{CallError, Failure};
use crate::header::Key;
use crate::machine::Machine;
use crate::machine::op::{Member, Op};
use crate::machine::posted::{Gathering, Half};
use crate::machine::ticket::Ticket;
use crate::memory::Region;
use crate::schedule::{BufferOffset, Copy, Schedule, Side};
use crate::units::{MAX_ACTIVE, MAX_OUTSTANDING, MAX_PAIRS, Node, Rank, Time};

impl Machine {
    /// A local rank makes a call. Collectives of one rank count up in the order of their posts; the n-th of every
    /// rank belong together. Input and output must stay valid until the completion; they must be disjoint or in place:
    /// equal; for all-gather the input may be the own part of the output; for reduce-scatter the output may be the own
    /// part of the input; all-to-all has no in-place form.
    ///
    /// # Errors
    /// A [`CallError`]; then nothing was started and no sequence number was used.
    pub fn post(
        &mut self,
        rank: Rank,
        call: Call,
        input: Region,
        output: Region,
        now: Time,
    ) -> Result<Ticket, CallError> {
        let call = call.canonical();
        let local = self.job.layout.local_index(rank).ok_or(CallError::NotLocal(rank))?;
        self.check(rank, &call, input, output)?;
        if self.calls.ranks[local].outstanding >= MAX_OUTSTANDING {
            return Err(CallError::TooMany { rank, max: MAX_OUTSTANDING });
        }
        if let Some(failure) = &self.failure {
            return Err(CallError::Failed(failure.clone()));
        }
        let ticket = Ticket(self.calls.next_ticket);
        let member = Member { rank, ticket, input, output };
        match call.operation {
            Operation::Send { to, tag } => self.post_message(rank, to, tag, true, call, member, now)?,
            Operation::Recv { from, tag } => {
                let call = Call { operation: Operation::Send { to: rank, tag }, ..call };
                self.post_message(from, rank, tag, false, call, member, now)?;
            }
            _ => self.post_collective(local, call, member, now),
        }
        self.calls.next_ticket += 1;
        Ok(ticket)
    }

    fn check(&self, rank: Rank, call: &Call, input: Region, output: Region) -> Result<(), CallError> {
        let world = self.job.layout.world();
        let named = match call.operation {
            Operation::Broadcast { root } => Some(root),
            Operation::Send { to: other, .. } | Operation::Recv { from: other, .. } => Some(other),
            _ => None,
        };
        if let Some(named) = named.filter(|&n| n as usize >= world) {
            return Err(CallError::NoSuchRank { call: *call, rank: named, world });
        }
        if named == Some(rank) && !call.operation.is_collective() {
            return Err(CallError::ToItself(rank));
        }
        let needs = [("input", input, call.input_bytes(world)), ("output", output, call.output_bytes(world))];
        for (which, region, needed) in needs {
            let needed = needed.filter(|&n| n <= isize::MAX as usize).ok_or(CallError::TooLarge(*call))?;
            if region.len != needed || region.offset.checked_add(region.len).is_none() {
                return Err(CallError::Length { call: *call, which, given: region.len, needed });
            }
        }
        let part = call.bytes().unwrap_or(0);
        let in_place = match call.operation {
            Operation::AllGather => input == output.part(rank as usize * part, part),
            Operation::ReduceScatter => output == input.part(rank as usize * part, part),
            Operation::AllToAll => false,
            _ => input == output,
        };
        if input.overlaps(output) && !in_place {
            return Err(CallError::Overlap(*call));
        }
        Ok(())
    }

    fn post_collective(&mut self, local: usize, call: Call, member: Member, now: Time) {
        let seq = self.calls.ranks[local].next;
        self.calls.ranks[local].next += 1;
        self.calls.ranks[local].outstanding += 1;
        let members = self.calls.ranks.len();
        let gathering = self.calls.gathering.entry(seq).or_insert_with(|| Gathering {
            call,
            since: now,
            members: vec![None; members],
        });
        gathering.members[local] = Some(member);
        if gathering.call != call {
            let (node, ours) = (self.job.layout.node, gathering.call);
            return self.fail(Failure::Mismatch { seq, node, theirs: call, here: node, ours });
        }
        self.start_next();
    }

    /// Starts the next collectives, in order, as far as all local ranks have posted them and there is room.
    pub(super) fn start_next(&mut self) {
        loop {
            let seq = self.work.next_start;
            let oldest =
                self.work.ops.keys().find(|k| matches!(k, Key::Collective { .. })).map_or(seq, |k| k.seq());
            let Some(gathering) = self.calls.gathering.get(&seq) else { return };
            if gathering.members.iter().any(Option::is_none) || seq >= oldest + MAX_ACTIVE {
                return;
            }
            let call = gathering.call;
            let Some((plan, choice, long)) = self.plan_of(seq, &call) else { return };
            let schedule = Schedule::by(choice.algorithm, &call, &self.job.layout, &self.job.config, &plan);
            let reserved = Op::stage_slots(&schedule, self.job.window);
            if !self.slots.reserve(reserved) {
                return;
            }
            let Some(gathering) = self.calls.gathering.remove(&seq) else { return };
            self.work.next_start += 1;
            let predicted = choice.predicted().map(Time::from_nanos);
            self.planning.choices.insert((call.operation.kind(), size_class(&call)), choice);
            let members = gathering.members.into_iter().flatten().collect();
            let key = Key::Collective { seq };
            let mut op = Op::new(
                key,
                gathering.call,
                gathering.since,
                members,
                schedule,
                self.job.window,
                &self.job.layout,
            );
            (op.left.reserved, op.start.long, op.start.predicted) = (reserved, long, predicted);
            op.start.plan_ahead = self.settle_plan(seq);
            self.start(op);
            if let Some(gone) = self.job.layout.peers().find(|&p| self.peers[usize::from(p)].left) {
                self.fail(Failure::PeerLeft(gone));
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a message is named by four of them")]
    fn post_message(
        &mut self,
        from: Rank,
        to: Rank,
        tag: u32,
        sends: bool,
        call: Call,
        member: Member,
        now: Time,
    ) -> Result<(), CallError> {
        let pair = (from, to, tag, sends);
        if self.calls.pairs.len() >= MAX_PAIRS && !self.calls.pairs.contains_key(&pair) {
            return Err(CallError::TooManyTags);
        }
        let next = self.calls.pairs.entry(pair).or_insert(0);
        let key = Key::Pair { from, to, tag, seq: *next };
        *next += 1;
        if let Some(local) = self.job.layout.local_index(member.rank) {
            self.calls.ranks[local].outstanding += 1;
        }
        let other = if sends { to } else { from };
        let peer = self.job.layout.node_of[other as usize];
        let bytes = call.bytes().unwrap_or(0);
        if peer != self.job.layout.node {
            let schedule = Schedule::message(bytes, 0, sends, peer, &self.job.config);
            let op = Op::new(key, call, now, vec![member], schedule, self.job.window, &self.job.layout);
            self.start(op);
            return Ok(());
        }
        let Some(half) = self.calls.halves.remove(&key) else {
            self.calls.halves.insert(key, Half { call, since: now, member });
            return Ok(());
        };
        let (source, target) = if sends { (member, half.member) } else { (half.member, member) };
        let side = |local, side| BufferOffset { local, side, offset: 0 };
        let copy = Copy { from: side(0, Side::Input), to: side(1, Side::Output), bytes };
        let schedule = Schedule { copies: vec![copy], ..Schedule::default() };
        let op =
            Op::new(key, call, half.since, vec![source, target], schedule, self.job.window, &self.job.layout);
        let here = self.job.layout.node;
        let differs = half.call != call;
        self.start(op);
        if differs {
            let seq = key.seq();
            self.fail(Failure::Mismatch { seq, node: here, theirs: call, here, ours: half.call });
        }
        Ok(())
    }

    fn start(&mut self, op: Op) {
        let key = op.key;
        let peers: BTreeSet<Node> = op.schedule.sends.iter().map(|flow| flow.peer).collect();
        if !peers.is_empty() {
            self.rails.links.fan_out(peers.len(), self.work.ops.is_empty());
        }
        self.work.ages.push(key);
        self.work.ops.insert(key, op);
        self.take_early(key);
    }
}

/// Bits that the size of a call's part needs.
fn size_class(call: &Call) -> u32 {
    usize::BITS - call.bytes().unwrap_or(0).leading_zeros()
}
