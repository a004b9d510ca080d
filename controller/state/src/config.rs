//! The limits and clocks of the core; every one an argument, none read from outside.

use std::time::Duration;

use controller_queue::Budget;
use proto_model::{Backfill, Certification, IsolationPolicy, LongJobLimit, Objective, RailProtection};

/// What the core waits for and how much it takes. Durations are wall-clock durations of the shell's `now`.
///
/// The per-step limits together keep the writes of one step below the 128 operations that etcd takes in one
/// transaction by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Told to agents in the Welcome.
    pub heartbeat_interval: Duration,
    /// A node that was not heard for longer is NotReady. Its jobs are not touched.
    pub heartbeat_limit: Duration,
    /// Longest time from the placement to "every engine listens".
    pub prepare_timeout: Duration,
    /// Longest time from Running to "every rank was started", while all nodes of the gang are connected.
    pub start_timeout: Duration,
    /// Whether gangs are measured before their ranks start; a job may ask for more, never for less.
    pub certification: Certification,
    /// How the rails of every job are protected at least; a job may ask for more, never for less.
    pub rail_protection: RailProtection,
    /// How much isolation jobs must have; a tenant may ask for more, never for less.
    pub isolation: IsolationPolicy,
    /// The highest priority that a user may give a job which is of no service class. Above 0 it goes ahead of other tenants' jobs.
    pub user_priority: i32,
    /// The same of a tenant's administrator.
    pub tenant_admin_priority: i32,
    /// How long a request id is remembered.
    pub request_retention: Duration,
    /// How long jobs that have ended are kept; `None`: until somebody deletes them.
    pub ended_retention: Option<Duration>,
    /// How long usage records are kept; `None`: while there are no more than `max_usage`.
    pub usage_retention: Option<Duration>,
    /// Most usage records; beyond that the oldest of the tenant that has the most go.
    pub max_usage: usize,
    /// First wait before a requeued job is placed again; doubles with each restart.
    pub requeue_backoff: Duration,
    /// Longest such wait.
    pub requeue_backoff_max: Duration,
    /// Longest life of a join token.
    pub token_lifetime_max: Duration,
    /// An elastic job that has run for so long may be stopped to go on with another size; `None`: only to make room for a
    /// job of higher priority.
    pub resize_after: Option<Duration>,
    /// Who may start before jobs that wait ahead of it.
    pub backfill: Backfill,
    /// Large jobs go as if they had been submitted earlier, by this for every doubling of their GPUs.
    pub head_start: Duration,
    /// What the order of waiting jobs is for where no queue says it; `None`: by age, with the head start.
    pub objective: Option<Objective>,
    /// What small jobs that may run for long hold together at most; `None`: any number of GPUs.
    pub long_jobs: Option<LongJobLimit>,
    /// Tenants that used less of late go first.
    pub fair_share: bool,
    /// Most jobs that wait, over all tenants.
    pub max_queued: usize,
    /// Most job records, ended ones included.
    pub max_jobs: usize,
    /// Most jobs that have not ended, per tenant whose quota does not say.
    pub tenant_jobs: u32,
    /// Most bytes of the store that the jobs of a tenant take, ended ones included, where its quota does not say.
    pub tenant_bytes: u64,
    /// Most schedules, per tenant whose quota does not say.
    pub tenant_schedules: u32,
    /// Most elements of one array.
    pub max_array: usize,
    /// How many nodes there may be at most.
    pub max_nodes: usize,
    /// How many tenants there may be at most.
    pub max_tenants: usize,
    /// How long the name of a deleted tenant rests before somebody else can have it; zero: not at all.
    pub name_rest: Duration,
    /// Most names that rest.
    pub max_resting: usize,
    /// How long a tenant or a fabric that was deleted can be brought back; zero: not at all.
    pub undelete_for: Duration,
    /// Most of them that are kept.
    pub undelete_max: usize,
    /// Most join tokens that are neither used nor expired.
    pub max_tokens: usize,
    /// Most rails, leaves and ports that are drained at once.
    pub max_drains: usize,
    /// Most records of the decision log.
    pub max_decisions: usize,
    /// How long they are kept at most.
    pub decision_retention: Duration,
    /// Most records of changes in the audit log; older ones are dropped behind a checkpoint.
    pub max_audit: u64,
    /// Most bytes of them.
    pub max_audit_bytes: u64,
    /// Most records of denials; they have room of their own, so that nobody without authority can push out a change.
    pub max_denials: u64,
    /// Most bytes of them.
    pub max_denials_bytes: u64,
    /// Records after which the head of the audit log is to be signed.
    pub seal_every: u64,
    /// Time after which it is.
    pub seal_within: Duration,
    /// Most remembered request ids.
    pub max_requests: usize,
    /// Most ranks of one job. The smallest bound of all parts rules: the engine takes 65,536, but a stored value holds at
    /// most 1.5 MiB (etcd's default), and a rank's line in the placement and its exit cost up to 90 bytes of that.
    pub max_ranks: u32,
    /// Most nodes of one job: as many as the engine joins.
    pub max_gang_nodes: u32,
    /// Most queued jobs looked at in one step, in the policy's order.
    pub pass_limit: usize,
    /// So many jobs may wait for a submit to be placed at once; where more do, it is with the next tick.
    pub pass_at_once: usize,
    /// Most jobs placed in one step; the rest follows in the next tick.
    pub pass_places: usize,
    /// Most waiting jobs whose stored reasons one step rewrites.
    pub reason_writes: usize,
    /// Most waiting jobs whose reasons one step works out in full.
    pub reason_checks: usize,
    /// Most deadlines handled in one step; the rest follows in the next tick.
    pub due_limit: usize,
    /// Most expired records (request ids, tokens, jobs of removed tenants) that one step removes.
    pub purge_limit: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(1),
            heartbeat_limit: Duration::from_secs(10),
            prepare_timeout: Duration::from_secs(60),
            start_timeout: Duration::from_secs(60),
            certification: Certification::Off,
            rail_protection: RailProtection::None,
            isolation: IsolationPolicy::BestEffort,
            user_priority: 0,
            tenant_admin_priority: 0,
            request_retention: Duration::from_secs(24 * 3600),
            ended_retention: None,
            usage_retention: Some(Duration::from_secs(400 * 86_400)),
            max_usage: 1_000_000,
            requeue_backoff: Duration::from_secs(1),
            requeue_backoff_max: Duration::from_secs(60),
            token_lifetime_max: Duration::from_secs(600),
            resize_after: Some(Duration::from_secs(1800)),
            backfill: Backfill::Conservative,
            head_start: Duration::ZERO,
            objective: None,
            long_jobs: None,
            fair_share: true,
            max_queued: 200_000,
            max_jobs: 1_200_000,
            tenant_jobs: 100_000,
            tenant_bytes: 1 << 30,
            tenant_schedules: 100,
            max_array: 10_000,
            max_nodes: 200_000,
            max_tenants: 10_000,
            name_rest: Duration::from_secs(30 * 86_400),
            max_resting: 10_000,
            undelete_for: Duration::from_secs(7 * 86_400),
            undelete_max: 100,
            max_tokens: 10_000,
            max_drains: 4096,
            max_decisions: 50_000,
            decision_retention: Duration::from_secs(14 * 24 * 3600),
            max_audit: 200_000,
            max_audit_bytes: 128 << 20,
            max_denials: 100_000,
            max_denials_bytes: 64 << 20,
            seal_every: 1000,
            seal_within: Duration::from_secs(300),
            max_requests: 2_000_000,
            max_ranks: 8192,
            max_gang_nodes: 1024,
            pass_limit: Budget::STEP.jobs,
            pass_at_once: 64,
            pass_places: Budget::STEP.starts,
            reason_writes: 8,
            reason_checks: 16,
            due_limit: 8,
            purge_limit: 64,
        }
    }
}
