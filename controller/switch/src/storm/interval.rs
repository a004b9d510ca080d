//! Readings of counters, and what happened between two of them.

use super::{Plane, PortId};

/// What a port counts of one priority can be late by so much, in milliseconds.
const LATE: u64 = 2_500;
/// Of an interval, a port that is stopped is paused for this share at least, in thousandths.
const STOPPED: u64 = 990;

/// A counter as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// Its value.
    pub value: u64,
    /// After so many bits it begins anew: 32 or 64.
    pub bits: u8,
}

impl Counter {
    /// How much it has grown, if it wrapped once at most. After a reset that is a number which cannot be.
    fn since(self, before: Counter) -> u64 {
        let grown = self.value.wrapping_sub(before.value);
        if self.bits >= 64 { grown } else { grown & ((1 << self.bits) - 1) }
    }
}

/// What a port has counted of the lossless priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// When, in milliseconds.
    pub at: u64,
    /// Microseconds for which its peer had told it to pause.
    pub paused: Counter,
    /// Bytes that it has sent.
    pub sent: Counter,
    /// Something waits in its queue.
    pub is_queued: bool,
}

/// What happened between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Share of the time that the port was paused, in thousandths.
    pub paused: u64,
    /// Bytes that it has sent.
    pub sent: u64,
    /// Milliseconds.
    pub took: u64,
    /// It was paused all the time, and had something to send.
    pub is_stopped: bool,
}

/// The last readings of all ports.
#[derive(Debug, Clone)]
pub struct Watch {
    ports: Vec<Port>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Port {
    /// Bytes a millisecond at its full rate.
    line: u64,
    last: Option<Reading>,
    interval: Option<Interval>,
    /// Since when it is stopped without a break.
    stopped_since: Option<u64>,
}

impl Watch {
    /// Nothing was read yet. `gbps` is the rate of the ports.
    #[must_use]
    pub fn new(plane: &Plane, gbps: u64) -> Self {
        let port = Port { line: gbps * 125_000, ..Port::default() };
        Watch { ports: vec![port; plane.len()] }
    }

    /// The rate of one port, in Mbit/s.
    pub fn set_rate(&mut self, port: PortId, mbps: u64) {
        self.ports[port.0 as usize].line = mbps.saturating_mul(125);
    }

    /// Takes a reading of a port; one that is older than the last is not used.
    pub fn take(&mut self, port: PortId, reading: Reading) {
        let port = &mut self.ports[port.0 as usize];
        let line = port.line;
        let Some(last) = port.last.filter(|last| reading.at > last.at) else {
            if port.last.is_none() {
                port.last = Some(reading);
            }
            return;
        };
        let took = reading.at - last.at;
        let (paused, sent) = (reading.paused.since(last.paused), reading.sent.since(last.sent));
        // A counter that was reset, or a gap in which too much may have happened, says nothing. 5 % is for clocks that differ.
        let can_be =
            paused <= took * 1_050 && sent <= (took + took / 20 + 1).saturating_mul(line) && took <= LATE;
        let interval = can_be.then(|| {
            let paused = (paused / took).min(1_000);
            let is_stopped = paused >= STOPPED && sent == 0 && last.is_queued && reading.is_queued;
            Interval { paused, sent, took, is_stopped }
        });
        let is_stopped = interval.is_some_and(|interval| interval.is_stopped);
        port.stopped_since = if is_stopped { port.stopped_since.or(Some(last.at)) } else { None };
        (port.last, port.interval) = (Some(reading), interval);
    }

    /// What happened last at a port; `None` where that is not known.
    #[must_use]
    pub fn last(&self, port: PortId, now: u64) -> Option<Interval> {
        let port = &self.ports[port.0 as usize];
        let fresh = port.last.is_some_and(|last| now.saturating_sub(last.at) <= LATE);
        port.interval.filter(|_| fresh)
    }

    /// When what happened last began, in milliseconds; `None` where that is not known.
    #[must_use]
    pub fn known_since(&self, port: PortId, now: u64) -> Option<u64> {
        let interval = self.last(port, now)?;
        self.ports[port.0 as usize].last.map(|last| last.at - interval.took)
    }

    /// For how long the port is stopped, in milliseconds, up to its last reading.
    #[must_use]
    pub fn stopped_for(&self, port: PortId, now: u64) -> u64 {
        let state = &self.ports[port.0 as usize];
        let since = state.stopped_since.filter(|_| self.last(port, now).is_some());
        match (state.last, since) {
            (Some(last), Some(since)) => last.at - since,
            _ => 0,
        }
    }
}
