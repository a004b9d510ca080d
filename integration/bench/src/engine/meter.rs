//! Processor time of some processes over a stretch of time that is known only afterwards: ranks say when their timed
//! repetitions began and ended, and what the processes used before (buffers made, first touches, warming up) does not count.

use std::{
    fs,
    sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::report::monotonic_ns;

/// Looks at the processes' clocks from time to time.
pub struct Meter {
    /// Its end stops the thread.
    stop: SyncSender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

/// Monotonic clock in nanoseconds, and processor seconds by then.
type Sample = (u64, f64);

impl Meter {
    /// Looks `every` so often at all threads of these processes.
    pub fn start(processes: Vec<u32>, every: Duration) -> Self {
        let (stop, stopped) = sync_channel(0);
        let thread = thread::spawn(move || {
            let mut checks = Vec::new();
            loop {
                checks.push((monotonic_ns(), used(&processes)));
                if stopped.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
                    checks.push((monotonic_ns(), used(&processes)));
                    return checks;
                }
            }
        });
        Self { stop, thread }
    }

    /// Ends it; processor seconds from `start` to `end` of the monotonic clock.
    pub fn between(self, start: u64, end: u64) -> f64 {
        drop(self.stop);
        let checks = self.thread.join().unwrap_or_default();
        at(&checks, end) - at(&checks, start)
    }
}

/// Processor seconds so far of all threads of these processes.
fn used(processes: &[u32]) -> f64 {
    let threads = |id: &u32| fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    let nanoseconds = |thread: fs::DirEntry| -> Option<f64> {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    processes.iter().flat_map(threads).filter_map(nanoseconds).sum::<f64>() / 1e9
}

/// What was used at a time: on the line between the looks before and after it.
fn at(checks: &[Sample], time: u64) -> f64 {
    let after = checks.partition_point(|inspect| inspect.0 <= time);
    match (after.checked_sub(1).map(|before| checks[before]), checks.get(after)) {
        (Some((t, used)), Some(&(next_t, next))) => {
            used + (next - used) * (time - t) as f64 / (next_t - t).max(1) as f64
        }
        (Some((_, used)), None) => used,
        (None, Some(&(_, used))) => used,
        (None, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_looks_lie_on_the_line() {
        let checks = [(100, 1.0), (200, 2.0), (300, 2.0), (400, 6.0)];
        for (time, used) in
            [(0, 1.0), (100, 1.0), (150, 1.5), (200, 2.0), (250, 2.0), (350, 4.0), (400, 6.0), (900, 6.0)]
        {
            assert_eq!(at(&checks, time), used, "{time}");
        }
        assert!(at(&[], 5).is_nan());
    }

    #[test]
    fn what_this_process_uses_is_seen() {
        let meter = Meter::start(vec![std::process::id()], Duration::from_millis(1));
        let start = monotonic_ns();
        let mut sum = 0u64;
        while monotonic_ns() < start + 50_000_000 {
            sum = (0..10_000).fold(sum, u64::wrapping_add);
        }
        assert!(sum > 0);
        let used = meter.between(start, monotonic_ns());
        assert!(used > 0.0 && used.is_finite(), "{used}");
    }
}
