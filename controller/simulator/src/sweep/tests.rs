//! The front, the advice, and that both are of what was run.

use super::*;
use crate::{
    Settings, plot,
    report::{FabricTold, SchedulerTold, TraceTold, WorkloadTold},
    run, tests,
    trace::{Account, Format},
};

fn point(name: &str, policy: &'static str, mean_wait: f64, large: f64, utilisation: f64) -> Point {
    Point {
        name: name.to_owned(),
        policy,
        flags: format!("--{name}"),
        mean_wait,
        p99: mean_wait * 10.0,
        large_p99: Some(large),
        utilisation,
        never_started: 0,
        on_front: false,
        violations: 0,
    }
}

fn workload(site: &Site) -> Workload {
    let jobs: Vec<(u64, u64, u32)> =
        (0..300).map(|at| (at * 11, 5 + at * 53 % 700, [1, 3, 8, 16, 32, 64][at as usize % 6])).collect();
    Workload::new(&tests::trace(&jobs), site, &Settings::default()).unwrap()
}

fn inputs(site: &Site, workload: &Workload) -> Inputs {
    Inputs {
        scheduler: SchedulerTold::new(&Rules::default()),
        trace: TraceTold::new("jobs", Format::Philly, &Account::default()),
        fabric: FabricTold::new(site, Vec::new(), Vec::new()),
        workload: WorkloadTold::new(workload),
    }
}

fn sweep(points: Vec<Point>) -> Sweep {
    let site = tests::site(&[4, 4]);
    let workload = workload(&site);
    Sweep::new(inputs(&site, &workload), &workload, 64, points)
}

#[test]
fn who_is_worse_in_nothing_is_on_the_front() {
    let swept = sweep(vec![
        point("a", "ours", 10.0, 100.0, 0.9),
        point("b", "ours", 20.0, 50.0, 0.9),
        // Worse than a in all, than b in none of the others.
        point("c", "ours", 20.0, 100.0, 0.8),
        point("d", "ours", 30.0, 60.0, 0.95),
        point("easy", "easy", 15.0, 120.0, 0.85),
    ]);
    let front: Vec<&str> =
        swept.points.iter().filter(|point| point.on_front).map(|point| point.name.as_str()).collect();
    assert_eq!(front, ["a", "b", "d"]);
}

#[test]
fn the_advice_is_no_worse_than_easy_in_either_where_that_can_be() {
    let swept = sweep(vec![
        point("a", "ours", 10.0, 100.0, 0.9),
        point("b", "ours", 12.0, 50.0, 0.9),
        point("c", "ours", 20.0, 1.0, 0.9),
        point("easy", "easy", 15.0, 120.0, 0.85),
    ]);
    // c has the least product, and a mean wait above EASY's.
    assert_eq!(swept.advice.as_ref().unwrap().setting, "b");
    assert!(swept.text().contains("\nAdvised   b: rail-controller run --b\n"), "{}", swept.text());
    let none = sweep(vec![
        point("a", "ours", 10.0, 200.0, 0.9),
        point("b", "ours", 18.0, 50.0, 0.9),
        point("easy", "easy", 15.0, 120.0, 0.95),
    ]);
    let advice = none.advice.unwrap();
    assert_eq!(advice.setting, "b");
    assert!(advice.reasons.iter().any(|reason| reason.contains("no setting is as good as EASY in both")));
}

#[test]
fn large_jobs_that_wait_clearly_less_outweigh_a_shorter_mean() {
    let swept = sweep(vec![
        // The least product, and yet large jobs gain little.
        point("a", "ours", 5.0, 110.0, 0.9),
        point("b", "ours", 14.0, 90.0, 0.9),
        point("easy", "easy", 15.0, 120.0, 0.85),
    ]);
    assert_eq!(swept.advice.unwrap().setting, "b");
}

#[test]
fn jobs_that_never_start_are_no_way_to_short_waits() {
    let mut quick = point("quick", "ours", 1.0, 1.0, 0.9);
    quick.never_started = 3;
    let swept =
        sweep(vec![quick, point("all", "ours", 10.0, 10.0, 0.9), point("easy", "easy", 9.0, 9.0, 0.9)]);
    assert_eq!(swept.advice.unwrap().setting, "all");
}

