//! Pictures are pictures.

use super::charts;
use crate::{Policy, Settings, Workload, summary::summary, tests};

#[test]
fn pictures_are_drawn_the_same_every_time() {
    let site = tests::site(&[3, 2]);
    let jobs: Vec<(u64, u64, u32)> =
        (0..200).map(|at| (at * 11, 5 + at * 53 % 400, [1, 3, 8, 16, 32][at as usize % 5])).collect();
    let workload = Workload::new(&tests::trace(&jobs), &site, &Settings::default()).unwrap();
    let outcomes: Vec<_> =
        Policy::ALL.iter().map(|policy| tests::outcome(&site, &workload, *policy)).collect();
    let summaries: Vec<_> = outcomes.iter().map(|outcome| summary(&site, &workload, outcome)).collect();
    let drawn = charts(&site, &workload, &outcomes, &summaries);
    assert_eq!(
        drawn.iter().map(|chart| chart.name).collect::<Vec<_>>(),
        ["utilisation", "waits", "fragmentation", "cut"]
    );
    for chart in &drawn {
        let svg = chart.scene.svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
        for policy in Policy::ALL {
            assert!(svg.contains(policy.name()), "{}", chart.name);
        }
        let png = chart.scene.png().unwrap();
        assert_eq!(png[..8], *b"\x89PNG\r\n\x1a\n");
        assert_eq!(png, chart.scene.png().unwrap());
    }
}

#[test]
fn nothing_can_be_drawn_too() {
    let site = tests::site(&[1]);
    let workload = Workload::new(&tests::trace(&[(0, 1, 1)]), &site, &tests::as_is()).unwrap();
    for chart in charts(&site, &workload, &[], &[]) {
        assert!(!chart.scene.svg().contains("NaN"), "{}", chart.name);
        assert!(chart.scene.png().is_ok());
    }
}

/// Waits of days are not squeezed under a scale that begins at a second.
#[test]
fn the_scale_of_waits_fits_the_waits() {
    let site = tests::site(&[2]);
    let jobs: Vec<(u64, u64, u32)> = (0..60).map(|at| (at, 20_000, 16)).collect();
    let workload = Workload::new(&tests::trace(&jobs), &site, &tests::as_is()).unwrap();
    let outcome = tests::outcome(&site, &workload, Policy::Fifo);
    let summaries = [summary(&site, &workload, &outcome)];
    let drawn = charts(&site, &workload, &[outcome], &summaries);
    let svg = drawn[1].scene.svg();
    assert!(svg.contains(">4d<") && svg.contains(">7d<"), "{svg}");
    assert!(!svg.contains(">1h<") && !svg.contains("1s<"), "{svg}");
    // Every picture says what it is of.
    for chart in &drawn {
        assert!(chart.scene.svg().contains("60 jobs on small, load "), "{}", chart.name);
    }
}
