//! Small clusters, small traces.

use proto_model::{Fabric, Leaf, LinkGroup, Names, Rail, Timestamp};

use crate::{
    Outcome, Policy, Rules, Settings, Site, TraceJob, Workload, bound,
    report::{self, FabricTold, Inputs, Report, SchedulerTold, TraceTold, WorkloadTold},
    run,
    site::fewest_pods,
    summary::summary,
    trace::{
        self,
        row::{self, Asks},
    },
};

mod servers;

/// Pods of so many servers with 4 rails.
pub(crate) fn fabric(pods: &[u32]) -> Fabric {
    let mut fabric = Fabric { name: "small".into(), ..Fabric::default() };
    fabric.rails.extend((0..4).map(|index| Rail { index, name: format!("rail{index}") }));
    let mut first = 0;
    for (pod, nodes) in pods.iter().enumerate() {
        let names = Names::of((first..first + nodes).map(|at| format!("gpu{at:03}")));
        first += nodes;
        for rail in 0..4 {
            let (leaf, pod) = (format!("leaf-{pod}-{rail}"), format!("pod{pod}"));
            fabric.leaves.push(Leaf { name: leaf.clone(), rail, pod, ..Leaf::default() });
            let (nodes, nic) = (names.clone(), format!("mlx5_{rail}"));
            fabric.link_groups.push(LinkGroup {
                nodes,
                nic,
                leaf,
                speed_mbps: 200_000,
                ..LinkGroup::default()
            });
        }
    }
    fabric
}

pub(crate) fn site(pods: &[u32]) -> Site {
    Site::new(fabric(pods), 8).unwrap()
}

/// Jobs of `(submit, run, gpus)` in seconds.
pub(crate) fn trace(jobs: &[(u64, u64, u32)]) -> Vec<TraceJob> {
    let job = |(line, (submit, run, gpus)): (u64, &(u64, u64, u32))| TraceJob {
        line,
        submit: submit * 1000,
        run: run * 1000,
        limit: None,
        gpus: *gpus,
        tenant: format!("t{}", line % 3),
        own: None,
        asks: Asks::default(),
    };
    (2..).zip(jobs).map(job).collect()
}

/// As they come.
pub(crate) fn as_is() -> Settings {
    Settings { load: None, ..Settings::default() }
}

pub(crate) fn outcome(site: &Site, workload: &Workload, policy: Policy) -> Outcome {
    outcome_by(site, workload, policy, &Rules::default())
}

fn outcome_by(site: &Site, workload: &Workload, policy: Policy, rules: &Rules) -> Outcome {
    let mut scheduler = policy.scheduler(site, workload, rules, 1);
    let outcome = run(site, workload, &mut *scheduler, &mut ());
    assert_eq!((outcome.violations, &outcome.reported), (0, &Vec::new()), "{}", outcome.policy);
    let restarts: u64 = outcome.rows.iter().map(|row| u64::from(row.restarts)).sum();
    assert_eq!(outcome.proved, outcome.rows.len() as u64 + restarts);
    outcome
}

fn starts(outcome: &Outcome) -> Vec<u64> {
    outcome.rows.iter().map(|row| row.start.unwrap().0 / 1000).collect()
}

#[test]
fn each_scheduler_does_what_it_is_known_for() {
    // Two servers; the second job needs both, the third and fourth one each.
    let site = site(&[2]);
    let jobs = trace(&[(0, 100, 8), (1, 100, 16), (2, 90, 8), (3, 150, 8), (4, 10, 1)]);
    let workload = Workload::new(&jobs, &site, &as_is()).unwrap();
    assert_eq!(starts(&outcome(&site, &workload, Policy::Fifo)), [0, 100, 200, 200, 290]);
    // The third ends before the second could start; the fourth would not.
    assert_eq!(starts(&outcome(&site, &workload, Policy::Easy)), [0, 100, 2, 200, 200]);
    let random = outcome(&site, &workload, Policy::Random);
    assert_eq!(starts(&random), [0, 100, 200, 200, 290]);
}

