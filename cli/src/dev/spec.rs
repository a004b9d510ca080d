//! What a local cluster is made of, and the record of it on disk.

use std::path::{Path, PathBuf};

use proto_model::many;
use serde::{Deserialize, Serialize};

use crate::{
    args::{DevTarget, DevUp, Leaves, Rate},
    config::Environment,
    error::Error,
};

/// The shape of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// Its name; part of the names of its namespaces.
    pub name: String,
    /// Number of servers, and so of agents.
    pub nodes: u32,
    /// Number of rails of each server.
    pub rails: u32,
    /// Simulated GPUs of each server.
    pub gpus: u32,
    /// Number of pods that the servers are divided into.
    pub pods: u32,
    /// MTU of the rails in bytes.
    pub mtu: u32,
    /// Every server in a network namespace of its own.
    pub netns: bool,
    /// What every rail is shaped to, in bits per second.
    pub rail_rate_bps: Option<u64>,
    /// What each leaf is.
    #[serde(default)]
    pub leaves: Leaves,
    /// Number of spines above all leaves; 0 where leaves are bridges.
    #[serde(default)]
    pub spines: u32,
}

/// Switches of FRR on one machine at most: each is three daemons and an agent, some 60 MB together.
const SWITCHES_MAX: u32 = 64;

impl Spec {
    /// The shape that the flags ask for: what is not given is as recorded, or as default. Another shape than the
    /// recorded one is refused.
    ///
    /// # Errors
    /// [`Error::Usage`] if a number is out of its range, the name is not valid, or the shape is not the recorded one.
    pub fn of_flags(flags: &DevUp, recorded: Option<&Spec>) -> Result<Self, Error> {
        check_name(&flags.target.name)?;
        let pick = |flag: Option<u32>, recorded: Option<u32>, default| flag.or(recorded).unwrap_or(default);
        let leaves = flags.leaves.or(recorded.map(|old| old.leaves)).unwrap_or_default();
        let spec = Self {
            name: flags.target.name.clone(),
            nodes: pick(flags.nodes, recorded.map(|old| old.nodes), 4),
            rails: pick(flags.rails, recorded.map(|old| old.rails), 4),
            gpus: pick(flags.gpus, recorded.map(|old| old.gpus), 4),
            pods: pick(flags.pods, recorded.map(|old| old.pods), 1),
            mtu: pick(flags.mtu, recorded.map(|old| old.mtu), 9000),
            netns: flags.netns || recorded.is_some_and(|old| old.netns),
            rail_rate_bps: flags
                .rail_rate
                .map(|rate| rate.bits_per_second)
                .or_else(|| recorded.and_then(|old| old.rail_rate_bps)),
            leaves,
            spines: if leaves == Leaves::Frr {
                pick(flags.spines, recorded.map(|old| old.spines), 2)
            } else {
                0
            },
        };
        spec.check_switches(flags)?;
        if spec.pods > spec.nodes {
            let text =
                format!("--pods {} is more than --nodes {}: a pod would be empty", spec.pods, spec.nodes);
            return Err(Error::Usage(text));
        }
        match recorded {
            Some(old) if *old != spec => Err(Error::Usage(format!(
                "the cluster `{}` exists and is {}; take it down first (`railctl dev down`) or give another --name",
                old.name,
                old.words()
            ))),
            _ => Ok(spec),
        }
    }

    /// What of the flags about switches cannot be.
    fn check_switches(&self, flags: &DevUp) -> Result<(), Error> {
        let switches = self.pods.saturating_mul(self.rails).saturating_add(self.spines);
        let text = match self.leaves {
            Leaves::Bridge if flags.spines.is_some() => "--spines needs --leaves frr".to_owned(),
            Leaves::Frr if !self.netns => {
                "--leaves frr needs --netns: each switch is a network namespace".to_owned()
            }
            Leaves::Frr if switches > SWITCHES_MAX => format!(
                "--leaves frr would be {switches} switches (one leaf for each rail of each pod, and the spines), {SWITCHES_MAX} is the most: \
                 give fewer --rails or --pods"
            ),
            Leaves::Bridge | Leaves::Frr => return Ok(()),
        };
        Err(Error::Usage(text))
    }

    /// The shape in a few words.
    #[must_use]
    pub fn words(&self) -> String {
        let pods = if self.pods > 1 { format!(", {} pods", self.pods) } else { String::new() };
        let rate = match self.rail_rate_bps {
            Some(bits_per_second) => format!(" at {}", Rate { bits_per_second }),
            None => String::new(),
        };
        let kind = if self.netns { "in network namespaces" } else { "on loopback addresses" };
        let switches = match self.leaves {
            Leaves::Bridge => String::new(),
            Leaves::Frr => format!(", leaves of FRR under {}", many(self.spines, "spine")),
        };
        format!(
            "{} with {} on {}{rate}{pods}, {kind}{switches}",
            many(self.nodes, "node"),
            many(self.gpus, "GPU"),
            many(self.rails, "rail")
        )
    }

