//! Row Y3: command lines, REST requests and gRPC messages with anything in them, against a local cluster: nothing may crash, hang, or
//! fail as if it were the server's fault, and every refusal names its field.

mod calls;
mod dice;
mod lines;
mod message;

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use integration_harness::{Access, Cluster, Shape};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::Bench;
use crate::{
    control::text,
    report::{self, Cpu, Goal, Line, Sample},
};
use calls::Caller;
use dice::Dice;

/// What chance begins with; the same inputs come of it every time.
const SEED: u64 = 20_261_126;
/// Longer without an answer is a hang.
const PATIENCE: Duration = Duration::from_secs(10);
/// Callers at once.
const CALLERS: u64 = 4;
/// Examples that are shown of one kind of fault.
const SHOWN: usize = 12;

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// A process died, or panicked.
    Crash,
    /// No answer in time.
    Hang,
    /// It failed as if it were the server's fault: 5xx, INTERNAL, UNKNOWN.
    Server,
    /// An exit code that railctl does not have.
    ExitCode,
    /// A refusal that names no field.
    NoField,
}

impl Fault {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Crash, "crashes"),
        (Self::Hang, "hangs"),
        (Self::Server, "answers of 5xx, INTERNAL or UNKNOWN"),
        (Self::ExitCode, "wrong exit codes"),
        (Self::NoField, "refusals of an input that name no field of it"),
    ];
}

/// What came of all inputs.
#[derive(Debug, Default)]
struct Tally {
    inputs: u64,
    faults: BTreeMap<Fault, (u64, Vec<String>)>,
    /// How often each answer came.
    answers: BTreeMap<String, u64>,
}

impl Tally {
    fn answer(&mut self, answer: impl Into<String>) {
        self.inputs += 1;
        *self.answers.entry(answer.into()).or_default() += 1;
    }

    fn fault(&mut self, fault: Fault, example: impl FnOnce() -> String) {
        let (count, examples) = self.faults.entry(fault).or_default();
        *count += 1;
        keep(examples, example().chars().take(500).collect());
    }

    fn add(&mut self, other: Self) {
        self.inputs += other.inputs;
        for (answer, count) in other.answers {
            *self.answers.entry(answer).or_default() += count;
        }
        for (fault, (count, examples)) in other.faults {
            let mine = self.faults.entry(fault).or_default();
            mine.0 += count;
            examples.into_iter().for_each(|example| keep(&mut mine.1, example));
        }
    }
}

/// Keeps an example if there is room, and none of its kind.
fn keep(examples: &mut Vec<String>, example: String) {
    if examples.len() < SHOWN && !examples.iter().any(|other| kind(other) == kind(&example)) {
        examples.push(example);
    }
}

/// What was called, and what came of it in short.
fn kind(example: &str) -> &str {
    example.split_once(": ").map_or(example, |(kind, _)| kind)
}

/// Measures all of it.
pub fn measure(row: &report::Row<'_>, bench: &Bench) -> Result<(), String> {
    let (all, lines) = if bench.quick { (2_000, 200) } else { (100_000, 2_000) };
    eprintln!("Y3: seed {SEED}");
    let cluster = Cluster::up(&Shape { nodes: 1, rails: 1, gpus: 1, safe_ranks: true, ..Shape::default() })?;
    let runtime = Runtime::new().map_err(text)?;
    let stage = Stage::furnish(&cluster)?;
    let each = (all - lines) / 2;
    let cpu = Cpu::start();
    let reported = |name: &str, part: Result<Tally, String>| {
        let mut tally = part?;
        stage.crashes(&mut tally);
        notify(row, name, &tally, cpu.cores());
        Ok::<_, String>(())
    };
    reported("command lines", lines::run(&stage, lines))?;
    reported("gRPC messages", runtime.block_on(calls(&stage, each, Protocol::Grpc)))?;
    reported("REST requests", runtime.block_on(calls(&stage, each, Protocol::Rest)))
}

fn notify(row: &report::Row<'_>, name: &str, tally: &Tally, cpu: f64) {
    for (fault, words) in Fault::ALL {
        let of_lines = name == "command lines";
        if fault == if of_lines { Fault::Server } else { Fault::ExitCode } {
            continue;
        }
        let (count, examples) = tally.faults.get(&fault).cloned().unwrap_or_default();
        let value = count as f64;
        let sample = Sample::new(vec![value]);
        let mut peers = json!({"inputs": tally.inputs, "seed": SEED, "examples": examples});
        if fault == Fault::Crash {
            peers["answers"] = json!(tally.answers);
        }
        let case = format!("{} {name}: {words}", tally.inputs);
        row.line(&Line {
            case: &case,
            value,
            unit: "",
            goal: Goal::AtMost(0.0),
            sample: &sample,
            cpu,
            peers,
        });
    }
}

