//! The clock of a switch beside ours.

/// A report is not under way for longer than this, in milliseconds; a clock that differs by more has jumped.
const UNDER_WAY: u64 = 5_000;
/// Of the time since a report one part in so many is added to what it showed: clocks differ in their rate by some 50 parts in a million.
const FORGET: u64 = 5_000;

/// How a switch's clock stands to ours: the report that was under way for the shortest time says it best, and less so the older it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    last: u64,
    /// Microseconds that are to be added to the switch's time; none before the first report.
    offset: Option<i64>,
    /// One of both clocks was set since the report before.
    has_jumped: bool,
}

impl Clock {
    /// The time of a reading by our clock, in milliseconds. A switch that does not say it has read when it was heard.
    pub(super) fn heard(&mut self, read_ms: u64, now_ms: u64) -> u64 {
        self.has_jumped = false;
        if read_ms == 0 {
            return now_ms;
        }
        let (read, now) = (signed(read_ms), signed(now_ms));
        let now_offset = (now - read) * 1_000;
        let is_under_way = |known: &i64| now_offset - known <= signed(UNDER_WAY * 1_000);
        let known = self.offset.filter(|known| read_ms >= self.last && is_under_way(known));
        let aged = |known: i64| known + signed(read_ms - self.last) * 1_000 / signed(FORGET);
        let offset = known.map_or(now_offset, |known| aged(known).min(now_offset));
        self.has_jumped = self.offset.is_some() && known.is_none();
        (self.last, self.offset) = (read_ms, Some(offset));
        u64::try_from((read * 1_000 + offset).div_euclid(1_000)).unwrap_or(0)
    }
}

impl Clock {
    /// The last report shows that the switch's clock or ours was set, or that it was under way for long.
    pub(super) const fn has_jumped(&self) -> bool {
        self.has_jumped
    }
}

/// What a switch says may be anything: beyond some 29,000 years nothing is told apart, and nothing overflows.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX).min(i64::MAX / 10_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_a_report_does_not_bend_its_time() {
        let mut clock = Clock::default();
        assert_eq!(clock.heard(1_000, 50_020), 50_020);
        // Later by 300 ms on its way.
        assert_eq!(clock.heard(2_000, 51_320), 51_020);
        // The quickest so far.
        assert_eq!(clock.heard(3_000, 52_010), 52_010);
        assert_eq!(clock.heard(4_000, 53_015), 53_010);
        assert!(!clock.has_jumped());
        // It has started anew, or its clock has jumped.
        assert_eq!(clock.heard(10, 54_000), 54_000);
        assert!(clock.has_jumped());
        assert_eq!(clock.heard(20, 60_000), 60_000);
        assert_eq!(clock.heard(0, 61_000), 61_000);
        // Nothing that is said breaks anything.
        for read in [u64::MAX, 1, u64::MAX / 2, u64::MAX - 1, i64::MAX as u64] {
            let _ = clock.heard(read, 62_000);
        }
        assert_eq!(clock.heard(5, 63_000), 63_000);
    }

    #[test]
    fn a_clock_that_is_slow_or_fast_does_not_run_away() {
        for parts_per_million in [-100_i64, 0, 100] {
            let (mut clock, mut worst) = (Clock::default(), 0);
            for second in 1..200_000_u64 {
                let now = second * 1_000;
                let drift = i64::try_from(now).unwrap() * parts_per_million / 1_000_000;
                let read = now.saturating_add_signed(drift);
                let under_way = 3 + second * 7 % 40;
                let at = clock.heard(read, 5_000_000 + now + under_way);
                worst = worst.max(at.abs_diff(5_000_000 + now));
            }
            assert!(worst <= 50, "{parts_per_million}: {worst} ms");
        }
    }
}
