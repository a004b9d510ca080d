//! What tests measured, and what is kept of it to be compared with.

use std::collections::BTreeMap;

use proto_wire::v1;
use serde::{Deserialize, Serialize};

use super::plan::{Phase, Test};

/// The result of one test.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The phase that the test is part of.
    pub phase: Phase,
    /// What it was, for example `pair`.
    pub test: String,
    /// Names of the servers that took part.
    pub nodes: Vec<String>,
    /// Bytes of a message, as asked for.
    pub bytes: u64,
    /// The port that was taken out meanwhile.
    pub lost: Option<Port>,
    /// What was measured, or why nothing was.
    pub outcome: Outcome,
}

/// One server's port of a rail.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Port {
    /// Name of the server.
    pub node: String,
    /// The rail, by number.
    pub rail: u32,
}

impl std::fmt::Display for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.node, self.rail)
    }
}

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// The test ran to its end.
    Measured(Measured),
    /// It did not, or not to its end: why.
    Failed(String),
}

/// What a job measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    /// Bus bandwidth in Gbit/s.
    pub gbps: f64,
    /// Times of one repetition in microseconds.
    pub median_us: f64,
    /// The longest time of one repetition, in microseconds.
    pub max_us: f64,
    /// Elements that were wrong.
    pub mismatches: u64,
    /// Every element was checked.
    pub verified: bool,
    /// Shares of the rails in `gbps`, in Gbit/s.
    pub rails: BTreeMap<u32, f64>,
    /// Of a test with a loss: how long until no data was on the port any more, in seconds; `None` if that never happened.
    pub drained_s: Option<f64>,
    /// Attempts before the one that ended well.
    pub restarts: u32,
}

impl Run {
    /// Of a test that did not run to its end.
    pub fn failed(test: &Test, why: String) -> Self {
        Self::of(test, Outcome::Failed(why))
    }

    /// Of a test, with its outcome.
    pub fn of(test: &Test, outcome: Outcome) -> Self {
        Self {
            phase: test.phase,
            test: test.name.to_owned(),
            nodes: test.nodes.clone(),
            bytes: test.bytes,
            lost: test.loses.clone().map(|(node, rail)| Port { node, rail }),
            outcome,
        }
    }

    /// What was measured, if something was.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(_) => None,
        }
    }

    /// Where, in short: servers of a pair, else how many.
    pub fn place(&self) -> String {
        match (&self.lost, self.nodes.as_slice()) {
            (Some(port), _) => port.to_string(),
            (None, [a, b]) => format!("{a}-{b}"),
            (None, nodes) => format!("{} nodes", nodes.len()),
        }
    }

    /// By what it is compared with an earlier one.
    pub fn name(&self) -> String {
        format!("{}/{}/{}/{}", self.phase.as_str(), self.test, self.place(), self.bytes)
    }
}

impl Measured {
    /// What a collective job reported. Rails share its bandwidth as they shared its bytes.
    pub fn of(result: &v1::CollectiveResult, restarts: u32) -> Self {
        let all: u64 = result.rails.iter().map(|rail| rail.tx_bytes).sum();
        let share = |rail: &v1::RailBytes| {
            let part = if all == 0 { 0.0 } else { rail.tx_bytes as f64 / all as f64 };
            (rail.rail, result.bus_bw_gbps * part)
        };
        Self {
            gbps: result.bus_bw_gbps,
            median_us: result.time_us_median,
            max_us: result.time_us_max,
            mismatches: result.mismatches,
            verified: result.verified,
            rails: result.rails.iter().map(share).collect(),
            drained_s: None,
            restarts,
        }
    }
}

/// What is kept to be compared with.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Baseline {
    /// When the baseline was measured.
    pub time: String,
    /// Bandwidth in Gbit/s by the names of runs.
    pub gbps: BTreeMap<String, f64>,
}

impl Baseline {
    /// The baseline of the runs that measured something.
    pub fn of(runs: &[Run], time: String) -> Self {
        let gbps = runs.iter().filter_map(|run| Some((run.name(), run.measured()?.gbps))).collect();
        Self { time, gbps }
    }
}
