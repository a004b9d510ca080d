//! The clock of a switch beside ours.

/// A report is not under way for longer than this, in milliseconds; a clock that differs by more has jumped.
const UNDER_WAY: u64 = 5_000;

/// How a switch's clock stands to ours: the report that was under way for the shortest time says it best.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    last: u64,
    /// What is to be added to the switch's time, at least one report was heard.
    offset: Option<i64>,
}

impl Clock {
    /// The time of a reading by our clock, in milliseconds. A switch that does not say it has read when it was heard.
    pub(super) fn heard(&mut self, read_ms: u64, now_ms: u64) -> u64 {
        if read_ms == 0 {
            return now_ms;
        }
        let (read, now) = (signed(read_ms), signed(now_ms));
        let now_offset = now - read;
        let known =
            self.offset.filter(|known| read_ms >= self.last && now_offset - known <= signed(UNDER_WAY));
        let offset = known.map_or(now_offset, |known| known.min(now_offset));
        (self.last, self.offset) = (read_ms, Some(offset));
        u64::try_from(read + offset).unwrap_or(0)
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX / 2)
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
        // It has started anew, or its clock has jumped.
        assert_eq!(clock.heard(10, 54_000), 54_000);
        assert_eq!(clock.heard(20, 60_000), 60_000);
        assert_eq!(clock.heard(0, 61_000), 61_000);
    }
}
