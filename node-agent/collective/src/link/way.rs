//! What the frames of a link say of their way: how long each waited behind others, and so when what it says was true.
//!
//! A frame says when its sender handed it over, by the sender's clock. The clocks of two nodes differ by no one knows what, but what
//! the least delayed frame of the last time showed as the difference holds clock and way together, and what another shows more, it has
//! waited: the one-way delay variation of RFC 6817 (LEDBAT), section 3.4.2. Where both ends send, acknowledgements wait behind data;
//! without this a link would be judged by what waits in the other direction.

use crate::units::Time;

/// The least delay is that of the last one to two of these times: clocks drift by less than a millisecond in it.
const LEAST_AGE: Time = Time::from_secs(8);
/// A wait beyond this is no queue but a clock that was stopped, and one that says nothing must not hide a dead link for longer.
const MOST: Time = Time::from_millis(400);

/// What was learned of the way from a peer.
#[derive(Debug, Clone, Default)]
pub struct PathEstimate {
    /// The sender's clock as its last frame said, and microseconds since the first time.
    clock: Option<(u32, i64)>,
    /// Least difference of the clocks, in microseconds: in this time and in the one before, and since when.
    least: (i64, i64, Time),
    /// How long the last frame waited.
    late: Time,
}

impl PathEstimate {
    /// A frame came that was handed over then by the sender's clock (0: it does not say). Gives how long it waited on its way.
    pub fn heard(&mut self, sent_us: u32, now: Time) -> Time {
        if sent_us == 0 {
            return self.late;
        }
        // Any numbers may come: from a peer that says what it likes they add up to anything.
        let step = |last: u32| i64::from(sent_us.wrapping_sub(last).cast_signed());
        let since_first = self.clock.map_or(0, |(last, sum)| sum.saturating_add(step(last)));
        let differs = i64::try_from(now.as_micros()).unwrap_or(i64::MAX).saturating_sub(since_first);
        let (least, before, since) = self.least;
        self.least = match (self.clock, now.saturating_sub(since)) {
            (Some(_), age) if age < LEAST_AGE => (least.min(differs), before, since),
            (Some(_), age) if age < 2 * LEAST_AGE => (differs, least, now),
            _ => (differs, differs, now),
        };
        self.clock = Some((sent_us, since_first));
        let waited = differs.saturating_sub(self.least.0.min(self.least.1));
        self.late = Time::from_micros(u64::try_from(waited).unwrap_or(0)).min(MOST);
        self.late
    }

    /// How long the last frame waited.
    pub fn late(&self) -> Time {
        self.late
    }
}

/// A time as frames carry it.
pub fn stamp(now: Time) -> u32 {
    (now.as_micros() as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Time = Time::from_millis(1);

    /// Frames of a peer whose clock is `ahead` of ours, each with its time of sending and what it waits; gives what they show.
    fn shown(ahead: u32, frames: impl Iterator<Item = (Time, Time)>) -> Vec<Time> {
        let mut way = PathEstimate::default();
        let heard =
            |(sent, waits): (Time, Time)| way.heard(stamp(sent).wrapping_add(ahead), sent + MS / 10 + waits);
        frames.map(heard).collect()
    }

    #[test]
    fn what_a_frame_waited_is_known_whatever_the_peers_clock_says() {
        let waits = [0u32, 5, 80, 3, 0, 399];
        for ahead in [0, 77_000_000, u32::MAX - 250_000, u32::MAX / 2] {
            let found = shown(ahead, (1..).map(|n| 100 * n * MS).zip(waits.map(|wait| wait * MS)));
            assert_eq!(found, waits.map(|wait| wait * MS), "{ahead}");
        }
        // The first may be late itself: the rest is measured by the first that is not.
        assert_eq!(
            shown(9, [(MS, 50 * MS), (20 * MS, 60 * MS), (90 * MS, 2 * MS)].into_iter()),
            [Time::ZERO, 10 * MS, Time::ZERO]
        );
    }

    #[test]
    fn a_clock_that_was_stopped_is_forgiven() {
        let frames = (1..400u32).map(|n| (100 * n * MS, if n < 50 { Time::ZERO } else { 3000 * MS }));
        let found = shown(1, frames);
        assert_eq!((found[48], found[49]), (Time::ZERO, MOST));
        assert_eq!(found.last(), Some(&(Time::ZERO)));
        let drift = shown(1, (1..4000u32).map(|n| (100 * n * MS, n * MS / 100)));
        assert!(drift.iter().all(|late| *late < 2 * MS), "100 us in a second");
        let mut way = PathEstimate::default();
        assert_eq!(
            (way.heard(0, 5 * MS), way.heard(7, 6 * MS), way.heard(0, 900 * MS)),
            (Time::ZERO, Time::ZERO, Time::ZERO)
        );
        for sent in [u32::MAX, 1, u32::MAX / 2, 5, u32::MAX / 2 + 9] {
            assert!(way.heard(sent, 10_000 * MS) <= MOST);
        }
        for sum in [i64::MAX, i64::MIN] {
            let mut way = PathEstimate { clock: Some((1, sum)), ..PathEstimate::default() };
            (0..20u32)
                .for_each(|n| assert!(way.heard(n.wrapping_mul(0x7000_0000) | 1, n * 3000 * MS) <= MOST));
        }
    }

    /// The clock as frames carry it runs over in 71 minutes; after a longer silence nobody knows how often it did.
    #[test]
    fn a_link_that_was_idle_begins_anew() {
        let minute = 60_000 * MS;
        for idle in [MS, minute, 30 * minute, 40 * minute, 100 * minute] {
            let sent = [MS, 2 * MS, 2 * MS + idle, 3 * MS + idle];
            let found = shown(5, sent.into_iter().zip([0u32, 4, 0, 6].map(|wait| wait * MS)));
            assert_eq!(found, [0u32, 4, 0, 6].map(|wait| wait * MS), "{idle:?}");
        }
    }
}
