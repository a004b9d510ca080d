//! Traces replayed on fabrics; no cluster is asked.

mod inputs;
mod log;
mod progress;
mod write;

use std::thread;

use controller_simulator::{
    Mapping, Outcome, Policy, Rules, Scheduler, Settings, Site, Watch, Workload,
    policy::ours::Ours,
    report::{FabricTold, Inputs, Report, SchedulerTold, TraceTold, WorkloadTold, csv},
    run,
    sweep::{Point, Setting, Sweep, large_from, settings as sweep_settings},
    trace::Format,
};

use crate::{
    args::{PartArg, PolicyArg, Simulate, SimulationOutput, WithinArg},
    error::Error,
    output::print,
};
pub use log::replay;
use progress::Progress;

/// `simulate`: replays a trace on a fabric with one or several schedulers.
///
/// # Errors
/// [`Error::Usage`] or [`Error::Document`] if an input cannot be used; [`Error::File`] if a result cannot be written; [`Error::Differs`]
/// if a placement violates a rule.
pub fn simulate(args: &Simulate) -> Result<(), Error> {
    let servers = args.servers.as_deref().map(inputs::servers).transpose()?;
    let mut fabric = inputs::fabric(&args.fabric, servers.as_ref().map(|list| list.servers.len()))?;
    let trace = inputs::trace(args)?;
    if let Some(without) = servers.as_ref().map(|list| list.without_gpus).filter(|without| *without > 0) {
        let what = if without == 1 {
            "1 server of the list has"
        } else {
            &format!("{without} servers of the list have")
        };
        fabric.notes.push(format!("{what} no GPU: left out, for jobs of traces ask for some"));
    }
    let site = match &servers {
        None => Site::new(fabric.fabric, args.gpus_per_node),
        Some(list) => Site::of(fabric.fabric, &list.servers),
    };
    let site = site.map_err(|error| Error::Document(format!("{}: {error}", args.fabric)))?;
    let workload = Workload::new(&trace.jobs, &site, &settings(args, trace.format))
        .map_err(|error| Error::Usage(format!("{}: {error}", trace.name)))?
        .with_shares(&trace.shares);
    let rules = rules(args);
    let inputs = Inputs {
        scheduler: SchedulerTold::new(&rules),
        trace: TraceTold::new(&trace.name, trace.format, &trace.account),
        fabric: FabricTold::new(&site, fabric.faults, fabric.notes),
        workload: WorkloadTold::new(&workload),
    };
    if args.sweep {
        return sweep(args, &site, &workload, &rules, inputs);
    }
    let policies = policies(&args.policy);
    let mut log = args.log.as_deref().map(log::Log::create).transpose()?;
    if log.is_some() && !policies.contains(&Policy::Ours) {
        return Err(Error::Usage(
            "--log is for --policy ours, which is not among those that were asked for".into(),
        ));
    }
    let outcomes = all(&site, &workload, &policies, &rules, args.seed, log.as_mut())?;
    if let Some(log) = log {
        log.close()?;
    }
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
    judged(outcomes.iter().map(|outcome| outcome.violations).sum())
}

fn judged(violations: u64) -> Result<(), Error> {
    if violations > 0 {
        return Err(Error::Differs(format!("{violations} violations were found in placements, see above")));
    }
    Ok(())
}

/// `--sweep`: every setting on the same jobs.
fn sweep(
    args: &Simulate,
    site: &Site,
    workload: &Workload,
    rules: &Rules,
    inputs: Inputs,
) -> Result<(), Error> {
    if args.log.is_some() || args.output == SimulationOutput::Csv {
        return Err(Error::Usage("--log and -o csv are for one setting, not for --sweep".into()));
    }
    let settings = sweep_settings(rules, site, workload);
    let large = large_from(workload);
    let sweep = Sweep::new(inputs, workload, large, points(site, workload, &settings, large, args.seed)?);
    if let Some(folder) = &args.out {
        write::sweep(folder, &sweep)?;
    }
    match args.output {
        SimulationOutput::Json => print(&format!("{:#}\n", sweep.json()))?,
        SimulationOutput::Table | SimulationOutput::Csv => print(&sweep.text())?,
    }
    judged(sweep.points.iter().map(|point| point.violations).sum())
}

/// Runs the settings, as many at a time as there are cores; none sees anything of another.
fn points(
    site: &Site,
    workload: &Workload,
    settings: &[Setting],
    large: u32,
    seed: u64,
) -> Result<Vec<Point>, Error> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let found = std::sync::Mutex::new(vec![None; settings.len()]);
    let cores = thread::available_parallelism().map_or(1, usize::from).min(settings.len());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(setting) = settings.get(at) else { return };
                    let mut scheduler = setting.policy.scheduler(site, workload, &setting.rules, seed);
                    let outcome = run(site, workload, &mut *scheduler, &mut ());
                    let point = Point::new(site, workload, setting, large, &outcome);
                    eprintln!("{} of {}: {}", at + 1, settings.len(), setting.name);
                    if let Ok(mut found) = found.lock() {
                        found[at] = Some(point);
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap_or_default();
    let all: Option<Vec<Point>> = found.into_iter().collect();
    all.filter(|points| points.len() == settings.len()).ok_or_else(ended_early)
}

fn ended_early() -> Error {
    Error::Config("a scheduler ended before its time; this is a fault of railctl".into())
}

fn rules(args: &Simulate) -> Rules {
    let usual = Rules::default();
    let is_on = |part: PartArg| !args.without.contains(&part);
    Rules {
        depth: args.depth.map_or(usual.depth, |depth| depth as usize),
        fair_share: usual.fair_share && is_on(PartArg::FairShare),
        preemption: usual.preemption && is_on(PartArg::Preemption),
        reclaim: usual.reclaim && is_on(PartArg::Reclaim),
        growth: usual.growth && is_on(PartArg::Growth),
        head_start: args.head_start.unwrap_or(usual.head_start),
        easy_head_start: args.easy_head_start.unwrap_or(usual.easy_head_start),
        objective: args.objective.or(usual.objective),
        long_jobs: args.long_jobs.or(usual.long_jobs),
        backfill: args.backfill,
    }
}

fn settings(args: &Simulate, format: Format) -> Settings {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    // A site's own history is taken as it was.
    let usual = (format != Format::History).then_some(0.95);
    let load = if args.speedup.is_some() { None } else { args.load.or(usual) };
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
                    Some(recorder) => Box::new(Ours::logged(site, workload, rules, recorder)),
                    None => policy.scheduler(site, workload, rules, seed),
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
    outcomes.ok_or_else(ended_early)
}
