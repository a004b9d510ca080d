//! A run: a cluster, every wanted attempt in order, those that only wait beside the others, and the audit log at the end.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    audit,
    caller::From,
    exec::{self, wire::Wire},
    model::{Attempt, Step, Trace},
    report::{self, Line},
    table,
    verdict::Verdict,
    world::World,
};

/// `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only attempts whose id contains this.
    #[arg(long)]
    only: Vec<String>,
    /// Only attempts of this caller: anonymous, viewer, user, tenant-admin, deleted-tenant, node, rank, on-path or local-account.
    #[arg(long)]
    from: Option<String>,
    /// Print the attempts and make none.
    #[arg(long)]
    list: bool,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
    /// Show those that held too.
    #[arg(long)]
    all: bool,
}

/// One attempt takes no longer; what does has failed to be made.
const PATIENCE: Duration = Duration::from_secs(100);
/// Connections that are held beside each other.
const BESIDE: usize = 24;

impl Args {
    fn wants(&self, attempt: &Attempt) -> bool {
        (self.only.is_empty() || self.only.iter().any(|part| attempt.id.contains(part)))
            && self.from.as_deref().is_none_or(|from| attempt.from.name() == from)
    }
}

/// Makes the wanted attempts.
pub fn run(args: &Args) -> ExitCode {
    if let Some(from) = &args.from
        && !From::ALL.iter().any(|one| one.name() == from)
    {
        let names: Vec<&str> = From::ALL.iter().map(|one| one.name()).collect();
        eprintln!("error: --from {from}: there is no such caller; there are {}", names.join(", "));
        return ExitCode::from(2);
    }
    let wanted: Vec<Attempt> = table::all().into_iter().filter(|attempt| args.wants(attempt)).collect();
    if wanted.is_empty() {
        eprintln!("error: no attempt has such an id; --list shows them");
        return ExitCode::from(2);
    }
    if args.list {
        wanted
            .iter()
            .for_each(|attempt| println!("{:<36} {:<14} {}", attempt.id, attempt.from.name(), attempt.title));
        return ExitCode::SUCCESS;
    }
    // What a thread has started ends with it, so threads stay.
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().thread_keep_alive(Duration::from_secs(3600)).build();
    let done = runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(all(wanted)));
    match done {
        Ok(lines) => {
            report::print(&lines, args.json, args.all);
            let wrong = |line: &Line| matches!(line.verdict, Verdict::GaveWay(_) | Verdict::NotMade(_));
            if lines.iter().any(wrong) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Attempts of one group are made one after the other, groups at the same time: each has controllers or servers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SerialGroup {
    Calls,
    Ranks,
    Stage,
    Port,
    Lives,
    /// Those that only wait for the controller to end something; all beside each other.
    Waits,
}

impl SerialGroup {
    fn of(attempt: &Attempt) -> Self {
        match attempt.step {
            Step::Call { .. }
            | Step::Frame { .. }
            | Step::Rest { .. }
            | Step::Inspection(_)
            | Step::Recorded(_) => Self::Calls,
            Step::Probe(_) | Step::Job(_) | Step::Rails(_) | Step::Tap => Self::Ranks,
            Step::Lie(_) | Step::Name(_) => Self::Stage,
            Step::Wire(Wire::Hold(..)) => Self::Waits,
            Step::Wire(_) => Self::Port,
            Step::Life(_) => Self::Lives,
        }
    }
}

async fn all(wanted: Vec<Attempt>) -> Result<Vec<Line>, String> {
    let begin = Instant::now();
    let world = Arc::new(World::start().await?);
    eprintln!("{:6.2} s  cluster up, {} attempts", begin.elapsed().as_secs_f64(), wanted.len());
    let order: Vec<String> = wanted.iter().map(|attempt| attempt.id.clone()).collect();
    let mut groups: BTreeMap<SerialGroup, Vec<Attempt>> = BTreeMap::new();
    for attempt in wanted {
        groups.entry(SerialGroup::of(&attempt)).or_default().push(attempt);
    }
    let room = Arc::new(Semaphore::new(BESIDE));
    let mut running = JoinSet::new();
    for (group, attempts) in groups {
        let world = Arc::clone(&world);
        if group == SerialGroup::Waits {
            for attempt in attempts {
                let (world, room) = (Arc::clone(&world), Arc::clone(&room));
                running.spawn(async move {
                    let _place = room.acquire().await;
                    vec![one(&world, attempt).await]
                });
            }
            continue;
        }
        running.spawn(async move {
            let mut lines = Vec::new();
            for attempt in attempts {
                lines.push(one(&world, attempt).await);
            }
            eprintln!("{:6.2} s  group {group:?} is through", begin.elapsed().as_secs_f64());
            lines
        });
    }
    let mut lines: Vec<Line> = running.join_all().await.into_iter().flatten().collect();
    let audited = |line: &&mut Line| line.attempt.trace == Trace::Audited && line.verdict == Verdict::Held;
    audit::check(&world, lines.iter_mut().filter(audited).collect()).await?;
    lines.sort_by_key(|line| order.iter().position(|id| *id == line.attempt.id));
    eprintln!("{:6.2} s  done", begin.elapsed().as_secs_f64());
    drop(world);
    Ok(lines)
}

async fn one(world: &World, attempt: Attempt) -> Line {
    let begin = Instant::now();
    let made = tokio::time::timeout(PATIENCE, exec::perform(world, &attempt)).await;
    let verdict =
        made.unwrap_or_else(|_| Verdict::NotMade(format!("not over after {} s", PATIENCE.as_secs())));
    Line { attempt, verdict, taken: begin.elapsed() }
}
