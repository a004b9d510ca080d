//! Repetitions of several contenders in turn, and what is computed from them.

use std::{collections::BTreeMap, thread, time::Duration};

use integration_harness::Deadline;
use serde_json::{Map, Value, json};

use super::{
    Bench, Environment, Key, Who,
    group::{Outcome, Task},
    roof::{self, Roof},
};
use crate::report::{Cpu, Goal, Line, Row, Sample, round};

/// Above this share of all cores a figure says more about the machine than about the rails.
const MOST_BUSY: f64 = 0.6;
/// Cores that others than the bench may use where the bench itself may use all.
const MOST_FOREIGN: f64 = 0.3;
/// How long the machine is watched while nothing of the bench runs.
const WATCH: Duration = Duration::from_millis(300);
/// Longest wait for a quiet moment before a turn.
const PATIENCE: Duration = Duration::from_secs(15);

/// One that takes part.
#[derive(Clone, Copy)]
pub struct Contender {
    /// Its name in the report.
    pub label: &'static str,
    /// The library that is measured.
    pub who: Who,
    /// What its ranks do in each repetition.
    pub task: Task,
}

/// All repetitions of all contenders in one case.
pub struct Series {
    runs: BTreeMap<&'static str, Vec<Outcome>>,
    roofs: Vec<Roof>,
    absent: BTreeMap<&'static str, String>,
    foreign: Vec<f64>,
}

impl Series {
    /// Lets the contenders take turns; with the roof in each turn where `roof` says for how many seconds. Who fails is
    /// absent from then on. The error is the reason for void rows.
    ///
    /// # Errors
    /// Why no contender can be measured: the namespaces cannot be made, or the roof fails.
    pub fn take(
        bench: &Bench,
        (place, n): (Environment, usize),
        contenders: &[Contender],
        roof: Option<f64>,
    ) -> Result<Self, String> {
        bench.lab()?;
        let (runs, absent) = (BTreeMap::new(), BTreeMap::new());
        let mut series = Self { runs, roofs: Vec::new(), absent, foreign: Vec::new() };
        for contender in contenders {
            // Programs start before anything is timed.
            let key = Key { who: contender.who, place, n };
            let task = Task { iterations: 1, warmup: 0, ..contender.task };
            let warm = bench.with(key, |group| group.run(&task));
            series.note(contender.label, warm.map(drop));
        }
        for turn in 0..bench.repetitions() {
            eprint!("\rn={n} turn {} of {} ", turn + 1, bench.repetitions());
            series.turn(bench, (place, n), contenders, roof)?;
        }
        eprintln!();
        Ok(series)
    }

    fn turn(
        &mut self,
        bench: &Bench,
        (place, n): (Environment, usize),
        contenders: &[Contender],
        roof: Option<f64>,
    ) -> Result<(), String> {
        self.foreign.push(quiet_moment());
        if let Some(seconds) = roof {
            let key = Key { who: Who::Roof, place, n };
            self.roofs.push(bench.with(key, |group| roof::measure(group, seconds))?);
        }
        for contender in contenders {
            if self.absent.contains_key(contender.label) {
                continue;
            }
            let key = Key { who: contender.who, place, n };
            let done = bench.with(key, |group| group.run(&contender.task));
            let done = done.map(|outcome| self.runs.entry(contender.label).or_default().push(outcome));
            self.note(contender.label, done);
        }
        Ok(())
    }

    fn note(&mut self, label: &'static str, done: Result<(), String>) {
        if let Err(error) = done {
            self.absent.insert(label, error);
        }
    }

    /// Why one is absent.
    pub fn absence(&self, label: &str) -> Option<&str> {
        self.absent.get(label).map(String::as_str)
    }

    /// One figure of one contender, in every repetition.
    pub fn sample(&self, label: &str, figure: impl Fn(&Outcome) -> f64) -> Sample {
        Sample::new(self.runs.get(label).into_iter().flatten().map(figure).collect())
    }

    /// One contender's figure over another's, repetition by repetition.
    pub fn ratio(&self, label: &str, other: &str, figure: impl Fn(&Outcome) -> f64) -> Sample {
        let all = |label: &str| self.runs.get(label).into_iter().flatten();
        Sample::new(all(label).zip(all(other)).map(|(one, two)| figure(one) / figure(two)).collect())
    }

    /// Bus bandwidth as a share of the roof in the same repetition, in percent.
    pub fn share_of_roof(&self, label: &str) -> Sample {
        let runs = self.runs.get(label).into_iter().flatten();
        Sample::new(runs.zip(&self.roofs).map(|(run, roof)| 100.0 * run.bus() / roof.mean).collect())
    }

