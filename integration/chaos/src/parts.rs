//! The processes of the cluster: how each is started, and who starts it again when it ends by itself.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{
    history::{History, What},
    members, net,
    plan::Part,
};

/// What stands beside this program.
#[derive(Debug, Clone)]
pub struct Programs {
    /// Folder of the product's programs.
    pub bin: PathBuf,
    /// The path of etcd's program.
    pub etcd: PathBuf,
    /// The path of the program `nft`.
    pub nft: PathBuf,
    /// The library that moves a process's clock, where there is one.
    pub clock: Option<PathBuf>,
}

/// Waits before a process that ended by itself is started again, as a unit file's `RestartSec`.
const AGAIN: Duration = Duration::from_millis(500);

/// One process and what became of it.
#[derive(Debug, Default)]
pub struct Process {
    child: Option<Child>,
    /// It is meant to run.
    wanted: bool,
    /// It is not started again before this time; `None`: at once.
    due: Option<Instant>,
}

/// All processes of the cluster, and how each is started.
pub struct Parts {
    /// Everything of this run is in it.
    pub dir: PathBuf,
    /// The programs that the parts run.
    pub programs: Programs,
    /// The number of controllers, and of members of etcd.
    pub members: usize,
    /// The number of agents.
    pub agents: usize,
    /// The history that starts and ends of processes are added to.
    pub history: Arc<History>,
    all: BTreeMap<Part, Mutex<Process>>,
    /// Members that have joined anew, and arguments that agents need for one start only.
    special: Mutex<BTreeMap<Part, Vec<String>>>,
}

impl Parts {
    /// The parts of a cluster, of which none runs yet.
    pub fn new(
        dir: &Path,
        programs: Programs,
        (members, agents): (usize, usize),
        history: Arc<History>,
    ) -> Self {
        let parts = (0..members).flat_map(|n| [Part::Etcd(n), Part::Controller(n)]);
        let all = parts.chain((0..agents).map(Part::Agent)).map(|part| (part, Mutex::default())).collect();
        let special = Mutex::default();
        Self { dir: dir.to_owned(), programs, members, agents, history, all, special }
    }

    /// Every part of the cluster, in order.
    pub fn every(&self) -> Vec<Part> {
        self.all.keys().copied().collect()
    }

    /// The folder that holds a part's data.
    pub fn folder(&self, part: Part) -> PathBuf {
        match part {
            // On its own disk.
            Part::Etcd(_) => self.dir.join("disks").join(part.to_string()).join("data"),
            _ => {
                let disk = self.dir.join("disks").join(part.to_string());
                if disk.exists() { disk.join("data") } else { self.dir.join("parts").join(part.to_string()) }
            }
        }
    }

    /// The file that a part's output goes to.
    pub fn log(&self, part: Part) -> PathBuf {
        self.dir.join("logs").join(format!("{part}.log"))
    }

    /// The file that its clock reads its offset from.
    pub fn clock(&self, part: Part) -> PathBuf {
        self.dir.join("clocks").join(part.to_string())
    }

    /// More arguments, from its next start on.
    pub fn say(&self, part: Part, args: &[&str]) {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        self.special.lock().unwrap_or_else(PoisonError::into_inner).insert(part, args);
    }

