//! The engine's process, as its supervisor handles it.

use std::{
    io::{self, Read, Write},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::CommandExt,
    },
    process::{ChildStderr, ChildStdin, Command, Stdio},
    time::Duration,
};

use node_agent_attempt::{
    layout::JobDir,
    logs::{LogWriter, Stream},
    saved::SavedEndpoint,
    saved_certify::{SavedCertify, SavedMeasured},
    supervisor_config::{Task, key_to_hex, plain_environment},
};
use node_agent_os::{
    files::{self, Durability},
    process::Identity,
};
use proto_model::{Algorithm, Certify, Measured, NodeEndpoints, RailEndpoint, RailProtection, Work};
use rustix::process::Signal;

use crate::control::{Peer, Reply, Request, ask};

/// The engine gives up connecting after this long and says which peer it could not reach.
const CONNECT: Duration = Duration::from_secs(20);
/// A control answer of a healthy engine takes less than a millisecond.
pub const ANSWER: Duration = Duration::from_millis(500);
/// Its messages are kept in two files of this size.
const LOG_BYTES: u64 = 512 * 1024;
/// Bytes of the engine's standard error that are kept for the cause.
const LAST_WORDS: usize = 1024;

/// The engine of the attempt, as a process that this supervisor has started or taken over.
#[derive(Debug)]
pub struct Engine {
    /// The engine's process.
    pub id: Identity,
    /// It ends when this closes.
    stdin: Option<ChildStdin>,
    stderr: Option<ChildStderr>,
    log: LogWriter,
    last_words: Vec<u8>,
}

/// The configuration in the form that `rail-engine run` reads.
fn config(dir: &JobDir, task: &Task) -> Result<serde_json::Value, String> {
    let nodes: Vec<&str> = task.placement.nodes.iter().map(|place| place.node.as_str()).collect();
    let index = |name: &str| nodes.iter().position(|node| *node == name);
    let mut by_rank: Vec<_> = task.placement.ranks.iter().collect();
    by_rank.sort_by_key(|rank| rank.rank);
    let ranks: Option<Vec<usize>> = by_rank.iter().map(|rank| index(rank.node.as_str())).collect();
    let ranks = ranks.ok_or("the rank map names a node that is not in the placement")?;
    let mut rails = Vec::new();
    for nic in &task.place.nics {
        match nic.address {
            Some(address) => rails.push(serde_json::json!({
                "rail": nic.rail, "device": nic.device, "address": address,
                "netdev": Some(&nic.netdev).filter(|netdev| !netdev.is_empty()),
            })),
            None if nodes.len() == 1 => {}
            None => {
                return Err(format!(
                    "{} has no address on rail {}; give it one and let the agent look again",
                    nic.device, nic.rail
                ));
            }
        }
    }
    let mut config = serde_json::json!({
        "job": task.assignment.id.to_string(),
        "uid": task.assignment.uid.to_string(),
        "attempt": task.assignment.attempt,
        // Equal on all nodes of an attempt, whichever controller spawned each of them; the job's key is new for each attempt.
        "epoch": task.assignment.attempt,
        "node": task.node_index,
        "nodes": nodes,
        "ranks": ranks,
        "rails": rails,
        "bound": task.placement.nodes.iter().any(|place| place.remapped),
        "socket": dir.engine_socket(),
        "control": dir.engine_control(),
        "checksum": task.spec.engine.checksum,
        "reproducible": task.spec.engine.reproducible,
        "algorithm": task.spec.engine.algorithm.map(Algorithm::as_str),
        "verbs": {"pairs": task.spec.engine.queue_pairs, "traffic_class": task.supervisor_config.data_class().traffic_class},
        "gpus": task.supervisor_config.gpus,
        "limits": task.supervisor_config.engine_memory.map_or_else(|| serde_json::json!({}), |bytes| serde_json::json!({"bytes": bytes})),
        "rank_uid": task.supervisor_config.rank_user.as_ref().map(|user| user.ids.uid),
        "connect_timeout_ms": u64::try_from(CONNECT.as_millis()).unwrap_or(u64::MAX),
    });
    // Left out where nothing is asked for: an engine of an earlier release knows no such word.
    let protection = task.spec.engine.protection;
    if protection != RailProtection::None {
        config["protection"] = protection.as_str().into();
    }
    // Steps of an allocation follow each other in its ranks' places.
    if matches!(task.spec.work, Work::Allocation(_)) {
        config["ranks_return"] = true.into();
    }
    Ok(config)
}

