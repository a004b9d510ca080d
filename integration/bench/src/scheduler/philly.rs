//! C6: a real trace on a real fabric, beside EASY with tree best fit.
//!
//! Microsoft Philly (Jeon et al., USENIX ATC 2019) on the cabling of Zhejiang Lab's cluster, at a load of 0.95. The data
//! are not part of the repository; without them the row is void.

use std::{fs, path::Path, thread, time::Duration};

use controller_simulator::{
    Outcome, Policy, Rules, Settings, Site, Workload, run,
    summary::{Summary, summary},
    trace,
};
use serde_json::{Value, json};

use super::Bench;
use crate::report::{Cpu, Goal, Line, Row, Sample};

pub const TRACE: &str = "philly_jobs.csv";
const CABLING: &str = "zhejianglab_a100_cabling.csv";

/// The head start for every doubling of a job's GPUs, where there is one.
const HEAD_START: Duration = Duration::from_secs(12 * 3600);

/// What the row shows, case by case.
///
/// # Errors
/// What kept the row from being measured, as text.
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
    let settings = Settings { jobs: bench.quick.then_some(40_000), ..Settings::default() };
    let workload = Workload::new(&trace.jobs, &site, &settings).map_err(|error| text(&error))?;
    let cpu = Cpu::start();
    let [plain, ours, easy, favoured] = all(&site, &workload)?;
    let peers = peers(&workload, &plain, &ours, &easy, &favoured);
    let reported = Reported { row, cpu: cpu.cores(), peers };
    let pods = |of: &Summary| of.pods.map_or(0.0, |pods| pods.share_when_empty() * 100.0);
    reported.line(
        "multi-node jobs in the fewest pods of the empty cluster, ours with head start",
        pods(&ours),
        "%",
        Goal::AtLeast(98.0),
    );
    let pods = |of: &Summary| of.pods.map_or(0.0, |pods| pods.share_when_started() * 100.0);
    reported.line(
        "multi-node jobs in the fewest pods at their start, ours with head start",
        pods(&ours),
        "%",
        Goal::AtLeast(98.0),
    );
    let large = |of: &Summary| of.large.unwrap_or_default();
    let better = |easy: &Summary, ours: &Summary| large(easy).p99 / large(ours).p99.max(1.0);
    let (jobs, hours) = (large(&ours).jobs, HEAD_START.as_secs() / 3600);
    let case = format!("p99 wait of the {jobs} jobs of 64 GPUs and more, EASY's / ours");
    let start = format!("{hours} h head start per doubling of GPUs");
    reported.line(&format!("{case}, {start} in ours alone"), better(&easy, &ours), "x", Goal::AtLeast(2.0));
    reported.line(&format!("{case}, no head start in either"), better(&easy, &plain), "x", Goal::None);
    reported.line(&format!("{case}, {start} in both"), better(&favoured, &ours), "x", Goal::None);
    reported.line(
        "utilisation / clairvoyant bound, ours with head start",
        ours.of_bound * 100.0,
        "%",
        Goal::AtLeast(97.0),
    );
    let violations = [&plain, &ours, &easy, &favoured].iter().map(|of| of.violations).sum::<u64>() as f64;
    reported.line(
        "violations found by the independent proof, all four runs",
        violations,
        "count",
        Goal::AtMost(0.0),
    );
    Ok(())
}

/// Ours and EASY, each without and with a head start for large jobs.
fn all(site: &Site, workload: &Workload) -> Result<[Summary; 4], String> {
    let one = |policy: Policy, head_start: Duration| {
        // EASY knows no shares, and the figures of this row were always taken so deep.
        let (fair_share, depth) = (false, 256);
        let rules = Rules { head_start, easy_head_start: head_start, fair_share, depth, ..Rules::default() };
        let mut scheduler = policy.scheduler(site, workload, &rules, 1);
        run(site, workload, &mut *scheduler, &mut ())
    };
    let both = |policy: Policy| [one(policy, Duration::ZERO), one(policy, HEAD_START)];
    let (ours, easy): (Option<[Outcome; 2]>, _) = thread::scope(|scope| {
        let ours = scope.spawn(|| both(Policy::Ours));
        let easy = both(Policy::Easy);
        (ours.join().ok(), easy)
    });
    let [plain, ours] = ours.ok_or("the simulation has ended before its time")?;
    let [easy, favoured] = easy;
    Ok([plain, ours, easy, favoured].map(|outcome| summary(site, workload, &outcome)))
}

fn peers(workload: &Workload, plain: &Summary, ours: &Summary, easy: &Summary, favoured: &Summary) -> Value {
    let reported = |of: &Summary| {
        let sizes: Vec<Value> = of
            .by_size
            .iter()
            .map(|size| json!({ "gpus": size.gpus, "jobs": size.waits.jobs, "p50_s": size.waits.p50, "p99_s": size.waits.p99 }))
            .collect();
        json!({
            "utilisation": of.utilisation, "of_bound": of.of_bound, "fragmentation": of.fragmentation,
            "stranded": of.stranded, "wait_p50_s": of.waits.p50, "wait_p99_s": of.waits.p99,
            "large_p50_s": of.large.map(|large| large.p50), "large_p99_s": of.large.map(|large| large.p99), "waits_by_size": sizes,
            "fewest_when_empty": of.pods.map(|pods| pods.share_when_empty()),
            "fewest_when_started": of.pods.map(|pods| pods.share_when_started()),
            "mean_cut": of.pods.map(|pods| pods.mean_cut), "proved": of.proved,
        })
    };
    json!({
        "ours": reported(plain), "ours_head_start": reported(ours), "easy": reported(easy), "easy_head_start": reported(favoured),
        "jobs": ours.waits.jobs, "large_jobs": ours.large.map(|large| large.jobs), "load": workload.load, "bound": ours.bound,
        "bound_is": "least over s of W(s) + C (T - s)", "head_start_hours": HEAD_START.as_secs() / 3600,
        "ours_is_asked": "one pod for each gang",
    })
}

struct Reported<'a> {
    row: &'a Row<'a>,
    cpu: f64,
    peers: Value,
}

impl Reported<'_> {
    fn line(&self, case: &str, value: f64, unit: &str, goal: Goal) {
        let sample = Sample::new(vec![value]);
        let (cpu, peers) = (self.cpu, self.peers.clone());
        self.row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers });
    }
}
