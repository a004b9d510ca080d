//! What the loop counts.

use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};
use proto_model::Phase;
use proto_rpc::{
    Metrics,
    metrics::{CounterBy, GaugeBy},
};

/// The loop's metrics; clones share them.
#[derive(Debug, Clone)]
pub struct LoopMetrics {
    /// Requests waiting, by queue.
    pub queue: GaugeBy<1>,
    /// Events per committed batch, as a sum; divide by `commits`.
    pub events: Counter,
    /// Committed batches.
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
    /// Jobs by phase.
    pub jobs: GaugeBy<1>,
    /// Records that the audit log keeps, by log.
    pub audit_records: GaugeBy<1>,
    /// Tries of webhooks' deliveries, by what became of them (delivered, failed, given-up, gone).
    pub webhook_tries: CounterBy<1>,
    /// Deliveries of webhooks that wait.
    pub webhook_queue: Gauge,
    /// Agents connected.
    pub agents: Gauge,
    /// Agents' streams ended because they did not read.
    pub slow_agents: Counter,
    /// 1 while the store takes writes.
    pub writable: Gauge,
    /// The leader's fencing number.
    pub epoch: Gauge,
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
            jobs: metrics.gauge_by("jobs", "Jobs by phase", ["phase"]),
            audit_records: metrics.gauge_by("audit_records", "Records that the audit log keeps", ["log"]),
            webhook_tries: metrics.counter_by("webhook_tries", "Tries of webhooks' deliveries", ["outcome"]),
            webhook_queue: metrics.gauge("webhook_queue", "Deliveries of webhooks that wait"),
            agents: metrics.gauge("agents_connected", "Agents connected"),
            slow_agents: metrics.counter("agents_slow", "Agents' streams ended because they did not read"),
            writable: metrics.gauge("store_writable", "1 while the store takes writes"),
            epoch: metrics.gauge("epoch", "The leader's fencing number"),
        }
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
