//! What the loop counts.

use controller_core::figures::{Figure, Figures, MAX_QUEUES, MAX_TENANTS, Move, Moved, Named};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};
use proto_model::Phase;
use proto_rpc::{
    Metrics,
    metrics::{CounterBy, GaugeBy, SecondsBy},
};

/// Bounds of what jobs wait, in seconds: a second to a week.
const WAITS: [f64; 11] =
    [1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0, 43_200.0, 86_400.0, 259_200.0, 604_800.0];
/// Series of a metric by tenant and queue: the named ones, those of jobs in no queue, and the queues of each tenant that have no
/// series of their own.
const BY_QUEUE: usize = MAX_QUEUES + 2 * (MAX_TENANTS + 1);

/// The loop's metrics; clones share them.
#[derive(Debug, Clone)]
pub struct LoopMetrics {
    /// Requests waiting, by queue.
    pub queue: GaugeBy<1>,
    /// Events per committed batch, as a sum; divide by `commits`.
    pub events: Counter,
    /// Batches that were committed since the start.
    pub commits: Counter,
    /// Batches that the store did not take, by cause.
    pub failures: CounterBy<1>,
    /// Time of a commit.
    pub commit_seconds: Histogram,
    /// Time of deciding one batch.
    pub step_seconds: Histogram,
    /// Events refused before they reached the core, by cause.
    pub refused: CounterBy<1>,
    /// What of agents' reports was not taken over, by verdict (ignored, untrue, quarantined) and kind.
    pub claims: CounterBy<2>,
    /// Gangs that were measured before their ranks start, by verdict (certified, warned, refused, remapped).
    pub certified: CounterBy<1>,
    /// Jobs that are stored, by phase.
    pub jobs: GaugeBy<1>,
    /// Records that the audit log keeps, by log.
    pub audit_records: GaugeBy<1>,
    /// Usage records that were removed before their time because there were too many.
    pub usage_dropped: Counter,
    /// Attempts of webhooks' deliveries, by what became of them (delivered, failed, given-up, gone).
    pub webhook_attempts: CounterBy<1>,
    /// Deliveries of webhooks that wait.
    pub webhook_queue: Gauge,
    /// Agents that are connected at the moment.
    pub agents: Gauge,
    /// Agents' streams ended because they did not read.
    pub slow_agents: Counter,
    /// 1 while the store takes writes.
    pub writable: Gauge,
    /// The leader's fencing number.
    pub epoch: Gauge,
    /// 1 while this process leads.
    pub leading: Gauge,
    /// Times that this process has taken the lead.
    pub leads: Counter,
    /// Of each tenant's and each queue's jobs.
    pub shares: ShareMetrics,
}

/// What tenants and their queues hold, ask for and wait.
#[derive(Debug, Clone)]
pub struct ShareMetrics {
    /// Jobs of a tenant that wait, and that hold a place.
    tenant_jobs: GaugeBy<2>,
    /// GPUs that a tenant's jobs hold.
    tenant_held: GaugeBy<1>,
    /// GPUs that a tenant's waiting jobs ask for.
    tenant_asked: GaugeBy<1>,
    queue_jobs: GaugeBy<3>,
    queue_held: GaugeBy<2>,
    queue_asked: GaugeBy<2>,
    starts: CounterBy<2>,
    preemptions: CounterBy<2>,
    waits: SecondsBy<2>,
}

/// The states in which jobs are counted.
const STATES: [&str; 2] = ["waiting", "placed"];

impl ShareMetrics {
    fn new(metrics: &Metrics) -> Self {
        let queue = ["tenant", "queue"];
        Self {
            tenant_jobs: metrics.gauge_by(
                "tenant_jobs",
                "Jobs of a tenant by what they do",
                ["tenant", "state"],
            ),
            tenant_held: metrics.gauge_by("tenant_gpus_held", "GPUs that a tenant's jobs hold", ["tenant"]),
            tenant_asked: metrics.gauge_by(
                "tenant_gpus_asked",
                "GPUs that a tenant's waiting jobs ask for",
                ["tenant"],
            ),
            queue_jobs: metrics
                .gauge_by("queue_jobs", "Jobs of a queue by what they do", ["tenant", "queue", "state"])
                .at_most(2 * BY_QUEUE),
            queue_held: metrics
                .gauge_by("queue_gpus_held", "GPUs that a queue's jobs hold", queue)
                .at_most(BY_QUEUE),
            queue_asked: metrics
                .gauge_by("queue_gpus_asked", "GPUs that a queue's waiting jobs ask for", queue)
                .at_most(BY_QUEUE),
            starts: metrics
                .counter_by("job_starts", "Attempts of jobs whose ranks were told to run", queue)
                .at_most(BY_QUEUE),
            preemptions: metrics
                .counter_by("job_preemptions", "Attempts of jobs that were stopped to make room", queue)
                .at_most(BY_QUEUE),
            waits: metrics
                .seconds_within(
                    "job_wait_seconds",
                    "Time from a job's submit to its first start",
                    queue,
                    &WAITS,
                )
                .at_most(BY_QUEUE),
        }
    }

