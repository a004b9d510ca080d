//! What happens to a supervisor, and what it has its shell do.

use std::collections::BTreeSet;

use proto_model::{
    AlgorithmChoice, Certify, Measured, NodeEndpoints, NodeName, RailBytes, RailEndpoint, RailReport,
    RankExit, Reason, RunResult,
};

use crate::record::Order;

/// In which way an engine ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineEnd {
    /// It ended with status 0.
    Clean,
    /// It lost a peer, and its ranks needed that one: this server may be well.
    PeerLost {
        /// The peer's server, where the engine said so.
        peer: Option<NodeName>,
    },
    /// It ended in any other way.
    Failed,
}

/// What happens to a supervisor.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The first event, which begins everything.
    Begin,
    /// The engine listens on every rail.
    EngineListening(Vec<RailEndpoint>),
    /// All rails to all peers are up.
    EngineConnected,
    /// What the engine measured with its partners, or why nothing.
    Measured(Measured),
    /// The engine could not be started, or could not connect.
    EngineFailed(String),
    /// The engine says that it can no longer serve the job, and why; its process may still be there.
    EngineBroken {
        /// What the engine says is the cause.
        why: String,
        /// In which way it will end by that.
        end: EngineEnd,
    },
    /// The engine's process has ended.
    EngineExited {
        /// How the process ended, in words: its status or signal.
        how: String,
        /// In which way the engine ended.
        end: EngineEnd,
    },
    /// The agent has sent an order.
    Order(Order),
    /// This rank's process was started.
    RankStarted(u32),
    /// This rank's process could not be started.
    RankFailed {
        /// The rank's number in the job.
        rank: u32,
        /// Why it could not be started.
        message: String,
    },
    /// The ranks ran into a limit of theirs, which is why one of them ends.
    RanksExceeded(Reason),
    /// This rank's process has ended.
    RankExited(RankExit),
    /// What rank 0 measured.
    Result(RunResult),
    /// What the engine has moved so far.
    Stats(Vec<RailBytes>),
    /// The engine has taken over which rails are drained.
    EngineDrained(BTreeSet<u32>),
    /// What the engine sees of its rails.
    Rails {
        /// One report for each rail.
        reports: Vec<RailReport>,
        /// How it carries out operations, if this server reports that.
        choices: Vec<AlgorithmChoice>,
    },
    /// It did not answer a question about its rails.
    RailsSilent,
    /// No process of the ranks is left, grandchildren included.
    TreeEmpty,
    /// Time has passed: deadlines may be over.
    Tick,
}

/// The number of SIGTERM on Linux.
pub(super) const SIGTERM: i32 = 15;

/// How hard to signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end in order.
    Term,
    /// Another one that a job asks for to save its work.
    Other(i32),
    /// SIGKILL: end at once.
    Kill,
}

/// What the shell must do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start the engine's process.
    SpawnEngine,
    /// Have it connect to these peers; answered by `EngineConnected` or `EngineFailed`.
    ConnectEngine(Vec<NodeEndpoints>),
    /// Have it measure its rails with its partners, who listen there; answered by `Measured`.
    CertifyEngine(Vec<NodeEndpoints>, Certify),
    /// Have it drain these rails and use all others; answered by `EngineDrained` or `RailsSilent`.
    DrainEngine(BTreeSet<u32>),
    /// Ask it about its rails; answered by `Rails` or `RailsSilent`.
    ReadRails,
    /// Start every local rank; each is answered by `RankStarted` or `RankFailed`.
    SpawnRanks,
    /// Signal every process of the ranks; `TreeEmpty` follows when none is left.
    SignalTree(Signal),
    /// Read what the engine has moved; `Stats` follows if it answers.
    ReadStats,
    /// Ask the engine to stop; `EngineExited` follows.
    StopEngine(String),
    /// Kill the engine; `EngineExited` follows.
    KillEngine,
    /// A line of Railyard's own in every rank's log.
    Note(String),
    /// Make the snapshot durable, then report it to the agent if it is there.
    Publish,
    /// The supervisor's work is done.
    Exit,
}
