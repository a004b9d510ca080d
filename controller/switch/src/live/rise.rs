//! How much counters have grown within the last one to two minutes.

use super::Symptom;

/// Milliseconds of a step of the window.
const STEP: u64 = 60_000;
/// What was read so long ago says nothing of now.
const LATELY: u64 = 10_000;
/// Damaged frames that are told: one now and then is within what links are allowed (IEEE 802.3 asks for a frame in 10^12 bits at most).
const DAMAGED: u64 = 10;
/// Changes of a link that are told: gone and back twice.
const FLAPS: u64 = 4;

/// Damaged frames, changes of the link, drops of the lossless queue, storms that the watchdog found.
type Totals = [u64; 4];

/// One port.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rise {
    is_up: bool,
    last: Option<(u64, Totals)>,
    /// A step before, and one before that.
    before: [Option<(u64, Totals)>; 2],
}

impl Rise {
    /// Takes a reading; counters that have gone back began anew.
    pub(super) fn take(&mut self, at: u64, is_up: bool, totals: Totals) {
        let reset = |last: &Totals| last.iter().zip(&totals).any(|(before, now)| now < before);
        match self.last {
            Some((then, _)) if at <= then => return,
            Some((_, last)) if !reset(&last) => {
                if self.before[0].is_none_or(|(then, _)| at.saturating_sub(then) >= STEP) {
                    self.before = [self.last, self.before[0]];
                }
            }
            _ => self.before = [None, None],
        }
        (self.is_up, self.last) = (is_up, Some((at, totals)));
    }

    /// Whether its link is up; none where that was not read lately.
    pub(super) fn is_up(&self, now: u64) -> Option<bool> {
        let (at, _) = self.last?;
        (now.saturating_sub(at) <= LATELY).then_some(self.is_up)
    }

    /// What is wrong by these counters.
    pub(super) fn symptoms(&self, now: u64) -> Vec<Symptom> {
        let Some((at, last)) = self.last.filter(|(at, _)| now.saturating_sub(*at) <= LATELY) else {
            return Vec::new();
        };
        let mut within = self.before.iter().flatten().filter(|(then, _)| at - then <= 2 * STEP + LATELY);
        let Some((_, base)) = within.next_back() else { return Vec::new() };
        let [damaged, changes, drops, storms] =
            std::array::from_fn(|index| last[index].saturating_sub(base[index]));
        let symptoms = [
            (storms > 0, Symptom::WatchdogStorms(storms)),
            (drops > 0, Symptom::LosslessDrops(drops)),
            (damaged >= DAMAGED, Symptom::Damaged(damaged)),
            (changes >= FLAPS, Symptom::Flapping(changes)),
        ];
        symptoms.into_iter().filter_map(|(is_found, symptom)| is_found.then_some(symptom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grew_is_told_for_a_minute_or_two_and_what_stood_there_before_is_not() {
        let mut rise = Rise::default();
        let mut seen = Vec::new();
        for second in 0..400_u64 {
            let drops = if second >= 100 { 7 } else { 0 };
            rise.take(second * 1000, true, [900, 3, drops, 0]);
            if rise.symptoms(second * 1000).contains(&Symptom::LosslessDrops(7)) {
                seen.push(second);
            }
            assert!(rise.symptoms(second * 1000).len() <= 1);
        }
        assert_eq!(seen.first(), Some(&100));
        assert!((160..=221).contains(seen.last().unwrap()), "{seen:?}");
        // Nothing is known any more.
        assert_eq!(rise.is_up(399_000), Some(true));
        assert_eq!(rise.is_up(420_000), None);
    }

    #[test]
    fn counters_that_began_anew_have_not_grown() {
        let mut rise = Rise::default();
        rise.take(1_000, true, [50, 9, 9, 9]);
        rise.take(2_000, false, [0, 1, 0, 0]);
        assert_eq!(rise.symptoms(2_000), []);
        assert_eq!(rise.is_up(2_000), Some(false));
        rise.take(3_000, true, [12, 5, 0, 1]);
        let found = [Symptom::WatchdogStorms(1), Symptom::Damaged(12), Symptom::Flapping(4)];
        assert_eq!(rise.symptoms(3_000), found);
        // An older reading, or the same once more, changes nothing.
        rise.take(3_000, false, [99, 9, 9, 9]);
        assert_eq!(rise.symptoms(3_000), found);
    }
}
