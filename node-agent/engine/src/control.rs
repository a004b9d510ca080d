//! The control socket's language: newline-delimited JSON, one reply for each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Most bytes of one line in either direction: the endpoints of 1,024 nodes with 8 rails fit.
pub const MAX_LINE: usize = 2 << 20;

/// What the supervisor may ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How is the engine? Answered by [`Status`].
    Status {},
    /// Wire up to these peers; answered when all rails to all of them are up, or at the deadline.
    Connect {
        /// The other nodes of the job, all of them.
        peers: Vec<Peer>,
    },
    /// What went over the rails? Answered by [`Stats`].
    Stats {},
    /// Move work off these rails, or back on them. Repeating it is harmless.
    Drain {
        /// Numbers of the rails to drain or to use again.
        rails: Vec<u16>,
        /// True: move work off them. False: use them again.
        on: bool,
    },
    /// How are the rails, and how are operations carried out? Answered by [`Rails`].
    Rails {},
    /// Measure the rails with these partners, one after the other, before ranks start. Answered by [`Measured`]; asking again for
    /// the same series gives the same.
    Certify {
        /// 0, or one more than the series before.
        #[serde(default)]
        series: u32,
        /// The other nodes of the job, all of them.
        peers: Vec<Peer>,
        /// In the order of rounds, which are numbered from 65,536 times the series on.
        turns: Vec<TurnView>,
        /// All of it ends after this, 60 s at most.
        limit_ms: u64,
    },
    /// End. What ranks wait for fails with a typed error.
    Stop {
        /// Why, for the ranks' messages.
        #[serde(default)]
        reason: String,
    },
}

/// One other node of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// Index of the node in `nodes` of the configuration.
    pub node: usize,
    /// Where the rails of that node listen.
    pub endpoints: Vec<Endpoint>,
}

/// Where one rail listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    /// Number of the rail in the cluster.
    pub rail: u16,
    /// The address and port on which it listens.
    pub address: SocketAddr,
}

/// One node's part of one round of certification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnView {
    /// The round, from 0.
    pub round: u32,
    /// The partner's index in `nodes`.
    pub peer: usize,
    /// This node begins, and reports.
    pub first: bool,
}

/// What the engine answers. Exactly one of these forms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Reply {
    /// The answer to [`Request::Status`].
    Status(Status),
    /// The answer to [`Request::Stats`].
    Stats(Stats),
    /// The answer to [`Request::Rails`].
    Rails(Rails),
    /// The answer to [`Request::Certify`].
    Measured(Measured),
    /// Not done, and why.
    Error {
        /// What went wrong and where.
        error: String,
    },
    /// The answer to a request that asks for no data: it was done.
    Ok {
        /// Always true: the form of a reply that has nothing else.
        ok: bool,
    },
}

impl Reply {
    /// The answer to a request that was done and asks for no data.
    pub const OK: Reply = Reply::Ok { ok: true };
}

/// How far the engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineState {
    /// Rails listen; peers are not connected.
    Listening,
    /// All rails to all peers are up.
    Connected,
    /// It was asked to stop and ends soon.
    Draining,
    /// Operations cannot go on; `cause` says why.
    Failed,
}

/// The engine's condition: what it waits for, which peers and ranks are there, and what failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// How far the engine is, from listening to its end.
    pub state: EngineState,
    /// Where its own rails listen.
    pub endpoints: Vec<Endpoint>,
    /// Ranks that are attached now.
    pub attached: Vec<u32>,
    /// Why it failed, or what it has noticed.
    pub cause: Option<String>,
    /// It failed because a peer or a rail was lost, or never there: nothing that a rank did.
    #[serde(default)]
    pub lost: bool,
    /// It failed because a peer was lost: this server may be well.
    #[serde(default)]
    pub peer_lost: bool,
    /// Which peer that is: its index in the configuration's `nodes`. An engine that ends by a loss leaves its last status in the file
    /// [`last_words`] names, since nobody can ask it any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<usize>,
}