    /// The best of the others, but for those left out, by a figure of which more or less is better.
    pub fn best(
        &self,
        figure: impl Fn(&Outcome) -> f64,
        more: bool,
        without: &[&str],
    ) -> Option<&'static str> {
        let wanted = |label: &&str| !label.starts_with("ours") && !without.contains(label);
        let others = self.runs.keys().copied().filter(wanted);
        let rank = |label: &&str| self.sample(label, &figure).median() * if more { 1.0 } else { -1.0 };
        others.max_by(|a, b| rank(a).total_cmp(&rank(b)))
    }

    /// The median of a figure of all who took part.
    pub fn each(&self, figure: impl Fn(&Outcome) -> f64) -> Value {
        let one = |label: &&'static str| ((*label).to_owned(), round(self.sample(label, &figure).median()));
        Value::Object(self.runs.keys().map(one).collect())
    }

    /// A figure of all who took part, the reasons of those who did not, and the load that was not ours.
    pub fn peers(&self, unit: &str, figure: impl Fn(&Outcome) -> f64) -> Value {
        let mut peers = Map::new();
        peers.insert("unit".to_owned(), json!(unit));
        for label in self.runs.keys() {
            peers.insert((*label).to_owned(), self.sample(label, &figure).spread());
        }
        for (label, reason) in &self.absent {
            peers.insert((*label).to_owned(), json!(format!("absent: {reason}")));
        }
        if !self.roofs.is_empty() {
            let roof = Sample::new(self.roofs.iter().map(|roof| roof.mean / 1e6).collect());
            peers.insert("roof_MBps".to_owned(), roof.spread());
        }
        peers.insert("foreign_cores".to_owned(), round(Sample::new(self.foreign.clone()).median()));
        Value::Object(peers)
    }

    /// Median of the machine's busy cores while one was measured.
    pub fn busy(&self, label: &str) -> f64 {
        self.sample(label, |outcome| outcome.busy).median()
    }

    /// Prints one line about ours. It is void where the processors were too busy, failed where ours has no figure.
    pub fn line(&self, row: &Row, case: &str, figure: Figure<'_>) {
        if let Some(reason) = self.absence("ours") {
            row.failed(case, reason);
            return;
        }
        let cpu = self.busy("ours");
        let Figure { sample, unit, goal, peers, may_be_busy } = figure;
        let line = Line { case, value: sample.median(), unit, goal, sample, cpu, peers };
        let spoilt = if may_be_busy { self.others_busy() } else { too_busy(cpu) };
        match spoilt {
            _ if sample.len() == 0 => row.spoilt(&line, "what it is compared with is absent"),
            Some(why) => row.spoilt(&line, &why),
            None => row.line(&line),
        }
    }

    /// Says so where something else than the bench used the processors.
    pub fn others_busy(&self) -> Option<String> {
        let foreign = Sample::new(self.foreign.clone()).median();
        let text =
            || format!("{foreign:.2} cores were busy with something else; at most {MOST_FOREIGN} may be");
        (foreign > MOST_FOREIGN).then(text)
    }
}

/// Prints a line about rails: void where the processors were too busy for a figure.
pub fn line_about_rails(row: &Row, line: &Line) {
    match too_busy(line.cpu) {
        Some(why) => row.spoilt(line, &why),
        None => row.line(line),
    }
}

/// Says so where the processors were busy beyond what a measurement of rails allows.
pub fn too_busy(busy: f64) -> Option<String> {
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    (busy > MOST_BUSY * cores)
        .then(|| format!("{busy:.2} of {cores} cores were busy; at most {:.0} % may be", MOST_BUSY * 100.0))
}

/// Waits, for a while, until nobody else uses the processors; gives the cores that others use all the same.
fn quiet_moment() -> f64 {
    let deadline = Deadline::after(PATIENCE);
    loop {
        let cpu = Cpu::start();
        thread::sleep(WATCH);
        let foreign = cpu.cores();
        if foreign <= MOST_FOREIGN || deadline.passed() {
            return foreign;
        }
    }
}

/// What a line says.
pub struct Figure<'a> {
    /// All measurements of the figure.
    pub sample: &'a Sample,
    /// The unit of the measurements.
    pub unit: &'a str,
    /// What they should be.
    pub goal: Goal,
    /// The figures of other libraries, to be shown beside it.
    pub peers: Value,
    /// It keeps the processors busy itself; only what others use spoils it.
    pub may_be_busy: bool,
}
