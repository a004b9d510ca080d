//! The desired state of one server, and what that server observes. Level-triggered: both sides repeat the whole.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::{
    AlgorithmChoice, Certify, HiddenEnv, JobId, JobKey, JobSpec, JobUid, Measured, NodeName, Placement,
    RailBytes, RailReport, RankExit, Reason, RunResult,
};

/// The desired state for one attempt of one job on one server.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The job's identifier, which no later job of the same name shares.
    pub uid: JobUid,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// Tenant and name, for people and for the ranks' environment.
    pub id: JobId,
    /// What this server is to bring the attempt to.
    pub desired: DesiredState,
    /// W3C trace context of the submit; may be empty.
    pub trace_parent: String,
}

/// What should be. A later desired state never goes back to an earlier one.
#[derive(Debug, Clone, PartialEq)]
pub enum DesiredState {
    /// Engine up and listening on every rail.
    Prepared {
        /// What the user asked for.
        spec: Arc<JobSpec>,
        /// The nodes, NICs and ranks of the whole gang, not of this server alone.
        placement: Arc<Placement>,
        /// The secret with which the engines of this job authenticate each other.
        key: JobKey,
        /// Variables with values of secrets and configs, for ranks and steps. Kept in memory only.
        env: Arc<HiddenEnv>,
    },
    /// Engine connected, ranks started.
    Running {
        /// As for `Prepared`, so that desired state stands alone.
        spec: Arc<JobSpec>,
        /// The nodes, NICs and ranks of the whole gang, as in `Prepared`.
        placement: Arc<Placement>,
        /// The secret of the job's engines, as in `Prepared`.
        key: JobKey,
        /// Where every node's engine listens.
        peers: Vec<NodeEndpoints>,
        /// Measure first, and start no rank before this is gone from the desired state.
        certify: Option<Certify>,
    },
    /// Everything of this attempt has ended on the server.
    Stopped {
        /// Time between the first signal and SIGKILL.
        grace: Duration,
        /// What the ranks get first; 0 is SIGTERM.
        signal: i32,
        /// Why it is stopped, in words; written into the ranks' log.
        reason: String,
    },
}

/// Where one node's engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEndpoints {
    /// The node whose engine it is.
    pub node: NodeName,
    /// Its listeners, one for each rail in use.
    pub endpoints: Vec<RailEndpoint>,
}

/// Where an engine listens on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RailEndpoint {
    /// Number of the rail.
    pub rail: u32,
    /// Address and port of the engine's listener on that rail.
    pub address: SocketAddr,
}

/// What one server sees of one attempt of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// Identifier of the job.
    pub uid: JobUid,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// How far the server is with the attempt.
    pub state: Observed,
    /// Where the engine listens; from `Prepared` on.
    pub endpoints: Vec<RailEndpoint>,
    /// Local ranks that have ended.
    pub exits: Vec<RankExit>,
    /// Why it failed here, by another cause than a rank's own exit.
    pub cause: Option<Reason>,
    /// What rank 0 measured, if it ran here.
    pub result: Option<RunResult>,
    /// Bytes that this server's engine moved.
    pub rails: Vec<RailBytes>,
    /// What this server's engine sees of its rails, while it runs.
    pub reports: Vec<RailReport>,
    /// How operations are carried out; from the job's first server only.
    pub choices: Vec<AlgorithmChoice>,
    /// What was measured before its ranks start; until they have.
    pub measured: Option<Measured>,
}

/// How far one server is with one attempt of one job. Only ever moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observed {
    /// The engine is being started.
    Preparing,
    /// The engine listens on every rail of the job; no rank has been started.
    Prepared,
    /// The engine connects, ranks are being started.
    Starting,
    /// All local ranks were started.
    Running,
    /// Ranks and engine are being ended.
    Stopping,
    /// Nothing of it is left.
    Ended,
}