    /// The pod of a node: nodes are split into runs of nearly equal length.
    #[must_use]
    pub fn pod_of(&self, node: u32) -> u32 {
        u32::try_from(u64::from(node) * u64::from(self.pods) / u64::from(self.nodes.max(1))).unwrap_or(0)
    }
}

/// Names end up in namespaces, sockets and tables.
fn check_name(name: &str) -> Result<(), Error> {
    let fits = (1..=32).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    fits.then_some(()).ok_or_else(|| {
        Error::Usage(format!(
            "--name `{name}`: use 1 to 32 lower-case letters, digits and '-', not at either end"
        ))
    })
}

/// What is on disk about a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What the cluster is made of.
    pub spec: Spec,
    /// Never used for another cluster; the processes carry it in their environment.
    pub id: String,
    /// The controller's TCP port, once it is known; kept over restarts.
    pub port: Option<u16>,
    /// Network namespaces that this cluster has made or is about to make.
    pub namespaces: Vec<String>,
    /// Every node has been ready once since it was started.
    pub complete: bool,
    /// The configuration file that has this cluster's context.
    pub config: Option<PathBuf>,
    /// The context that was current before.
    pub previous_context: Option<String>,
}

impl Record {
    /// All that is known before there is a record: by which mark its processes can be found.
    #[must_use]
    pub fn bare(name: &str, id: &str) -> Self {
        let spec = Spec {
            name: name.to_owned(),
            nodes: 0,
            rails: 0,
            gpus: 0,
            pods: 0,
            mtu: 0,
            netns: false,
            rail_rate_bps: None,
            leaves: Leaves::Bridge,
            spines: 0,
        };
        Self {
            spec,
            id: id.to_owned(),
            port: None,
            namespaces: Vec::new(),
            complete: false,
            config: None,
            previous_context: None,
        }
    }
}

/// Where things of a cluster are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The folder that holds everything of the cluster.
    pub dir: PathBuf,
}

/// A unix socket's path has at most so many bytes (sun_path, with its final NUL).
const SOCKET_MAX: usize = 107;
/// The longest that comes below the folder: a supervisor's socket.
const LONGEST_BELOW: &str = "/n127/jobs/00000000-0000-4000-8000-000000000000.9/supervisor.sock";

impl Layout {
    /// The folder that is named, or the default one.
    ///
    /// # Errors
    /// [`Error::Usage`] if the name is not valid, or the path of the folder is too long for a unix socket.
    pub fn of(target: &DevTarget, env: &Environment) -> Result<Self, Error> {
        check_name(&target.name)?;
        if let Some(dir) = &target.dir {
            let dir = std::path::absolute(dir).map_err(|error| Error::file("find", dir, error))?;
            return Self::fitting(dir, &target.name);
        }
        let state = env.base_dir("XDG_STATE_HOME", ".local/state").map(|base| base.join("railyard/dev"));
        let runtime = env.get("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let shared = PathBuf::from(format!("/tmp/railyard-{}", rustix::process::geteuid().as_raw()));
        let bases = [state, runtime.map(|base| base.join("railyard")), Some(shared)];
        // A long home must not make sockets impossible: the first base that is short enough is taken.
        let mut fits =
            bases.into_iter().flatten().map(|base| Self::fitting(base.join(&target.name), &target.name));
        fits.find(Result::is_ok)
            .unwrap_or_else(|| Err(Error::Config("no folder is short enough: give --dir".to_owned())))
    }

    fn fitting(dir: PathBuf, name: &str) -> Result<Self, Error> {
        let layout = Self { dir };
        let length = layout.dir.as_os_str().len() + LONGEST_BELOW.len();
        if length > SOCKET_MAX {
            return Err(Error::Usage(format!(
                "{}: its sockets' paths would have up to {length} bytes, {SOCKET_MAX} is the system's limit; give a \
                 shorter --dir, for example --dir /tmp/rail-{name}",
                layout.dir.display(),
            )));
        }
        Ok(layout)
    }

    /// Path of the record of the cluster.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.dir.join("cluster.json")
    }

    /// Held by whoever changes the cluster.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// Who runs, one file per process.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// The record of one process.
    #[must_use]
    pub fn process(&self, role: &str) -> PathBuf {
        self.run().join(format!("{role}.json"))
    }

    /// Folder with the controller's data.
    #[must_use]
    pub fn controller(&self) -> PathBuf {
        self.dir.join("controller")
    }

