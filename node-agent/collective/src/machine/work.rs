//! Work within the node: reductions, copies, and the end of operations.

use crate::error::Failure;
use crate::header::Key;
use crate::kernel;
use crate::machine::Machine;
use crate::memory::{Memory, Region};
use crate::schedule::pieces;
use crate::shape::Time;

impl Machine {
    /// Does a piece (about one chunk) of local copying or reducing. `true` if there may be more to do.
    pub fn work(&mut self, memory: &mut impl Memory, now: Time) -> bool {
        if self.replay(memory, now).is_err() || self.failure.is_some() {
            return false;
        }
        for at in 0..self.ages.len() {
            let key = self.ages[at];
            let Some(op) = self.ops.get_mut(&key) else { continue };
            let alone = op.schedule.reduction.as_ref().filter(|r| r.order.is_empty());
            if let Some(chunk) =
                alone.filter(|r| op.reduce.ready.len() < r.chunks).map(|_| op.reduce.ready.len())
            {
                self.reduce_chunk(key, chunk, memory);
            } else if let Some(copy) = op.schedule.copies.get(op.copied.0).copied() {
                let done = op.copied.1;
                let len = (copy.bytes - done).min(self.config.chunk_bytes);
                let (from, to) = (op.region(&copy.from, done, len), op.region(&copy.to, done, len));
                op.copied =
                    if done + len == copy.bytes { (op.copied.0 + 1, 0) } else { (op.copied.0, done + len) };
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

    /// Reduces a chunk whose contributions are all here, and lets it go on.
    pub(super) fn reduce_chunk(&mut self, key: Key, chunk: usize, memory: &mut impl Memory) {
        let Some(op) = self.ops.get_mut(&key) else { return };
        let Some(plan) = &op.schedule.reduction else { return };
        let range = op.schedule.chunk_range(plan.bytes, chunk);
        let sources = plan.order.len();
        let staged: Vec<_> = op.reduce.staged[chunk * sources..(chunk + 1) * sources]
            .iter_mut()
            .filter_map(Option::take)
            .collect();
        let mut done = Some(());
        let inputs = pieces(&plan.inputs, range.clone());
        for ((input, bytes), (output, _)) in inputs.zip(pieces(&plan.outputs, range.clone())) {
            let shift = bytes.start - input.stream.start;
            let at = bytes.start - range.start;
            let remote: Vec<[Region; 1]> =
                staged.iter().map(|&s| [self.slots.region(s, range.len()).part(at, bytes.len())]).collect();
            let own: Vec<Region> = input.places.iter().map(|p| op.region(p, shift, bytes.len())).collect();
            let outputs: Vec<Region> =
                output.places.iter().map(|p| op.region(p, shift, bytes.len())).collect();
            let groups: Vec<&[Region]> =
                remote.iter().map(|r| &r[..]).chain(std::iter::once(&own[..])).collect();
            done = done.and(kernel::reduce(memory, op.call.dtype, op.call.reduce, &groups, &outputs));
        }
        for slot in staged {
            self.slots.free(slot);
        }
        op.reduce.ready.push(chunk as u32);
        if done.is_none() {
            let rank = op.members[0].rank;
            self.fail(Failure::BufferGone { rank, seq: key.seq() });
        }
    }

    /// Ends an operation that is done. `true` if it was.
    pub(super) fn finish(&mut self, key: Key, memory: &mut impl Memory, now: Time) -> bool {
        if !self.ops.get(&key).is_some_and(super::op::Op::is_done) || !self.keep_loans(key, memory) {
            return false;
        }
        let Some(op) = self.ops.remove(&key) else { return false };
        self.ages.retain(|k| *k != key);
        self.slots.unreserve(op.reserved);
        self.stats.operations += 1;
        if matches!(key, Key::Collective { .. }) {
            self.last_end = now;
        }
        for member in op.members {
            self.complete(member, Ok(()));
        }
        self.start_next();
        true
    }
}
