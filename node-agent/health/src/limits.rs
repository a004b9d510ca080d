//! The numbers beside the rules, each with who published it.

use std::time::Duration;

/// What the detectors measure against.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Flaps within this time of a boot are the boot's. (OCI oci-hpc: 30 min.)
    pub boot_grace: Duration,
    /// A down of the link within this time of the driver's start is the driver's.
    pub life_grace: Duration,
    /// Downs of a link within [`Limits::flap_window`] that drain it. (gpud: 3 in 12 h.)
    pub flaps: u64,
    /// The time within which [`Limits::flaps`] downs drain a link.
    pub flap_window: Duration,
    /// Changes of the carrier from one sample to the next that drain it. (NVSentinel: more than 2 per interval.)
    pub carrier_changes: u64,
    /// Share of time paused that is a storm. (SONiC's watchdog: 0.99 of a poll; less here, because a poll of a second
    /// takes in the edges of the storm.)
    pub storm_share: f64,
    /// How long that share must last. (mlx5's own prevention: 0.1 s; SONiC's watchdog: 0.2 s; two samples at 1 s.)
    pub storm_for: Duration,
    /// Share of time paused that is no more congestion's work, though it lets some traffic through.
    pub pause_share: f64,
    /// How long that share must last.
    pub pause_for: Duration,
    /// Share of time paused below which a storm is over.
    pub calm_share: f64,
    /// Share of a job's bytes outside its priority. (The bar of the wrong-priority detector: 0.1 %.)
    pub priority_share: f64,
    /// Bytes a second outside the priority below which nothing is reported: the host's own control traffic.
    pub priority_floor: f64,
    /// How long that share must last.
    pub priority_for: Duration,
    /// What a rail carries of what its peers do, below which it is slow. (Three quarters of the 20 % that must be found;
    /// SuperBench: 5 % below a baseline that was measured in peace.)
    pub slow_ratio: f64,
    /// What it carries when it is not slow any more; below it at each sample, and it is slow.
    pub slow_remediated: f64,
    /// The time over which rails are compared.
    pub slow_over: Duration,
    /// Share of the speed of a link below which rails are not compared.
    pub slow_load: f64,
    /// How near to the middle most rails must be, so that their load is the same.
    pub slow_agree: f64,
    /// How long a cable must be found on the wrong rail.
    pub swapped_for: Duration,
    /// Marked packets without one notification that show that nobody notifies.
    pub marked_alone: u64,
    /// Samples without the device after which it is gone. (NVSentinel: 3.)
    pub absent: u32,
    /// Failures to read after which nothing is known.
    pub failures: u32,
    /// Conditions of a rail within a day that make it unfit. (NVSentinel: 5 that are not fatal in 24 h.)
    pub episodes: usize,
    /// How long what one rail shows is held back, to see whether all show it.
    pub settle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            boot_grace: seconds(1800),
            life_grace: seconds(30),
            flaps: 3,
            flap_window: seconds(12 * 3600),
            carrier_changes: 2,
            storm_share: 0.9,
            storm_for: seconds(2),
            pause_share: 0.5,
            pause_for: seconds(10),
            calm_share: 0.05,
            priority_share: 0.001,
            priority_floor: 1e6,
            priority_for: seconds(2),
            slow_ratio: 0.85,
            slow_remediated: 0.93,
            slow_over: seconds(7),
            slow_load: 0.05,
            slow_agree: 0.05,
            swapped_for: seconds(3),
            marked_alone: 10_000,
            absent: 3,
            failures: 3,
            episodes: 5,
            settle: seconds(2),
        }
    }
}