impl Engine {
    /// Starts the engine and gives it the job key.
    ///
    /// # Errors
    /// The program cannot be started, or the key cannot be handed over.
    pub fn spawn(dir: &JobDir, task: &Task) -> Result<Self, String> {
        let config = config(dir, task)?;
        // What an earlier one left there says nothing of this one.
        let _ = std::fs::remove_file(dir.engine_end());
        let write = files::write_json(&dir.engine_config(), &config, Durability::Process);
        write.map_err(|error| error.to_string())?;
        let program = &task.supervisor_config.engine;
        let mut command = Command::new(program);
        command.arg("run").arg("--config").arg(dir.engine_config());
        command.env_clear().envs(plain_environment());
        if let Ok(level) = std::env::var("RAIL_LOG") {
            command.env("RAIL_LOG", level);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).process_group(0);
        let spawned = command.spawn();
        let mut child = spawned.map_err(|error| {
            format!(
                "cannot start {}: {error}; is rail-engine installed beside the agent, or --engine right?",
                program.display()
            )
        })?;
        let id = Identity::of(child.id().cast_signed()).ok_or("it ended at once")?;
        let stderr = child.stderr.take();
        if let Some(stderr) = &stderr {
            // Without this a read could stall the supervisor; with it failing nothing is lost but the engine's words.
            let _ = rustix::io::ioctl_fionbio(stderr, true);
        }
        let mut stdin = child.stdin.take();
        if let Some(stdin) = stdin.as_mut() {
            // An engine that ends before it reads is seen to end.
            let _ = stdin.write_all(format!("{}\n", key_to_hex(&task.key)).as_bytes());
        }
        let log = LogWriter::new(dir.engine_log(), LOG_BYTES);
        Ok(Self { id, stdin, stderr, log, last_words: Vec::new() })
    }

    /// What to poll for reading.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Takes what it has said.
    pub fn drain(&mut self) {
        let mut buffer = [0; 8 * 1024];
        while let Some(stderr) = self.stderr.as_mut() {
            match stderr.read(&mut buffer) {
                Ok(0) => self.stderr = None,
                Ok(length) => {
                    self.log.push(Stream::Err, &buffer[..length]);
                    self.last_words.extend_from_slice(&buffer[..length]);
                    let surplus = self.last_words.len().saturating_sub(LAST_WORDS);
                    self.last_words.drain(..surplus);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.stderr = None,
            }
        }
    }

    /// Its last line on standard error, where it says why it ended.
    pub fn last_line(&mut self) -> String {
        self.drain();
        let text = String::from_utf8_lossy(&self.last_words).into_owned();
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
    }

    /// Asks it to end; it also ends because its standard input closes.
    pub fn stop(&mut self, dir: &JobDir, reason: String) {
        let _: io::Result<Reply> = ask(&dir.engine_control(), &Request::Stop { reason }, ANSWER);
        self.stdin = None;
    }

    /// Kills the engine's process with SIGKILL.
    pub fn kill(&self) {
        self.id.signal(Signal::KILL);
    }
}

/// How it is; none while it does not answer.
pub fn status(dir: &JobDir) -> Option<Reply> {
    ask(&dir.engine_control(), &Request::Status {}, ANSWER).ok()
}

/// How it was when it ended by a loss; none if it left nothing that can be read.
pub fn last_status(dir: &JobDir) -> Option<Reply> {
    files::read_json(&dir.engine_end()).ok().flatten()
}

/// The engine's counters; `None` where it does not answer.
pub fn stats(dir: &JobDir) -> Option<Reply> {
    ask(&dir.engine_control(), &Request::Stats {}, ANSWER).ok()
}

/// Has it connect; waits for the answer, so it is called on a thread of its own.
///
/// # Errors
/// The engine cannot be asked, or answers that it could not connect.
pub fn connect(dir: &JobDir, peers: Vec<Peer>) -> Result<(), String> {
    let limit = CONNECT + Duration::from_secs(2);
    let answer = ask(&dir.engine_control(), &Request::Connect { peers }, limit);
    match answer {
        Ok(Reply { error: Some(error), .. }) => Err(error),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("rail-engine did not answer: {error}")),
    }
}

/// Has it measure its rails; waits for the answer, so it is called on a thread of its own.
pub fn certify(dir: &JobDir, peers: Vec<Peer>, wanted: &Certify) -> Measured {
    let SavedCertify { series, turns, limit_ms } = wanted.into();
    let limit = wanted.limit + Duration::from_secs(1);
    let answer: io::Result<SavedMeasured> =
        ask(&dir.engine_control(), &Request::Certify { series, peers, turns, limit_ms }, limit);
    let measured = match answer {
        Ok(measured) => measured.into(),
        Err(error) => {
            Measured { unable: format!("rail-engine did not answer: {error}"), ..Measured::default() }
        }
    };
    Measured { series, ..measured }
}

/// The other nodes' listeners in the engine's numbers.
pub fn peers(task: &Task, endpoints: &[NodeEndpoints]) -> Vec<Peer> {
    let nodes = &task.placement.nodes;
    let others = nodes.iter().enumerate().filter(|(node, _)| *node != task.node_index);
    let peer = |(node, place): (usize, &proto_model::NodePlace)| {
        let known = endpoints.iter().find(|peer| peer.node == place.node)?;
        let endpoints = known.endpoints.iter();
        let endpoints = endpoints.map(|e| SavedEndpoint { rail: e.rail, address: e.address }).collect();
        Some(Peer { node, endpoints })
    };
    others.filter_map(peer).collect()
}

/// The engine's listeners in types of the model.
pub fn endpoints(reply: &Reply) -> Vec<RailEndpoint> {
    reply.endpoints.iter().map(|e| RailEndpoint { rail: e.rail, address: e.address }).collect()
}
