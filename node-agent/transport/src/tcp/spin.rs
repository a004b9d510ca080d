//! Whether to wait for events by asking again and again for a moment before sleeping. No IO but the look at the load, no clock.
//!
//! To be woken costs a thread some 20 us; while nodes exchange small messages that is most of an operation's time, so a
//! thread that expects the next event within [`SHORT`] asks for that long. What it expects it takes from the waits before:
//! long waits ([`LONG`]) are pauses between operations and say nothing of the waits within one; of the others most must
//! have been short.
//!
//! It never spins while more threads want to run than there are processors: a thread that has slept goes before those
//! that compute, one that spins is one of them and waits its turn for milliseconds. Between two asks it offers the processor
//! to others all the same; when it does not get it back within [`LAP`], it sleeps, and does not try again for a time that
//! doubles while that goes on.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

/// A wait that is worth spinning for.
pub const SHORT: Duration = Duration::from_micros(50);
/// A wait that ended by being woken counts as short up to here: it holds the time to wake.
const WOKEN_SHORT: Duration = Duration::from_micros(100);
/// A wait that was no part of an exchange.
const LONG: Duration = Duration::from_millis(1);
/// Longest time between two asks of a thread that has a processor for itself, or shares it with others that spin.
const LAP: Duration = Duration::from_micros(200);
/// Share of short waits from which spinning is worth it.
const WORTH: f32 = 0.7;
/// Weight of one wait in that share.
const WEIGHT: f32 = 1.0 / 16.0;
/// First and greatest time without spinning after the processor was wanted by others.
const REST: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Spins in a row that went well after which the processor counts as free again.
const WELL: u32 = 2000;
/// How long the answer to "is there a processor to spare" is good for.
const PROBE: Duration = Duration::from_millis(5);

/// What is known of the waits so far.
#[derive(Debug, Default)]
pub struct Spin {
    /// Share of short waits among the last ones that were not long.
    short: f32,
    /// No spinning before.
    until: Option<Instant>,
    rest: Duration,
    well: u32,
    /// When it was looked whether processors are to spare, and whether they were.
    probed: Option<(Instant, bool)>,
}

/// Knows whether a processor is to spare.
#[derive(Debug)]
pub struct Processors {
    /// Gives the load, and in it the number of threads that want to run now.
    load: Option<File>,
    processors: usize,
}

impl Processors {
    /// Of this system, as far as this process may use them.
    pub fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Processors { load: File::open("/proc/loadavg").ok(), processors }
    }

    /// Whether all threads that want to run now, this one included, have a processor each. Costs a few microseconds.
    pub fn spare(&self) -> bool {
        let mut text = [0; 64];
        let Some(Ok(length)) = self.load.as_ref().map(|load| load.read_at(&mut text, 0)) else {
            return false;
        };
        running(&text[..length]).is_some_and(|running| running <= self.processors)
    }
}

/// The number of threads that want to run, from the text of the load: `0.00 0.01 0.05 2/345 6789`.
fn running(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?;
    text.split(' ').nth(3)?.split_once('/')?.0.parse().ok()
}

/// What a lap of spinning says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lap {
    /// Ask again.
    Go,
    /// Sleep.
    Stop,
}

impl Spin {
    /// Whether to spin in the wait that begins now. `spare` says whether a processor is to spare; it is asked now and then.
    pub fn begins(&mut self, now: Instant, spare: impl FnOnce() -> bool) -> bool {
        if self.short < WORTH {
            return false;
        }
        if self.until.is_some_and(|until| now < until) {
            return false;
        }
        self.until = None;
        match self.probed {
            Some((at, spare)) if now.saturating_duration_since(at) < PROBE => spare,
            _ => self.probed.insert((now, spare())).1,
        }
    }

    /// Spinning since `start`, last asked at `last`, and nothing has come.
    pub fn lap(&mut self, start: Instant, last: Instant, now: Instant) -> Lap {
        if now.saturating_duration_since(last) > LAP {
            self.rest = (self.rest * 2).clamp(REST.0, REST.1);
            self.until = Some(now + self.rest);
            self.well = 0;
            return Lap::Stop;
        }
        if now.saturating_duration_since(start) > SHORT { Lap::Stop } else { Lap::Go }
    }

    /// A wait ended with an event after this time; `slept` if it ended by being woken.
    pub fn ended(&mut self, after: Duration, slept: bool) {
        if after > LONG {
            return;
        }
        let short = after <= if slept { WOKEN_SHORT } else { SHORT };
        self.short += (f32::from(u8::from(short)) - self.short) * WEIGHT;
        if !slept {
            self.well = self.well.saturating_add(1);
            if self.well >= WELL {
                self.rest = Duration::ZERO;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_micros;

    fn trained() -> Spin {
        let mut spin = Spin::default();
        (0..40).for_each(|_| spin.ended(US(60), true));
        spin
    }

    #[test]
    fn it_spins_only_after_many_short_waits_and_pauses_do_not_count() {
        let (now, mut spin) = (Instant::now(), Spin::default());
        let mut waits = 0;
        while !spin.begins(now, || true) {
            spin.ended(US(60), true);
            waits += 1;
        }
        assert!((10..40).contains(&waits), "{waits}");
        (0..100).for_each(|_| spin.ended(US(5000), true));
        assert!(spin.begins(now, || true));
        // A transfer: a few short waits among long ones.
        for wait in [300, 300, 20, 300].repeat(10) {
            spin.ended(US(wait), true);
        }
        assert!(!spin.begins(now, || true));
    }

    #[test]
    fn it_never_spins_while_processors_are_wanted() {
        let (now, mut spin) = (Instant::now(), trained());
        assert!(!spin.begins(now, || false));
        assert!(!spin.begins(now + PROBE / 2, || true), "the answer is still good");
        assert!(spin.begins(now + PROBE, || true));
        assert!(spin.begins(now + PROBE + PROBE / 2, || false));
        assert_eq!(running(b"6.21 5.64 3.23 15/214 23078\n"), Some(15));
        for wrong in ["", "1 2 3", "1 2 3 4", "1 2 3 x/4 5"] {
            assert_eq!(running(wrong.as_bytes()), None);
        }
        let here = Processors::new();
        here.spare();
        assert!(!Processors { load: None, ..here }.spare(), "unknown is no");
    }

    #[test]
    fn a_spin_ends_in_time_and_others_go_first() {
        let (now, mut spin) = (Instant::now(), trained());
        assert!(spin.begins(now, || true));
        assert_eq!(spin.lap(now, now, now + US(1)), Lap::Go);
        assert_eq!(spin.lap(now, now + US(50), now + US(51)), Lap::Stop);
        assert!(spin.begins(now, || true), "in vain, but not for others");
        let mut rests = Vec::new();
        let mut at = now;
        for _ in 0..10 {
            assert_eq!(spin.lap(at, at, at + US(3000)), Lap::Stop);
            let back = at + US(3000);
            let rest =
                (0..2000).map(Duration::from_millis).find(|&r| spin.begins(back + r, || true)).unwrap();
            rests.push(rest);
            at = back + rest;
        }
        assert_eq!(rests[..3], [10, 20, 40].map(Duration::from_millis));
        assert_eq!(rests[9], REST.1);
        (0..WELL).for_each(|_| spin.ended(US(5), false));
        spin.lap(at, at, at + US(3000));
        assert!(spin.begins(at + US(3000) + REST.0, || true), "forgotten");
    }
}
