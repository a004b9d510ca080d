//! One run: outside it makes room and cleans up, inside it does everything else.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use integration_harness::{Etcd, binaries};

use crate::{
    cage, check,
    history::{self, Entry, Rank, What},
    nemesis::Nemesis,
    parts::{Parts, Programs},
    plan::{self, Shape},
    rank, report, settle,
    setup::{World, text},
};

/// Controllers, and members of etcd.
const MEMBERS: usize = 3;
/// Everything has to be well again within this time.
const LIMIT: Duration = Duration::from_secs(30);
/// Callers that submit, and streams that watch.
const CALLERS: usize = 6;
const WATCHES: usize = 2;

/// How the run is to be.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// How long faults go on, in minutes; starting, settling and judging come on top.
    #[arg(long, default_value_t = 30, conflicts_with = "seconds")]
    minutes: u64,
    /// The same in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// What the plan of faults is drawn from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Agents, each with two GPUs and two rails.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(4..=200))]
    agents: u64,
    /// Submits a second.
    #[arg(long, default_value_t = 3.0)]
    rate: f64,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
    /// Print the plan of faults and do nothing.
    #[arg(long)]
    plan: bool,
    /// Where the run keeps its files; removed at the end if every promise was kept.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Keep them in any case.
    #[arg(long)]
    keep: bool,
}

impl Args {
    fn shape(&self) -> Shape {
        let agents = usize::try_from(self.agents).unwrap_or(4);
        let seconds = self.seconds.unwrap_or(self.minutes * 60).max(10);
        Shape { seed: self.seed, seconds, members: MEMBERS, agents, agent_disks: 2 }
    }
}

/// Makes the cage and the folder, and removes them.
pub fn outside(args: &Args) -> ExitCode {
    if args.plan {
        for fault in plan::plan(&args.shape()) {
            let (seconds, lasts) = (fault.at as f64 / 1e3, fault.lasts as f64 / 1e3);
            println!(
                "{seconds:>9.3} s  for {lasts:>6.3} s  {:<12} {}",
                fault.kind.name(),
                fault.kind.victims()
            );
        }
        return ExitCode::SUCCESS;
    }
    match caged(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn caged(args: &Args) -> Result<ExitCode, String> {
    if let Some(lack) = cage::lacks().or_else(|| programs().err()) {
        println!("skipped: chaos: {lack}");
        return Ok(ExitCode::SUCCESS);
    }
    let dir = match &args.dir {
        Some(dir) => std::path::absolute(dir).map_err(text)?,
        None => std::env::temp_dir().join(format!("railyard-chaos-{}", std::process::id())),
    };
    fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let shape = args.shape();
    let mut inside: Vec<String> = vec!["--dir".to_owned(), dir.display().to_string()];
    for (name, value) in [("--seed", shape.seed), ("--seconds", shape.seconds), ("--agents", args.agents)] {
        inside.extend([name.to_owned(), value.to_string()]);
    }
    inside.extend(["--rate".to_owned(), args.rate.to_string()]);
    inside.extend(args.json.then(|| "--json".to_owned()));
    let code = cage::enter(&dir, &inside)?;
    if code == 0 && !args.keep {
        fs::remove_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Everything that is started beside this program.
fn programs() -> Result<Programs, String> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let etcd =
        Etcd::program().ok_or("there is no etcd (cargo xtask chaos fetches Debian's where it is reached)")?;
    let nft = variable("RAIL_CHAOS_NFT").unwrap_or_else(|| "nft".into());
    let answers = std::process::Command::new(&nft).arg("--version").output();
    if !answers.is_ok_and(|output| output.status.success()) {
        return Err("there is no nft (Debian: apt install nftables)".to_owned());
    }
    let clock = variable("RAIL_CHAOS_FAKETIME").filter(|library| library.exists());
    Ok(Programs { bin: binaries::directory()?.to_owned(), etcd, nft, clock })
}

/// The part of the run inside its namespaces; the exit code is that of the verdict.
pub fn inside(args: &Args) -> ExitCode {
    match judged(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            let dir = args.dir.as_ref().map(|dir| dir.display().to_string()).unwrap_or_default();
            eprintln!("logs of all processes are in {dir}");
            ExitCode::FAILURE
        }
    }
}

fn judged(args: &Args) -> Result<bool, String> {
    let dir = args.dir.clone().ok_or("no folder was given")?;
    let shape = args.shape();
    let plan = plan::plan(&shape);
    eprintln!(
        "chaos: seed {}, {} s, {} agents, {} faults; files in {}",
        shape.seed,
        shape.seconds,
        shape.agents,
        plan.len(),
        dir.display()
    );
    let world = World::make(&dir, &shape, programs()?)?;
    eprintln!("chaos: every node is ready; faults begin");
    play(&world, &shape, args.rate, &plan);
    let collected = settle::collect(&world);
    world.parts.history.flush().map_err(text)?;
    collected?;
    let entries = all(&dir)?;
    let verdict = check::check(&entries);
    let good = report::print(&shape, &entries, &verdict, args.json);
    if !good {
        report::story(&shape, &verdict, &dir);
    }
    Ok(good)
}

/// Callers, faults, and the time after them.
fn play(world: &World, shape: &Shape, rate: f64, plan: &[plan::Fault]) {
    let keeping = keep(&world.parts);
    for number in 0..CALLERS {
        let calls = world.callers.clone().submit_all(number, shape.seed, rate / CALLERS as f64);
        world.runtime.spawn(calls);
    }
    for number in 0..WATCHES {
        world.runtime.spawn(world.callers.clone().watch(number));
    }
    world.runtime.spawn(world.callers.clone().check());
    let nemesis = Nemesis {
        parts: Arc::clone(&world.parts),
        callers: world.callers.clone(),
        runtime: world.runtime.handle().clone(),
    };
    let last = Arc::new(nemesis).run(plan);
    world.callers.over.store(true, Ordering::Relaxed);
    settle::converge(world, last, LIMIT);
    keeping.store(false, Ordering::Relaxed);
}

/// Starts again what ends by itself, as an init system does, until it is asked to stop.
fn keep(parts: &Arc<Parts>) -> Arc<AtomicBool> {
    let going = Arc::new(AtomicBool::new(true));
    let (parts, goes) = (Arc::clone(parts), Arc::clone(&going));
    thread::spawn(move || {
        while goes.load(Ordering::Relaxed) {
            parts.keep();
            thread::sleep(Duration::from_millis(50));
        }
    });
    going
}

/// The history, and what ranks wrote.
fn all(dir: &Path) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<Entry> = history::read(&dir.join("history.jsonl"))?;
    let ranks: Vec<Rank> = history::read(&rank::log(&dir.join("ranks")))?;
    entries.extend(ranks.into_iter().map(|rank| Entry { at: rank.ns / 1_000_000, what: What::Rank(rank) }));
    Ok(entries)
}
