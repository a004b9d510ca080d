//! The bounded part of row E6: a day without an alarm, twenty faults of each kind found. `cargo xtask bench health --row
//! E6` runs all of it.

use std::time::Duration;

use crate::{
    Vendor,
    model::{Kind, inject, month},
};

const DAY: u64 = 24 * 3600;
const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn a_day_of_noise_raises_no_alarm() {
    for (seed, seconds, vendor) in [(1, DAY, Vendor::Mlx5), (2, DAY / 4, Vendor::BnxtRe)] {
        let noise = month(seed, seconds, vendor);
        assert!(noise.samples > seconds * 8 * 9 / 10, "seed {seed}: {} samples", noise.samples);
        assert_eq!(noise.alarms, [], "seed {seed}, {vendor:?}");
    }
}

#[test]
fn every_fault_is_found_within_ten_seconds() {
    for kind in Kind::ALL {
        for seed in 0..20 {
            let found = inject(seed, kind, Vendor::Mlx5);
            let after = found.after.unwrap_or(Duration::MAX);
            assert!(after <= LIMIT, "seed {seed}: {:?} after {after:?}", found.fault);
            assert_eq!(found.alarms, [], "seed {seed}: {:?}", found.fault);
            assert!(found.drained || !found.fault.must_drain(), "seed {seed}: {:?}", found.fault);
        }
    }
}

/// Its counters of bytes are missing at one look in the middle of the seven that are needed.
#[test]
fn a_slow_rail_is_found_although_a_look_at_it_told_nothing() {
    let found = inject(22, Kind::Slow, Vendor::Mlx5);
    assert!(found.after.is_some_and(|after| after <= LIMIT), "{found:?}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    assert_eq!(month(7, 3600, Vendor::Mlx5), month(7, 3600, Vendor::Mlx5));
    assert_eq!(inject(7, Kind::Storm, Vendor::Mlx5), inject(7, Kind::Storm, Vendor::Mlx5));
}
