//! Row Y2: what users of kubectl, nomad and Slurm do, done against a cluster. Row Y1: what a new user met, done again.

use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use integration_harness::{Cluster, Shape, eventually};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde_json::json;

use super::{
    Bench,
    table::{Outcome, Thing, findings, read},
};
use crate::report::{self, Cpu, Goal, Line, Sample, round};

/// What scripts may call, and what is made before the first of them.
const PRELUDE: &str = include_str!("prelude.sh");
const SETUP: &str = include_str!("setup.sh");
/// So many of the table must work.
const WANTED: f64 = 115.0;
/// The end of a text that is shown.
const SHOWN: usize = 400;

/// The folders and the identity that scripts run with.
struct Stage<'a> {
    /// The folder of all of them.
    home: PathBuf,
    /// Where programs are looked for first.
    bin: &'a Path,
    /// A configuration that every script has a copy of.
    config: PathBuf,
    /// Name of the context of the cluster's administrator.
    admin: &'a str,
}

/// Does all things and counts those that work.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure(row: &report::Row<'_>, bench: &Bench) -> Result<(), String> {
    let done = do_all(row, bench, read()?)?;
    let Some(Done { things, works, cpu }) = done else { return Ok(()) };
    let case = format!("of {things} things that users of kubectl, nomad and Slurm do, those that work");
    // The goal is for all of them.
    let goal = if bench.only.is_none() { Goal::AtLeast(WANTED) } else { Goal::None };
    total(row, &case, f64::from(works), goal, cpu);
    Ok(())
}

/// Does again what a new user met, and counts what is left of it.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn measure_findings(row: &report::Row<'_>, bench: &Bench) -> Result<(), String> {
    let done = do_all(row, bench, findings()?)?;
    let Some(Done { things, works, cpu }) = done else { return Ok(()) };
    let case = format!("of {things} things that a new user met in a day, those that are left");
    let left = f64::from(u32::try_from(things).unwrap_or(u32::MAX) - works);
    total(row, &case, left, Goal::AtMost(0.0), cpu);
    Ok(())
}

/// The results of a table.
struct Done {
    things: usize,
    works: u32,
    cpu: f64,
}

/// Does all things of a table; `None` where they cannot be done here.
fn do_all(row: &report::Row<'_>, bench: &Bench, table: Vec<Thing>) -> Result<Option<Done>, String> {
    let wanted = |thing: &Thing| bench.only.as_ref().is_none_or(|start| thing.id.starts_with(start));
    let things: Vec<Thing> = table.into_iter().filter(wanted).collect();
    if !Command::new("bash").args(["-c", "true"]).status().is_ok_and(|status| status.success()) {
        row.void("things that users do", "bash is not here");
        return Ok(None);
    }
    let cluster = Cluster::up(&Shape { safe_ranks: true, ..Shape::default() })?;
    let stage = Stage::of(&cluster)?;
    stage.furnish()?;
    let cpu = Cpu::start();
    let mut works = 0_u32;
    for thing in &things {
        let begin = Instant::now();
        let outcome = stage.done(thing)?;
        let verdict = thing.judge(&outcome);
        works += u32::from(verdict.is_ok());
        notify(row, thing, &outcome, begin.elapsed(), verdict.err());
    }
    let cores = cpu.cores();
    if bench.only.is_none() && !bench.quick {
        reported_without(row, &stage, &things)?;
    }
    Ok(Some(Done { things: things.len(), works, cpu: cores }))
}

fn total(row: &report::Row<'_>, case: &str, value: f64, goal: Goal, cpu: f64) {
    let sample = Sample::new(vec![value]);
    row.line(&Line { case, value, unit: "things", goal, sample: &sample, cpu, peers: json!({}) });
}

fn notify(row: &report::Row<'_>, thing: &Thing, outcome: &Outcome, took: Duration, why: Option<String>) {
    let value = if why.is_some() { 0.0 } else { 1.0 };
    let mut peers = json!({"peer": thing.peer, "seconds": round(took.as_secs_f64())});
    if let Some(why) = why {
        peers["why"] = json!(why);
        peers["stdout"] = json!(end_of(&outcome.stdout));
        peers["stderr"] = json!(end_of(&outcome.stderr));
    }
    let case = format!("{}: {}", thing.id, thing.what);
    let sample = Sample::new(vec![value]);
    let goal = Goal::AtLeast(1.0);
    row.line(&Line { case: &case, value, unit: "works", goal, sample: &sample, cpu: f64::NAN, peers });
}

