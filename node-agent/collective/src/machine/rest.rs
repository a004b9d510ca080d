//! How long frames may gather before this node looks at them.
//!
//! In a large transfer a packet comes every few hundred microseconds, and to wake up for it costs more than to handle it. As
//! adapters do with their interrupts, a node then leaves frames to gather for a while, which must cost no operation anything: every
//! rail has been handed more than it carries in a pause, an operation that ends soon is not kept waiting, for its last chunks depend
//! on each other, and neither is one in which parts are handed on along many nodes.

use crate::machine::Machine;
use crate::machine::op::Op;
use crate::machine::pace::Pace;
use crate::units::{Rail, Time};

/// An operation that is predicted to take less is brief: to wait for its frames asleep would take as long as it does.
const SMALL: Time = Time::from_micros(500);
/// Nodes of a ring that is not hurt: pauses add up from node to node, and eight nodes take up to a third longer with them.
const SHORT_CHAIN: usize = 4;
/// How long a pause that was worked out from the rails' rates is good for.
const LASTS: Time = Time::from_millis(10);
/// A rail has enough to do if it has been handed what it carries in this many pauses.
const ENOUGH: u64 = 3;

impl Machine {
    /// How long the frames that come in from now on may wait to be read, without delaying anything that somebody waits for; zero
    /// if they may not. The caller looks at them earlier if it must do something else.
    #[must_use]
    pub fn rest(&self) -> Time {
        let pace = &self.rails.pace;
        if pace.pause.is_zero() || self.work.ops.is_empty() || self.failure.is_some() {
            return Time::ZERO;
        }
        let left = |op: &Op| op.left.to_receive.min(op.left.to_send).saturating_mul(op.schedule.chunk);
        let suits = |op: &Op| left(op) > pace.far && (!op.chained || self.job.config.nodes <= SHORT_CHAIN);
        let large = self.work.ops.values().all(suits);
        let handed = |rail: Rail| {
            self.job.layout.peers().map(|peer| self.rails.links.get(rail, peer).outstanding()).sum::<u64>()
        };
        let busy = (0..).zip(&pace.carries).all(|(rail, carries)| handed(rail) >= ENOUGH * carries);
        if large && busy { pace.pause } else { Time::ZERO }
    }

    /// Whether operations are under way, and all of them were predicted to be done soon.
    #[must_use]
    pub fn is_small(&self) -> bool {
        let small = |op: &Op| op.start.predicted.is_some_and(|time| time < SMALL);
        !self.work.ops.is_empty() && self.work.ops.values().all(small)
    }

    /// Works the pause out again from time to time.
    pub(super) fn tend_pace(&mut self, now: Time) {
        if now < self.rails.pace.since + LASTS || self.work.ops.is_empty() {
            return;
        }
        let links = &self.rails.links;
        let rate =
            |rail: Rail| self.job.layout.peers().filter_map(|p| links.get(rail, p).known_rate(now)).sum();
        let rates: Vec<f64> = (0..self.job.config.rails as Rail).map(rate).collect();
        self.rails.pace = Pace::of(&rates, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::pace::MOST;

    #[test]
    fn pauses_suit_the_busiest_rail() {
        let pause = |rates: &[f64]| Pace::of(rates, Time::ZERO).pause;
        assert_eq!(pause(&[]), Time::ZERO, "nothing measured");
        assert_eq!(pause(&[0.0, 0.0]), Time::ZERO);
        assert_eq!(pause(&[1e6; 4]), MOST);
        assert_eq!(pause(&[32.768e6, 1e6]), Time::from_millis(1));
        assert_eq!(pause(&[32.768e6 * 9.0]), Time::from_secs_f64(1e-3 / 9.0));
        assert_eq!(pause(&[12.5e9; 8]), Time::ZERO, "rails of 100 Gbit/s carry as much in 5 us");
    }
}