#[test]
fn large_jobs_have_a_head_start_where_one_is_set() {
    let site = site(&[2]);
    let workload = Workload::new(&trace(&[(0, 100, 16), (5, 50, 8), (20, 50, 16)]), &site, &as_is()).unwrap();
    let second = std::time::Duration::from_secs(1);
    let ours = Rules { head_start: second * 20, ..Rules::default() };
    let easy = Rules { easy_head_start: second * 20, ..Rules::default() };
    let (small, large) = ([0, 100, 150], [0, 150, 100]);
    for (policy, rules, right) in [
        (Policy::Ours, ours, large),
        (Policy::Ours, easy, small),
        (Policy::Easy, easy, large),
        (Policy::Easy, ours, small),
        // The large job came 15 s later: one doubling is too little.
        (Policy::Easy, Rules { easy_head_start: second * 14, ..easy }, small),
    ] {
        assert_eq!(starts(&outcome_by(&site, &workload, policy, &rules)), right, "{policy:?} {rules:?}");
    }
}

#[test]
fn a_part_of_a_server_goes_where_the_least_is_left() {
    // Pods of one server each: 5 and 2 GPUs are left on two of them; what takes 2 fills the second, what
    // takes 5 the first, and the third stays whole.
    let site = site(&[1, 1, 1]);
    let jobs = trace(&[(0, 90, 3), (0, 90, 6), (1, 50, 2), (2, 50, 5), (3, 50, 8)]);
    let workload = Workload::new(&jobs, &site, &as_is()).unwrap();
    let outcome = outcome(&site, &workload, Policy::Ours);
    assert_eq!(starts(&outcome), [0, 0, 1, 2, 3]);
}

#[test]
fn tree_best_fit_takes_the_smallest_switch_that_holds_a_gang() {
    let site = site(&[6, 3, 4]);
    let jobs = trace(&[(0, 50, 16), (0, 50, 32), (0, 50, 48), (1, 10, 8)]);
    let workload = Workload::new(&jobs, &site, &as_is()).unwrap();
    for policy in [Policy::Fifo, Policy::Easy] {
        let outcome = outcome(&site, &workload, policy);
        let pods: Vec<u32> = outcome.rows.iter().map(|row| row.pods).collect();
        assert_eq!(pods, [1, 1, 1, 1], "2 in the pod of 3, 4 in that of 4, 6 in that of 6");
        assert_eq!(outcome.rows.iter().map(|row| row.rails).collect::<Vec<_>>(), [4, 4, 4, 4]);
    }
}

#[test]
fn a_gang_over_pods_is_cut() {
    let site = site(&[2, 2]);
    let workload = Workload::new(&trace(&[(0, 50, 24)]), &site, &as_is()).unwrap();
    for policy in Policy::ALL {
        let row = outcome(&site, &workload, policy).rows[0].clone();
        assert_eq!((row.pods, row.fewest, row.fewest_then, row.cut), (2, 2, 2, 8), "{policy:?}");
    }
}

#[test]
fn loads_are_made() {
    let site = site(&[4]);
    let jobs = trace(&[(0, 100, 8), (50, 100, 8), (100, 100, 16)]);
    let workload = Workload::new(&jobs, &site, &Settings::default()).unwrap();
    // 3200 GPU-seconds on 32 GPUs in 100 s.
    assert!((workload.natural_load - 1.0).abs() < 1e-9, "{}", workload.natural_load);
    assert!((workload.load - 0.95).abs() < 1e-9);
    assert_eq!(workload.jobs[2].submit, Timestamp(105_263));
    let faster = Settings { speedup: 4.0, ..as_is() };
    assert_eq!(Workload::new(&jobs, &site, &faster).unwrap().jobs[2].submit, Timestamp(25_000));
    let some = Settings { from: 50_000, jobs: Some(1), ..as_is() };
    let workload = Workload::new(&jobs, &site, &some).unwrap();
    assert_eq!((workload.jobs.len(), workload.jobs[0].line, workload.outside), (1, 3, 2));
    assert_eq!(workload.jobs[0].submit, Timestamp(0));
    let large = Workload::new(&trace(&[(0, 1, 1), (0, 1, 33)]), &site, &as_is()).unwrap();
    assert_eq!((large.jobs.len(), large.too_large_count, &large.too_large[..]), (1, 1, &[3][..]));
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let site = site(&[4]);
    let jobs = trace(&[(0, 100, 8), (0, 100, 8)]);
    let error = |settings| Workload::new(&jobs, &site, &settings).unwrap_err().to_string();
    for (settings, words) in [
        (Settings { load: Some(0.0), ..as_is() }, "load: 0"),
        (Settings { load: Some(f64::NAN), ..as_is() }, "load: NaN"),
        (Settings { speedup: -1.0, ..as_is() }, "speedup: -1"),
        (Settings { estimate: 0.5, ..as_is() }, "estimate: 0.5"),
        (Settings { from: 1, ..as_is() }, "no job is left"),
        (Settings::default(), "same time"),
    ] {
        let reported = error(settings.clone());
        assert!(reported.contains(words), "{settings:?}: {reported}");
    }
    assert!(Site::new(Fabric::default(), 8).is_err());
    assert!(Site::new(fabric(&[1]), 0).is_err());
    assert!(Site::new(fabric(&[1]), 8).is_ok(), "a fabric of one server is one");
}

