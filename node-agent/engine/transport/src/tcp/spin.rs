//! Whether to wait for events by asking again and again for a moment before sleeping. No IO, no clock.
//!
//! To be woken costs a thread some 20 us, and a processor that slept more; while nodes exchange small messages that is most
//! of an operation's time, so a thread that expects the next event within [`SHORT`] asks for that long, and where only operations
//! are under way that are done soon, for [`SMALL`]: among more nodes than processors each waits for the turns of others, and
//! who then goes to sleep makes them wait for long, until all sleep, which is as stable as that all spin and twice as slow. What it
//! expects it takes from the waits before: long waits ([`LONG`]) are pauses between operations and say nothing of the waits within one;
//! of the others most must have been short. Where spinning turns out not to be answered in time it pauses, so that a
//! transfer, whose waits look short now and then, pays for a few spins in a hundred milliseconds.
//!
//! Between two asks it offers the processor to others. Others that spin do the same, so however many they are, each gets
//! its turn within the time that one ask takes, and who has something to do does it at once. Only a thread that computes
//! keeps the processor: for milliseconds, where one that had slept would have gone before it. So who does not get the
//! processor back within [`LAP`] sleeps, and does not try again for a time that doubles while that goes on. How many threads
//! want to run says nothing: those that spin count as well.

use std::time::{Duration, Instant};

/// A wait that is worth spinning for.
pub const SHORT: Duration = Duration::from_micros(100);
/// The same where only small operations are under way.
pub const SMALL: Duration = Duration::from_micros(400);
/// A wait that ended by being woken counts as short although it took so much longer: it holds the time to wake, its own and
/// that of others.
const TO_WAKE: Duration = Duration::from_micros(100);
/// A wait that was no part of an exchange.
const LONG: Duration = Duration::from_millis(1);
/// Longest time between two asks of a thread that has a processor for itself, or shares it with others that spin: these do
/// some 50 us of work at a time. One that computes keeps it for three milliseconds.
const LAP: Duration = Duration::from_millis(1);
/// Share of short waits from which spinning is worth it.
const WORTH: f32 = 0.7;
/// Weight of one wait in that share.
const WEIGHT: f32 = 1.0 / 16.0;
/// First and greatest time without spinning after a thread that computes had the processor.
const REST: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// The same after spins that were not worth it.
const PAUSE: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(100));
/// Spins in a row that went well after which both are as at the beginning.
const WELL: u32 = 2000;

/// What is known of the waits so far.
#[derive(Debug, Default)]
pub struct Spin {
    /// Share of short waits among the last ones that were not long.
    short: f32,
    /// When the wait began in which it spins.
    spins: Option<Instant>,
    /// Longest wait that is worth it: [`SHORT`] or [`SMALL`].
    limit: Duration,
    /// Before this time there is no spinning; `None` where it may begin at once.
    until: Option<Instant>,
    rest: Duration,
    pause: Duration,
    well: u32,
}

/// What a lap of spinning says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lap {
    /// The time for spinning is not over: look for events again.
    Go,
    /// The time for spinning is over: sleep until an event comes.
    Stop,
}

impl Spin {
    /// Whether to spin in the wait that begins now, and is worth it up to `limit`.
    pub fn begins(&mut self, now: Instant, limit: Duration) -> bool {
        (self.spins, self.limit) = (None, limit);
        if self.short < WORTH || self.until.is_some_and(|until| now < until) {
            return false;
        }
        (self.until, self.spins) = (None, Some(now));
        true
    }

    /// Spinning since `start`, last asked at `last`, and nothing has come.
    pub fn lap(&mut self, start: Instant, last: Instant, now: Instant) -> Lap {
        if now.saturating_duration_since(last) > LAP {
            self.rest = (self.rest * 2).clamp(REST.0, REST.1);
            self.until = Some(now + self.rest);
            self.well = 0;
            return Lap::Stop;
        }
        if now.saturating_duration_since(start) > self.limit { Lap::Stop } else { Lap::Go }
    }

