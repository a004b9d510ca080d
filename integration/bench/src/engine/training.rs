//! B10: a PyTorch training script of which only the backend changes.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use integration_harness::{binaries, eventually};
use serde_json::{Value, json};

use super::{
    Bench, Environment, Key, Who, children,
    lab::{Cut, Lab},
    ours, peers,
    series::too_busy,
};
use crate::report::{Cpu, Goal, Line, Row, Sample};

const RANKS: usize = 4;
/// Of one run of the script.
const LIMIT: Duration = Duration::from_secs(240);
/// Where ranks meet; runs follow each other, so each has its own.
const MASTER_PORT: u16 = 29_500;

/// Which backend, and what Gloo is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Backend {
    Rail,
    Gloo { interfaces: usize },
}

/// One run of the script.
struct Run<'a> {
    lab: &'a Lab,
    backend: Backend,
    steps: u32,
    /// How and after which step a rail is cut.
    cut: Option<(Cut, u32)>,
    port: u16,
}

/// What rank 0 reported.
struct Report {
    json: Value,
    busy: f64,
}

impl Report {
    fn seconds(&self, name: &str) -> f64 {
        self.json[name].as_f64().unwrap_or(f64::NAN)
    }

    /// The result of the training, to the bit.
    fn bits(&self) -> (&Value, &Value) {
        (&self.json["loss"], &self.json["parameters_sha256"])
    }
}

impl Run<'_> {
    fn perform(&self) -> Result<Report, String> {
        let folder = self.lab.folder("training")?;
        let cpu = Cpu::start();
        let key = Key { who: Who::Ours { rails: self.lab.rails }, place: Environment::Rails, n: RANKS };
        let engines = if self.backend == Backend::Rail {
            Some(ours::engines(self.lab, key, self.lab.rails)?)
        } else {
            None
        };
        let mut children = Vec::new();
        for rank in 0..RANKS {
            let mut command = self.command(rank, &folder)?;
            if let Some(engines) = &engines {
                self.attach(&mut command, &engines.sockets[rank])?;
            }
            children.push(command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?);
        }
        let cut = thread::scope(|scope| {
            let cutting = scope.spawn(|| self.cut_at_its_step(&folder));
            let done = children::ended(children, LIMIT);
            let cut = cutting.join().unwrap_or_else(|_| Err("a thread ended".to_owned()));
            done.and(cut)
        });
        if let Some((how, _)) = self.cut {
            self.lab.remediate(1, 2, how)?;
        }
        cut?;
        let busy = cpu.cores();
        let file = folder.join("report.json");
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let json = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Report { json, busy })
    }

    fn command(&self, rank: usize, folder: &Path) -> Result<Command, String> {
        let script = binaries::root().join("node-agent/capi/python/examples/ddp.py");
        let mut command = self.lab.inside(&self.lab.host(rank), peers::python()?);
        command.args(["-W", "ignore"]).arg(script);
        command.args(["--steps", &self.steps.to_string(), "--warmup", "2"]);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", RANKS.to_string());
        command.env("MASTER_ADDR", self.lab.management(0).to_string());
        command.env("MASTER_PORT", (MASTER_PORT + self.port).to_string()).env("OMP_NUM_THREADS", "1");
        if rank == 0 {
            command.arg("--out").arg(folder.join("report.json"));
            command.arg("--step-marks").arg(folder.join("marks"));
        }
        match self.backend {
            Backend::Rail => command.args(["--backend", "rail"]),
            Backend::Gloo { interfaces } => {
                let names: Vec<String> = (0..interfaces).map(|rail| format!("rail{rail}")).collect();
                command.args(["--backend", "gloo"]).env("GLOO_SOCKET_IFNAME", names.join(","))
            }
        };
        command.stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        Ok(command)
    }

    fn attach(&self, command: &mut Command, socket: &PathBuf) -> Result<(), String> {
        let library = binaries::directory()?.join("librail.so");
        command.env("RAIL_ENGINE_SOCKET", socket).env("RAIL_JOB_UID", ours::JOB_UID);
        command.env("RAIL_LIBRARY", library);
        command.env("PYTHONPATH", binaries::root().join("node-agent/capi/python"));
        Ok(())
    }

    fn cut_at_its_step(&self, folder: &Path) -> Result<(), String> {
        let Some((how, step)) = self.cut else { return Ok(()) };
        let marks = folder.join("marks");
        let passed =
            || fs::read_to_string(&marks).ok()?.lines().any(|line| line == step.to_string()).then_some(());
        eventually("the step before the cut", LIMIT, passed)?;
        self.lab.cut(1, 2, how)
    }
}

