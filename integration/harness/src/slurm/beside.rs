//! Railyard beside a real Slurm, as `deploy/slurm` sets it up: prolog, epilog, `job_submit.lua` and the service that it asks.

use std::{
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Duration,
};

use super::{Site, Slurm, Version};
use crate::{Access, Cluster, Shape, binaries, wait::eventually};

/// Longest wait for the service to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// What differs between sites.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The version of Slurm.
    pub version: Version,
    /// The nodes, with the same names in both; a pod has half of them.
    pub nodes: &'a [&'a str],
    /// How long slurmctld waits for an answer when a job is submitted.
    pub submit: &'a str,
    /// How long a prolog may take.
    pub prolog: &'a str,
    /// Further options of `railctl slurm serve`.
    pub serve: &'a [&'a str],
}

/// Both of them, and the service between; all end when dropped.
pub struct JointSite {
    /// Railyard.
    pub cluster: Cluster,
    /// Slurm.
    pub slurm: Slurm,
    /// Folder of the service's socket.
    folder: tempfile::TempDir,
    submit: String,
    service: Option<Child>,
}

/// A script that calls railctl as the cluster's administrator for the tenant of the dev cluster.
///
/// # Errors
/// The cluster has no files of access.
pub fn hook(cluster: &Cluster, arguments: &str) -> Result<String, String> {
    let access = Access::of(cluster)?;
    Ok(format!(
        "#!/bin/sh\nexport RAIL_CONTROLLER={} RAIL_CA={} RAIL_CERT={} RAIL_KEY={} RAIL_TENANT=dev\nexec {} slurm {arguments}\n",
        access.rest()?,
        access.ca.display(),
        access.certificate.display(),
        access.key.display(),
        cluster.bin().join("railctl").display(),
    ))
}

impl JointSite {
    /// Starts all of it.
    ///
    /// # Errors
    /// There is no Slurm, or something does not start.
    pub fn up(options: &Options<'_>) -> Result<Self, String> {
        let count = u32::try_from(options.nodes.len()).map_err(|_| "too many nodes")?;
        let cluster = Cluster::up(&Shape { nodes: count, rails: 2, gpus: 1, pods: 2, ..Shape::default() })?;
        let folder = tempfile::tempdir().map_err(|error| format!("no folder: {error}"))?;
        let prolog = format!("prolog --exclusive --timeout {}", options.prolog);
        let hooks =
            [("PrologSlurmctld", hook(&cluster, &prolog)?), ("EpilogSlurmctld", hook(&cluster, "epilog")?)];
        let script = script(&cluster, &socket(&folder), options.submit, "allow")?;
        // Before the service has said better, all nodes are at one switch.
        let switch = format!("SwitchName=all Nodes={}\n", options.nodes.join(","));
        let files = [("topology.conf", switch), ("job_submit.lua", script)];
        let lines = "JobSubmitPlugins=lua\nTopologyPlugin=topology/tree\n";
        let site =
            Site { version: options.version, nodes: options.nodes, hooks: &hooks, files: &files, lines };
        let slurm = Slurm::up(&site)?;
        let submit = options.submit.to_owned();
        let mut beside = Self { cluster, slurm, folder, submit, service: None };
        beside.serve(options.serve)?;
        Ok(beside)
    }

    /// Where the service listens.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        socket(&self.folder)
    }

    /// Starts the service with further options of its own, anew if it runs.
    ///
    /// # Errors
    /// It does not listen.
    pub fn serve(&mut self, options: &[&str]) -> Result<(), String> {
        self.silence();
        let socket = self.socket();
        let topology = self.slurm.folder().join("topology.conf");
        let mut command = self.cluster.command(&["--tenant", "dev", "slurm", "serve", "--exclusive"]);
        command.args(options).arg("--socket").arg(&socket).arg("--topology").arg(topology);
        command.envs(self.slurm.environment()).env("RAIL_DIE_WITH_PARENT", "1");
        let service = command.stdin(Stdio::null()).spawn().map_err(|error| format!("railctl: {error}"))?;
        self.service = Some(service);
        let listens = || std::os::unix::net::UnixStream::connect(&socket).ok().map(drop);
        eventually("the service to listen", PATIENCE, listens)
    }

    /// Ends the service as a failure would.
    pub fn silence(&mut self) {
        if let Some(mut service) = self.service.take() {
            // It may have ended by itself.
            let _ = service.kill();
            let _ = service.wait();
        }
    }

    /// Sets up `job_submit.lua` anew: what becomes of jobs while nobody answers. slurmctld reads it again by itself.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn when_away(&self, when_away: &str) -> Result<(), String> {
        let text = script(&self.cluster, &self.socket(), &self.submit, when_away)?;
        let path = self.slurm.folder().join("job_submit.lua");
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A field of a job, as `scontrol show job` says it; empty where it says none.
    ///
    /// # Errors
    /// Slurm does not know the job.
    pub fn field(&self, id: &str, name: &str) -> Result<String, String> {
        let said = self.slurm.run("scontrol", &["show", "job", id])?;
        let value = said.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        Ok(value.unwrap_or_default().to_owned())
    }
}

impl Drop for JointSite {
    fn drop(&mut self) {
        self.silence();
    }
}

fn socket(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("place.sock")
}

/// The script as a site would set it up.
fn script(cluster: &Cluster, socket: &Path, submit: &str, when_away: &str) -> Result<String, String> {
    let path = binaries::root().join("deploy/slurm/job_submit.lua");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
    let set = [
        ("\"/usr/bin/railctl\"", quoted(cluster.bin().join("railctl"))),
        ("\"/run/railyard-slurm/place.sock\"", quoted(socket.to_owned())),
        ("\"500ms\"", format!("{submit:?}")),
        ("local PARTITIONS = {}", "local PARTITIONS = { rail = true }".to_owned()),
        ("WHEN_AWAY = \"allow\"", format!("WHEN_AWAY = {when_away:?}")),
    ];
    set.iter().try_fold(text, |text, (from, to)| {
        // What is not there once would be set nowhere, or somewhere else.
        if text.matches(from).count() == 1 {
            Ok(text.replace(from, to))
        } else {
            Err(format!("{} has {from} not once", path.display()))
        }
    })
}
