//! A local cluster, made and ended by `railctl dev`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::{binaries, eventually};

/// What a cluster should look like.
#[derive(Debug, Clone)]
pub struct Shape {
    /// The number of servers.
    pub nodes: u32,
    /// Rails of each server.
    pub rails: u32,
    /// GPUs of each server.
    pub gpus: u32,
    /// Pods that the servers are spread over.
    pub pods: u32,
    /// Network namespaces with every rail shaped to this rate (`200mbit`); loopback addresses if `None`.
    pub netns: Option<String>,
    /// Leaves, and two spines above them, are switches of FRR with agents, in network namespaces; shaped where `netns` says so.
    pub frr: bool,
    /// Variables that every process of the cluster is started with, beside the inherited ones.
    pub env: Vec<(String, String)>,
    /// Ranks run as whom `railctl dev up` thinks safest. Without this they run as the caller, be it root, and may write into the
    /// cluster's home.
    pub safe_ranks: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            nodes: 4,
            rails: 4,
            gpus: 4,
            pods: 1,
            netns: None,
            frr: false,
            env: Vec::new(),
            safe_ranks: false,
        }
    }
}

/// The output and exit code of `railctl`.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its exit code; 255 if a signal ended it.
    pub code: i32,
    /// What it wrote to standard output: data.
    pub stdout: String,
    /// What it wrote to standard error: messages for people.
    pub stderr: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(255),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A running cluster, ended and removed when dropped.
pub struct Cluster {
    bin: PathBuf,
    home: TempDir,
    name: String,
    safe_ranks: bool,
    up: Child,
}