fn end_of(text: &str) -> &str {
    let from = text.char_indices().rev().nth(SHOWN - 1).map_or(0, |(at, _)| at);
    text.get(from..).unwrap_or(text).trim_end()
}

/// Does the same where railctl does nothing and says that it succeeded: a thing that works even so has no check.
fn reported_without(row: &report::Row<'_>, stage: &Stage<'_>, things: &[Thing]) -> Result<(), String> {
    let bin = stage.home.join("nothing");
    fs::create_dir_all(&bin).map_err(|error| error.to_string())?;
    let path = bin.join("railctl");
    fs::write(&path, "#!/bin/sh\nexit 0\n").map_err(|error| error.to_string())?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
    let stage =
        Stage { home: bin.join("things"), bin: &bin, config: stage.config.clone(), admin: stage.admin };
    let mut held = Vec::new();
    for thing in things {
        let thing = Thing { limit: 2, after: String::new(), ..thing.clone() };
        if thing.judge(&stage.done(&thing)?).is_ok() {
            held.push(thing.id);
        }
    }
    let case = format!("things that seem to work with a railctl that does nothing: {}", held.join(" "));
    total(row, case.trim_end_matches([' ', ':']), held.len() as f64, Goal::AtMost(0.0), f64::NAN);
    Ok(())
}

impl<'a> Stage<'a> {
    fn of(cluster: &'a Cluster) -> Result<Self, String> {
        let home = cluster.home().join("things");
        fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        // Jobs run as users of their own, who come by here.
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
        Ok(Self {
            home,
            bin: cluster.bin(),
            config: cluster.home().join("config.yaml"),
            admin: cluster.name(),
        })
    }

    /// Makes what the things need, with the configuration that they have copies of.
    fn furnish(&self) -> Result<(), String> {
        let outcome = self.script("setup", SETUP, &self.config, Duration::from_secs(120))?;
        if outcome.code == Some(0) && !outcome.late {
            return Ok(());
        }
        Err(format!("what the things need could not be made: {}{}", outcome.stdout, outcome.stderr))
    }

    /// Does one thing, and what is done behind it.
    fn done(&self, thing: &Thing) -> Result<Outcome, String> {
        let folder = self.folder(&thing.id)?;
        let config = folder.join("config.yaml");
        fs::copy(&self.config, &config).map_err(|error| format!("{}: {error}", config.display()))?;
        let mut outcome = self.script(&thing.id, &thing.run, &config, Duration::from_secs(thing.limit))?;
        if !thing.after.is_empty() {
            // Where its traces cannot be removed, it does not work.
            let after = self.script(&thing.id, &thing.after, &self.config, Duration::from_secs(60))?;
            outcome.late |= after.late;
        }
        Ok(outcome)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.home.join(name);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// Runs a script in a folder of its own; whatever of it is left at the end, ends.
    fn script(&self, name: &str, text: &str, config: &Path, limit: Duration) -> Result<Outcome, String> {
        let folder = self.folder(name)?;
        let (out, err) = (folder.join(".stdout"), folder.join(".stderr"));
        let create = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        let mut path = OsString::from(self.bin);
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", &format!("{PRELUDE}\n{text}"), name]);
        let variables = std::env::vars_os().map(|(name, _)| name);
        for variable in variables.filter(|name| name.to_str().is_some_and(|name| name.starts_with("RAIL_"))) {
            command.env_remove(variable);
        }
        command.env("PATH", path).env("RAIL_CONFIG", config).env("HOME", &folder).env("ADMIN", self.admin);
        command.current_dir(&folder).process_group(0);
        command.stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
        let mut child = command.spawn().map_err(|error| format!("cannot start bash: {error}"))?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or("0 is not a process")?;
        // It is left to be waited for, so that its id is nobody else's when the group is ended.
        let inspect = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = eventually(name, limit, || waitid(WaitId::Pid(group), inspect).ok().flatten());
        let _ = kill_process_group(group, Signal::KILL);
        let status = child.wait().map_err(|error| error.to_string())?;
        let read = |path: &Path| {
            fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
        };
        Ok(Outcome { code: status.code(), late: ended.is_err(), stdout: read(&out), stderr: read(&err) })
    }
}
