//! What is counted of backups on a schedule. The series are there only where backups are configured, and so are the alerts on them.

use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use proto_model::Timestamp;
use proto_rpc::{Metrics, metrics::CounterBy};

/// Numbers of backups.
#[derive(Debug)]
pub struct BackupMetrics {
    made: CounterBy<1>,
    newest: Gauge,
    bytes: Gauge,
}

impl BackupMetrics {
    pub fn new(metrics: &Metrics, every: Duration) -> Self {
        let made =
            metrics.counter_by("backups", "Backups on the schedule, by result: success, failed", ["result"]);
        // Prometheus sees the first one only where there was a 0 before.
        for result in ["success", "failed"] {
            made.inc_by([result], 0);
        }
        let newest = metrics.gauge(
            "backup_last_success_timestamp_seconds",
            "When the newest backup in this controller's folder was begun, in Unix time; 0 where there is none",
        );
        let bytes = metrics.gauge("backup_bytes", "Size of the newest backup that this controller made");
        let planned =
            metrics.gauge("backup_every_seconds", "Time from one backup on the schedule to the next");
        planned.set(i64::try_from(every.as_secs()).unwrap_or(i64::MAX));
        Self { made, newest, bytes }
    }

    /// The newest one in the folder; none any more where it is empty.
    pub fn newest(&self, time: Option<Timestamp>) {
        let seconds = time.map_or(0, |time| time.0 / 1000);
        self.newest.set(i64::try_from(seconds).unwrap_or(i64::MAX));
    }

    /// One was made.
    pub fn made(&self, bytes: u64) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
        self.made.inc(["success"]);
    }

    /// One was due and was not made, or what is not needed any more could not be removed.
    pub fn failed(&self) {
        self.made.inc(["failed"]);
    }
}
