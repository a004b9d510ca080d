//! Two thousand seeds hold; a seed is its run; planted bugs are found.

use crate::{Bug, Config, Report, cli::replay, run};

/// Runs seeds on two threads and gives the first failing report of each.
fn failures(seeds: std::ops::Range<u64>, config: &Config) -> Vec<Report> {
    let first = |parity: u64| {
        let mut mine = seeds.clone().filter(|seed| seed % 2 == parity);
        mine.find_map(|seed| Some(run(seed, config)).filter(|report| report.violation.is_some()))
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| first(1));
        let mut found: Vec<Report> = first(0).into_iter().collect();
        found.extend(other.join().unwrap());
        found
    })
}

fn hold(seeds: std::ops::Range<u64>, config: &Config) {
    let found = failures(seeds, config);
    let told: Vec<String> =
        found.iter().map(|report| format!("{report}\nreplay: {}", replay(report.seed, config))).collect();
    assert!(found.is_empty(), "{}", told.join("\n"));
}

#[test]
fn two_thousand_seeds() {
    let config = Config::default();
    hold(0..2000, &config);
}

#[test]
fn larger_worlds() {
    let config = Config { nodes: 9, jobs: 60, chaos_ms: 180_000, ..Config::default() };
    hold(0..60, &config);
}

#[test]
fn a_seed_is_its_run() {
    let config = Config::default();
    for seed in 0..40 {
        assert_eq!(run(seed, &config), run(seed, &config), "seed {seed}");
    }
    let told = Config { story: true, ..config.clone() };
    assert_eq!(run(3, &told).story, run(3, &told).story);
    assert_eq!(run(3, &told).digest, run(3, &config).digest, "telling the story changes the run");
    assert_ne!(run(3, &config).digest, run(4, &config).digest);
}

#[test]
fn the_runs_are_worth_something() {
    let reports: Vec<Report> = (0..100).map(|seed| run(seed, &Config::default())).collect();
    let sum = |pick: fn(&Report) -> u64| reports.iter().map(pick).sum::<u64>();
    assert!(sum(|r| r.acknowledged) > 500, "{}", sum(|r| r.acknowledged));
    assert!(sum(|r| r.faults) > 1000, "{}", sum(|r| r.faults));
    assert!(sum(|r| r.restarts) > 50, "{}", sum(|r| r.restarts));
    for at in 0..3 {
        let ended: u64 = reports.iter().map(|report| report.ended[at]).sum();
        assert!(ended > 50, "{at}: {ended}");
    }
}

#[test]
fn planted_bugs_are_found() {
    for bug in Bug::ALL {
        let config = Config { bug: Some(bug), ..Config::default() };
        let found = failures(0..3000, &config);
        assert!(!found.is_empty(), "{bug:?} is not found in 3000 seeds");
    }
}
