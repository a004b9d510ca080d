//! Our engines and their ranks as processes, wired up by hand as the supervisor would.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::IpAddr,
    os::unix::{net::UnixStream, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use integration_harness::{binaries, eventually};
use serde_json::{Value, json};

use super::{
    Environment, Key,
    group::{Group, Rank},
    lab::Lab,
};

/// What ranks and engines of the bench's jobs know.
pub const JOB_UID: &str = "bench";
/// Any key will do on a network of our own.
const JOB_KEY: &str = "5261696c796172642062656e6368206b65792c206f66206e6f20736563726574";
/// Longest time until engines listen, and until they are connected.
const PATIENCE: Duration = Duration::from_secs(20);

/// What all engines of one job know.
struct Job {
    folder: PathBuf,
    nodes: usize,
    /// `ranks[r]` is rank r's node.
    ranks: Vec<usize>,
    /// Per node, the address of each of its rails.
    rails: Vec<Vec<IpAddr>>,
    /// Per node, its namespace.
    namespaces: Vec<String>,
}

impl Job {
    fn of(lab: &Lab, key: Key, rails: usize, name: &str) -> Result<Self, String> {
        let place = format!("{:?}", key.place).to_lowercase();
        let folder = lab.folder(&format!("{name}-{place}-{}-{rails}", key.n))?;
        let nodes = if key.place == Environment::Server { 1 } else { key.n };
        let loopback = |node: usize, rail: usize| IpAddr::from([127, 80, rail as u8, node as u8 + 1]);
        let address = |node: usize, rail: usize| match key.place {
            Environment::Rails => IpAddr::from(lab.address(node, rail)),
            Environment::Loopback | Environment::Server => loopback(node, rail),
        };
        let rails = (0..nodes).map(|node| (0..rails).map(|rail| address(node, rail)).collect()).collect();
        let namespace =
            |node: usize| if key.place == Environment::Rails { lab.host(node) } else { lab.solo() };
        let namespaces = (0..nodes).map(namespace).collect();
        Ok(Self { folder, nodes, ranks: (0..key.n).map(|rank| rank % nodes).collect(), rails, namespaces })
    }

    fn socket(&self, node: usize) -> PathBuf {
        self.folder.join(format!("e{node}"))
    }

    fn control(&self, node: usize) -> PathBuf {
        self.folder.join(format!("c{node}"))
    }

    fn config(&self, node: usize) -> Value {
        let rail = |(rail, address): (usize, &IpAddr)| json!({"rail": rail, "device": format!("rail{rail}"), "address": address});
        let rails: Vec<Value> = self.rails[node].iter().enumerate().map(rail).collect();
        let names: Vec<String> = (0..self.nodes).map(|node| format!("h{node}")).collect();
        json!({
            "job": "bench/engine", "uid": JOB_UID, "attempt": 1, "epoch": 1, "node": node, "nodes": names,
            "ranks": self.ranks, "rails": rails, "socket": self.socket(node), "control": self.control(node),
        })
    }

    /// A command of rail-engine in a node's namespace, leader of its own process group.
    fn command(&self, lab: &Lab, node: usize) -> Result<Command, String> {
        let program = binaries::directory()?.join("rail-engine");
        let mut command = lab.inside(&self.namespaces[node], program);
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log());
        let log = log.map_err(|error| format!("{}: {error}", self.log().display()))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).process_group(0);
        Ok(command)
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    fn engine(&self, lab: &Lab, node: usize) -> Result<Child, String> {
        let file = self.folder.join(format!("{node}.json"));
        fs::write(&file, self.config(node).to_string()).map_err(|e| format!("{}: {e}", file.display()))?;
        let mut command = self.command(lab, node)?;
        command.args(["run", "--config"]).arg(&file);
        let mut child = command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        let stdin = child.stdin.as_mut().ok_or("an engine has no standard input")?;
        writeln!(stdin, "{JOB_KEY}").map_err(|error| format!("an engine takes no key: {error}"))?;
        Ok(child)
    }

    fn rank(&self, lab: &Lab, rank: usize) -> Result<Child, String> {
        let node = self.ranks[rank];
        let mut command = self.command(lab, node)?;
        command.args(["bench-rank", "--serve"]);
        command.env("RAIL_ENGINE_SOCKET", self.socket(node)).env("RAIL_JOB_UID", JOB_UID);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", self.ranks.len().to_string());
        command.spawn().map_err(|error| format!("cannot start {command:?}: {error}"))
    }

    /// Starts all engines and connects them with each other.
    fn start(&self, lab: &Lab) -> Result<Group, String> {
        let mut group = Group {
            ranks: Vec::new(),
            processes: Vec::new(),
            counted: Vec::new(),
            greets: false,
            log: self.log(),
            controls: (0..self.nodes).map(|node| self.control(node)).collect(),
        };
        for node in 0..self.nodes {
            group.processes.push(self.engine(lab, node)?);
        }
        self.connect()?;
        Ok(group)
    }

    /// Sends every engine the addresses of the others; they connect when all have them.
    fn connect(&self) -> Result<(), String> {
        let listening = |node: usize| {
            let endpoints =
                || Some(ask(&self.control(node), &json!({"op": "status"})).ok()?["endpoints"].clone());
            eventually("an engine listens", PATIENCE, endpoints)
        };
        let endpoints: Vec<Value> = (0..self.nodes).map(listening).collect::<Result<_, _>>()?;
        let connect = |node: usize| {
            let others = (0..self.nodes).filter(|other| *other != node);
            let peers: Vec<Value> =
                others.map(|other| json!({"node": other, "endpoints": endpoints[other]})).collect();
            let reply = ask(&self.control(node), &json!({"op": "connect", "peers": peers}))?;
            if reply["ok"] == true { Ok(()) } else { Err(format!("engine {node} cannot connect: {reply}")) }
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..self.nodes).map(|node| scope.spawn(move || connect(node))).collect();
            all.into_iter()
                .try_for_each(|one| one.join().unwrap_or_else(|_| Err("a thread ended".to_owned())))
        })
    }
}

