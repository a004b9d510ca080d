//! How long and how much.

use std::time::Duration;

/// What is faster than this is not told apart: the probe itself, its sockets and a busy server make no more than this for sure.
pub const CEILING_MBPS: u32 = 2_000;

/// Limits of one node's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For kernels to learn each other's hardware addresses before anything is counted: one whose question is lost asks again after
    /// a second (`retrans_time_ms` of its neighbours).
    pub warm: Duration,
    /// Partners wait for each other this long in a turn, and a turn in which they have met ends this long after that at the latest.
    pub turn: Duration,
    /// A rail that has not answered this long after it was asked, on which or beside which a question that was asked later is
    /// answered, does not answer.
    pub answer: Duration,
    /// The same of a burst, which takes its time on a slow rail.
    pub burst: Duration,
    /// Small probes of one rail.
    pub probes: u32,
    /// Bytes of one burst. More than what shapers let pass at once, less than what sockets hold.
    pub burst_bytes: usize,
    /// Bursts each way; the best counts.
    pub bursts: u32,
    /// Bursts of a rail that looks slow, which may be for want of a processor.
    pub bursts_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            warm: Duration::from_millis(1200),
            turn: Duration::from_secs(1),
            answer: Duration::from_millis(60),
            burst: Duration::from_millis(300),
            probes: 128,
            burst_bytes: 256 << 10,
            bursts: 2,
            bursts_max: 5,
        }
    }
}

/// How one node divides the time that it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Before the first turn at most.
    pub(crate) warm: Duration,
    /// For each turn; and once more at the end, for partners that met late in the last one.
    pub(crate) turn: Duration,
}

impl Budget {
    /// Each round has the same share, however long rounds before it were waited for in vain; where too little time is given, less.
    pub(crate) fn of(rounds: u32, given: Duration, limits: &Limits) -> Self {
        let warm = limits.warm.min(given / 4);
        let turn = limits.turn.min((given - warm) / rounds.saturating_add(1));
        Self { warm, turn }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Budget, Duration, Limits};

    #[test]
    fn what_is_enough_is_not_cut() {
        let limits = Limits::default();
        let ms = Duration::from_millis;
        for (rounds, given, warm, turn) in [
            (3, 5_200, 1_200, 1_000),
            (8, 10_200, 1_200, 1_000),
            (3, 60_000, 1_200, 1_000),
            // What was given before rails were measured first.
            (3, 3_000, 750, 562),
            (3, 0, 0, 0),
            (0, 1_000, 250, 750),
        ] {
            let Budget { warm: got, turn: each } = Budget::of(rounds, ms(given), &limits);
            assert_eq!((got.as_millis(), each.as_millis()), (warm, turn), "{rounds} rounds in {given} ms");
        }
    }

    proptest! {
        #[test]
        fn no_round_runs_out(rounds in 0_u32..5_000, given in 0_u64..100_000) {
            let given = Duration::from_millis(given);
            let Budget { warm, turn } = Budget::of(rounds, given, &Limits::default());
            prop_assert!(warm + turn * (rounds + 1) <= given);
            prop_assert!(given.is_zero() || warm > Duration::ZERO);
        }
    }
}