    /// A wait ended with an event after this time; `slept` if it ended by being woken.
    pub fn ended(&mut self, after: Duration, slept: bool) {
        let spun = self.spins.take();
        if after > LONG {
            return;
        }
        let limit = self.limit + if slept && spun.is_none() { TO_WAKE } else { Duration::ZERO };
        let before = self.short;
        self.short += (f32::from(u8::from(after <= limit)) - before) * WEIGHT;
        let Some(start) = spun else { return };
        if before >= WORTH && self.short < WORTH {
            self.pause = (self.pause * 2).clamp(PAUSE.0, PAUSE.1);
            self.until = self.until.max(Some(start + after + self.pause));
            self.well = 0;
        }
        if !slept {
            self.well = self.well.saturating_add(1);
            if self.well >= WELL {
                (self.rest, self.pause) = Default::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    fn trained() -> Spin {
        let mut spin = Spin { limit: SHORT, ..Spin::default() };
        (0..40).for_each(|_| spin.ended(US(60), true));
        spin
    }

    /// How many of these waits, one after the other, it spins in for how long in all. What comes within the limit ends the spin.
    fn live(spin: &mut Spin, start: Instant, waits: &[u64]) -> (u32, Duration, Instant) {
        let (mut now, mut spins, mut spent) = (start, 0, Duration::ZERO);
        for &wait in waits {
            let wait = US(wait);
            if spin.begins(now, SHORT) {
                spins += 1;
                spent += wait.min(SHORT);
                spin.ended(wait, wait > SHORT);
            } else {
                spin.ended(wait, true);
            }
            now += wait;
        }
        (spins, spent, now)
    }

    #[test]
    fn it_spins_only_after_many_short_waits_and_pauses_do_not_count() {
        let (now, mut spin) = (Instant::now(), Spin::default());
        let mut waits = 0;
        while !spin.begins(now, SHORT) {
            spin.ended(US(60), true);
            waits += 1;
        }
        assert!((10..40).contains(&waits), "{waits}");
        (0..100).for_each(|_| spin.ended(US(5000), true));
        assert!(spin.begins(now, SHORT));
        // A transfer: a few short waits among long ones.
        for wait in [300, 300, 20, 300].repeat(10) {
            spin.ended(US(wait), true);
        }
        assert!(!spin.begins(now, SHORT));
    }

    /// Among more nodes than processors waits are as long as others' turns: that is worth it for small operations only.
    #[test]
    fn brief_operations_are_waited_for_longer() {
        for (limit, spins) in [(SMALL, true), (SHORT, false)] {
            let (now, mut spin) = (Instant::now(), Spin::default());
            for turn in 0..100 {
                let began = spin.begins(now + US(turn * 300), limit);
                spin.ended(US(300), !began);
            }
            assert_eq!(spin.begins(now + US(30_000), limit), spins, "{limit:?}");
            assert_eq!(spin.lap(now, now + US(299), now + US(300)) == Lap::Go, spins);
        }
    }

    /// Nodes that all sleep wait long for each other; that must not keep them from ever trying.
    #[test]
    fn small_messages_among_sleepers_lead_to_spinning() {
        let (now, mut spin) = (Instant::now(), Spin::default());
        let (spins, ..) = live(&mut spin, now, &[160; 100]);
        assert!(spins > 0);
        let (spins, ..) = live(&mut spin, now + Duration::from_secs(1), &[40; 1000]);
        assert!(spins > 900, "{spins}");
    }

    /// Waits that are short enough to try and too long to be worth it: what the attempts cost is little.
    #[test]
    fn attempts_in_vain_cost_little() {
        let (now, mut spin) = (Instant::now(), Spin::default());
        let (_, spent, end) = live(&mut spin, now, &[150; 20_000]);
        let share = spent.as_secs_f64() / (end - now).as_secs_f64();
        assert!(share < 0.01, "{share}");
        // Forgotten once it is worth it again.
        let (spins, _, end) = live(&mut spin, end, &[40; 10_000]);
        assert!(spins > 7000, "{spins}");
        assert_eq!(spin.pause, Duration::ZERO);
        assert!(spin.begins(end, SHORT));
    }

    #[test]
    fn a_spin_ends_in_time_and_those_who_compute_go_first() {
        let (now, mut spin) = (Instant::now(), trained());
        assert!(spin.begins(now, SHORT));
        assert_eq!(spin.lap(now, now, now + US(1)), Lap::Go);
        assert_eq!(spin.lap(now, now + US(100), now + US(101)), Lap::Stop);
        assert!(spin.begins(now, SHORT), "in vain, but not for others");
        let mut rests = Vec::new();
        let mut at = now;
        for _ in 0..10 {
            assert_eq!(spin.lap(at, at, at + US(3000)), Lap::Stop);
            let back = at + US(3000);
            let rest = (0..2000).map(Duration::from_millis).find(|&r| spin.begins(back + r, SHORT)).unwrap();
            rests.push(rest);
            at = back + rest;
        }
        assert_eq!(rests[..3], [10, 20, 40].map(Duration::from_millis));
        assert_eq!(rests[9], REST.1);
        for _ in 0..WELL {
            spin.begins(at, SHORT);
            spin.ended(US(5), false);
        }
        spin.lap(at, at, at + US(3000));
        assert!(spin.begins(at + US(3000) + REST.0, SHORT), "forgotten");
    }
}
