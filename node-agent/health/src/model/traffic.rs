//! What jobs send: phases of communication, the same on all of their rails.

use std::collections::BTreeSet;

use proto_model::JobUid;
use proto_random::Random;

use crate::state::JobUse;

/// Rails of the server.
pub const RAILS: u32 = 8;
/// Bytes a second of one rail: 400 Gbit/s.
pub const LINE: f64 = 50e9;
/// The priority of data.
pub const LOSSLESS: u8 = 3;
/// The priority of congestion notification packets (CNPs).
const CNP: u8 = 6;

/// A job that runs.
#[derive(Debug, Clone)]
pub struct Job {
    pub of: JobUse,
    pub ends: u64,
    /// Share of the line that it uses while it communicates.
    level: f64,
    /// Seconds of one step, and the share of it that is communication.
    period: f64,
    duty: f64,
}

impl Job {
    pub fn new(uid: u128, rails: BTreeSet<u32>, ends: u64, random: &mut Random) -> Self {
        Self {
            of: JobUse { job: JobUid::from_random(uid.to_be_bytes()), rails, lossless: LOSSLESS, cnp: CNP },
            ends,
            level: random.between(0.2, 0.9),
            period: random.between(0.3, 20.0),
            duty: random.between(0.2, 1.0),
        }
    }

    /// A job that communicates all the time, on all rails: what a fault is put under.
    pub fn steady(uid: u128, random: &mut Random) -> Self {
        let duty = random.between(0.5, 1.0);
        let period = random.between(0.3, 1.0);
        Self { period, duty, ..Self::new(uid, (0..RAILS).collect(), u64::MAX, random) }
    }

    /// Bytes a second on each of its rails, from `from` to `to` (ms).
    pub fn rate(&self, from: u64, to: u64) -> f64 {
        let busy = |at: u64| {
            let steps = at as f64 / 1000.0 / self.period;
            (steps.floor() + (steps.fract() / self.duty).min(1.0)) * self.period * self.duty
        };
        let seconds = (to - from) as f64 / 1000.0;
        LINE * self.level * (busy(to) - busy(from)) / seconds
    }
}

/// Jobs that come and go: none, one on all rails or some, or two side by side.
#[derive(Debug, Clone, Default)]
pub struct Jobs {
    pub running: Vec<Job>,
    next_uid: u128,
    idle_until: u64,
}

impl Jobs {
    /// Ends and begins jobs; gives those that ended, and whether anything changed.
    pub fn turn(&mut self, now: u64, random: &mut Random) -> (Vec<Job>, bool) {
        let (ended, running): (Vec<Job>, Vec<Job>) = self.running.drain(..).partition(|job| job.ends <= now);
        self.running = running;
        if !ended.is_empty() && self.running.is_empty() {
            self.idle_until = now + random.within(5_000, 2_400_000);
        }
        let mut began = false;
        if self.running.is_empty() && now >= self.idle_until {
            began = true;
            let all = 0..RAILS;
            let halves =
                [all.clone().filter(|r| r % 2 == 0).collect(), all.clone().filter(|r| r % 2 == 1).collect()];
            let sets: Vec<BTreeSet<u32>> = match random.within(0, 9) {
                0 => halves.to_vec(),
                1 => vec![(0..4).collect(), (4..8).collect()],
                2 => vec![(0..random.within(1, 7) as u32).collect()],
                _ => vec![all.collect()],
            };
            for rails in sets {
                self.next_uid += 1;
                let ends = now + random.within(60_000, 14_400_000);
                self.running.push(Job::new(self.next_uid, rails, ends, random));
            }
        }
        let changed = began || !ended.is_empty();
        (ended, changed)
    }

    /// What the agent gets to know.
    pub fn uses(&self) -> Vec<JobUse> {
        self.running.iter().map(|job| job.of.clone()).collect()
    }
}
