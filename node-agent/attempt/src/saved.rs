//! The forms in which snapshots and orders pass between supervisor and agent (JSON). Each may be of another release than the other.

use std::{net::SocketAddr, time::Duration};

use node_agent_core::{Order, Snapshot};
use proto_model::{
    NodeEndpoints, NodeName, Observed, RailBytes, RailEndpoint, RankExit, RankUsage, Reason, ReasonCode,
    RunResult, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::{
    saved_certify::{SavedCertify, SavedMeasured},
    saved_rails::{SavedChoice, SavedReport},
};

/// Where a rail listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedEndpoint {
    /// Number of the rail.
    pub rail: u32,
    /// The address and port on which it listens.
    pub address: SocketAddr,
}

/// Where a node's rails listen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPeer {
    /// Name of the node.
    pub node: String,
    /// One endpoint for each rail of the node.
    pub endpoints: Vec<SavedEndpoint>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedExit {
    rank: u32,
    code: i32,
    signal: i32,
    time_ms: u64,
    /// Absent where it was not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpu_ms: Option<u64>,
    #[serde(default)]
    memory_peak: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedReason {
    code: String,
    message: String,
    scope: String,
}

/// What rank 0 of a collective writes into its result file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedResult {
    ranks: u32,
    bytes: u64,
    iterations: u32,
    time_us: SavedTimes,
    alg_bw_gbps: f64,
    bus_bw_gbps: f64,
    verified: bool,
    mismatches: u64,
    #[serde(default)]
    rails: Vec<SavedRail>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct SavedTimes {
    min: f64,
    median: f64,
    max: f64,
}

/// Bytes on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedRail {
    /// Number of the rail.
    pub rail: u32,
    /// Bytes that were sent on the rail.
    pub tx_bytes: u64,
    /// Bytes that were received on the rail.
    pub rx_bytes: u64,
}

/// When the engine's first collective ran, for the job's trace; as `rail-engine` reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstCollective {
    /// The operation's name: `all-reduce`, `broadcast`, ...
    pub operation: String,
    /// When it began by the wall clock, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// When it ended by the wall clock, in nanoseconds since 1970.
    pub ended_unix_ns: u64,
}

/// One line of a supervisor to the agent: what is decided from, and what is only shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedWords {
    /// What the supervisor knows of its attempt.
    #[serde(flatten)]
    pub snapshot: SavedSnapshot,
    /// For the trace, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_collective: Option<FirstCollective>,
}

/// What a supervisor knows of its attempt, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SavedSnapshot {
    state: String,
    endpoints: Vec<SavedEndpoint>,
    exits: Vec<SavedExit>,
    cause: Option<SavedReason>,
    result: Option<SavedResult>,
    rails: Vec<SavedRail>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drained: Option<Vec<u32>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reports: Vec<SavedReport>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    choices: Vec<SavedChoice>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measured: Option<SavedMeasured>,
}

/// What the agent orders of a supervisor, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "lowercase")]
pub enum SavedOrder {
    /// Connect to all peers, then start the ranks.
    Start {
        /// The listeners of every node.
        peers: Vec<SavedPeer>,
        /// Measure in between, and wait.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certify: Option<SavedCertify>,
    },
    /// End the ranks and the engine.
    Stop {
        /// Between the signal and SIGKILL.
        grace_ms: u64,
        /// What the ranks get first; 0 is SIGTERM.
        #[serde(default)]
        signal: i32,
        /// The reason, for the ranks' logs.
        reason: String,
    },
    /// Keep these rails drained, and no others.
    Drain {
        /// Numbers of the rails.
        rails: Vec<u32>,
    },
}

const STATES: [(Observed, &str); 6] = [
    (Observed::Preparing, "Preparing"),
    (Observed::Prepared, "Prepared"),
    (Observed::Starting, "Starting"),
    (Observed::Running, "Running"),
    (Observed::Stopping, "Stopping"),
    (Observed::Ended, "Ended"),
];

/// The word for a state.
#[must_use]
pub fn state_word(state: Observed) -> &'static str {
    STATES.iter().find(|(known, _)| *known == state).map_or("Preparing", |(_, word)| word)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn save_rails(rails: &[RailBytes]) -> Vec<SavedRail> {
    let save = |r: &RailBytes| SavedRail { rail: r.rail, tx_bytes: r.tx_bytes, rx_bytes: r.rx_bytes };
    rails.iter().map(save).collect()
}

fn load_rails(rails: Vec<SavedRail>) -> Vec<RailBytes> {
    let load = |r: SavedRail| RailBytes { rail: r.rail, tx_bytes: r.tx_bytes, rx_bytes: r.rx_bytes };
    rails.into_iter().map(load).collect()
}

fn save_endpoints(endpoints: &[RailEndpoint]) -> Vec<SavedEndpoint> {
    endpoints.iter().map(|e| SavedEndpoint { rail: e.rail, address: e.address }).collect()
}

fn load_endpoints(endpoints: Vec<SavedEndpoint>) -> Vec<RailEndpoint> {
    endpoints.into_iter().map(|e| RailEndpoint { rail: e.rail, address: e.address }).collect()
}