/// By which way messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Grpc,
    Rest,
}

async fn calls(stage: &Stage<'_>, inputs: u64, way: Protocol) -> Result<Tally, String> {
    let callers = Arc::new(stage.callers().await?);
    let left = Arc::new(AtomicU64::new(inputs));
    let mut tasks = tokio::task::JoinSet::new();
    for stream in 0..CALLERS {
        let (callers, left) = (Arc::clone(&callers), Arc::clone(&left));
        let share = inputs / CALLERS + u64::from(stream < inputs % CALLERS);
        tasks.spawn(async move {
            let mut dice = Dice::new(SEED, stream * 2 + u64::from(way == Protocol::Rest));
            let mut tally = Tally::default();
            for _ in 0..share {
                let Some(caller) = dice.of(callers.as_slice()) else { break };
                match way {
                    Protocol::Grpc => caller.grpc(&mut dice, &mut tally).await,
                    Protocol::Rest => caller.rest(&mut dice, &mut tally).await,
                }
                if left.fetch_sub(1, Ordering::Relaxed) % 1000 == 0
                    && let Some(admin) = callers.first()
                {
                    admin.sweep().await;
                }
            }
            tally
        });
    }
    let mut tally = Tally::default();
    while let Some(part) = tasks.join_next().await {
        tally.add(part.map_err(text)?);
    }
    Ok(tally)
}

/// The cluster and what is in it.
struct Stage<'a> {
    cluster: &'a Cluster,
    access: Access,
    controller: Option<i64>,
}

impl<'a> Stage<'a> {
    /// A tenant with its administrator; nothing starts on the only server, whatever chance submits.
    fn furnish(cluster: &'a Cluster) -> Result<Self, String> {
        let people = cluster.home().join("people").display().to_string();
        for words in [
            &["tenant", "create", "fuzz", "--gpus", "8", "--jobs", "2000"][..],
            &["tenant", "issue-cert", "tara", "--role", "tenant-admin", "--tenant", "fuzz", "--out", &people],
            &["node", "cordon", "n0"],
        ] {
            let answer = cluster.railctl(words);
            if answer.code != 0 {
                return Err(format!("{words:?}: {}", answer.stderr));
            }
        }
        cluster.submit(
            "train",
            "gang: {nodes: 1, gpusPerNode: 1}\nrails: {none: true}\ncommand: {argv: [/bin/true]}",
        )?;
        let access = Access::of(cluster)?;
        Ok(Self { cluster, access, controller: controller(cluster) })
    }

    /// The cluster's administrator first, then the tenant's.
    async fn callers(&self) -> Result<[Caller; 3], String> {
        let people = self.cluster.home().join("people");
        let tara = Access {
            certificate: people.join("tara.pem"),
            key: people.join("tara.key"),
            ..self.access.clone()
        };
        let admin = Caller::new(self.access.client()?, true).await?;
        let (one, other) =
            (Caller::new(tara.client()?, false).await?, Caller::new(tara.client()?, false).await?);
        Ok([admin, one, other])
    }

    /// Panics that are in logs, and a controller that is another process than before.
    fn crashes(&self, tally: &mut Tally) {
        for line in panics(&self.cluster.dir()) {
            tally.fault(Fault::Crash, || line);
        }
        let now = controller(self.cluster);
        if now.is_none() || now != self.controller {
            tally.fault(Fault::Crash, || {
                format!("the controller was process {:?} and is {now:?}", self.controller)
            });
        }
    }
}

fn controller(cluster: &Cluster) -> Option<i64> {
    let dir = cluster.dir().display().to_string();
    let status: Value = cluster.json(&["dev", "status", "--name", cluster.name(), "--dir", &dir]).ok()?;
    let processes = status["processes"].as_array()?;
    processes.iter().find(|one| one["role"] == "controller")?["pid"].as_i64()
}

fn panics(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(panics(&path));
        } else if path.extension().is_some_and(|end| end == "log") {
            let log = fs::read(&path).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            found.extend(log.lines().filter(|line| line.contains("panicked at")).map(str::to_owned));
        }
    }
    found
}
