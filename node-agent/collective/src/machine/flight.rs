//! Flights: frames that were handed to a rail and that the peer has not acknowledged. A flight holds what it takes to send the
//! frame again over another rail, until it is known to have arrived.

use crate::error::Failure;
use crate::header::Kind;
use crate::machine::Machine;
use crate::machine::flights::Hold;
use crate::memory::{Memory, Region};

impl Machine {
    /// Frames have arrived: what they held is free.
    pub(super) fn release(&mut self, tokens: &[u64]) {
        for token in tokens {
            let Some(flight) = self.flights.all.remove(token) else { continue };
            if matches!(flight.header.kind, Kind::Notify { .. }) {
                self.peers[usize::from(flight.peer)].notifications.acknowledge(flight.header.value);
            }
            match flight.hold {
                Hold::Slot(slot) => self.slots.free(slot),
                Hold::Copy(kept) => {
                    self.keep.free(kept);
                    // An operation may have waited for room in the keep.
                    self.work.woken.extend(self.work.ages.iter().copied());
                }
                Hold::Loan | Hold::Nothing => {}
            }
            let key = flight.header.key;
            if let Some(op) = self.work.ops.get_mut(&key) {
                op.left.on_way -= usize::from(flight.handed);
                op.left.loans.remove(token);
                self.work.woken.push(key);
            }
        }
    }

    /// The rail that carried these frames is gone: nobody reads their payloads now.
    pub(super) fn grounded(&mut self, tokens: &[u64]) {
        for token in tokens {
            let Some(flight) = self.flights.all.get_mut(token) else { continue };
            if std::mem::take(&mut flight.handed)
                && let Some(op) = self.work.ops.get_mut(&flight.header.key)
            {
                op.left.on_way -= 1;
                self.work.woken.push(flight.header.key);
            }
        }
    }

    /// Before an operation ends: what its frames may need again is copied from the ranks' buffers into the keep. `false`
    /// while there is no room there, or the processor cannot read it; then the operation ends when some of them are acknowledged.
    pub(super) fn keep_loans(&mut self, key: crate::header::Key, memory: &mut impl Memory) -> bool {
        let Some(op) = self.work.ops.get_mut(&key) else { return false };
        while let Some(token) = op.left.loans.first().copied() {
            let Some(flight) = self.flights.all.get_mut(&token) else {
                op.left.loans.remove(&token);
                continue;
            };
            let from = flight.payload.unwrap_or(Region::EMPTY);
            if !memory.is_readable(from) {
                return false;
            }
            let Some((kept, to)) = self.keep.take(from.len) else { return false };
            if memory.copy(from, to).is_none() {
                let rank = op.members.first().map_or(0, |m| m.rank);
                self.fail(Failure::BufferGone { rank, seq: key.seq() });
                return false;
            }
            (flight.payload, flight.hold) = (Some(to), Hold::Copy(kept));
            op.left.loans.remove(&token);
        }
        true
    }
}
