//! Bugs that can be planted, each at run time and in the simulator's shells only: production code does not know of them.
//! A test expects each to be found; `--bug NAME` plants one by hand.

mod events;

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $name:ident),+ $(,)?) => {
        /// A bug that can be planted for a run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug { $($(#[doc = $doc])+ $name),+ }

        impl Bug {
            /// All bugs, in the order of their definition.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// What it is, in words.
            #[must_use]
            pub fn words(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc),+).trim_ascii_start()),+ }
            }
        }
    };
}

bugs! {
    // What the leader writes and tells.
    /// The controller answers clients before its transaction is done.
    ReplyBeforeCommit,
    /// The controller tells agents before its transaction is done.
    PushBeforeCommit,
    /// Two tenants are placed on a server that cannot keep them apart.
    TenantsTogether,
    /// A transaction that was refused is not undone in memory.
    NoRollback,
    /// A transaction that etcd refused counts as done.
    ErrorIsDone,
    /// A transaction that was not answered counts as done.
    UnknownIsDone,
    /// A transaction that was not answered counts as not done.
    UnknownIsFailure,
    /// After a transaction that was not answered, the leader reads everything but keeps its epoch.
    KeepEpochInDoubt,
    /// Request ids are not written.
    ForgetRequests,
    /// Request ids are written in a transaction of their own, later.
    RequestsApart,
    /// Records of attempts are written in a transaction of their own, later.
    AttemptsApart,
    /// What attempts held is not written.
    ForgetUsage,
    /// What attempts held is written in a transaction of its own, later.
    UsageApart,
    /// That an attempt is being ended is not written.
    ForgetEndings,
    /// Deletions of jobs are not written.
    ForgetDeletions,
    /// Quotas that administrators change are not written.
    ForgetQuotas,
    /// What is drained is not written.
    ForgetDrains,
    /// Of two jobs that are placed in one transaction the second gets the place of the first.
    DoublePlacement,
    /// The same submit counts as another one each time.
    IgnoreRequestIds,
    /// Of a repeated request id only the id is compared.
    IgnoreDigests,
    /// A job that is suspended is held, and goes on.
    SuspendIsHold,
    /// A refusal is told without asking who leads.
    RefuseUnconfirmed,
    /// Quotas that administrators change are written in a transaction of their own, later.
    QuotaApart,
    /// Denials are told and not recorded.
    DenyUnrecorded,
    /// Denials are told before their records are stored.
    DenyBeforeCommit,
    /// Audit records are written in a transaction of their own, later.
    AuditApart,
    /// The head of the audit log does not go back when a batch could not be stored.
    KeepAuditHead,
    /// Old audit records are dropped, and the checkpoint that says so is not written.
    DropUnsigned,
    // Fencing and the lead.
    /// The store takes writes of a controller that was replaced.
    NoFence,
    /// Writes compare who holds the leader key, not when it was created.
    FenceByHolder,
    /// The lease is the guard: as long as its own is not over, a controller writes without a compare.
    FenceByLease,
    /// A claim that was not answered counts as won, with a guessed epoch.
    GuessEpoch,
    /// A new process in the same place takes the leader key of the former for its own.
    HolderByPlace,
    /// A leader that has nothing to write never asks whether it still leads.
    NeverAsk,
    /// Standbys believe no evidence that the leader is gone.
    NoEvidence,
    // Standbys and what is read.
    /// A watch that broke is resumed one revision too far.
    ResumeTooFar,
    /// A watch whose history is gone goes on with the present.
    IgnoreCompaction,
    /// A standby's copy takes no deletions.
    DropDeletes,
    /// A new leader begins before its copy is complete.
    LeadBehind,
    /// A new leader does not find the jobs that hold something.
    LoseJobsOnLoad,
    /// A new leader does not find request ids.
    LoseRequestsOnLoad,
    /// A new leader does not find that tries are being ended.
    LoseEndingsOnLoad,
    /// A new leader takes placed jobs that do not run yet for waiting ones.
    RequeueOnLoad,
    /// A new leader does not find the audit log.
    LoseAuditOnLoad,
    /// A new leader does not find quotas.
    LoseQuotasOnLoad,
    /// History is never compacted.
    NeverCompact,
    /// The alarm that there is no room is never taken back.
    KeepAlarm,
    // What the controller concludes from silence.
    /// What a node holds whose stream has ended counts as ended.
    FreeOnUnknown,
    /// A node that does not know a running attempt counts as running it.
    AssumeRunning,
    /// A job is told to run before all its nodes are ready.
    RunWhenPlaced,
    /// ranks are let go before their gang is certified
    StartUncertified,
    /// Agents that connect are told of no jobs.
    WelcomeEmpty,
    // Agents.
    /// Agents obey commands of a controller that was replaced.
    IgnoreEpoch,
    /// Agents do not persist the epoch.
    ForgetEpoch,
    /// Agents do not persist records before they start processes.
    ForgetRecords,
    /// Agents persist records a while after they have started processes.
    PersistLate,
    /// Agents that start do not find the supervisors that live.
    ReapLiving,
    /// Agents that start take an attempt whose supervisor has died for one that never began.
    StartAgain,
    /// What a lost supervisor has left is not killed before it is reported ended.
    ReapNothing,
    /// An agent that is told to stop an attempt reports its end at once.
    EndedWhenTold,
    /// Records of attempts that have ended are kept for ever.
    KeepRecords,
}