/// Where an engine that ends by a loss leaves its last [`Status`], as JSON: beside its control socket.
#[must_use]
pub fn last_words(control: &Path) -> PathBuf {
    control.with_extension("end")
}

/// The engine's counters since it started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// One entry for each rail of this node.
    pub rails: Vec<RailStats>,
    /// Operations completed, each counted once for this node's ranks together.
    pub ops: u64,
    /// Connections to rails that were refused: garbage, wrong key, too slow, broken off, too many.
    #[serde(default)]
    pub refused: u64,
    /// The first collective that moved data, once it has completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_collective: Option<FirstCollective>,
}

/// One collective of this node's ranks, by the wall clock, for the job's trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirstCollective {
    /// The operation's name: `all-reduce`, `broadcast`, ...
    pub operation: String,
    /// When the first local rank asked for it: nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// When it had completed for a local rank: nanoseconds since 1970, never before the start.
    pub ended_unix_ns: u64,
}

/// Counters of one rail, all peers together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailStats {
    /// Number of the rail in the cluster.
    pub rail: u16,
    /// Bytes sent, with headers.
    pub tx_bytes: u64,
    /// Bytes received, with headers.
    pub rx_bytes: u64,
    /// Frames sent; with chunks as large as the configuration says, one frame carries one chunk.
    pub chunks: u64,
}

/// How rails are used now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rails {
    /// One entry for each rail of this node, ascending by number.
    pub rails: Vec<RailView>,
    /// The latest choice for each kind of operation and size, 64 at most.
    pub choices: Vec<ChoiceView>,
}

/// How a rail is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RailState {
    /// It carries data, to some peers at least.
    Up,
    /// Drained; what is on its way arrives, or some peer is reached over no other rail.
    Draining,
    /// Drained, and nothing moves on it.
    Drained,
    /// No peer is connected on it.
    Down,
    /// It is connected again and proves itself before it carries data.
    Proving,
}

/// One rail, all peers together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailView {
    /// Number of the rail in the cluster.
    pub rail: u16,
    /// How it is used.
    pub state: RailState,
    /// Milliseconds for which it has been seen so.
    pub for_ms: u64,
    /// Bytes sent, with headers.
    pub tx_bytes: u64,
    /// Bytes received, with headers.
    pub rx_bytes: u64,
    /// How often one of its links was lost.
    pub flaps: u32,
    /// Why a link of the rail was lost last; `None` where none was.
    pub cause: Option<String>,
    /// Number of other nodes of the job, which each are a peer on the rail.
    pub peers: u32,
    /// Those to which it carries data, or could if it were not drained.
    pub peers_up: u32,
}

/// What was measured; what could not be observed is null.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Each pair that this node began, on each rail.
    pub pairs: Vec<PairView>,
    /// This node's own ports.
    pub ports: Vec<PortView>,
}

/// One pair on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairView {
    /// The round of the series in which the pair was measured, counted from 0.
    pub round: u32,
    /// The partner's index in `nodes`.
    pub peer: usize,
    /// Number of the rail on which the pair was measured.
    pub rail: u16,
    /// What was measured of the direction from this node to the partner.
    pub there: WayView,
    /// What was measured of the direction from the partner to this node.
    pub back: WayView,
    /// The shortest round trip, in microseconds.
    pub rtt_us: Option<u32>,
    /// That rail of the partner which answered where this one did not.
    pub crossed: Option<u16>,
}

/// What was measured of one direction between two nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayView {
    /// Number of small packets sent this way.
    pub sent: u32,
    /// Number of those packets that did not arrive.
    pub lost: u32,
    /// The largest IP packet that arrived, in bytes.
    pub mtu: Option<u32>,
    /// The DSCP of what arrived.
    pub dscp: Option<u8>,
    /// Mbit/s, as far as the probe can measure.
    pub mbps: Option<u32>,
    /// It may be more: a busy host, and not the rail, held the measurement up.
    #[serde(default)]
    pub at_least: bool,
}

