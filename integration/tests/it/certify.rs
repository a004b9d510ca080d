//! Certification with real processes: a gang's rails are measured before its ranks start, and what was found is with the job.

use std::time::{Duration, Instant};

use integration_harness::{Cluster, Shape};
use serde_json::Value;

const SOON: Duration = Duration::from_secs(60);

fn codes(job: &Value) -> Vec<String> {
    let reasons = job["status"]["placement"]["reasons"].as_array().cloned().unwrap_or_default();
    reasons.iter().map(|reason| reason["code"].as_str().unwrap_or_default().to_owned()).collect()
}

/// How long a job of one short collective takes, and what its placement says.
fn run(mode: &str, name: &str, cluster: &Cluster) -> (Duration, Value) {
    let spec = "gang: {nodes: 3, gpusPerNode: 1}\ncollective: {op: ALL_REDUCE, bytes: 65536, iterations: 1, verify: true}";
    let begun = Instant::now();
    cluster.submit(name, spec).unwrap();
    let job = cluster.wait_for(name, &["COMPLETED", "FAILED"], SOON).unwrap();
    assert_eq!(job["status"]["phase"], "COMPLETED", "{mode}: {job:#}\n{}", cluster.logs());
    (begun.elapsed(), job)
}

#[test]
fn a_gang_is_certified_before_its_ranks_start() {
    let mut least = Vec::new();
    for mode in ["off", "require"] {
        let env = vec![("RAIL_CONTROLLER_CERTIFICATION".to_owned(), mode.to_owned())];
        let cluster = Cluster::up(&Shape { nodes: 3, rails: 4, gpus: 1, env, ..Shape::default() }).unwrap();
        let runs: Vec<(Duration, Value)> = (0..3).map(|n| run(mode, &format!("job{n}"), &cluster)).collect();
        for (_, job) in &runs {
            let codes = codes(job);
            let of = |code: &str| codes.iter().filter(|have| *have == code).count();
            let expected = if mode == "off" { (0, 0) } else { (1, 4) };
            assert_eq!((of("Certified"), of("RailCertified")), expected, "{mode}: {job:#}");
        }
        if mode == "require" {
            let shown = cluster.railctl(&["describe", "job", "job0"]);
            assert!(
                shown.stdout.contains("Certified") && shown.stdout.contains("rail 3: "),
                "{}",
                shown.stdout
            );
        }
        least.push(runs.iter().map(|(took, _)| *took).min().unwrap());
    }
    println!("three servers of four rails: {:?} without, {:?} with certification", least[0], least[1]);
    assert!(least[1] < least[0] + SOON, "sanity");
}