/// Communication time beside Gloo's, and a training that loses a rail.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn training(row: &Row, bench: &Bench) -> Result<(), String> {
    let lab = match bench.lab() {
        Ok(lab) => lab,
        Err(reason) => {
            row.void("DDP training, n=4", &reason);
            return Ok(());
        }
    };
    let steps = if bench.settings.quick { 4 } else { 10 };
    let mut port = 0;
    let mut run = |backend, steps, cut| {
        port += 1;
        eprintln!("B10: {backend:?} {cut:?}");
        Run { lab, backend, steps, cut, port }.perform()
    };
    if let Err(error) = beside_gloo(row, bench, lab, &mut |backend| run(backend, steps, None)) {
        row.failed("DDP training, n=4, beside Gloo", &error);
    }
    let all: [(Cut, u32); 3] = [(Cut::Carrier, 6), (Cut::Silent, 9), (Cut::Carrier, 3)];
    let cuts = if bench.settings.quick { &all[..1] } else { &all };
    let case = "DDP training, a rail cut mid-epoch: runs whose loss curve or parameters differ by a bit";
    match differences(cuts, |cut| run(Backend::Rail, 12, cut)) {
        Ok(differences) => {
            let value = differences.iter().sum();
            let (sample, goal) = (Sample::new(differences), Goal::AtMost(0.0));
            row.line(&Line {
                case,
                value,
                unit: "runs",
                goal,
                sample: &sample,
                cpu: f64::NAN,
                peers: json!({}),
            });
        }
        Err(error) => row.failed(case, &error),
    }
    Ok(())
}

fn beside_gloo(
    row: &Row,
    bench: &Bench,
    lab: &Lab,
    run: &mut dyn FnMut(Backend) -> Result<Report, String>,
) -> Result<(), String> {
    let (mut ours, mut gloo, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..if bench.settings.quick { 1 } else { 5 } {
        ours.push(run(Backend::Rail)?);
        gloo.push(run(Backend::Gloo { interfaces: 1 })?);
        if turn == 0 {
            all.push(run(Backend::Gloo { interfaces: lab.rails })?);
        }
    }
    for name in ["communication_s", "exchange_s"] {
        time_line(row, name, (&ours, &gloo, &all));
    }
    Ok(())
}

/// For each cut, 1 if the result of the training is not that without a cut.
fn differences(
    cuts: &[(Cut, u32)],
    mut run: impl FnMut(Option<(Cut, u32)>) -> Result<Report, String>,
) -> Result<Vec<f64>, String> {
    let healthy = run(None)?;
    let differs = |cut: &(Cut, u32)| -> Result<f64, String> {
        Ok(if run(Some(*cut))?.bits() == healthy.bits() { 0.0 } else { 1.0 })
    };
    cuts.iter().map(differs).collect()
}

fn time_line(row: &Row, name: &str, (ours, gloo, all): (&[Report], &[Report], &[Report])) {
    let times = |reports: &[Report]| Sample::new(reports.iter().map(|report| report.seconds(name)).collect());
    let ratio = ours.iter().zip(gloo).map(|(one, two)| one.seconds(name) / two.seconds(name));
    let sample = Sample::new(ratio.collect());
    let what = if name == "exchange_s" { "the same buckets alone" } else { "inside training" };
    let case = format!("DDP training, n=4, communication {what}, over Gloo's default");
    let peers = json!({
        "unit": "s", "ours": times(ours).spread(), "gloo_one_interface": times(gloo).spread(),
        "gloo_all_interfaces": times(all).spread(),
    });
    let cpu = Sample::new(ours.iter().map(|report| report.busy).collect()).median();
    let value = sample.median();
    let line = Line { case: &case, value, unit: "x", goal: Goal::AtMost(0.30), sample: &sample, cpu, peers };
    // Four ranks compute on these cores between their exchanges, so that only the exchange alone can be void.
    match too_busy(cpu).filter(|_| name == "exchange_s" && cpu > 1.9) {
        Some(why) => row.spoilt(&line, &why),
        None => row.line(&line),
    }
}
