//! Packets that a port has marked in a window that ends so long ago that the NIC behind it has had time to say what it made of them.

/// Milliseconds between two readings that are kept.
const STEP: u64 = 30_000;
/// Marks later than so many milliseconds ago are not counted: agents report what was sent until 40 s before, and what they
/// report has been counted 40 s ago at most (`controller/api`).
const SETTLED: u64 = 80_000;
/// Nor those before: what agents report reaches back for 240 s.
const WINDOW: u64 = 200_000;
/// Readings that are kept, enough for the window.
const KEPT: usize = 7;

/// One port: readings in the order of their times, each with the marks since the port counts; the time 0 is none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    kept: [(u64, u64); KEPT],
}

impl Marks {
    /// Takes a reading; a counter that has gone back began anew.
    pub(super) fn take(&mut self, at: u64, total: u64) {
        let (then, last) = self.kept[KEPT - 1];
        if then > 0 && total < last {
            self.kept = [(0, 0); KEPT];
        } else if then > 0 && at < then.saturating_add(STEP) {
            return;
        }
        self.kept.rotate_left(1);
        self.kept[KEPT - 1] = (at, total);
    }

    /// Readings of before are of another clock.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Packets that were marked within the window.
    pub(super) fn settled(&self, now: u64) -> u64 {
        let within =
            |at: u64| at > 0 && at.saturating_add(WINDOW) >= now && at.saturating_add(SETTLED) <= now;
        let mut inside = self.kept.iter().filter(|(at, _)| within(*at)).map(|(_, total)| *total);
        let Some(first) = inside.next() else { return 0 };
        inside.next_back().map_or(0, |last| last.saturating_sub(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marks_that_are_neither_new_nor_old_count() {
        let mut marks = Marks::default();
        let mut seen = Vec::new();
        for second in 1..=500_u64 {
            // A burst of ten seconds.
            let total = 7_000 + 100 * second.clamp(100, 110);
            marks.take(second * 1000, total);
            if marks.settled(second * 1000) > 0 {
                assert_eq!(marks.settled(second * 1000), 1000);
                seen.push(second);
            }
        }
        let (first, last) = (*seen.first().unwrap(), *seen.last().unwrap());
        assert!((190..=220).contains(&first) && (260..=310).contains(&last), "{first} {last}");
        assert_eq!(seen.len() as u64, last - first + 1);
        // It began anew, and is not read any more.
        marks.take(501_000, 3);
        assert_eq!(marks.settled(600_000), 0);
    }
}
