//! J3: how often the start of a job lies in the band that it was given when it came. Each trace goes once through the controller's
//! own queue; each job that has to wait is given its band at its submit, and that is held against its real start.

use controller_simulator::{Rules, policy::ours::Ours, run};
use serde_json::json;

use super::{Bench, sites};
use crate::report::{Cpu, Goal, Line, Row, Sample};

/// The first bands rest on nothing: so many are not counted.
const FIRST: usize = 200;

/// Starts in their bands, of jobs that had one.
#[derive(Default)]
struct BandHits {
    reported: usize,
    early: usize,
    inside: usize,
    late: usize,
}

/// Measures row J3 on every trace that is there.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn bands(row: &Row, bench: &Bench) -> Result<(), String> {
    for (name, found) in sites::all(bench) {
        let replay = match found {
            Ok(replay) => replay,
            Err(why) => {
                row.void(name, &why);
                continue;
            }
        };
        let cpu = Cpu::start();
        let mut ours = Ours::new(&replay.site, &replay.workload, &Rules::default());
        ours.predict(1);
        let outcome = run(&replay.site, &replay.workload, &mut ours, &mut ());
        let mut held = BandHits::default();
        let (mut widths, mut seconds) = (Vec::new(), Vec::new());
        for reported in ours.reported().iter().skip(FIRST) {
            // Of one that was stopped and started again only the last start is known.
            let whole = outcome.rows.get(reported.job).filter(|row| row.restarts == 0);
            let Some(start) = whole.and_then(|row| row.start) else { continue };
            held.reported += 1;
            held.early += usize::from(start < reported.eta.earliest);
            held.inside += usize::from(reported.eta.earliest <= start && start <= reported.eta.latest);
            held.late += usize::from(reported.eta.latest < start);
            let wait = start.since(reported.at).as_secs_f64().max(60.0);
            let width = reported.eta.latest.since(reported.eta.earliest).as_secs_f64();
            widths.push(width / wait);
            seconds.push(width);
        }
        if held.reported == 0 {
            row.void(name, "nobody waited, so nobody was told anything");
            continue;
        }
        let share = |count: usize| count as f64 * 100.0 / held.reported as f64;
        let sample = Sample::new(vec![share(held.inside)]);
        let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let peers = json!({
            "told": held.reported, "jobs": replay.workload.jobs.len(), "earlier_percent": share(held.early),
            "later_percent": share(held.late), "median_width_of_wait": Sample::new(widths).median(),
            "median_width_s": Sample::new(seconds).median(), "mean_width_s": mean,
            "load": replay.workload.load, "violations": outcome.violations,
        });
        row.line(&Line {
            case: &format!("starts inside the 80 % band that was told at the submit, {name}"),
            value: sample.median(),
            unit: "%",
            goal: Goal::Between(78.0, 82.0),
            sample: &sample,
            cpu: cpu.cores(),
            peers,
        });
    }
    Ok(())
}
