//! What a bench prints.

use std::{cell::RefCell, fs, time::Instant};

use serde_json::{Value, json};

/// Where the rows of one bench go.
pub struct Report {
    bench: String,
    json: bool,
    lines: RefCell<Vec<Value>>,
}

/// One row of a bench.
pub struct Row<'a> {
    report: &'a Report,
    id: &'a str,
}

/// Several measurements of the same thing.
pub struct Sample(Vec<f64>);

impl Sample {
    /// Takes the measurements in any order; needs at least one to say anything.
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// The value below which the share `q` of all measurements lies (nearest rank).
    pub fn quantile(&self, q: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        let index = (q * self.0.len() as f64).ceil() as usize;
        self.0.get(index.saturating_sub(1).min(last)).copied().unwrap_or(f64::NAN)
    }

    /// The median of the measurements.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Middle, least and greatest, for a line's peers.
    pub fn spread(&self) -> Value {
        json!({"value": round(self.median()), "min": round(self.quantile(0.0)), "max": round(self.quantile(1.0))})
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// What a case should reach.
#[derive(Clone, Copy)]
pub enum Goal {
    /// The value is at most this.
    AtMost(f64),
    /// The value is at least this.
    AtLeast(f64),
    /// Neither less than the first nor more than the second.
    Between(f64, f64),
    /// There is no goal: the value is only shown.
    None,
}

impl Goal {
    fn reported(self) -> Value {
        match self {
            Self::AtMost(limit) | Self::AtLeast(limit) => json!(limit),
            Self::Between(least, most) => json!([least, most]),
            Self::None => Value::Null,
        }
    }
}

/// One line of the report: a figure with its goal.
pub struct Line<'a> {
    /// What the case varied, as text.
    pub case: &'a str,
    /// The figure, in `unit`.
    pub value: f64,
    /// The unit of the figure.
    pub unit: &'a str,
    /// What it should be.
    pub goal: Goal,
    /// All measurements behind it.
    pub sample: &'a Sample,
    /// Busy cores of this machine while it was measured.
    pub cpu: f64,
    /// Other figures of the same run, side by side.
    pub peers: Value,
}

impl Report {
    /// An empty report of one bench; its lines are printed as `json` or as a table.
    pub fn new(bench: &str, json: bool) -> Self {
        Self { bench: bench.to_owned(), json, lines: RefCell::default() }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<Value> {
        self.lines.borrow().clone()
    }

    /// For one row of it.
    pub fn row<'a>(&'a self, id: &'a str) -> Row<'a> {
        Row { report: self, id }
    }
}

impl Row<'_> {
    /// The name of the row, such as `A1`.
    pub fn id(&self) -> &str {
        self.id
    }

    /// Prints one line, with whether its goal holds.
    pub fn line(&self, line: &Line) {
        let holds = match line.goal {
            Goal::AtMost(limit) => json!(line.value <= limit),
            Goal::AtLeast(limit) => json!(line.value >= limit),
            Goal::Between(least, most) => json!((least..=most).contains(&line.value)),
            Goal::None => Value::Null,
        };
        let goal = line.goal.reported();
        self.print(&json!({
            "bench": self.report.bench, "row": self.id, "case": line.case, "value": round(line.value),
            "unit": line.unit, "goal": goal, "holds": holds, "min": round(line.sample.quantile(0.0)),
            "max": round(line.sample.quantile(1.0)), "runs": line.sample.len(), "cpu": round(line.cpu),
            "peers": line.peers,
        }));
    }

    /// Prints one line whose conditions did not hold while it was measured: the figure says nothing.
    pub fn spoilt(&self, line: &Line, why: &str) {
        let mut peers = line.peers.clone();
        peers["void"] = json!(why);
        let goal = line.goal.reported();
        self.print(&json!({
            "bench": self.report.bench, "row": self.id, "case": line.case, "value": round(line.value),
            "unit": line.unit, "goal": goal, "holds": "void", "min": round(line.sample.quantile(0.0)),
            "max": round(line.sample.quantile(1.0)), "runs": line.sample.len(), "cpu": round(line.cpu),
            "peers": peers,
        }));
    }

    /// Says that what is measured did not do it at all.
    pub fn failed(&self, case: &str, why: &str) {
        self.print(&json!({
            "bench": self.report.bench, "row": self.id, "case": case, "value": null, "unit": null, "goal": null,
            "holds": false, "min": null, "max": null, "runs": 0, "cpu": null, "peers": {"reason": why},
        }));
    }

    /// Says that this machine cannot give the figure.
    pub fn void(&self, case: &str, why: &str) {
        self.print(&json!({
            "bench": self.report.bench, "row": self.id, "case": case, "value": null, "unit": null, "goal": null,
            "holds": "void", "min": null, "max": null, "runs": 0, "cpu": null, "peers": {"reason": why},
        }));
    }

    fn print(&self, line: &Value) {
        self.report.lines.borrow_mut().push(line.clone());
        if self.report.json {
            println!("{line}");
            return;
        }
        let (row, case, unit) =
            (self.id, line["case"].as_str().unwrap_or(""), line["unit"].as_str().unwrap_or(""));
        let holds = match &line["holds"] {
            Value::Bool(true) => "holds",
            Value::Bool(false) => "FALLS SHORT",
            Value::String(_) => "void",
            _ => "",
        };
        println!(
            "{row:<4} {case:<44} {:>12} {unit:<8} goal {:<8} {holds:<12} runs {} cpu {} {}",
            line["value"], line["goal"], line["runs"], line["cpu"], line["peers"]
        );
    }
}

/// Three digits, or null.
pub fn round(value: f64) -> Value {
    if value.is_finite() { json!((value * 1000.0).round() / 1000.0) } else { Value::Null }
}

/// The clock that does not jump, the same in all processes of this machine.
pub fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Counts busy cores of the whole machine, from /proc/stat.
pub struct Cpu {
    begin: Instant,
    busy: f64,
}

impl Cpu {
    /// Starts counting the time that processors are busy.
    pub fn start() -> Self {
        Self { begin: Instant::now(), busy: busy_seconds() }
    }

    /// Mean busy cores since the start.
    pub fn cores(&self) -> f64 {
        (busy_seconds() - self.busy) / self.begin.elapsed().as_secs_f64()
    }
}

/// Seconds that all cores together have not been idle; the kernel counts in hundredths (USER_HZ).
fn busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: Vec<f64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|n| n.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal
    let idle = ticks.get(3).unwrap_or(&0.0) + ticks.get(4).unwrap_or(&0.0);
    (ticks.iter().take(8).sum::<f64>() - idle) / 100.0
}