#[test]
fn nobody_passes_the_bound() {
    let site = site(&[3, 3]);
    let jobs: Vec<(u64, u64, u32)> = (0..400)
        .map(|at| (at * 7, 20 + at * 37 % 300, [1, 1, 2, 4, 8, 8, 16, 24][at as usize % 8]))
        .collect();
    let workload = Workload::new(&trace(&jobs), &site, &Settings::default()).unwrap();
    for policy in Policy::ALL {
        let outcome = outcome(&site, &workload, policy);
        let reported = summary(&site, &workload, &outcome);
        assert!(reported.utilisation <= reported.bound + 1e-9, "{policy:?}: {reported:?}");
        assert!(reported.utilisation > 0.3 && reported.bound < 0.96, "{policy:?}: {reported:?}");
        assert_eq!(reported.by_size.iter().map(|size| size.waits.jobs).sum::<usize>(), 400);
    }
    // One job of 8 GPUs for 50 of 100 s: 400 of 4,800 GPU-seconds.
    let one = Workload::new(&trace(&[(0, 50, 8), (100, 1, 1)]), &site, &as_is()).unwrap();
    assert!((bound::utilisation(&one.jobs, 48, 100_000) - 400.0 / 4_800.0).abs() < 1e-12);
}

#[test]
fn the_same_day_twice_is_the_same_to_the_byte() {
    let site = site(&[3, 2]);
    let jobs: Vec<(u64, u64, u32)> =
        (0..300).map(|at| (at * 11, 5 + at * 53 % 400, [1, 3, 8, 16, 32][at as usize % 5])).collect();
    let settings = Settings { estimate: 3.0, ..Settings::default() };
    let day = || {
        let workload = Workload::new(&trace(&jobs), &site, &settings).unwrap();
        let outcomes: Vec<Outcome> =
            Policy::ALL.iter().map(|policy| outcome(&site, &workload, *policy)).collect();
        report::csv(&workload, &outcomes)
    };
    let text = day();
    assert_eq!(text, day());
    assert_eq!(text.lines().count(), 1 + 4 * 300);
}

#[test]
fn pods_are_counted_by_their_room() {
    assert_eq!(fewest_pods(&[2, 5, 3], 5), Some(1));
    assert_eq!(fewest_pods(&[2, 5, 3], 6), Some(2));
    assert_eq!(fewest_pods(&[2, 5, 3], 10), Some(3));
    assert_eq!(fewest_pods(&[2, 5, 3], 11), None);
    assert_eq!(fewest_pods(&[], 1), None);
}

/// A history with its header.
pub(crate) fn history(lines: &str) -> trace::Trace {
    let text = format!("{{\"line\":\"header\",\"format\":\"rail.history\",\"version\":1,\"at\":0}}\n{lines}");
    let read = trace::read(text.as_bytes()).unwrap();
    assert_eq!((read.format, read.account.refused), (row::Format::History, 0), "{:?}", read.account.refusals);
    read
}

/// A job of a history: seconds of submit, start and end, servers, the least of them, and further fields.
fn line(name: &str, times: [u64; 3], nodes: u32, least: u32, more: &str) -> String {
    let [submitted, started, ended] = times.map(|time| time * 1000);
    format!(
        "{{\"line\":\"job\",\"tenant\":\"a\",\"name\":\"{name}\",\"submitted\":{submitted},\"started\":{started},\
         \"ended\":{ended},\"nodes\":{nodes},\"minNodes\":{least},\"gpusPerNode\":8,\"ranksPerNode\":8{more}}}\n"
    )
}

