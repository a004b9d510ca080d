//! Finds what this server permits, by doing it: a process that does as a supervisor does starts a program as a rank is started.

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{
    exec::{
        self,
        launch::{Confinement, Launch, Program},
    },
    ids::Ids,
    isolation::{
        Isolation, Namespaces,
        init::Order,
        plan::{Facts, Identity, Policy},
        room::{Room, enter_user_namespace},
        view::View,
    },
};

/// Most bytes that a trial may have as JSON: it is made of paths and numbers.
const TRIAL_MAX: u64 = 1 << 20;

/// What is tried: the isolation that ranks would get, and a program that is run in it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trial {
    /// The isolation that ranks would get.
    pub isolation: Isolation,
    /// The user that ranks would run as; `None`: the agent's own.
    pub ids: Option<Ids>,
    /// The part of the server's file system that ranks would see.
    pub view: View,
    /// The program that is run in it, with its arguments.
    pub argv: Vec<String>,
    /// The program that starts it, where it is not the agent's own.
    #[serde(default)]
    pub starter: Option<PathBuf>,
}

impl Trial {
    /// Tries it; `agent` is our own program.
    ///
    /// # Errors
    /// What went wrong, in one line.
    pub fn run(&self, agent: &Path) -> Result<(), String> {
        let text = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        let mut command = Command::new(agent);
        command.arg("rank-trial").env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        if let Some(mut stdin) = child.stdin.take() {
            // Where it does not read, its end says why.
            let _ = stdin.write_all(&text);
        }
        let output = child.wait_with_output().map_err(|error| error.to_string())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().next().unwrap_or_default().trim().to_owned();
        Err(if said.is_empty() { output.status.to_string() } else { said })
    }
}

/// The process that does as a supervisor does.
#[must_use]
pub fn main() -> ExitCode {
    match read().and_then(|trial| attempt(&trial)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn read() -> Result<Trial, String> {
    let mut text = Vec::new();
    io::stdin().take(TRIAL_MAX).read_to_end(&mut text).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| error.to_string())
}

fn attempt(trial: &Trial) -> Result<(), String> {
    let reported = |error: io::Error| error.to_string();
    if trial.isolation.user {
        enter_user_namespace().map_err(|error| format!("a user namespace is refused: {error}"))?;
    }
    let starter = trial.starter.clone().map_or_else(std::env::current_exe, Ok).map_err(reported)?;
    let room = match trial.isolation.namespaces.any() {
        true => Some(make(trial, &starter)?),
        false => None,
    };
    let parent = rustix::process::getpid().as_raw_nonzero().get();
    let confinement = Confinement {
        parent: (!trial.isolation.namespaces.pid).then_some(parent),
        ids: trial.ids.clone(),
        join: room.as_ref().map(Room::join),
        seccomp: trial.isolation.seccomp,
        ..Confinement::default()
    };
    let program = Program { argv: trial.argv.clone(), working_dir: "/".into(), ..Program::default() };
    let launch = Launch::write(&confinement, &program).map_err(|error| error.to_string())?;
    let mut command = exec::command(&starter, &launch).map_err(reported)?;
    let child = match &room {
        Some(room) => room.spawn(command),
        None => command.spawn(),
    };
    let output = child.and_then(|child| child.wait_with_output()).map_err(reported)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(if said.is_empty() { format!("{}: {}", trial.argv.join(" "), output.status) } else { said })
}

fn make(trial: &Trial, starter: &Path) -> Result<Room, String> {
    let order = Order {
        isolation: trial.isolation.clone(),
        ids: trial.ids.clone(),
        view: trial.view.clone(),
        ..Order::default()
    };
    let open = || {
        let mut room = Room::open(starter, trial.isolation.namespaces)?;
        room.arrange(order)?;
        Ok(room)
    };
    let mut room = open().map_err(|error: io::Error| format!("namespaces are refused: {error}"))?;
    room.ready()?;
    Ok(room)
}

/// What this server permits. `trial` is what is to work in the end: which user ranks run as, what they see, what they run.
#[must_use]
pub fn probe(agent: &Path, identity: Identity, policy: &Policy, trial: &Trial) -> Facts {
    let root = rustix::process::geteuid().is_root();
    let with = |namespaces: Namespaces, seccomp: bool| {
        let isolation = Isolation {
            user: !root && namespaces.any(),
            namespaces,
            seccomp,
            tmp_bytes: policy.tmp_bytes,
            shm_bytes: policy.shm_bytes,
            ..Isolation::default()
        };
        Trial { isolation, ..trial.clone() }.run(agent)
    };
    let files = Namespaces { mount: true, ipc: true, network: policy.network, pid: false };
    let unwanted = || Err("not tried".to_owned());
    let all = if policy.namespaces { with(Namespaces { pid: true, ..files }, false) } else { unwanted() };
    let files = match &all {
        Ok(()) => Ok(()),
        Err(_) if policy.namespaces => with(files, false),
        Err(_) => unwanted(),
    };
    let plain = Trial { argv: vec!["/bin/true".to_owned()], ..trial.clone() };
    let seccomp = Isolation { seccomp: true, ..Isolation::default() };
    let seccomp = if policy.seccomp { Trial { isolation: seccomp, ..plain }.run(agent) } else { unwanted() };
    Facts { identity, root, all, files, seccomp }
}