impl Cluster {
    /// Starts one and waits until every node is ready.
    ///
    /// # Errors
    /// What `railctl dev up` said.
    pub fn up(shape: &Shape) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let bin = binaries::directory()?.to_owned();
        let home = TempDir::with_prefix("railyard-test-").map_err(|error| error.to_string())?;
        // Short: it becomes part of the names of network devices and namespaces.
        let name = format!("t{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut command = command(&bin, home.path(), shape.safe_ranks);
        command.args(["dev", "up", "--owner-stdin", "--name", &name]);
        for (flag, value) in [
            ("--nodes", shape.nodes),
            ("--rails", shape.rails),
            ("--gpus", shape.gpus),
            ("--pods", shape.pods),
        ] {
            command.args([flag, &value.to_string()]);
        }
        if let Some(rate) = &shape.netns {
            command.args(["--netns", "--rail-rate", rate]);
        }
        if shape.frr {
            command.args(if shape.netns.is_none() { &["--netns"][..] } else { &[] });
            command.args(["--leaves", "frr"]);
        }
        command.arg("--dir").arg(home.path().join("c"));
        command.envs(shape.env.iter().map(|(name, value)| (name, value)));
        let log = std::fs::File::create(home.path().join("up.log")).map_err(|error| error.to_string())?;
        let errors = log.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::piped()).stdout(log).stderr(errors);
        let mut up = command.spawn().map_err(|error| format!("cannot start railctl: {error}"))?;
        // `wait` would close the pipe that the guard watches.
        let stdin = up.stdin.take();
        let status = up.wait().map_err(|error| error.to_string())?;
        up.stdin = stdin;
        let cluster = Self { bin, home, name, safe_ranks: shape.safe_ranks, up };
        if status.success() {
            return Ok(cluster);
        }
        let said = std::fs::read_to_string(cluster.home.path().join("up.log")).unwrap_or_default();
        Err(format!("railctl dev up ended with {status}:\n{said}"))
    }

    /// Where the cluster keeps its state, sockets and logs.
    #[must_use]
    pub fn dir(&self) -> PathBuf {
        self.home.path().join("c")
    }

    /// The cluster's name; part of the names of its namespaces.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts again whatever of the cluster does not run, with the state that it left.
    ///
    /// # Errors
    /// What `railctl dev up` said.
    pub fn revive(&self) -> Result<(), String> {
        let dir = self.dir().display().to_string();
        let answer = self.railctl(&["dev", "up", "--name", &self.name, "--dir", &dir]);
        if answer.code == 0 { Ok(()) } else { Err(format!("{}{}", answer.stdout, answer.stderr)) }
    }

    /// Where the controller and each agent serve `/metrics`.
    ///
    /// # Errors
    /// One has not said where.
    pub fn metrics(&self) -> Result<Vec<SocketAddr>, String> {
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        };
        let about = read(&self.dir().join("controller/controller.json"))?;
        let about: Value = serde_json::from_str(&about).map_err(|error| format!("{error} in {about}"))?;
        let mut urls = vec![about["metrics"].as_str().unwrap_or_default().to_owned()];
        let nodes = self.json(&["get", "nodes"])?;
        let names = nodes["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
        for node in names.iter().filter_map(|node| node["metadata"]["name"].as_str()) {
            urls.push(read(&self.dir().join(node).join("metrics.url"))?);
        }
        let address = |url: &String| {
            let address = url.trim().trim_start_matches("http://").trim_end_matches("/metrics");
            address.parse().map_err(|error| format!("{url:?} is no address of metrics: {error}"))
        };
        urls.iter().map(address).collect()
    }

    /// A directory for the test's own files.
    #[must_use]
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The directory of the binaries under test.
    #[must_use]
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// A `railctl` command for this cluster, not yet started.
    #[must_use]
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&self.bin, self.home.path(), self.safe_ranks);
        command.args(args);
        command
    }

    /// Runs `railctl` to its end.
    ///
    /// # Panics
    /// It cannot be started.
    #[must_use]
    #[allow(clippy::expect_used, reason = "a harness for tests: no binary, no test")]
    pub fn railctl(&self, args: &[&str]) -> Answer {
        self.command(args).stdin(Stdio::null()).output().expect("railctl starts").into()
    }

    /// Runs `railctl ARGS -o json`, which must succeed, and reads what it prints.
    ///
    /// # Errors
    /// Its exit code and words, or what is wrong with the JSON.
    pub fn json(&self, args: &[&str]) -> Result<Value, String> {
        let mut all = args.to_vec();
        all.extend(["-o", "json"]);
        let answer = self.railctl(&all);
        if answer.code != 0 {
            return Err(format!(
                "railctl {all:?} ended with {}: {}{}",
                answer.code, answer.stdout, answer.stderr
            ));
        }
        serde_json::from_str(&answer.stdout).map_err(|error| format!("{error} in {}", answer.stdout))
    }

    /// A job as JSON.
    ///
    /// # Errors
    /// As [`Cluster::json`].
    pub fn job(&self, name: &str) -> Result<Value, String> {
        self.json(&["get", "jobs", name])
    }

    /// Writes a job file and submits it.
    ///
    /// # Errors
    /// What `railctl submit` said.
    pub fn submit(&self, name: &str, spec: &str) -> Result<(), String> {
        let path = self.home.path().join(format!("{name}.yaml"));
        let spec = spec.trim_matches('\n').replace('\n', "\n  ");
        let text = format!("apiVersion: rail/v1\nkind: Job\nmetadata: {{name: {name}}}\nspec:\n  {spec}\n");
        std::fs::write(&path, text).map_err(|error| error.to_string())?;
        let answer = self.railctl(&["submit", &path.display().to_string()]);
        if answer.code == 0 {
            Ok(())
        } else {
            Err(format!("submit ended with {}: {}", answer.code, answer.stderr))
        }
    }

    /// Waits until a job's phase is one of `phases` and gives the job.
    ///
    /// # Errors
    /// The time is up; the text holds the job as last seen.
    pub fn wait_for(&self, name: &str, phases: &[&str], within: Duration) -> Result<Value, String> {
        let mut last = String::new();
        let found = eventually(&format!("job {name} in {phases:?}"), within, || match self.job(name) {
            Ok(job) if phases.iter().any(|phase| job["status"]["phase"] == *phase) => Some(job),
            Ok(job) => {
                last = format!("{:#}", job["status"]);
                None
            }
            Err(error) => {
                last = error;
                None
            }
        });
        found.map_err(|error| format!("{error}; last seen: {last}\n{}", self.logs()))
    }

    /// The last lines of every log of the cluster, for failure messages.
    #[must_use]
    pub fn logs(&self) -> String {
        let mut text = String::new();
        let mut open = vec![self.dir()];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|end| end == "log") {
                    let log = std::fs::read_to_string(&path).unwrap_or_default();
                    let lines: Vec<&str> = log.lines().collect();
                    let tail = lines[lines.len().saturating_sub(15)..].join("\n");
                    text.push_str(&format!("--- {}\n{tail}\n", path.display()));
                }
            }
        }
        text
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let dir = self.dir();
        let _ = command(&self.bin, self.home.path(), self.safe_ranks)
            .args(["dev", "down", "--name", &self.name, "--dir"])
            .arg(dir)
            .stdin(Stdio::null())
            .output();
        drop(self.up.stdin.take());
    }
}

fn command(bin: &Path, home: &Path, safe_ranks: bool) -> Command {
    let mut command = Command::new(bin.join("railctl"));
    if !safe_ranks {
        // Without root it changes nothing. Jobs of tests write into the home, which lies in /tmp.
        command.env("RAIL_RANKS_AS_ROOT", "true").env("RAIL_RANK_SHOW", home);
    }
    command
        .env("RAIL_CONFIG", home.join("config.yaml"))
        .env("RAIL_BIN_DIR", bin)
        .current_dir(binaries::root());
    for variable in
        ["RAIL_CONTROLLER", "RAIL_TOKEN", "RAIL_TENANT", "RAIL_CONTEXT", "RAIL_CERT", "RAIL_KEY", "RAIL_CA"]
    {
        command.env_remove(variable);
    }
    command
}
