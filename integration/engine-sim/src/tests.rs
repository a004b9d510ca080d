//! A few hundred seeds of each row; `cargo xtask sim engine` runs the rest.

use crate::{bits, deadlines};

#[test]
fn bits_depend_on_nothing_but_the_question() {
    for seed in 0..400 {
        bits::run(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// A rail fell silent while the only other one was being proved: the question whether the peer is there went out over the silent
/// rail alone, and was not asked again. And (the last): an end that was closed while its rail was dark, with both ends quiet,
/// was not found out before the peer gave up.
#[test]
fn seeds_that_found_something() {
    for seed in [24_286, 53_029, 75_966, 82_334, 3942] {
        bits::run(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

#[test]
fn every_call_ends_in_time_and_says_why() {
    let mut failures = 0;
    for seed in 0..400 {
        let outcome = deadlines::run(seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        failures += outcome.failures;
    }
    assert!(failures > 400, "{failures}");
}

#[test]
fn a_seed_gives_the_same_run_twice() {
    for seed in [5, 7, 12] {
        assert_eq!(bits::run(seed), bits::run(seed));
        let [one, two] =
            [deadlines::run(seed), deadlines::run(seed)].map(|o| o.map(|o| (o.failures, o.over)));
        assert_eq!(one, two);
    }
}