fn save_peers(peers: &[NodeEndpoints]) -> Vec<SavedPeer> {
    let save =
        |p: &NodeEndpoints| SavedPeer { node: p.node.to_string(), endpoints: save_endpoints(&p.endpoints) };
    peers.iter().map(save).collect()
}

/// Peers whose name is no node's name were not written by us; they are left out.
pub(crate) fn load_peers(peers: Vec<SavedPeer>) -> Vec<NodeEndpoints> {
    let load = |p: SavedPeer| {
        let node = NodeName::new(&p.node).ok()?;
        Some(NodeEndpoints { node, endpoints: load_endpoints(p.endpoints) })
    };
    peers.into_iter().filter_map(load).collect()
}

impl From<SavedResult> for RunResult {
    fn from(saved: SavedResult) -> Self {
        Self {
            ranks: saved.ranks,
            bytes: saved.bytes,
            iterations: saved.iterations,
            time_us_min: saved.time_us.min,
            time_us_median: saved.time_us.median,
            time_us_max: saved.time_us.max,
            alg_bw_gbps: saved.alg_bw_gbps,
            bus_bw_gbps: saved.bus_bw_gbps,
            verified: saved.verified,
            mismatches: saved.mismatches,
            rails: load_rails(saved.rails),
        }
    }
}

impl From<&RunResult> for SavedResult {
    fn from(result: &RunResult) -> Self {
        Self {
            ranks: result.ranks,
            bytes: result.bytes,
            iterations: result.iterations,
            time_us: SavedTimes {
                min: result.time_us_min,
                median: result.time_us_median,
                max: result.time_us_max,
            },
            alg_bw_gbps: result.alg_bw_gbps,
            bus_bw_gbps: result.bus_bw_gbps,
            verified: result.verified,
            mismatches: result.mismatches,
            rails: save_rails(&result.rails),
        }
    }
}

impl From<&Snapshot> for SavedSnapshot {
    fn from(snapshot: &Snapshot) -> Self {
        let exit = |e: &RankExit| SavedExit {
            rank: e.rank,
            code: e.code,
            signal: e.signal,
            time_ms: e.time.0,
            cpu_ms: e.usage.cpu.map(|cpu| u64::try_from(cpu.as_millis()).unwrap_or(u64::MAX)),
            memory_peak: e.usage.memory_peak,
        };
        let cause = |r: &Reason| SavedReason {
            code: r.code.to_string(),
            message: r.message.clone(),
            scope: r.scope.clone(),
        };
        Self {
            state: state_word(snapshot.state).to_owned(),
            endpoints: save_endpoints(&snapshot.endpoints),
            exits: snapshot.exits.iter().map(exit).collect(),
            cause: snapshot.cause.as_ref().map(cause),
            result: snapshot.result.as_ref().map(Into::into),
            rails: save_rails(&snapshot.rails),
            drained: snapshot.drained.as_ref().map(|rails| rails.iter().copied().collect()),
            reports: snapshot.reports.iter().map(Into::into).collect(),
            choices: snapshot.choices.iter().map(Into::into).collect(),
            measured: snapshot.measured.as_ref().map(Into::into),
        }
    }
}

impl From<SavedSnapshot> for Snapshot {
    fn from(saved: SavedSnapshot) -> Self {
        let state = STATES.iter().find(|(_, word)| *word == saved.state);
        let exit = |e: SavedExit| RankExit {
            rank: e.rank,
            code: e.code,
            signal: e.signal,
            time: Timestamp(e.time_ms),
            usage: RankUsage { cpu: e.cpu_ms.map(Duration::from_millis), memory_peak: e.memory_peak },
        };
        Self {
            state: state.map_or(Observed::Preparing, |(state, _)| *state),
            endpoints: load_endpoints(saved.endpoints),
            exits: saved.exits.into_iter().map(exit).collect(),
            cause: saved.cause.map(|c| Reason::new(ReasonCode::from_text(&c.code), c.message).scope(c.scope)),
            result: saved.result.map(Into::into),
            rails: load_rails(saved.rails),
            drained: saved.drained.map(|rails| rails.into_iter().collect()),
            reports: saved.reports.into_iter().map(Into::into).collect(),
            choices: saved.choices.into_iter().map(Into::into).collect(),
            measured: saved.measured.map(Into::into),
        }
    }
}

impl From<&Order> for SavedOrder {
    fn from(order: &Order) -> Self {
        match order {
            Order::Start { peers, certify } => {
                Self::Start { peers: save_peers(peers), certify: certify.as_ref().map(Into::into) }
            }
            Order::Drain { rails } => Self::Drain { rails: rails.iter().copied().collect() },
            Order::Stop { grace, signal, reason } => {
                Self::Stop { grace_ms: millis(*grace), signal: *signal, reason: reason.clone() }
            }
        }
    }
}

impl From<SavedOrder> for Order {
    fn from(saved: SavedOrder) -> Self {
        match saved {
            SavedOrder::Start { peers, certify } => {
                Self::Start { peers: load_peers(peers), certify: certify.map(Into::into) }
            }
            SavedOrder::Drain { rails } => Self::Drain { rails: rails.into_iter().collect() },
            SavedOrder::Stop { grace_ms, signal, reason } => {
                Self::Stop { grace: Duration::from_millis(grace_ms), signal, reason }
            }
        }
    }
}