/// What a port of this node is set to, as far as a measurement needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortView {
    /// Number of the rail that the port is on.
    pub rail: u16,
    /// The MTU of its interface, in bytes.
    pub mtu: Option<u32>,
}

/// How one kind of operation is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChoiceView {
    /// The operation's name: `all-reduce`, `broadcast`, ...
    pub operation: String,
    /// Sizes below this and not below half of it, in bytes.
    pub bytes: u64,
    /// Name of the algorithm chosen.
    pub algorithm: String,
    /// How it was chosen, then every algorithm with its predicted time or what speaks against it.
    pub reasons: Vec<String>,
}

/// Asks one question over a new connection and waits for the answer.
///
/// # Errors
/// The engine cannot be reached, does not answer within `timeout`, or answers with a line that is no [`Reply`].
pub fn ask(socket: &Path, request: &Request, timeout: Duration) -> std::io::Result<Reply> {
    let stream = UnixStream::connect(node_agent_ipc::ShortPath::of(socket)?)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    (&stream).write_all(&line)?;
    let mut answer = Vec::new();
    BufReader::new(stream.take(MAX_LINE as u64)).read_until(b'\n', &mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exact lines that the supervisor writes and reads.
    #[test]
    fn lines_have_the_agreed_form() {
        let requests = [
            r#"{"op":"status"}"#,
            r#"{"op":"connect","peers":[{"node":1,"endpoints":[{"rail":0,"address":"10.0.0.2:40007"}]}]}"#,
            r#"{"op":"stats"}"#,
            r#"{"op":"drain","rails":[2],"on":true}"#,
            r#"{"op":"rails"}"#,
            r#"{"op":"certify","series":1,"peers":[],"turns":[{"round":0,"peer":1,"first":true}],"limit_ms":4000}"#,
            r#"{"op":"stop","reason":"cancelled"}"#,
        ];
        for line in requests {
            let request: Request = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
        }
        let replies = [
            r#"{"state":"listening","endpoints":[{"rail":0,"address":"10.0.0.1:40001"}],"attached":[0],"cause":null,"lost":false,"peer_lost":false}"#,
            r#"{"ok":true}"#,
            r#"{"error":"no"}"#,
            r#"{"rails":[{"rail":0,"tx_bytes":1,"rx_bytes":2,"chunks":3}],"ops":4,"refused":0}"#,
            r#"{"rails":[{"rail":1,"state":"drained","for_ms":5,"tx_bytes":1,"rx_bytes":2,"flaps":3,"cause":"reset","peers":3,"peers_up":2}],"choices":[{"operation":"all-reduce","bytes":1024,"algorithm":"direct","reasons":["fastest"]}]}"#,
            r#"{"rails":[],"choices":[]}"#,
            r#"{"pairs":[{"round":0,"peer":1,"rail":2,"there":{"sent":9,"lost":1,"mtu":9000,"dscp":26,"mbps":400,"at_least":true},"back":{"sent":8,"lost":0,"mtu":null,"dscp":null,"mbps":null,"at_least":false},"rtt_us":55,"crossed":null}],"ports":[{"rail":2,"mtu":9000}]}"#,
            r#"{"rails":[],"ops":4,"refused":0,"first_collective":{"operation":"all-reduce","started_unix_ns":5,"ended_unix_ns":9}}"#,
        ];
        for line in replies {
            let reply: Reply = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&reply).unwrap(), line);
        }
    }

    #[test]
    fn unknown_requests_and_fields_are_refused() {
        for line in [
            "{}",
            "[]",
            r#"{"op":"dance"}"#,
            r#"{"op":"status","x":1}"#,
            r#"{"op":"connect"}"#,
            r#"{"op":"drain","rails":[1]}"#,
            r#"{"op":"drain","rails":[-1],"on":true}"#,
        ] {
            assert!(serde_json::from_str::<Request>(line).is_err(), "{line}");
        }
    }
}
