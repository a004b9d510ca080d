//! Work within the node: reductions, copies, and the end of operations.

use crate::error::Failure;
use crate::header::Key;
use crate::kernel;
use crate::machine::Machine;
use crate::machine::op::Op;
use crate::machine::scratch::{Slot, Slots};
use crate::memory::{Memory, Region};
use crate::schedule::{Term, pieces};
use crate::units::Time;

impl Machine {
    /// Does a piece (about one chunk) of local copying or reducing. `true` if there may be more to do.
    pub fn work(&mut self, memory: &mut impl Memory, now: Time) -> bool {
        if self.replay(memory, now).is_err() || self.failure.is_some() {
            return false;
        }
        for at in 0..self.work.ages.len() {
            let key = self.work.ages[at];
            let Some(op) = self.work.ops.get_mut(&key) else { continue };
            let reductions = op.schedule.reductions.iter().zip(&op.reduces).enumerate();
            let mut alone = reductions
                .filter(|(_, (plan, state))| plan.sources.is_empty() && state.ready.len() < plan.chunks);
            if let Some((index, chunk)) = alone.next().map(|(index, (_, state))| (index, state.ready.len())) {
                self.reduce_chunk(key, index, chunk, memory);
            } else if let Some(copy) = op.schedule.copies.get(op.left.copied.0).copied() {
                let done = op.left.copied.1;
                let len = (copy.bytes - done).min(self.job.config.chunk_bytes);
                let (from, to) = (op.region(&copy.from, done, len), op.region(&copy.to, done, len));
                op.left.copied = if done + len == copy.bytes {
                    (op.left.copied.0 + 1, 0)
                } else {
                    (op.left.copied.0, done + len)
                };
                let rank = op.members[copy.to.local].rank;
                if memory.copy(from, to).is_none() {
                    self.fail(Failure::BufferGone { rank, seq: key.seq() });
                }
            } else {
                if self.finish(key, memory, now) {
                    return true;
                }
                continue;
            }
            self.finish(key, memory, now);
            return self.failure.is_none();
        }
        false
    }

    /// Reduces all chunks that can be, as far as they do not wait to be sent.
    pub(super) fn reduce_ready(&mut self, key: Key, memory: &mut impl Memory) {
        while let Some((index, chunk)) = self.work.ops.get_mut(&key).and_then(Op::take_reducible) {
            self.reduce_chunk(key, index, chunk, memory);
        }
    }

    /// Reduces a chunk whose contributions are all here, and lets it go on. What goes out without lying in an output is
    /// reduced on its way: [`Machine::reduce_into`].
    fn reduce_chunk(&mut self, key: Key, index: usize, chunk: usize, memory: &mut impl Memory) {
        let Some(op) = self.work.ops.get_mut(&key) else { return };
        op.reduces[index].ready.push(chunk as u32);
        op.reduces[index].done[chunk] = true;
        if !op.schedule.reductions[index].outputs.is_empty() {
            self.reduce_into(key, index, chunk, None, memory);
        }
    }

    /// Combines the terms of a chunk, writes the result to the outputs (or to `target`), and frees the staging slots.
    pub(super) fn reduce_into(
        &mut self,
        key: Key,
        index: usize,
        chunk: usize,
        target: Option<Region>,
        memory: &mut impl Memory,
    ) {
        let Some(op) = self.work.ops.get_mut(&key) else { return };
        let plan = &op.schedule.reductions[index];
        let (sources, state) = (plan.sources.len(), &mut op.reduces[index]);
        let staged = state.staged[chunk * sources..(chunk + 1) * sources].iter_mut();
        let staged: Vec<Slot> = staged.filter_map(Option::take).collect();
        state.freed += 1;
        let done = combine(op, index, chunk, &staged, target, &self.slots, memory);
        for slot in staged {
            self.slots.free(slot);
        }
        if done.is_none() {
            let rank = op.members[0].rank;
            self.fail(Failure::BufferGone { rank, seq: key.seq() });
        }
    }

    /// Ends an operation that is done. `true` if it was.
    pub(super) fn finish(&mut self, key: Key, memory: &mut impl Memory, now: Time) -> bool {
        if !self.work.ops.get(&key).is_some_and(Op::is_done) || !self.keep_loans(key, memory) {
            return false;
        }
        let Some(op) = self.work.ops.remove(&key) else { return false };
        self.work.ages.retain(|k| *k != key);
        self.slots.unreserve(op.left.reserved);
        self.stats.operations += 1;
        if matches!(key, Key::Collective { .. }) {
            self.work.last_end = now;
        }
        for member in op.members {
            self.complete(member, Ok(()));
        }
        self.start_next();
        true
    }
}

/// Combines the terms of a chunk in the order of the turns of its ranges.
fn combine(
    op: &Op,
    index: usize,
    chunk: usize,
    staged: &[Slot],
    target: Option<Region>,
    slots: &Slots,
    memory: &mut impl Memory,
) -> Option<()> {
    let plan = &op.schedule.reductions[index];
    let range = op.schedule.chunk_range(plan.bytes, chunk);
    let first = plan.turns.partition_point(|t| t.stream.end <= range.start);
    for turn in plan.turns[first..].iter().take_while(|t| t.stream.start < range.end) {
        let part = turn.stream.start.max(range.start)..turn.stream.end.min(range.end);
        let mut outputs = pieces(&plan.outputs, part.clone());
        for (input, bytes) in pieces(&plan.inputs, part) {
            let (shift, at) = (bytes.start - input.stream.start, bytes.start - range.start);
            let own: Vec<Region> = input.places.iter().map(|p| op.region(p, shift, bytes.len())).collect();
            let came = |term: &Term| match *term {
                Term::Staged(source) => [slots.region(staged[source], range.len()).part(at, bytes.len())],
                Term::Within { source, part } => {
                    let before = part * plan.bytes + range.start + at;
                    [slots.region(staged[source], before + bytes.len()).part(before, bytes.len())]
                }
                Term::Own => [Region::EMPTY],
            };
            let came: Vec<[Region; 1]> = plan.cycle.iter().map(came).collect();
            let terms = plan.cycle.iter().zip(&came).cycle().skip(turn.first).take(plan.cycle.len());
            let terms = terms.map(|(term, came)| match term {
                Term::Own => &own[..],
                _ => &came[..],
            });
            let to: Vec<Region> = match target {
                Some(region) => vec![region.part(at, bytes.len())],
                None => {
                    let (output, _) = outputs.next()?;
                    output.places.iter().map(|p| op.region(p, shift, bytes.len())).collect()
                }
            };
            let terms: Vec<&[Region]> = terms.collect();
            kernel::reduce(memory, op.call.dtype, op.call.reduce, &terms, &to)?;
        }
    }
    Some(())
}