#[test]
fn ours_decides_as_a_controller_that_was_told_nothing() {
    use controller_queue::{Budget, Policy as Queueing};
    let rules = Rules::default();
    assert_eq!(rules.queueing(), Queueing::default());
    assert_eq!(rules.depth, Budget::STEP.jobs);
    assert!(rules.left_out().is_empty());
    let some = Rules { fair_share: false, growth: false, ..rules };
    assert_eq!(some.left_out(), ["fair-share", "growth"]);
    assert_eq!(some.queueing(), Queueing { fair_share: false, grow_after: None, ..Queueing::default() });
}

/// Both tenants want the whole cluster; the second one has used nothing of it when it is free again.
#[test]
fn who_used_less_goes_first() {
    let site = site(&[1]);
    let mut jobs = trace(&[(0, 100, 8), (1, 100, 8), (2, 100, 8), (3, 100, 8)]);
    for (job, tenant) in jobs.iter_mut().zip(["a", "a", "a", "b"]) {
        job.tenant = tenant.to_owned();
    }
    let workload = Workload::new(&jobs, &site, &as_is()).unwrap();
    assert_eq!(starts(&outcome(&site, &workload, Policy::Ours)), [0, 200, 300, 100]);
    let without = Rules { fair_share: false, ..Rules::default() };
    assert_eq!(starts(&outcome_by(&site, &workload, Policy::Ours, &without)), [0, 100, 200, 300]);
}

#[test]
fn a_job_is_stopped_for_one_of_higher_priority() {
    let site = site(&[2]);
    let lines = [
        line("low", [0, 0, 1000], 2, 2, ",\"priority\":-1,\"preemptible\":true"),
        line("high", [100, 100, 150], 1, 1, ",\"priority\":5"),
    ];
    let read = history(&lines.concat());
    let workload = Workload::new(&read.jobs, &site, &as_is()).unwrap().with_shares(&read.shares);
    let with = outcome(&site, &workload, Policy::Ours);
    assert_eq!((with.rows[0].restarts, starts(&with)), (1, vec![150, 100]));
    // It had saved nothing and begins anew.
    assert_eq!(with.rows[0].end, Some(Timestamp(1_150_000)));
    let without = Rules { preemption: false, ..Rules::default() };
    let without = outcome_by(&site, &workload, Policy::Ours, &without);
    assert_eq!((without.rows[0].restarts, starts(&without)), (0, vec![0, 1000]));
}

#[test]
fn an_elastic_job_grows_when_nobody_waits() {
    let site = site(&[4]);
    let lines = [
        line("fixed", [0, 0, 600], 2, 2, ""),
        line("elastic", [1, 1, 7201], 4, 1, ",\"checkpointEvery\":60000"),
    ];
    let read = history(&lines.concat());
    let workload = Workload::new(&read.jobs, &site, &as_is()).unwrap();
    let with = outcome(&site, &workload, Policy::Ours);
    // On two servers of four it does half as much: 900 of 7,200 s in half an hour.
    let row = &with.rows[1];
    assert_eq!((row.restarts, row.nodes, row.end), (1, 4, Some(Timestamp(1_801_000 + 6_300_000))));
    let without = outcome_by(&site, &workload, Policy::Ours, &Rules { growth: false, ..Rules::default() });
    let row = &without.rows[1];
    assert_eq!((row.restarts, row.nodes, row.end), (0, 2, Some(Timestamp(1_000 + 14_400_000))));
}

#[test]
fn queues_and_limits_of_a_history_are_those_of_the_simulation() {
    let site = site(&[4]);
    let shares = "{\"line\":\"tenant\",\"at\":0,\"tenant\":\"a\",\"limit\":32,\"guaranteed\":{\"pods\":0,\"nodes\":0,\"gpus\":0},\"weight\":1}\n\
                  {\"line\":\"queue\",\"at\":0,\"tenant\":\"a\",\"queue\":\"q\",\"limit\":16,\"guaranteed\":{\"pods\":0,\"nodes\":0,\"gpus\":0},\"weight\":1}\n";
    let jobs: String =
        (0..4).map(|at| line(&format!("j{at}"), [at, at, at + 100], 1, 1, ",\"queue\":\"q\"")).collect();
    let read = history(&(shares.to_owned() + &jobs));
    let workload = Workload::new(&read.jobs, &site, &as_is()).unwrap().with_shares(&read.shares);
    assert_eq!(starts(&outcome(&site, &workload, Policy::Ours)), [0, 1, 100, 101]);
}

