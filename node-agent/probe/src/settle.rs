//! What is missing, and what only is not there yet.
//!
//! Neither end of a pair need run when the other one waits: a busy server stops a process for tens and hundreds of milliseconds. So
//! what was asked is given up only after a later question, a mark, is answered. A partner answers marks after all that came before
//! them (`Prober::answer_marks`). On the same rail, where packets do not overtake each other, the answer to a mark says of all that
//! was asked before it that it is lost. From another rail it says that the partner has run since, and if the mark was sent
//! long enough after the question, that is lost, too.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use crate::{
    packet::{Body, Packet},
    prober::{Got, NO_ROUND, Prober},
    turn::{AGAIN, CROSSWISE, Pairing, RailMeasurement, Unknown},
};

/// Marks have these sequence numbers: number * `TARGETS` + the partner's rail that it was sent to.
const MARKS: u32 = 1 << 28;
const TARGETS: u32 = 1 << 12;
/// An answer takes less than this, mostly; then the first mark is sent.
const QUIET: Duration = Duration::from_millis(8);
/// For what overtook each other by a little, on other rails or other queues.
const GRACE: Duration = Duration::from_millis(10);

/// How a question ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Every question was answered.
    All,
    /// What is not answered never will be.
    Missing,
}

impl Prober {
    /// Sends a mark on each rail; crosswise, to the partner's other rails, too. Gives its number.
    pub(crate) fn mark(&mut self, pair: &Pairing<'_>, crosswise: bool) -> u32 {
        let number = self.marked;
        self.marked = (number + 1) % ((u32::MAX - MARKS) / TARGETS);
        for own in 0..self.ports.len() {
            for (target, to) in (0..).zip(&pair.peer.rails) {
                if crosswise || target as usize == own {
                    let sequence = MARKS + number * TARGETS + target;
                    self.send(own, &Packet { round: NO_ROUND, ..pair.ask(sequence, 0) }, 0, *to);
                }
            }
        }
        number
    }

    /// Waits until `take` says that what was asked on these rails is answered, or until it is certain that it will not be: packets take
    /// less than `patience`.
    pub(crate) fn settle(
        &mut self,
        pair: &Pairing<'_>,
        asked: &BTreeSet<usize>,
        patience: Duration,
        measurements: &mut [RailMeasurement],
        mut take: impl FnMut(&Got, &mut [RailMeasurement]) -> bool,
    ) -> Result<Settled, Unknown> {
        let begun = Instant::now();
        let late = begun + patience;
        // Answers to marks before this one say nothing of what has been asked since.
        let base = self.marked;
        let mut open = asked.clone();
        let (mut since, mut proved, mut all) = (None, None, false);
        for round in 0_u32.. {
            let end = Instant::now() + if round == 0 { QUIET } else { AGAIN };
            self.pump(end.min(pair.until), |got| {
                if let Some(answered) = Mark::of(got, pair, measurements).filter(|mark| mark.number >= base) {
                    if answered.target == got.port {
                        open.remove(&got.port);
                    }
                    proved = proved.max(Some(answered.number));
                }
                all |= take(got, measurements);
                let settled = open.is_empty() || since.is_some() && proved >= since;
                all || settled && round > 0
            });
            if all {
                return Ok(Settled::All);
            }
            if open.is_empty() || since.is_some() && proved >= since {
                self.pump(Instant::now() + GRACE, |got| {
                    all |= take(got, measurements);
                    all
                });
                return Ok(if all { Settled::All } else { Settled::Missing });
            }
            let now = Instant::now();
            if now >= pair.until {
                break;
            }
            let number = self.mark(pair, round.is_multiple_of(CROSSWISE));
            if now >= late && since.is_none() {
                since = Some(number);
            }
        }
        Err(Unknown)
    }
}

/// An answer to a mark.
struct Mark {
    number: u32,
    target: usize,
}

impl Mark {
    /// Takes note of what an answer says of the partner's port.
    fn of(got: &Got, pair: &Pairing<'_>, measurements: &mut [RailMeasurement]) -> Option<Self> {
        let Some(Body::Answer { asks, dropped, .. }) = got.of(pair.head) else { return None };
        let mark = got.packet.sequence.checked_sub(MARKS)?;
        let (number, target) = (mark / TARGETS, (mark % TARGETS) as usize);
        if let Some(measurement) = measurements.get_mut(got.port).filter(|_| target == got.port) {
            measurement.answered = true;
            (measurement.asks, measurement.dropped) =
                (measurement.asks.max(asks), measurement.dropped.max(dropped));
        }
        Some(Self { number, target })
    }
}
