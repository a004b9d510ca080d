//! When a stream sends next: not at once with all the others, and not for every change by itself. Pure.

use std::time::{Duration, Instant};

/// A stream that says nothing for so long says that it lives.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(15);
/// The shortest time between two sends of one stream; what changes in between is sent together.
const GAP: Duration = Duration::from_millis(100);
/// The same where there are many streams.
const GAP_OF_MANY: Duration = Duration::from_millis(200);
/// The same where the controller has more to do than it can: pages wait before other callers do.
const GAP_IN_NEED: Duration = Duration::from_secs(1);
/// How far apart streams are, as long as there is room in a gap for all of them.
const APART: Duration = Duration::from_micros(300);
/// A timer that rings so late is in time.
const TIMELY: Duration = Duration::from_millis(3);
/// Places in a gap.
const PLACES: u32 = 128;

/// The time between two sends of each of so many streams, where timers ring so `late` by now.
pub(crate) fn gap(open: u32, late: Duration) -> Duration {
    let own = (APART * open).clamp(GAP, GAP_OF_MANY);
    let times = late.as_micros() / TIMELY.as_micros();
    (own * u32::try_from(times.max(1)).unwrap_or(u32::MAX).min(10)).min(GAP_IN_NEED)
}

/// When a stream sends that has something to send from `now` on: `last` is when it has sent, `number` its own, `open` how many there are.
/// Few streams send at once; many are spread over a gap, so that none of their bursts keeps other calls waiting.
pub(crate) fn due(now: Instant, last: Option<Instant>, number: u32, open: u32, gap: Duration) -> Instant {
    let spread = (APART * open).min(gap);
    // One after the other in time, but neighbours far from each other: they came together.
    let place = (number % PLACES).reverse_bits() >> (u32::BITS - PLACES.trailing_zeros());
    let own = now + spread * place / PLACES;
    last.map_or(own, |last| own.max(last + gap))
}

/// Whether a stream has said nothing for so long that it must say that it lives, whatever it waits for.
pub(crate) fn silent(last: Option<Instant>, now: Instant) -> bool {
    last.is_none_or(|last| now.saturating_duration_since(last) >= HEARTBEAT)
}

/// How late timers ring, of what it was and of one more: one that is late by itself is none.
pub(crate) fn lateness(before: Duration, one: Duration) -> Duration {
    (before * 31 + one) / 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stream_sends_almost_at_once_and_then_after_a_gap() {
        let now = Instant::now();
        let gap = gap(1, Duration::ZERO);
        assert_eq!(gap, GAP);
        assert!(due(now, None, 5, 1, gap) - now <= APART);
        assert_eq!(due(now, Some(now), 0, 1, gap) - now, GAP);
        assert_eq!(due(now + GAP * 3, Some(now), 0, 1, gap), now + GAP * 3);
    }

    #[test]
    fn a_stream_that_has_sent_nothing_for_a_while_says_that_it_lives() {
        let now = Instant::now();
        assert!(silent(None, now) && silent(Some(now), now + HEARTBEAT));
        assert!(!silent(Some(now), now) && !silent(Some(now + GAP), now));
        assert!(!silent(Some(now), now + HEARTBEAT - GAP));
    }

    #[test]
    fn many_streams_never_send_together_and_none_waits_longer_than_a_gap() {
        let (now, gap) = (Instant::now(), gap(500, Duration::ZERO));
        assert_eq!(gap, Duration::from_millis(150));
        let mut all: Vec<Duration> = (0..500).map(|number| due(now, None, number, 500, gap) - now).collect();
        all.sort_unstable();
        assert!(all.iter().all(|wait| *wait < gap));
        for tenth in 0..10 {
            let (from, to) = (gap * tenth / 10, gap * (tenth + 1) / 10);
            let there = all.iter().filter(|wait| (from..to).contains(*wait)).count();
            assert!((35..=65).contains(&there), "{there} of 500 in one tenth");
        }
    }

    #[test]
    fn streams_wait_where_the_controller_is_too_busy_and_go_on_when_it_is_not() {
        let mut late = Duration::ZERO;
        late = lateness(late, Duration::from_millis(40));
        assert_eq!(gap(10, late), GAP, "one is none");
        for _ in 0..200 {
            late = lateness(late, Duration::from_millis(40));
        }
        assert_eq!(gap(10, late), GAP_IN_NEED);
        for _ in 0..200 {
            late = lateness(late, Duration::from_millis(1));
        }
        assert_eq!(gap(10, late), GAP);
        assert_eq!(gap(u32::MAX / 1_000_000, Duration::MAX), GAP_IN_NEED);
    }
}
