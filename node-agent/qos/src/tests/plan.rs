//! Plans: E5, and what holds for any port.

use std::collections::BTreeSet;

use crate::{
    plan::{Options, plan},
    trial,
};

const ANY: Options = Options { force: true, take_dcbx: true };

/// As many as E5 asks for; a longer run is the bench's.
const CASES: u64 = 1000;

#[test]
fn every_mutation_is_named_and_mended() {
    let mut seen = BTreeSet::new();
    for seed in 0..CASES {
        let case = trial::wrong(seed);
        seen.insert(case.name.clone());
        let outcome = trial::judge(&case);
        assert!(
            outcome.named && outcome.mended,
            "seed {seed} ({}, {}, {}): {}",
            case.vendor.name,
            case.profile.spec().name,
            case.name,
            outcome.trouble
        );
    }
    let all: BTreeSet<String> = trial::mutation_names().into_iter().map(str::to_owned).collect();
    assert_eq!(seen, all, "each mutation comes up");
}

#[test]
fn noise_is_no_deviation() {
    for seed in 0..CASES {
        let case = trial::right(seed);
        let outcome = trial::judge(&case);
        assert!(outcome.named && outcome.mended, "seed {seed} ({}): {}", case.vendor.name, outcome.trouble);
        let plan = plan(&case.profile, &case.observed, case.vendor, ANY).unwrap();
        assert!(plan.edits.is_empty() && plan.withheld.is_empty());
    }
}
