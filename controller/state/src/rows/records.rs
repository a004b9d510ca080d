//! Records of the controller's own that no client reads.

use std::time::Duration;

use proto_model::{
    JobId, JobKey, JobUid, NodeEndpoints, Reason, RequestId, TenantName, Timestamp, TokenHolder,
};

/// What the controller must not forget about the present attempt of a job that holds something.
/// There is one exactly while [`proto_model::Phase::holds`].
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The identity of the job; a name alone may have been another job's before.
    pub uid: JobUid,
    /// The attempt of the job, counted from 1.
    pub attempt: u32,
    /// The engines' secret of this attempt.
    pub key: JobKey,
    /// Where every engine listens, in rank order of the nodes; empty before Running.
    pub peers: Vec<NodeEndpoints>,
    /// When it got its place.
    pub since: Timestamp,
    /// Its ranks may start: certification is over, or there was none.
    pub released: bool,
    /// Its rails are measured a second time, because one looked slow or lossy.
    pub again: bool,
    /// Set once this attempt is to end; never taken back.
    pub ending: Option<Ending>,
}

/// An attempt is being ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ending {
    /// What the job becomes when every node has confirmed the end.
    pub outcome: Outcome,
    /// Between the signal and SIGKILL.
    pub grace: Duration,
    /// What the ranks get first; 0 is SIGTERM.
    pub signal: i32,
    /// Since when, by the controller's clock.
    pub since: Timestamp,
    /// Why; more causes may be added while nodes report.
    pub causes: Vec<Reason>,
}

/// What a job becomes at the end of an attempt that does not simply complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It failed: pending again, next attempt.
    Requeue,
    /// It was stopped for another job, to go on with another size, or on request: pending again. That is no restart.
    Preempt,
    /// It was stopped to go on elsewhere: pending again, or at once where it was repaired.
    Move,
    /// Failed.
    Fail,
    /// Cancelled.
    Cancel,
}

/// A submit's request id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestRecord {
    /// The name of the tenant.
    pub tenant: TenantName,
    /// The id that the client gave to its request.
    pub request: RequestId,
    /// Digest of the body.
    pub digest: [u8; 32],
    /// The job that it made.
    pub uid: JobUid,
    /// That job's name.
    pub id: JobId,
    /// When it happened, by the controller's clock.
    pub time: Timestamp,
}

/// The name of a deleted tenant, which nobody gets by accident: what is left elsewhere of that tenant (mounts, dashboards,
/// scripts, people's memory) would take the next one for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestingName {
    /// The name that was the tenant's.
    pub name: TenantName,
    /// The uid of the tenant that had it.
    pub uid: String,
    /// When that tenant was deleted.
    pub deleted: Timestamp,
}

/// A join token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRecord {
    /// SHA-256 of the token.
    pub hash: [u8; 32],
    /// Who may use it.
    pub holder: TokenHolder,
    /// When it loses its worth.
    pub expires: Timestamp,
    /// SHA-256 of the signing request that used it. Kept until it expires, so that a second use is noticed.
    pub used_by: Option<[u8; 32]>,
}
