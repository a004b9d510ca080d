//! C6: a real trace on a real fabric, beside EASY with tree best fit.
//!
//! Microsoft Philly (Jeon et al., USENIX ATC 2019) on the cabling of Zhejiang Lab's cluster, at a load of 0.95. The data
//! are not part of the repository; without them the row is void.

use std::{fs, path::Path, thread};

use controller_simulator::{
    Mapping, Outcome, Policy, Settings, Site, Workload, run,
    summary::{Summary, summary},
    trace,
};
use serde_json::{Value, json};

use super::Bench;
use crate::report::{Cpu, Goal, Line, Row, Sample};

const TRACE: &str = "philly_jobs.csv";
const CABLING: &str = "zhejianglab_a100_cabling.csv";

/// Jobs of so many GPUs and more are large.
const LARGE: u32 = 64;

/// What the row shows, case by case.
pub fn philly(row: &Row, bench: &Bench) -> Result<(), String> {
    let (trace, cabling) = (bench.traces.join(TRACE), bench.traces.join(CABLING));
    let read = |path: &Path| fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
    let (trace, cabling) = match (read(&trace), read(&cabling)) {
        (Ok(trace), Ok(cabling)) => (trace, cabling),
        (trace, cabling) => {
            let why: Vec<String> = [trace.err(), cabling.err()].into_iter().flatten().collect();
            row.void(
                "Philly on the real cabling",
                &format!("give the data with --traces: {}", why.join("; ")),
            );
            return Ok(());
        }
    };
    let text = |error: &dyn ToString| error.to_string();
    let trace = trace::read(&trace).map_err(|error| text(&error))?;
    let made = controller_fabric::import(&cabling, "cabling").map_err(|error| text(&error))?;
    let site = Site::new(made.fabric, 8).map_err(|error| text(&error))?;
    let settings = Settings {
        jobs: bench.quick.then_some(40_000),
        mapping: Mapping { large_first: Some(LARGE), ..Mapping::default() },
        ..Settings::default()
    };
    let workload = Workload::new(&trace.jobs, &site, &settings).map_err(|error| text(&error))?;
    let cpu = Cpu::start();
    let [ours, easy] = both(&site, &workload)?;
    let told = Told { row, cpu: cpu.cores(), peers: peers(&workload, &ours, &easy) };
    let pods = |of: &Summary| of.pods.share_when_empty() * 100.0;
    told.line(
        "multi-node jobs in the fewest pods of the empty cluster",
        pods(&ours),
        "%",
        Goal::AtLeast(98.0),
    );
    let pods = |of: &Summary| of.pods.share_when_started() * 100.0;
    told.line("multi-node jobs in the fewest pods at their start", pods(&ours), "%", Goal::AtLeast(98.0));
    let better = easy.large.p99 / ours.large.p99.max(1.0);
    told.line("p99 wait of jobs of 64 GPUs and more, EASY's / ours", better, "x", Goal::AtLeast(2.0));
    told.line("utilisation / clairvoyant bound", ours.of_bound * 100.0, "%", Goal::AtLeast(97.0));
    let violations = (ours.violations + easy.violations) as f64;
    told.line("violations found by the independent proof", violations, "count", Goal::AtMost(0.0));
    Ok(())
}

fn both(site: &Site, workload: &Workload) -> Result<[Summary; 2], String> {
    let one = |policy: Policy| {
        let mut scheduler = policy.scheduler(site, &workload.jobs, 1);
        run(site, workload, &mut *scheduler, &mut ())
    };
    let (ours, easy): (Option<Outcome>, Outcome) = thread::scope(|scope| {
        let ours = scope.spawn(|| one(Policy::Ours));
        let easy = one(Policy::Easy);
        (ours.join().ok(), easy)
    });
    let ours = ours.ok_or("the simulation has ended before its time")?;
    Ok([summary(site, workload, &ours), summary(site, workload, &easy)])
}

fn peers(workload: &Workload, ours: &Summary, easy: &Summary) -> Value {
    let told = |of: &Summary| {
        json!({
            "utilisation": of.utilisation, "of_bound": of.of_bound, "fragmentation": of.fragmentation,
            "wait_p50_s": of.waits.p50, "wait_p99_s": of.waits.p99, "large_p50_s": of.large.p50,
            "large_p99_s": of.large.p99, "fewest_when_empty": of.pods.share_when_empty(),
            "fewest_when_started": of.pods.share_when_started(), "mean_cut": of.pods.mean_cut, "proved": of.proved,
        })
    };
    json!({
        "ours": told(ours), "easy": told(easy), "jobs": ours.waits.jobs, "large_jobs": ours.large.jobs,
        "load": workload.load, "bound": ours.bound, "bound_is": "least over s of W(s) + C (T - s)",
        "ours_is_asked": "one pod for each gang; priority to jobs of 64 GPUs and more",
    })
}

struct Told<'a> {
    row: &'a Row<'a>,
    cpu: f64,
    peers: Value,
}

impl Told<'_> {
    fn line(&self, case: &str, value: f64, unit: &str, goal: Goal) {
        let sample = Sample::new(vec![value]);
        let (cpu, peers) = (self.cpu, self.peers.clone());
        self.row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers });
    }
}