    /// All numbers of this moment; who is not among them any more is forgotten.
    pub(crate) fn set(&self, figures: &Figures) {
        let (tenants, queues) = (&figures.tenants, &figures.queues);
        let by_tenant = |of: fn(&Figure) -> u64| {
            tenants.iter().map(move |(name, figure)| ([name.as_str()], number(of(figure))))
        };
        self.tenant_held.replace(by_tenant(|figure| figure.gpus_held));
        self.tenant_asked.replace(by_tenant(|figure| figure.gpus_asked));
        self.tenant_jobs.replace(tenants.iter().flat_map(|(name, figure)| {
            STATES.into_iter().zip(jobs(figure)).map(move |(state, count)| ([name.as_str(), state], count))
        }));
        let by_queue = |of: fn(&Figure) -> u64| {
            queues
                .iter()
                .map(move |(names, figure)| (names.each_ref().map(String::as_str), number(of(figure))))
        };
        self.queue_held.replace(by_queue(|figure| figure.gpus_held));
        self.queue_asked.replace(by_queue(|figure| figure.gpus_asked));
        self.queue_jobs.replace(queues.iter().flat_map(|([tenant, queue], figure)| {
            let counts = STATES.into_iter().zip(jobs(figure));
            counts.map(move |(state, count)| ([tenant.as_str(), queue.as_str(), state], count))
        }));
    }

    /// Counts what became of a job, under the name that its tenant and queue go by.
    pub(crate) fn count(&self, named: &Named, moved: &Moved) {
        let names = named.queue(&moved.tenant, moved.queue.as_ref());
        match moved.what {
            Move::Preempted => self.preemptions.inc(names),
            Move::Started(waited) => {
                self.starts.inc(names);
                if let Some(waited) = waited {
                    self.waits.observe(names, waited);
                }
            }
        }
    }
}

/// In the order of [`STATES`].
fn jobs(figure: &Figure) -> [i64; 2] {
    [number(figure.waiting), number(figure.placed)]
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl LoopMetrics {
    /// Registers them; once per process.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            queue: metrics.gauge_by("loop_queue", "Requests waiting for the loop", ["queue"]),
            events: metrics.counter("loop_events", "Events in committed batches"),
            commits: metrics.counter("loop_commits", "Committed batches"),
            failures: metrics.counter_by(
                "loop_commit_failures",
                "Batches that the store did not take",
                ["cause"],
            ),
            commit_seconds: metrics.seconds("loop_commit_seconds", "Time of one commit"),
            step_seconds: metrics.seconds("loop_step_seconds", "Time of deciding one batch"),
            refused: metrics.counter_by("loop_refused", "Events refused before the core saw them", ["cause"]),
            claims: metrics.counter_by(
                "node_claims_refused",
                "What of agents' reports was not taken over",
                ["verdict", "what"],
            ),
            certified: metrics.counter_by(
                "gang_certifications",
                "Gangs that were measured before their ranks start, by verdict: certified, warned, refused, remapped",
                ["verdict"],
            ),
            jobs: metrics.gauge_by("jobs", "Jobs by phase", ["phase"]),
            audit_records: metrics.gauge_by("audit_records", "Records that the audit log keeps", ["log"]),
            usage_dropped: metrics.counter(
                "usage_records_dropped",
                "Usage records dropped before their time: there were more than --usage-records",
            ),
            webhook_attempts: metrics.counter_by(
                "webhook_tries",
                "Attempts of webhooks' deliveries",
                ["outcome"],
            ),
            webhook_queue: metrics.gauge("webhook_queue", "Deliveries of webhooks that wait"),
            agents: metrics.gauge("agents_connected", "Agents connected"),
            slow_agents: metrics.counter("agents_slow", "Agents' streams ended because they did not read"),
            writable: metrics.gauge("store_writable", "1 while the store takes writes"),
            epoch: metrics.gauge("epoch", "The leader's fencing number"),
            leading: metrics.gauge("leading", "1 while this process leads"),
            leads: metrics.counter("leads", "Times that this process has taken the lead"),
            shares: ShareMetrics::new(metrics),
        }
    }

    /// This process leads from now on.
    pub(crate) fn lead(&self, epoch: u64) {
        self.writable.set(1);
        self.epoch.set(i64::try_from(epoch).unwrap_or(i64::MAX));
        self.leading.set(1);
        self.leads.inc();
    }

    /// It leads no more: what it has counted of the cluster is for another one to show.
    pub(crate) fn follow(&self) {
        self.leading.set(0);
        self.jobs.clear();
        self.agents.set(0);
        self.webhook_queue.set(0);
        self.queue.clear();
        self.shares.set(&Figures::default());
    }

    pub(crate) fn set_webhooks(&self, queued: usize) {
        self.webhook_queue.set(i64::try_from(queued).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_jobs(&self, counts: &[i64; 8]) {
        for (phase, count) in Phase::ALL.into_iter().zip(counts) {
            self.jobs.set([&phase.to_string()], *count);
        }
    }
}
