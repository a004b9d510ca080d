//! Congestion notifications of NICs, as the controller joins them with what the leaves mark: sums over windows that are so long, and end so long
//! ago, that no reader takes a burst that has just begun for one that nobody answers.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use proto_wire::v1;

/// Milliseconds that both windows reach back.
const WINDOW: u64 = 240_000;
/// What was sent later than so many milliseconds ago may not have been counted by others yet.
const SETTLED: u64 = 40_000;

/// Sums of all NICs, and when they were made.
pub type Counted = (Instant, Vec<v1::NicNotifications>);

/// Sums that were made longer ago are of no use: whoever makes them waits for a NIC.
pub const FRESH: Duration = Duration::from_secs(7);

/// What a NIC has sent and received since its agent began; `None` where it does not count that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Notifications sent.
    pub sent: Option<u64>,
    /// Notifications received.
    pub received: Option<u64>,
}

/// The NICs of a server, by the index of their rail.
#[derive(Debug, Default)]
pub struct Notifications {
    rails: BTreeMap<u32, VecDeque<(u64, Totals)>>,
}

impl Notifications {
    /// Takes the totals of all NICs at a time in milliseconds; those that are no longer there are forgotten.
    pub fn take(&mut self, now: u64, totals: &BTreeMap<u32, Totals>) {
        self.rails.retain(|rail, _| totals.contains_key(rail));
        for (rail, totals) in totals {
            let kept = self.rails.entry(*rail).or_default();
            kept.push_back((now, *totals));
            // The first one stays that is as old as the window, or older.
            while kept.get(1).is_some_and(|(at, _)| at + WINDOW <= now) {
                kept.pop_front();
            }
        }
    }

    /// The sums of all NICs as of the last time.
    #[must_use]
    pub fn report(&self) -> Vec<v1::NicNotifications> {
        self.rails.iter().map(|(rail, kept)| of_rail(*rail, kept)).collect()
    }
}

fn of_rail(rail: u32, kept: &VecDeque<(u64, Totals)>) -> v1::NicNotifications {
    let unknown = v1::NicNotifications { rail, ..v1::NicNotifications::default() };
    let (Some((begin, first)), Some((now, last))) = (kept.front(), kept.back()) else { return unknown };
    if begin + WINDOW > *now {
        return unknown;
    }
    let settled = kept.iter().rev().find(|(at, _)| at + SETTLED <= *now).map_or(first, |(_, totals)| totals);
    let grown = |last: Option<u64>, first: Option<u64>| Some(last?.saturating_sub(first?));
    v1::NicNotifications {
        rail,
        sent: grown(settled.sent, first.sent),
        received: grown(last.received, first.received),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(kept: &Notifications) -> (Option<u64>, Option<u64>) {
        let all = kept.report();
        assert_eq!((all.len(), all[0].rail), (1, 3));
        (all[0].sent, all[0].received)
    }

    #[test]
    fn sums_cover_four_minutes_and_what_was_just_sent_is_left_out() {
        let mut kept = Notifications::default();
        for second in (0..=600).step_by(5) {
            // Ten a second are sent from the 300th second on, and one is received in each.
            let since = u64::saturating_sub(second, 300);
            let totals = Totals { sent: Some(10 * since), received: Some(since) };
            kept.take(second * 1000, &BTreeMap::from([(3, totals)]));
            let expected = match second {
                // It was not watched for long enough.
                ..240 => (None, None),
                240..=340 => (Some(0), Some(since)),
                341..=540 => (Some(10 * (second - 340)), Some(since.min(240))),
                _ => (Some(10 * (second - 40 - (second - 240).max(300))), Some(240)),
            };
            assert_eq!(reported(&kept), expected, "{second}");
        }
        assert!(kept.rails[&3].len() <= 50);
        kept.take(605_000, &BTreeMap::new());
        assert_eq!(kept.report(), []);
    }

    #[test]
    fn what_is_not_counted_is_not_zero() {
        let mut kept = Notifications::default();
        for second in (0..=300).step_by(5) {
            let received = (second != 100).then_some(second);
            kept.take(second * 1000, &BTreeMap::from([(3, Totals { sent: None, received })]));
        }
        assert_eq!(reported(&kept), (None, Some(240)));
    }
}
