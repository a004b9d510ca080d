//! What a node measures, and what of it it reports to the node that makes plans. No clock: times are passed in.

use crate::units::{FULL, Time};

/// Capacities that differ by no more than this (of 1024) are equal.
pub const STEP: u16 = 40;
/// Answers from which on the least time of a trip is known: the first ones come from threads that sleep.
const TRIPS: u32 = 32;

/// What a node says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// What is left of its capacity, of 1024.
    pub capacity: u16,
    /// Time of a trip without handing over and taking, in nanoseconds; 0: not known.
    pub alpha_ns: u32,
    /// Time of a byte on one rail, in picoseconds; 0: not known.
    pub beta_ps: u32,
}

/// Whether one is more than half as much again as the other. Peers may say any number.
pub fn is_far(a: u32, b: u32) -> bool {
    let half_more = |n: u32| u64::from(n) * 3 / 2;
    u64::from(a) > half_more(b) || u64::from(b) > half_more(a)
}

impl Report {
    /// Whether another plan would follow from it.
    pub fn differs(self, other: Report) -> bool {
        let far = |a: u32, b: u32| a != b && (a == 0 || b == 0 || is_far(a, b));
        self.capacity.abs_diff(other.capacity) > STEP
            || (self.capacity == FULL) != (other.capacity == FULL)
            || far(self.alpha_ns, other.alpha_ns)
            || far(self.beta_ps, other.beta_ps)
    }
}

/// Times of frames that went alone.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Least time that a probe took to come back, and how many did.
    round_trip: Option<(Time, u32)>,
    /// Least time that it took to hand over a small frame, and how many were.
    handing: Option<(Time, u32)>,
}

impl Measured {
    /// A probe came back after this time.
    pub fn timed(&mut self, trip: Time) {
        count(&mut self.round_trip, trip);
    }

    /// A small frame was handed over in this time.
    pub fn handed(&mut self, took: Time) {
        count(&mut self.handing, took);
    }

    /// Whether the least time of a trip is known.
    pub fn knows_trips(&self) -> bool {
        known(self.round_trip).is_some()
    }

    /// Time of a trip without the time to hand over, of which `overhead_ns` stands for one that is not known, in nanoseconds;
    /// 0: not known yet. Where nodes share processors, a trip is work for the most part, and what takes more messages to save a
    /// trip is slower.
    pub fn alpha_ns(&self, overhead_ns: u32) -> u32 {
        let ns = |time: Time| u32::try_from(time.as_nanos()).unwrap_or(u32::MAX);
        let Some(trip) = known(self.round_trip).map(|trip| ns(trip) / 2) else { return 0 };
        let handing = known(self.handing).map_or(overhead_ns, ns);
        trip.saturating_sub(handing).max(trip / 8).max(1)
    }
}

fn count(times: &mut Option<(Time, u32)>, time: Time) {
    let (least, count) = times.unwrap_or((time, 0));
    *times = Some((least.min(time), count.saturating_add(1)));
}

fn known(times: Option<(Time, u32)>) -> Option<Time> {
    times.filter(|(_, count)| *count >= TRIPS).map(|(least, _)| least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_work_of_a_trip_is_not_its_time() {
        let us = Time::from_micros;
        let mut measured = Measured::default();
        (1..TRIPS).for_each(|n| measured.timed(us(60 + u64::from(n))));
        assert_eq!((measured.knows_trips(), measured.alpha_ns(12_000)), (false, 0));
        measured.timed(us(60));
        assert_eq!((measured.knows_trips(), measured.alpha_ns(12_000)), (true, 18_000));
        (1..TRIPS).for_each(|n| measured.handed(us(25 + u64::from(n))));
        assert_eq!(measured.alpha_ns(12_000), 18_000, "too few");
        measured.handed(us(25));
        assert_eq!(measured.alpha_ns(12_000), 5_000);
        measured.handed(us(100));
        assert_eq!(measured.alpha_ns(12_000), 5_000, "the least counts");
        (0..TRIPS).for_each(|_| measured.timed(us(10)));
        assert_eq!(measured.alpha_ns(12_000), 625, "never nothing");
    }
}