    fn process(&self, part: Part) -> Result<MutexGuard<'_, Process>, String> {
        let process = self.all.get(&part).ok_or_else(|| format!("there is no {part}"))?;
        Ok(process.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(&self, part: Part) -> Result<(), String> {
        let mut process = self.process(part)?;
        process.wanted = true;
        if process.child.is_none() {
            process.child = Some(self.spawn(part)?);
        }
        Ok(())
    }

    fn spawn(&self, part: Part) -> Result<Child, String> {
        let log = File::options().create(true).append(true).open(self.log(part));
        let log = log.map_err(|error| format!("{}: {error}", self.log(part).display()))?;
        let mut command = self.command(part);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command.spawn().map_err(|error| format!("cannot start {part}: {error}"))
    }

    /// SIGKILL, and it stays away. False where it did not run.
    ///
    /// # Errors
    /// There is no such part.
    pub fn kill(&self, part: Part) -> Result<bool, String> {
        let mut process = self.process(part)?;
        process.wanted = false;
        let Some(mut child) = process.child.take() else { return Ok(false) };
        let ran = child.try_wait().is_ok_and(|status| status.is_none());
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
        Ok(ran)
    }

    /// Sends a signal. False where it does not run.
    ///
    /// # Errors
    /// There is no such part.
    pub fn signal(&self, part: Part, signal: Signal) -> Result<bool, String> {
        let mut process = self.process(part)?;
        let Some(child) = process.child.as_mut() else { return Ok(false) };
        if child.try_wait().map_or(true, |status| status.is_some()) {
            return Ok(false);
        }
        let pid = Pid::from_child(child);
        Ok(kill_process(pid, signal).is_ok())
    }

    /// Who is this role now; the part itself where it is none.
    pub fn resolve(&self, part: Part, leader: &str) -> Option<Part> {
        match part {
            Part::Leader => {
                let pid: u32 = leader.rsplit(':').next()?.parse().ok()?;
                let is = |n: &usize| {
                    let process = self.process(Part::Controller(*n)).ok();
                    process
                        .is_some_and(|process| process.child.as_ref().is_some_and(|child| child.id() == pid))
                };
                (0..self.members).find(is).map(Part::Controller)
            }
            Part::EtcdLeader => members::leader(self.members).map(Part::Etcd),
            part => Some(part),
        }
    }

    /// Starts again, after a while, what has ended by itself. Called again and again.
    pub fn keep(&self) {
        for (part, process) in &self.all {
            // Whoever holds it looks after it.
            let Ok(mut process) = process.try_lock() else { continue };
            if !process.wanted {
                continue;
            }
            if let Some(child) = process.child.as_mut() {
                let Ok(Some(status)) = child.try_wait() else { continue };
                self.history.add(What::Ended { part: part.to_string(), status: status.to_string() });
                process.child = None;
                process.due = Some(Instant::now() + AGAIN);
            }
            if process.due.is_none_or(|due| due <= Instant::now()) {
                match self.spawn(*part) {
                    Ok(child) => process.child = Some(child),
                    Err(error) => self.history.add(What::Ended { part: part.to_string(), status: error }),
                }
            }
        }
    }

    fn command(&self, part: Part) -> Command {
        let folder = self.folder(part);
        let mut command = match part {
            Part::Etcd(n) => self.etcd(n, &folder),
            Part::Agent(n) => self.agent(n, &folder),
            Part::Controller(_) | Part::Leader | Part::EtcdLeader => self.controller(part, &folder),
        };
        let special = self.special.lock().unwrap_or_else(PoisonError::into_inner);
        command.args(special.get(&part).map(Vec::as_slice).unwrap_or_default());
        for (name, _) in std::env::vars() {
            if ["ETCD_", "RAIL_"].iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Its clock can be moved, where the library is there.
    fn moved(&self, part: Part, program: &str) -> Command {
        let program = self.programs.bin.join(program);
        let Some(library) = &self.programs.clock else { return net::inside(part, &program) };
        let mut command = net::inside(part, Path::new("env"));
        command
            .arg(format!("LD_PRELOAD={}", library.display()))
            .arg(format!("FAKETIME_TIMESTAMP_FILE={}", self.clock(part).display()))
            .args(["FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1"])
            .arg(program);
        command
    }

    fn etcd(&self, n: usize, folder: &Path) -> Command {
        let mut command = net::inside(Part::Etcd(n), &self.programs.etcd);
        let address = net::address(Part::Etcd(n));
        let file = |name: &str| self.dir.join("etcd-tls").join(name);
        let (client, peer) = (format!("https://{address}:2379"), peer_url(n));
        command.args(["--name", &format!("e{n}")]).arg("--data-dir").arg(folder);
        command.args(["--listen-client-urls", &format!("{client},http://127.0.0.1:{}", members::PORT)]);
        command.args(["--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        let all: Vec<_> = (0..self.members).map(|n| format!("e{n}={}", peer_url(n))).collect();
        command.args(["--initial-cluster", &all.join(",")]);
        for flag in ["", "peer-"] {
            command.arg(format!("--{flag}cert-file")).arg(file(&format!("e{n}.pem")));
            command.arg(format!("--{flag}key-file")).arg(file(&format!("e{n}.key")));
            command.arg(format!("--{flag}trusted-ca-file")).arg(file("ca.pem"));
            command.arg(format!("--{flag}client-cert-auth"));
        }
        // Snapshots often, so that members that come back get some.
        command.args(["--snapshot-count", "1000", "--pre-vote", "--logger", "zap"]);
        command
    }

    fn controller(&self, part: Part, folder: &Path) -> Command {
        let mut command = self.moved(part, "rail-controller");
        let file = |name: &str| self.dir.join("etcd-tls").join(name);
        let listen = format!("{}:7443", net::address(part));
        let members: Vec<_> =
            (0..self.members).map(|n| format!("https://{}:2379", net::address(Part::Etcd(n)))).collect();
        command.args(["run", "--store", "etcd", "--etcd-endpoints", &members.join(",")]);
        command.arg("--etcd-ca").arg(file("ca.pem"));
        command.arg("--etcd-cert").arg(file("client.pem")).arg("--etcd-key").arg(file("client.key"));
        command.args(["--listen", &listen, "--advertise", &format!("https://{listen}")]);
        command.args(["--metrics", "127.0.0.1:0", "--server-name", "127.0.0.1", "--data-dir"]).arg(folder);
        command
    }

    fn agent(&self, n: usize, folder: &Path) -> Command {
        let mut command = self.moved(Part::Agent(n), "rail-node-agent");
        let controllers: Vec<_> = (0..self.members)
            .map(|n| format!("https://{}:7443", net::address(Part::Controller(n))))
            .collect();
        command.args(["run", "--node", &format!("n{n}"), "--controller", &controllers.join(",")]);
        command.args(["--no-cgroups", "--ranks-as-root", "--no-rank-namespaces", "--data-dir"]).arg(folder);
        command.arg("--inventory").arg(self.dir.join("inventories").join(format!("n{n}.json")));
        command
    }
}

/// Where a member's peers reach it.
pub fn peer_url(n: usize) -> String {
    format!("https://{}:2380", net::address(Part::Etcd(n)))
}

/// What an agent finds on its node.
///
/// # Errors
/// The file cannot be written.
pub fn write_inventory(path: &Path, node: usize, gpus: usize) -> Result<(), String> {
    let gpu = |index: usize| {
        serde_json::json!({
            "index": index, "uuid": format!("DEV-{node}-{index}"), "model": "dev GPU", "numaNode": 0,
        })
    };
    let nic = |rail: usize| {
        let device = format!("rail{rail}");
        serde_json::json!({
            "device": device, "netdev": device, "rail": rail, "numaNode": 0, "mtu": 1500, "up": true,
            "address": net::rail_address(node, rail), "speedMbps": 0, "gidIndex": -1,
        })
    };
    let inventory = serde_json::json!({
        "gpus": (0..gpus).map(gpu).collect::<Vec<_>>(), "nics": (0..net::RAILS).map(nic).collect::<Vec<_>>(),
        "neighbors": [], "numaNodes": 1, "cpus": 4, "memoryBytes": 1_u64 << 33,
    });
    fs::write(path, inventory.to_string()).map_err(|error| format!("{}: {error}", path.display()))
}
