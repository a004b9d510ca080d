//! A line of a row, and the figures that lines are made of.

use serde_json::{Value, json};

/// A guest with so many of its two processors busy is limited by them, and not by its shaped rails.
const BUSY: f64 = 1.8;

/// What a case should reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// One line of a row.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) case: String,
    /// Nothing was measured: nothing holds.
    pub(super) value: Option<f64>,
    pub(super) unit: &'static str,
    pub(super) goal: Goal,
    /// The measurements behind it.
    pub(super) sample: Vec<f64>,
    /// Of the guest's two processors.
    pub(super) busy: Option<f64>,
    /// Why the figure says nothing, if it does not reach the goal.
    pub(super) void: Option<String>,
    /// Other figures of the same run.
    pub(super) peers: Value,
}

impl Line {
    /// Whether the goal is reached.
    pub(super) fn holds(&self) -> bool {
        self.value.is_some_and(|value| match self.goal {
            Goal::AtLeast(limit) => value >= limit,
            Goal::AtMost(limit) => value <= limit,
        })
    }

    pub(super) fn json(&self, row: &str) -> Value {
        let void = self.void.as_ref().filter(|_| !self.holds());
        let holds = if void.is_some() { json!("void") } else { json!(self.holds()) };
        let (Goal::AtLeast(goal) | Goal::AtMost(goal)) = self.goal;
        let mut peers = self.peers.clone();
        if let Some(why) = void {
            peers["void"] = json!(why);
        }
        json!({
            "bench": "verbs", "row": row, "case": self.case, "value": self.value.map(round), "unit": self.unit, "goal": goal,
            "holds": holds, "min": self.sample.iter().copied().reduce(f64::min).map(round),
            "max": self.sample.iter().copied().reduce(f64::max).map(round), "runs": self.sample.len(),
            "cpu": self.busy.map(round), "peers": peers,
        })
    }
}

pub(super) fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The numbers of one name among measurements, in order of size.
pub(super) fn numbers(results: &[Value], name: &str) -> Vec<f64> {
    let mut numbers: Vec<f64> = results.iter().filter_map(|result| result[name].as_f64()).collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The number below which the share `q` of sorted numbers lies (nearest rank).
pub(super) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// The figure that says that the emulated processors were the limit, if one does.
pub(super) fn is_bound(busy: Option<f64>) -> Option<String> {
    busy.filter(|&busy| busy >= BUSY).map(|busy| format!("{busy:.2} of the guest's 2 processors were busy"))
}
