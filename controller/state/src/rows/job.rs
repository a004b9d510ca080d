//! A job with what belongs to it, what its nodes have reported, and how far the queue was looked at.

use std::sync::Arc;

use controller_scheduler::QueueKey;
use proto_model::{
    AlgorithmChoice, Job, JobUid, Measured, NodeName, Observed, Phase, RailBytes, RailEndpoint, RailReport,
    RankExit, Reason, RunResult, Timestamp,
};

use crate::rows::records::Attempt;

/// A job with what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobEntry {
    /// What is stored of it.
    pub job: Arc<Job>,
    /// Present exactly while the phase holds.
    pub attempt: Option<Arc<Attempt>>,
    /// Not stored: when the core must look at the job again.
    pub due: Option<Timestamp>,
    /// Not stored: it waits for something else than room; see `depend`.
    pub held: bool,
    /// Not stored: it was stopped to make room, and starts again with so many nodes at most.
    pub cap: Option<u32>,
    /// Not stored: counts over the job's views.
    pub tally: Tally,
}

impl JobEntry {
    /// Its place in the order of waiting jobs.
    pub fn key(&self) -> QueueKey {
        QueueKey {
            priority: std::cmp::Reverse(self.job.spec.priority),
            submitted: self.job.status.submitted,
            uid: self.job.uid,
        }
    }
}

/// How many nodes of a gang are how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Their engines listen.
    pub prepared: u32,
    /// All their ranks were started.
    pub started: u32,
    /// All their ranks ended with success.
    pub finished: u32,
    /// Nothing of the attempt runs there any more.
    pub ended: u32,
}

/// What one node has reported of the present attempt of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeView {
    /// How far it is.
    pub state: Observed,
    /// All local ranks were started at some time.
    pub started: bool,
    /// All local ranks ended with success.
    pub finished: bool,
    /// Where its engine listens.
    pub endpoints: Vec<RailEndpoint>,
    /// How its ranks ended.
    pub exits: Vec<RankExit>,
    /// Why it failed, if it has.
    pub cause: Option<Reason>,
    /// What rank 0 has told at its end.
    pub result: Option<RunResult>,
    /// Bytes that went over each rail.
    pub rails: Vec<RailBytes>,
    /// What its engine sees of its rails.
    pub reports: Vec<RailReport>,
    /// When it said so.
    pub reported: Option<Timestamp>,
    /// How its engine carries out operations.
    pub choices: Vec<AlgorithmChoice>,
    /// What it has measured, until the gang is judged.
    pub measured: Option<Measured>,
    /// The job has no rails here, and its engine no endpoint.
    pub railless: bool,
}

impl NodeView {
    /// What it counts for among those of its gang.
    pub fn tally(&self) -> Tally {
        let listens = self.railless || !self.endpoints.is_empty();
        Tally {
            prepared: u32::from(self.state >= Observed::Prepared && listens),
            started: u32::from(self.started),
            finished: u32::from(self.finished),
            ended: u32::from(self.state == Observed::Ended),
        }
    }
}

/// How far the queue was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Schedule {
    /// Something has changed that may let jobs start: a pass follows.
    pub wanted: bool,
    /// When time alone may let one start.
    pub check: Option<Timestamp>,
    /// When more than the first jobs of the queue were looked at last.
    pub deep: Option<Timestamp>,
    /// Time and counter of the last submit: jobs of one millisecond keep their order too.
    pub last_submit: (Timestamp, u16),
}

/// The nodes of a placed job with their positions.
pub fn gang(entry: &JobEntry) -> impl Iterator<Item = (u32, &NodeName)> {
    let nodes = entry.job.status.placement.as_ref().map_or(&[][..], |placement| &placement.nodes);
    nodes.iter().enumerate().map(|(at, place)| (u32::try_from(at).unwrap_or(u32::MAX), &place.node))
}

/// How many nodes a placed job has, spares left out; 0 without a place.
pub fn gang_size(entry: &JobEntry) -> u32 {
    let nodes = entry.job.status.placement.as_ref().map_or(0, |placement| placement.nodes.len());
    u32::try_from(nodes).unwrap_or(u32::MAX)
}

/// What is known of a node of a gang before it has reported more than its state.
pub fn fresh_view(state: Observed) -> NodeView {
    NodeView {
        state,
        started: false,
        finished: false,
        railless: false,
        endpoints: Vec::new(),
        exits: Vec::new(),
        cause: None,
        result: None,
        rails: Vec::new(),
        reports: Vec::new(),
        reported: None,
        choices: Vec::new(),
        measured: None,
    }
}

/// A job's phase changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transition {
    /// The identity of the job; a name alone may have been another job's before.
    pub uid: JobUid,
    /// The attempt after the change.
    pub attempt: u32,
    /// The phase before.
    pub from: Phase,
    /// The phase after.
    pub to: Phase,
}