    /// The controller's unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.dir.join("controller.sock")
    }

    /// Folder with the data of one node's agent.
    #[must_use]
    pub fn node(&self, node: &str) -> PathBuf {
        self.dir.join(node)
    }

    /// An agent's inventory file.
    #[must_use]
    pub fn inventory(&self, node: &str) -> PathBuf {
        self.dir.join(format!("{node}.inventory.json"))
    }

    /// Path of the log of a process.
    #[must_use]
    pub fn log(&self, role: &str) -> PathBuf {
        self.dir.join("log").join(format!("{role}.log"))
    }

    /// A configuration file with this cluster's context alone.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir.join("config.yaml")
    }

    /// True if this folder was made by `dev up`.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.record().is_file() || self.run().is_dir()
    }

    /// Reads the record, if there is one.
    ///
    /// # Errors
    /// [`Error::File`] if the record cannot be read; [`Error::Dev`] if it is damaged.
    pub fn read(&self) -> Result<Option<Record>, Error> {
        let path = self.record();
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::file("read", path, error)),
        };
        let damaged =
            |error| Error::Dev(format!("{}: {error}; `railctl dev down` removes it", path.display()));
        serde_json::from_str(&text).map(Some).map_err(damaged)
    }

    /// Writes the record so that a reader sees the old or the new one.
    ///
    /// # Errors
    /// [`Error::Dev`] if the record cannot be written.
    pub fn write(&self, record: &Record) -> Result<(), Error> {
        write_json(&self.record(), record)
    }
}

/// Writes private JSON, whole or not at all.
///
/// # Errors
/// [`Error::Dev`] if the value cannot be written as JSON, or the file cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Dev(error.to_string()))?;
    proto_rpc::files::write_secret(path, &text).map_err(|error| Error::Dev(error.to_string()))
}

#[cfg(test)]
pub mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command, DevCommand};

    /// The flags of `dev up` as clap reads them.
    pub fn flags(line: &[&str]) -> DevUp {
        let cli = Cli::try_parse_from([&["railctl", "dev", "up"], line].concat()).unwrap();
        match cli.command {
            Command::Dev(DevCommand::Up(up)) => up,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_not_given_is_as_recorded() {
        let first =
            Spec::of_flags(&flags(&["--nodes", "8", "--netns", "--rail-rate", "400mbit"]), None).unwrap();
        assert_eq!(
            (first.nodes, first.rails, first.mtu, first.rail_rate_bps),
            (8, 4, 9000, Some(400_000_000))
        );
        assert_eq!(Spec::of_flags(&flags(&[]), Some(&first)).unwrap(), first);
        let frr = Spec::of_flags(&flags(&["--netns", "--leaves", "frr"]), None).unwrap();
        assert_eq!((frr.leaves, frr.spines, first.leaves, first.spines), (Leaves::Frr, 2, Leaves::Bridge, 0));
        assert_eq!(Spec::of_flags(&flags(&[]), Some(&frr)).unwrap(), frr);
        assert!(frr.words().ends_with("in network namespaces, leaves of FRR under 2 spines"));
        // What an earlier railctl has recorded says nothing of leaves.
        let mut old = serde_json::to_value(&first).unwrap();
        old.as_object_mut().unwrap().retain(|field, _| !["leaves", "spines"].contains(&field.as_str()));
        assert_eq!(serde_json::from_value::<Spec>(old).unwrap(), first);
        let error = Spec::of_flags(&flags(&["--nodes", "4"]), Some(&first)).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(
            error.to_string().contains("8 nodes with 4 GPUs on 4 rails at 400mbit, in network namespaces"),
            "{error}"
        );
    }

    #[test]
    fn senseless_flags_are_refused() {
        for (line, why) in [
            (&["--nodes", "2", "--pods", "3"][..], "would be empty"),
            (&["--leaves", "frr"], "needs --netns"),
            (&["--netns", "--spines", "3"], "needs --leaves frr"),
            (&["--netns", "--leaves", "frr", "--nodes", "8", "--rails", "16", "--pods", "4"], "66 switches"),
        ] {
            let error = Spec::of_flags(&flags(line), None).unwrap_err();
            assert!(error.exit_code() == 2 && error.to_string().contains(why), "{error}");
        }
        for name in ["", "A", "a/b", "-a", "a".repeat(33).as_str()] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn folders() {
        let env = Environment::of(&[("HOME", "/h")]);
        let target =
            |name: &str, dir: Option<&str>| DevTarget { name: name.into(), dir: dir.map(PathBuf::from) };
        let layout = Layout::of(&target("x", None), &env).unwrap();
        assert_eq!(layout.dir, Path::new("/h/.local/state/railyard/dev/x"));
        let long = format!("/{}", "d".repeat(120));
        assert!(
            Layout::of(&target("x", Some(&long)), &env).unwrap_err().to_string().contains("shorter --dir")
        );
        let deep = Environment::of(&[("HOME", &long), ("XDG_RUNTIME_DIR", "/run/user/7")]);
        assert_eq!(Layout::of(&target("x", None), &deep).unwrap().dir, Path::new("/run/user/7/railyard/x"));
        assert!(Layout::of(&target("x", None), &Environment::default()).unwrap().dir.starts_with("/tmp"));
    }

    #[test]
    fn pods_are_runs_of_nodes() {
        let spec = Spec::of_flags(&flags(&["--nodes", "5", "--pods", "2"]), None).unwrap();
        assert_eq!((0..5).map(|node| spec.pod_of(node)).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
    }
}
