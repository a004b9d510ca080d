//! What was in use over time, in bins of equal length.

use proto_model::Timestamp;

/// Bins of a series.
pub const BINS: usize = 480;

/// What is in use at a moment, in GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gauge {
    /// GPUs that jobs hold.
    pub busy: u64,
    /// GPUs that no job holds.
    pub free: u64,
    /// Not held, of servers of which nothing is held.
    pub idle: u64,
    /// GPUs that waiting jobs ask for.
    pub queued: u64,
}

impl Gauge {
    /// The part of the free GPUs that no job on whole servers can have.
    #[must_use]
    pub fn fragmentation(&self) -> f64 {
        if self.free == 0 { 0.0 } else { 1.0 - self.idle as f64 / self.free as f64 }
    }
}

/// Sums over one bin, each times milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bin {
    /// Milliseconds of the bin that were looked at.
    pub time: f64,
    /// GPUs that jobs held, each times the milliseconds for which they did; the fields below likewise.
    pub busy: f64,
    /// The part of free GPUs on servers that are broken into.
    pub fragmentation: f64,
    /// Free GPUs on servers that are broken into.
    pub stranded: f64,
    /// GPUs that waiting jobs ask for.
    pub queued: f64,
}

/// The time from the first submit to the last.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The end of the time that is looked at: the last submit.
    pub window: Timestamp,
    /// The bins in the order of time, all of one length.
    pub bins: Vec<Bin>,
    at: u64,
}

impl Series {
    /// From 0 to the end of the window.
    #[must_use]
    pub fn new(window: Timestamp) -> Self {
        Self { window, bins: vec![Bin::default(); BINS], at: 0 }
    }

    /// Adds the time until `now`, during which `gauge` was in use.
    pub fn until(&mut self, now: Timestamp, gauge: &Gauge) {
        let end = now.0.min(self.window.0);
        let width = (self.window.0 as f64 / BINS as f64).max(1.0);
        while self.at < end {
            let bin = ((self.at as f64 / width) as usize).min(BINS - 1);
            let border = (((bin + 1) as f64) * width) as u64;
            let until = if bin + 1 == BINS { end } else { border.clamp(self.at + 1, end) };
            let time = (until - self.at) as f64;
            let bin = &mut self.bins[bin];
            bin.time += time;
            bin.busy += time * gauge.busy as f64;
            bin.fragmentation += time * gauge.fragmentation();
            bin.stranded += time * gauge.free.saturating_sub(gauge.idle) as f64;
            bin.queued += time * gauge.queued as f64;
            self.at = until;
        }
    }

    /// Means of a quantity, bin by bin; `None` where nothing was looked at.
    pub fn means(&self, of: impl Fn(&Bin) -> f64) -> Vec<Option<f64>> {
        self.bins.iter().map(|bin| (bin.time > 0.0).then(|| of(bin) / bin.time)).collect()
    }

    /// The mean over the whole window.
    pub fn mean(&self, of: impl Fn(&Bin) -> f64) -> f64 {
        let time: f64 = self.bins.iter().map(|bin| bin.time).sum();
        if time > 0.0 { self.bins.iter().map(of).sum::<f64>() / time } else { 0.0 }
    }
}
