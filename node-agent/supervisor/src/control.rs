//! The engine's control socket as the supervisor uses it: newline-delimited JSON, one reply for each request.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use node_agent_attempt::{
    saved::{FirstCollective, SavedEndpoint, SavedRail},
    saved_certify::SavedTurn,
};
use node_agent_ipc::ShortPath;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// No reply is longer.
const LINE_MAX: u64 = 2 << 20;

/// What may be asked.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Request {
    /// Asks for the engine's condition.
    Status {},
    /// Connect to the engines of these peers.
    Connect {
        /// All other nodes of the job.
        peers: Vec<Peer>,
    },
    /// What went over the rails?
    Stats {},
    /// Move off these rails, or use them again.
    Drain {
        /// Numbers of the rails.
        rails: Vec<u32>,
        /// Off or on again.
        on: bool,
    },
    /// How are the rails, and how are operations carried out?
    Rails {},
    /// Measure the rails with partners.
    Certify {
        /// 0, or 1 the second time.
        series: u32,
        /// All other nodes of the job.
        peers: Vec<Peer>,
        /// In the order of rounds.
        turns: Vec<SavedTurn>,
        /// All of it ends after this.
        limit_ms: u64,
    },
    /// End in order, with a reason for the ranks that are still attached.
    Stop {
        /// The reason, for a person.
        reason: String,
    },
}

/// Another node of the job.
#[derive(Debug, Clone, Serialize)]
pub struct Peer {
    /// Index of the peer in the configuration's `nodes`.
    pub node: usize,
    /// Where the rails of the peer listen.
    pub endpoints: Vec<SavedEndpoint>,
}

/// Any reply; which fields are there depends on the request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Reply {
    /// `listening`, `connected`, `draining`, `failed`.
    pub state: Option<String>,
    /// Where the rails listen.
    pub endpoints: Vec<SavedEndpoint>,
    /// Why the engine failed; `None` where it has not.
    pub cause: Option<String>,
    /// It failed because a peer or a rail was lost, not because of what a rank did.
    pub lost: bool,
    /// It failed because a peer was lost.
    pub peer_lost: bool,
    /// Which: its index in the configuration's `nodes`.
    pub peer: Option<usize>,
    /// Why it was not done.
    pub error: Option<String>,
    /// What went over the rails.
    pub rails: Vec<SavedRail>,
    /// The first collective that moved data, once it has completed.
    pub first_collective: Option<FirstCollective>,
}

/// The reply to [`Request::Rails`]; without rails from an engine that does not know the question.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RailsReply {
    /// One entry for each rail; `None` from an engine that does not know the question.
    pub rails: Option<Vec<Rail>>,
    /// The latest of each operation and size.
    pub choices: Vec<Choice>,
}

/// One rail, as the engine sees it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Rail {
    /// Number of the rail.
    pub rail: u32,
    /// `up`, `draining`, `drained`, `down`, `proving`.
    pub state: String,
    /// Milliseconds that it has been so.
    pub for_ms: u64,
    /// Bytes that were sent on the rail.
    pub tx_bytes: u64,
    /// Bytes that were received on the rail.
    pub rx_bytes: u64,
    /// How often a link of it was lost.
    pub flaps: u32,
    /// Why a link of the rail was lost last; `None` where none was.
    pub cause: Option<String>,
    /// Number of other nodes of the job.
    pub peers: u32,
    /// Number of those nodes that are reached over the rail.
    pub peers_up: u32,
}

/// How one kind of operation is carried out.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Choice {
    /// The operation's name, for example `all-reduce`.
    pub operation: String,
    /// Greatest size of the class.
    pub bytes: u64,
    /// Name of the algorithm, for example `direct`.
    pub algorithm: String,
    /// How it was chosen, one text for each reason.
    pub reasons: Vec<String>,
}

/// Asks over a connection of its own.
///
/// # Errors
/// No engine there, no answer in time, or no JSON.
pub fn ask<R: DeserializeOwned>(control: &Path, request: &Request, timeout: Duration) -> io::Result<R> {
    let mut stream = UnixStream::connect(ShortPath::of(control)?)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
