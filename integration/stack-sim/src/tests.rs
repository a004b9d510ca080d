//! A bounded part of what `cargo xtask stack` runs. That a seed is its run is not tested here: it needs the runtime's seeds,
//! see `cargo xtask test`.

use crate::{
    cli::{Sweep, replay, story, sweep},
    config::Config,
    plant::Bug,
    world::run,
};

const ONCE: Sweep = Sweep { twice: false, survey: false, stride: 1 };

#[test]
fn a_few_seeds_hold_and_are_worth_something() {
    let config = Config::default();
    let sums = sweep(0..10, ONCE, &config);
    if let Some((seed, why)) = sums.failed.first() {
        panic!("{}\nseed {seed}: {why}\nreplay: {}", story(*seed, &config), replay(*seed, &config));
    }
    assert_eq!(sums.seeds, 10);
    assert!(sums.acknowledged > 80, "{sums:?}");
    assert!(sums.take_overs > 15, "{sums:?}");
}

/// `cargo xtask test` looks for all of them.
#[test]
fn some_planted_bugs_are_found() {
    for bug in [Bug::StaleReads, Bug::NewRequestId] {
        let sums = sweep(0..200, ONCE, &Config { bug: Some(bug), ..Config::default() });
        let (seed, why) = sums.failed.first().unwrap_or_else(|| panic!("{bug:?} is not found"));
        let without = run(*seed, &Config::default());
        assert_eq!(without.violation, None, "seed {seed} fails without {bug:?} too; with it: {why}");
    }
}

#[test]
fn a_replay_says_what_is_unusual() {
    let config = Config { faults: 3, bug: Some(Bug::NoGuard), ..Config::default() };
    assert_eq!(replay(7, &config), "cargo xtask stack --seed 7 --story --faults 3 --bug NoGuard");
    assert_eq!(replay(7, &Config::default()), "cargo xtask stack --seed 7 --story");
}
