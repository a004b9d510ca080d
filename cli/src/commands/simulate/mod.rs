//! Traces replayed on fabrics; no cluster is asked.

mod inputs;
mod log;
mod progress;
mod write;

use std::thread;

use controller_simulator::{
    Mapping, Outcome, Policy, Rules, Scheduler, Settings, Site, Watch, Workload,
    policy::ours::Ours,
    report::{FabricTold, Inputs, Report, TraceTold, WorkloadTold, csv},
    run,
};

use crate::{
    args::{PolicyArg, Simulate, SimulationOutput, WithinArg},
    error::Error,
    output::print,
};
pub use log::replay;
use progress::Progress;

/// `simulate`.
pub fn simulate(args: &Simulate) -> Result<(), Error> {
    let fabric = inputs::fabric(&args.fabric)?;
    let trace = inputs::trace(args)?;
    let site = Site::new(fabric.fabric, args.gpus_per_node)
        .map_err(|error| Error::Document(format!("{}: {error}", args.fabric)))?;
    let workload = Workload::new(&trace.jobs, &site, &settings(args))
        .map_err(|error| Error::Usage(format!("{}: {error}", trace.name)))?;
    let policies = policies(&args.policy);
    let mut log = args.log.as_deref().map(log::Log::create).transpose()?;
    if log.is_some() && !policies.contains(&Policy::Ours) {
        return Err(Error::Usage(
            "--log is for --policy ours, which is not among those that were asked for".into(),
        ));
    }
    let rules = Rules {
        head_start: args.head_start.unwrap_or_default(),
        easy_head_start: args.easy_head_start.unwrap_or_default(),
    };
    let outcomes = all(&site, &workload, &policies, &rules, args.seed, log.as_mut())?;
    if let Some(log) = log {
        log.close()?;
    }
    let inputs = Inputs {
        trace: TraceTold::new(&trace.name, trace.format, &trace.account),
        fabric: FabricTold::new(&site, fabric.faults, fabric.notes),
        workload: WorkloadTold::new(&workload),
    };
    let report = Report::new(&site, &workload, &outcomes, inputs);
    if let Some(folder) = &args.out {
        write::folder(folder, &site, &workload, &outcomes, &report)?;
    }
    match args.output {
        SimulationOutput::Table => print(&report.text())?,
        SimulationOutput::Json => print(&format!("{:#}\n", report.json_with_rows(&workload, &outcomes)))?,
        SimulationOutput::Csv => {
            eprint!("{}", report.text());
            print(&csv(&workload, &outcomes))?;
        }
    }
    let violations: u64 = outcomes.iter().map(|outcome| outcome.violations).sum();
    if violations > 0 {
        return Err(Error::Differs(format!("{violations} violations were found in placements, see above")));
    }
    Ok(())
}

fn settings(args: &Simulate) -> Settings {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let load = if args.speedup.is_some() { None } else { Some(args.load.unwrap_or(0.95)) };
    Settings {
        load,
        speedup: args.speedup.unwrap_or(1.0),
        from: args.from.map_or(0, millis),
        until: args.until.map(millis),
        jobs: args.jobs,
        mapping: Mapping {
            whole_from: args.whole_from,
            rails: args.rails,
            shared_rails: args.shared_rails,
            one_pod: args.within == WithinArg::Pod,
        },
        estimate: args.estimate,
        seed: args.seed,
    }
}

/// Each one once, in the order in which they were said.
fn policies(said: &[PolicyArg]) -> Vec<Policy> {
    let mut policies = Vec::new();
    for policy in said {
        let policy = match policy {
            PolicyArg::Ours => Policy::Ours,
            PolicyArg::Easy => Policy::Easy,
            PolicyArg::Fifo => Policy::Fifo,
            PolicyArg::Random => Policy::Random,
        };
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    policies
}

/// Runs the schedulers beside each other; none sees anything of another.
fn all(
    site: &Site,
    workload: &Workload,
    policies: &[Policy],
    rules: &Rules,
    seed: u64,
    log: Option<&mut log::Log>,
) -> Result<Vec<Outcome>, Error> {
    let mut recorder = log.map(|log| log.recorder(site, rules)).transpose()?;
    let progress = Progress::new(workload.jobs.len());
    let outcomes: Vec<Option<Outcome>> = thread::scope(|scope| {
        let mut start = |policy: &Policy| {
            let (policy, mut bar) = (*policy, progress.bar(policy.name()));
            let recorder = if policy == Policy::Ours { recorder.take() } else { None };
            scope.spawn(move || {
                let mut scheduler: Box<dyn Scheduler + Send> = match recorder {
                    Some(recorder) => Box::new(Ours::logged(site, &workload.jobs, rules, recorder)),
                    None => policy.scheduler(site, &workload.jobs, rules, seed),
                };
                let outcome = run(site, workload, &mut *scheduler, &mut bar as &mut dyn Watch);
                bar.done(&outcome);
                outcome
            })
        };
        let running: Vec<_> = policies.iter().map(&mut start).collect();
        running.into_iter().map(|thread| thread.join().ok()).collect()
    });
    let outcomes: Option<Vec<Outcome>> = outcomes.into_iter().collect();
    outcomes
        .ok_or_else(|| Error::Config("a scheduler ended before its time; this is a fault of railctl".into()))
}