fn report(site: &Site, workload: &Workload, rules: &Rules) -> Report {
    let account = row::Account::default();
    let inputs = Inputs {
        scheduler: SchedulerTold::new(rules),
        trace: TraceTold::new("jobs", row::Format::Philly, &account),
        fabric: FabricTold::new(site, Vec::new(), Vec::new()),
        workload: WorkloadTold::new(workload),
    };
    Report::new(site, workload, &[outcome_by(site, workload, Policy::Ours, rules)], inputs)
}

#[test]
fn the_first_line_says_what_is_not_as_the_controller_does_it() {
    let site = site(&[2]);
    let workload = Workload::new(&trace(&[(0, 10, 8), (5, 10, 16)]), &site, &as_is()).unwrap();
    let first =
        |rules: &Rules| report(&site, &workload, rules).text().lines().next().unwrap_or_default().to_owned();
    let usual = first(&Rules::default());
    assert!(usual.starts_with("Ours      as the controller by default: looks 4096 jobs deep;"), "{usual}");
    let some = Rules { depth: 7, preemption: false, reclaim: false, ..Rules::default() };
    assert_eq!(
        first(&some),
        "Ours      not as the controller by default: preemption, reclaim off; looks 7 jobs deep, not 4096"
    );
    let json = report(&site, &workload, &some).json();
    assert_eq!(json["inputs"]["scheduler"]["off"], serde_json::json!(["preemption", "reclaim"]));
    assert_eq!(json["inputs"]["scheduler"]["asController"], false);
}

/// No job on several servers and none of 64 GPUs: nothing is told of them, and why.
#[test]
fn what_there_is_none_of_is_not_told() {
    let site = site(&[2]);
    let workload = Workload::new(&trace(&[(0, 10, 8), (5, 10, 1)]), &site, &as_is()).unwrap();
    let report = report(&site, &workload, &Rules::default());
    let text = report.text();
    let row = text.lines().find(|line| line.starts_with("ours ")).unwrap();
    assert_eq!(row.split_whitespace().filter(|cell| *cell == "-").count(), 4, "{row}");
    assert!(text.contains("-: >=64 P99: no job of 64 GPUs and more\n"), "{text}");
    assert!(text.contains("-: FEWEST, CUT/JOB: no job on several servers was started\n"), "{text}");
    let json = &report.json()["policies"][0];
    assert!(json.get("large").is_none() && json.get("pods").is_none(), "{json}");
    assert_eq!(json["absent"][0]["field"], "large");
    // Where there are such jobs there are numbers.
    let large = Workload::new(&trace(&[(0, 10, 80), (5, 10, 64)]), &self::site(&[20]), &as_is()).unwrap();
    let site = self::site(&[20]);
    let text = self::report(&site, &large, &Rules::default()).text();
    assert!(!text.contains("\n-: "), "{text}");
}

/// A load of 0.95 of jobs that run on long after the last submit cannot be seen in the use until then.
#[test]
fn a_load_that_comes_after_the_last_submit_is_told_so() {
    let site = site(&[4]);
    let workload =
        Workload::new(&trace(&[(0, 100_000, 8), (100, 100_000, 8)]), &site, &Settings::default()).unwrap();
    assert!((workload.load - 0.95).abs() < 1e-9);
    assert!((workload.load_inside - 0.25).abs() < 0.01, "{}", workload.load_inside);
    let text = report(&site, &workload, &Rules::default()).text();
    assert!(text.contains("only 0.2") && text.contains("before the last submit"), "{text}");
    let short: Vec<(u64, u64, u32)> = (0..40).map(|at| (at * 3, 1, 8)).collect();
    let short = Workload::new(&trace(&short), &site, &as_is()).unwrap();
    assert!(!report(&site, &short, &Rules::default()).text().contains("before the last submit"));
}
