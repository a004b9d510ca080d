//! When the job's first collective ran on this server: the last span of the trace that begins with its submit.
//!
//! Barriers do not count: they move no data, and programs make one before they begin.

use std::time::{Duration, SystemTime};

use node_agent_collective::Operation;

use crate::control::FirstCollective;

/// Watches for the first collective until it has completed; costs nothing afterwards.
#[derive(Debug, Default)]
pub(crate) struct First {
    begun: Option<(&'static str, u64)>,
    done: Option<FirstCollective>,
}

impl First {
    /// A local rank has posted `operation`.
    pub(crate) fn posted(&mut self, operation: Operation, now: impl FnOnce() -> u64) {
        if self.begun.is_none() && counts(operation) {
            self.begun = Some((operation.kind().name(), now()));
        }
    }

    /// `operation` has completed well for a local rank. Ranks make the same collectives in the same order, so the first
    /// completion is of what was posted first.
    pub(crate) fn completed(&mut self, operation: Operation, now: impl FnOnce() -> u64) {
        if self.done.is_none()
            && counts(operation)
            && let Some((name, started_unix_ns)) = self.begun
        {
            // A clock that was set back must not make a span that ends before it begins.
            let ended_unix_ns = now().max(started_unix_ns);
            self.done = Some(FirstCollective { operation: name.into(), started_unix_ns, ended_unix_ns });
        }
    }

    /// What was seen, once it is complete.
    pub(crate) fn done(&self) -> Option<FirstCollective> {
        self.done.clone()
    }
}

fn counts(operation: Operation) -> bool {
    operation.is_collective() && operation != Operation::Barrier
}

/// Wall time: the only clock that spans of several servers share.
pub(crate) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_collective_that_moves_data_is_told_once() {
        let mut first = First::default();
        let mut at = |time: u64, posted: bool, operation: Operation| {
            if posted {
                first.posted(operation, || time)
            } else {
                first.completed(operation, || time)
            }
            first.done()
        };
        at(1, true, Operation::Barrier);
        at(2, false, Operation::Barrier);
        at(3, true, Operation::Send { to: 1, tag: 0 });
        at(4, false, Operation::Send { to: 1, tag: 0 });
        at(5, true, Operation::AllReduce);
        assert_eq!(at(6, true, Operation::AllReduce), None);
        let seen = at(9, false, Operation::AllReduce).unwrap();
        assert_eq!((seen.operation.as_str(), seen.started_unix_ns, seen.ended_unix_ns), ("all-reduce", 5, 9));
        at(10, true, Operation::AllGather);
        assert_eq!(at(11, false, Operation::AllGather), Some(seen));
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_negative_span() {
        let mut first = First::default();
        first.posted(Operation::AllReduce, || 7);
        first.completed(Operation::AllReduce, || 3);
        assert_eq!(first.done().unwrap().ended_unix_ns, 7);
    }
}
