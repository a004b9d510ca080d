//! What a benchmark found, for programs and for people.

use std::fmt::Write as _;

use node_agent_client::OpKind;
use serde::{Deserialize, Serialize};

use super::options::{Options, Plan, SEND_RECV};

/// Result of one benchmark.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The operation's name, as on the command line (`all-reduce`, `send-recv`, ...).
    pub op: String,
    /// Bytes of the larger side of the operation on each rank.
    pub bytes: u64,
    /// The elements' type, by its name (`f32`, ...).
    pub dtype: String,
    /// Reduction, where the operation has one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reduce: Option<String>,
    /// Number of ranks that took part.
    pub ranks: u32,
    /// Number of timed repetitions.
    pub iterations: u32,
    /// Time of one repetition on the slowest rank, in microseconds.
    pub time_us: Times,
    /// Bytes over median time, in 10^9 bits per second.
    pub alg_bw_gbps: f64,
    /// The same times the share of bytes that must cross a rank's link.
    pub bus_bw_gbps: f64,
    /// Every element of every result was checked, and is right.
    pub verified: bool,
    /// Elements that were wrong, on all ranks together.
    pub mismatches: u64,
    /// Bytes on each rail during the timed repetitions, on all nodes of the job together.
    pub rails: Vec<RailReport>,
}

/// Spread of a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// The least of the repetitions' times, in microseconds.
    pub min: f64,
    /// The median of the repetitions' times, in microseconds.
    pub median: f64,
    /// The greatest of the repetitions' times, in microseconds.
    pub max: f64,
}

/// Bytes on one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RailReport {
    /// Number of the rail in the cluster.
    pub rail: u16,
    /// Bytes that this rank's node sent on the rail during the timed repetitions.
    pub tx_bytes: u64,
    /// Bytes that this rank's node received on the rail during the timed repetitions.
    pub rx_bytes: u64,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        plan: &Plan,
        nanoseconds: &[i64],
        mismatches: u64,
        rails: Vec<RailReport>,
    ) -> Self {
        let times = Times::of(nanoseconds);
        let bytes = plan.bytes(options.dtype);
        let alg_bw_gbps = if times.median > 0.0 { bytes as f64 * 8.0 / (times.median * 1000.0) } else { 0.0 };
        let reduces = matches!(options.op, OpKind::AllReduce | OpKind::ReduceScatter);
        Self {
            op: if matches!(options.op, OpKind::Send | OpKind::Recv) { SEND_RECV } else { options.op.name() }
                .into(),
            bytes,
            dtype: options.dtype.name().into(),
            reduce: reduces.then(|| options.reduce.name().into()),
            ranks: plan.size,
            iterations: options.iterations,
            time_us: times,
            alg_bw_gbps,
            bus_bw_gbps: alg_bw_gbps * bus_share(options.op, plan.size),
            verified: options.verify && mismatches == 0,
            mismatches,
            rails,
        }
    }

    /// A few lines for people.
    pub fn table(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} of {} bytes {}{} on {} ranks, {} repetitions",
            self.op,
            self.bytes,
            self.dtype,
            self.reduce.as_ref().map(|reduce| format!(" {reduce}")).unwrap_or_default(),
            self.ranks,
            self.iterations
        );
        let Times { min, median, max } = self.time_us;
        let _ = writeln!(text, "time [us]        min {min:.1}  median {median:.1}  max {max:.1}");
        let (alg, bus) = (self.alg_bw_gbps, self.bus_bw_gbps);
        let _ = writeln!(text, "bandwidth [Gb/s] algorithm {alg:.3}  bus {bus:.3}");
        for rail in &self.rails {
            let _ = writeln!(
                text,
                "rail {:<3} bytes   sent {}  received {}",
                rail.rail, rail.tx_bytes, rail.rx_bytes
            );
        }
        let verdict = match (self.verified, self.mismatches) {
            (true, _) => "verified: every element is right".to_owned(),
            (false, 0) => "not verified".to_owned(),
            (false, wrong) => format!("WRONG: {wrong} elements"),
        };
        let _ = writeln!(text, "{verdict}");
        text
    }
}

impl Times {
    fn of(nanoseconds: &[i64]) -> Self {
        let mut us: Vec<f64> = nanoseconds.iter().map(|ns| *ns as f64 / 1000.0).collect();
        us.sort_by(f64::total_cmp);
        let at = |n: usize| us.get(n).copied().unwrap_or(0.0);
        let last = us.len().saturating_sub(1);
        Self { min: at(0), median: f64::midpoint(at(last / 2), at(us.len() / 2)), max: at(last) }
    }
}

/// The share of the bytes that must cross a rank's link, as nccl-tests counts.
fn bus_share(op: OpKind, ranks: u32) -> f64 {
    let n = f64::from(ranks.max(1));
    match op {
        OpKind::AllReduce => 2.0 * (n - 1.0) / n,
        OpKind::AllGather | OpKind::ReduceScatter | OpKind::AllToAll => (n - 1.0) / n,
        OpKind::Broadcast | OpKind::Send | OpKind::Recv => 1.0,
        OpKind::Barrier => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_even_and_odd_counts() {
        let odd = Times::of(&[3000, 1000, 2000]);
        assert_eq!((odd.min, odd.median, odd.max), (1.0, 2.0, 3.0));
        assert!((Times::of(&[1000, 2000]).median - 1.5).abs() < 1e-9);
        assert!((Times::of(&[5000]).median - 5.0).abs() < 1e-9);
    }

    #[test]
    fn bus_bandwidth_is_that_of_nccl_tests() {
        assert!((bus_share(OpKind::AllReduce, 4) - 1.5).abs() < 1e-9);
        assert!((bus_share(OpKind::AllGather, 4) - 0.75).abs() < 1e-9);
        assert!(bus_share(OpKind::AllReduce, 1).abs() < 1e-9);
    }
}