#[test]
fn large_is_what_there_is_enough_of() {
    let site = tests::site(&[4, 4]);
    let of = |gpus: &[u32]| {
        let jobs: Vec<(u64, u64, u32)> =
            (0..400).map(|at| (at, 10, gpus[at as usize % gpus.len()])).collect();
        large_from(&Workload::new(&tests::trace(&jobs), &site, &tests::as_is()).unwrap())
    };
    assert_eq!((of(&[64, 1]), of(&[8, 1]), of(&[1])), (64, 8, 2));
}

/// Every setting is run on the same jobs and proved; the text, the JSON and the picture tell the same.
#[test]
fn a_sweep_is_told_in_three_ways() {
    let site = tests::site(&[4, 4]);
    let workload = workload(&site);
    let large = large_from(&workload);
    let settings = settings(&Rules::default(), &site, &workload);
    let points = settings.iter().map(|setting| {
        let mut scheduler = setting.policy.scheduler(&site, &workload, &setting.rules, 1);
        Point::new(&site, &workload, setting, large, &run(&site, &workload, &mut *scheduler, &mut ()))
    });
    let swept = Sweep::new(inputs(&site, &workload), &workload, large, points.collect());
    assert!(swept.points.iter().all(|point| point.violations == 0 && point.never_started == 0));
    let advised = swept.advised().unwrap();
    assert!(advised.on_front && advised.policy == "ours");
    let text = swept.text();
    for setting in &settings {
        assert!(text.contains(&setting.name), "{text}");
    }
    let json = swept.json();
    assert_eq!(json["schema"], SCHEMA);
    assert_eq!(json["points"].as_array().unwrap().len(), settings.len());
    assert_eq!(json["advice"]["setting"], advised.name.as_str());
    let chart = plot::pareto(&swept).unwrap();
    let svg = chart.scene.svg();
    assert!(svg.contains("mean wait of all jobs") && !svg.contains("NaN"), "{svg}");
    assert!(chart.scene.png().is_ok());
}

/// The GPU-hours that are tried are parts of the trace's own largest job, and no setting is tried twice.
#[test]
fn what_is_tried_follows_from_the_largest_job() {
    let site = tests::site(&[4, 4]);
    let of = |gpus: u32, seconds: u64| {
        let trace = tests::trace(&[(0, 10, 1), (5, seconds, gpus)]);
        let workload = Workload::new(&trace, &site, &tests::as_is()).unwrap();
        settings(&Rules::default(), &site, &workload)
    };
    let tried = |settings: &[Setting]| {
        let hours = |setting: &Setting| setting.rules.objective.and_then(Objective::full_delay_gpu_hours);
        settings.iter().filter_map(hours).collect::<std::collections::BTreeSet<u32>>()
    };
    let large = of(64, 100 * 3600);
    let expected = [830, 1100, 1600, 2200, 3200, 4500, 6400, 9000, 12_000, 18_000, 25_000];
    assert_eq!(tried(&large).into_iter().collect::<Vec<_>>(), expected);
    let flags: Vec<String> = large.iter().map(|setting| flags(&setting.rules)).collect();
    assert!(flags.iter().any(|flags| flags == "--objective mean-wait:384h:6400"), "{flags:?}");
    // No job is small and long, so no limit of those is tried; where one is, small is who takes no server whole.
    assert!(large.iter().all(|setting| setting.rules.long_jobs.is_none()));
    let long = of(1, 100 * 3600);
    let limits: std::collections::BTreeSet<String> =
        long.iter().filter_map(|setting| setting.rules.long_jobs).map(|limit| limit.to_string()).collect();
    assert_eq!(limits.into_iter().collect::<Vec<_>>(), ["72h:2:2"]);
    let small = of(1, 60);
    assert_eq!(tried(&small).into_iter().collect::<Vec<_>>(), [1]);
    for settings in [large, small] {
        let names: std::collections::BTreeSet<&str> =
            settings.iter().map(|setting| setting.name.as_str()).collect();
        assert_eq!(names.len(), settings.len());
    }
}