/// One question to an engine's control socket.
///
/// # Errors
/// The socket cannot be reached, does not answer in time, or answers with something that is no JSON.
pub fn ask(socket: &Path, request: &Value) -> Result<Value, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", socket.display());
    let stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE * 2)).map_err(failed)?;
    (&stream).write_all(format!("{request}\n").as_bytes()).map_err(failed)?;
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line).map_err(failed)?;
    serde_json::from_str(&line).map_err(|error| format!("{}: {error}: {line}", socket.display()))
}

/// Engines without ranks of ours.
pub struct Engines {
    /// They end with this.
    group: Group,
    /// Where each node's ranks attach.
    pub sockets: Vec<PathBuf>,
}

impl Engines {
    /// Whether all rails of all engines are up.
    ///
    /// # Errors
    /// An engine does not answer.
    pub fn all_up(&self) -> Result<bool, String> {
        let up = |control: &PathBuf| -> Result<bool, String> {
            let reply = ask(control, &json!({"op": "rails"}))?;
            let rails = reply["rails"].as_array().ok_or_else(|| format!("no rails in {reply}"))?;
            Ok(rails.iter().all(|rail| rail["state"] == "up"))
        };
        self.group.controls.iter().try_fold(true, |all, control| Ok(all & up(control)?))
    }
}

/// Starts engines, connected, for ranks that somebody else starts.
///
/// # Errors
/// An engine does not start, or the engines do not connect.
pub fn engines(lab: &Lab, key: Key, rails: usize) -> Result<Engines, String> {
    let job = Job::of(lab, key, rails, "engines")?;
    let group = job.start(lab)?;
    Ok(Engines { group, sockets: (0..job.nodes).map(|node| job.socket(node)).collect() })
}

/// Starts engines and ranks, connected.
///
/// # Errors
/// An engine or a rank does not start, or the engines do not connect.
pub fn start(lab: &Lab, key: Key, rails: usize) -> Result<Group, String> {
    let job = Job::of(lab, key, rails, "ours")?;
    let mut group = job.start(lab)?;
    for rank in 0..key.n {
        let mut child = job.rank(lab, rank)?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        group.processes.push(child);
        let (Some(to), Some(from)) = (to, from) else { return Err("a rank has no pipes".to_owned()) };
        group.ranks.push(Rank::new(to, from));
    }
    group.counted = group.processes.iter().map(Child::id).collect();
    Ok(group)
}
