//! Real agents of one cluster, each of a server that a file describes: stopped and started as a service manager does, ended when dropped.
//! Their jobs' processes end with the jobs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Stdio},
};

use serde_json::json;

use crate::{
    etcd::tied,
    process::{log_to, terminate},
};

/// With what a server joins its cluster.
#[derive(Debug, Clone)]
pub struct Invitation {
    /// A token that is good once.
    pub token: String,
    /// What the cluster's authority is known by.
    pub pin: String,
}

/// What each server has.
#[derive(Debug, Clone, Copy)]
pub struct Servers {
    /// GPUs of a server.
    pub gpus: u32,
    /// Rails of a server, each a loopback address.
    pub rails: u32,
    /// The servers' rails are at `127.FIRST.SERVER.RAIL`: clusters of one process that run at a time need different ones.
    pub first: u8,
}

/// The agents `n0` and so on.
#[derive(Debug)]
pub struct Agents {
    controllers: String,
    args: Vec<String>,
    running: Vec<Option<Child>>,
    dir: tempfile::TempDir,
}

/// Any error as its text.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Agents {
    /// Agents of the controllers at these addresses, with further arguments; none yet.
    ///
    /// # Errors
    /// There is no folder for them.
    pub fn of(controllers: &str, args: &[&str]) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Ok(Self { controllers: controllers.to_owned(), args, running: Vec::new(), dir })
    }

    /// Starts one more, whose program lies in this folder.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn join(&mut self, bin: &Path, has: Servers, invitation: &Invitation) -> Result<(), String> {
        let n = self.running.len();
        fs::write(self.inventory(n), inventory(n, has).to_string()).map_err(text)?;
        let child = self.spawn(n, bin, &["--join-token", &invitation.token, "--ca-pin", &invitation.pin])?;
        self.running.push(Some(child));
        Ok(())
    }

    fn inventory(&self, which: usize) -> PathBuf {
        self.dir.path().join(format!("{}.json", Self::name(which)))
    }

    fn spawn(&self, which: usize, bin: &Path, more: &[&str]) -> Result<Child, String> {
        let node = Self::name(which);
        let mut command = tied(&bin.join("rail-node-agent"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("RAIL_")) {
            command.env_remove(name);
        }
        command.args(["run", "--node", &node, "--controller", &self.controllers, "--no-cgroups"]);
        command.args(["--ranks-as-root", "--data-dir"]).arg(self.folder(which));
        command.arg("--inventory").arg(self.inventory(which)).args(&self.args).args(more);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log_to(&self.log_file(which))?);
        command.spawn().map_err(|error| format!("cannot start rail-node-agent: {error}"))
    }

    /// The name of one's server.
    #[must_use]
    pub fn name(which: usize) -> String {
        format!("n{which}")
    }

    /// The data folder of one.
    #[must_use]
    pub fn folder(&self, which: usize) -> PathBuf {
        self.dir.path().join(Self::name(which))
    }

    fn log_file(&self, which: usize) -> PathBuf {
        self.dir.path().join(format!("{}.log", Self::name(which)))
    }

    /// What one has logged, through all its restarts.
    #[must_use]
    pub fn log(&self, which: usize) -> String {
        fs::read_to_string(self.log_file(which)).unwrap_or_default()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.running.len()
    }

    /// Ends one as its service manager does, and starts the one in this folder in its place, on the same data.
    ///
    /// # Errors
    /// It does not end in time, or the other cannot be started.
    pub fn replace(&mut self, which: usize, bin: &Path) -> Result<(), String> {
        if let Some(child) = self.running[which].take() {
            terminate(child).map_err(|error| format!("agent {which}: {error}"))?;
        }
        self.running[which] = Some(self.spawn(which, bin, &[])?);
        Ok(())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for mut agent in self.running.drain(..).flatten() {
            // It may have ended by itself.
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

/// What such a server says that it has, as an agent's `--inventory`.
fn inventory(n: usize, has: Servers) -> serde_json::Value {
    let gpu = |index: u32| json!({"index": index, "uuid": format!("DEV-{n}-{index}"), "model": "dev GPU", "numaNode": 0});
    let nic = |rail: u32| {
        let device = format!("rail{rail}");
        json!({
            "device": device, "netdev": device, "rail": rail, "numaNode": 0, "mtu": 1500, "up": true,
            "address": format!("127.{}.{n}.{}", has.first, rail + 1), "speedMbps": 0, "gidIndex": -1,
        })
    };
    json!({
        "gpus": (0..has.gpus).map(gpu).collect::<Vec<_>>(), "nics": (0..has.rails).map(nic).collect::<Vec<_>>(),
        "neighbors": [], "numaNodes": 1, "cpus": 4, "memoryBytes": 1_u64 << 33,
    })
}
