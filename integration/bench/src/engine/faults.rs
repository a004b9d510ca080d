//! B4 a rail cut in the middle of operations, B5 a lost rail's cost, B6 a rail that comes back.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use proto_random::Random;
use serde_json::{Map, Value, json};

use super::{
    Bench, Environment, Key, Who,
    group::{Group, Outcome, Span, Task},
    lab::{Cut, Lab},
    ours,
    series::line_about_rails,
};
use crate::report::{Goal, Line, Row, Sample, monotonic_ns, round};

const MIB: u64 = 1 << 20;
const OURS: Who = Who::Ours { rails: 4 };
/// Errors after which a row stops: the engine does not survive, and each further try would only cost time.
const ENOUGH_ERRORS: u32 = 3;
/// Longest time until a repaired rail is used again before the next cut; a proof of its own is B6.
const REJOIN: Duration = Duration::from_secs(8);
/// One operation of verified runs: small beside the stalls that are looked for.
const STEP: u64 = MIB;

/// The same faults in every run of the bench.
struct Choices(Random);

impl Choices {
    /// A number below `below`.
    fn next(&mut self, below: u64) -> u64 {
        self.0.below(below)
    }

    fn rail(&mut self, lab: &Lab, n: usize) -> (usize, usize) {
        (self.next(n as u64) as usize, self.next(lab.rails as u64) as usize)
    }

    fn pause(&mut self, most_ms: u64) {
        thread::sleep(Duration::from_millis(1 + self.next(most_ms)));
    }
}

/// Kinds of cut, their names, and how long an operation may stand still.
const CUTS: [(Cut, &str, f64); 2] =
    [(Cut::Carrier, "carrier lost", 25.0), (Cut::Silent, "silently dropped", 100.0)];

/// The results of many cuts.
#[derive(Default)]
struct Cuts {
    stalls: Vec<f64>,
    errors: Vec<String>,
    wrong: u64,
    busy: Vec<f64>,
}

/// Rails cut in the middle.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn cuts(row: &Row, bench: &Bench) -> Result<(), String> {
    let lab = match bench.lab() {
        Ok(lab) => lab,
        Err(reason) => {
            row.void("rail cut in the middle", &reason);
            return Ok(());
        }
    };
    let wanted = if bench.settings.quick { 20 } else { 200 };
    for (how, name, most_ms) in CUTS {
        let key = Key { who: OURS, place: Environment::Rails, n: 4 };
        let mut cuts = Cuts::default();
        let mut random = Choices(Random::new(how as u64 + 1));
        for turn in 0..wanted {
            eprint!("\rB4 {name}: cut {} of {wanted}, {} errors ", turn + 1, cuts.errors.len());
            one_cut(bench, lab, key, (how, random.rail(lab, key.n)), &mut random, &mut cuts)?;
            if cuts.errors.len() as u32 >= ENOUGH_ERRORS {
                break;
            }
        }
        eprintln!();
        let peers = if how == Cut::Carrier { peers_in_an_outage(bench, lab)? } else { json!({}) };
        report_cuts(row, (name, most_ms), cuts, peers);
        for n in [2, 4] {
            while_down(row, bench, lab, (how, name), n)?;
        }
    }
    Ok(())
}

/// Operations in a row; somewhere among them the rail is cut; then it is repaired and used again.
fn one_cut(
    bench: &Bench,
    lab: &Lab,
    key: Key,
    (how, (host, rail)): (Cut, (usize, usize)),
    random: &mut Choices,
    cuts: &mut Cuts,
) -> Result<(), String> {
    let task = Task { verify: true, warmup: 2, ..Task::of(STEP, 28) };
    let run = |group: &mut Group| {
        let running = group.begin(&task)?;
        thread::sleep(Duration::from_millis(100 + random.next(200)));
        let at = monotonic_ns();
        lab.cut(host, rail, how)?;
        Ok((at, group.end(running)?))
    };
    let done = bench.with(key, run);
    lab.remediate(host, rail, how)?;
    match done {
        Ok((at, outcome)) => {
            cuts.wrong += outcome.bad();
            cuts.busy.push(outcome.busy);
            cuts.errors.extend(outcome.errors().first().cloned());
            cuts.stalls.extend(added_stall(&outcome.spans(), at));
            if outcome.errors().is_empty() {
                return rejoined(bench, key);
            }
        }
        Err(error) => cuts.errors.push(error),
    }
    bench.end(key);
    Ok(())
}

/// The longest operation from the cut on, less the median of those before it.
fn added_stall(spans: &[Span], cut: u64) -> Option<f64> {
    let before = Sample::new(spans.iter().filter(|span| span.end < cut).map(|span| span.ms()).collect());
    let longest = spans.iter().filter(|span| span.end >= cut).map(|span| span.ms()).reduce(f64::max)?;
    (before.len() > 0).then(|| longest - before.median())
}

/// Waits until the engines say that all rails are up, or, where they cannot say, for a while.
fn rejoined(bench: &Bench, key: Key) -> Result<(), String> {
    let all_up = |controls: &[std::path::PathBuf]| -> Option<bool> {
        let mut up = true;
        for control in controls {
            let reply = ours::ask(control, &json!({"op": "rails"})).ok()?;
            let rails = reply["rails"].as_array()?;
            up &= rails.iter().all(|rail| rail["state"] == "up");
        }
        Some(up)
    };
    bench.with(key, |group| {
        let controls = group.controls.clone();
        let deadline = integration_harness::Deadline::after(REJOIN);
        loop {
            match all_up(&controls) {
                Some(true) => return Ok(()),
                Some(false) if !deadline.passed() => thread::sleep(Duration::from_millis(20)),
                Some(false) => return Ok(()),
                None => {
                    thread::sleep(Duration::from_millis(1500));
                    return Ok(());
                }
            }
        }
    })
}

fn report_cuts(row: &Row, (name, most_ms): (&str, f64), cuts: Cuts, peers: Value) {
    let busy = Sample::new(cuts.busy).median();
    let count = cuts.stalls.len();
    let lost = Sample::new(vec![cuts.errors.len() as f64]);
    let mut why = Map::new();
    for (at, error) in cuts.errors.iter().enumerate() {
        why.insert(format!("error_{at}"), json!(error));
    }
    let why = Value::Object(why);
    let case = format!("{name}: errors, n=4, 1 MiB in a row, {count} cuts survived");
    let (value, goal) = (lost.median(), Goal::AtMost(0.0));
    row.line(&Line { case: &case, value, unit: "errors", goal, sample: &lost, cpu: busy, peers: why });
    let wrong = Sample::new(vec![cuts.wrong as f64]);
    let case = format!("{name}: wrong elements, every one of every result checked");
    let (value, unit, empty) = (wrong.median(), "elements", json!({}));
    row.line(&Line { case: &case, value, unit, goal, sample: &wrong, cpu: busy, peers: empty });
    let case = format!("{name}: added stall p99");
    if count == 0 {
        row.failed(&case, "no cut was survived");
        return;
    }
    let stalls = Sample::new(cuts.stalls);
    let mut peers = peers;
    for (name, q) in [("p50_ms", 0.5), ("p90_ms", 0.9)] {
        peers[name] = round(stalls.quantile(q));
    }
    let (value, goal) = (stalls.quantile(0.99), Goal::AtMost(most_ms));
    line_about_rails(row, &Line { case: &case, value, unit: "ms", goal, sample: &stalls, cpu: busy, peers });
}

/// How long the others stand still when a rail is away for three seconds.
fn peers_in_an_outage(bench: &Bench, lab: &Lab) -> Result<Value, String> {
    const OUTAGE: Duration = Duration::from_secs(3);
    let mut stalls = Map::new();
    if bench.settings.quick {
        return Ok(Value::Object(stalls));
    }
    for (label, who) in [("gloo_split", Who::Gloo), ("openmpi", Who::OpenMpi)] {
        eprintln!("B4: {label} in an outage of 3 s");
        let key = Key { who, place: Environment::Rails, n: 4 };
        let task = Task { verify: true, split: 4, limit: Duration::from_secs(45), ..Task::of(STEP, 100) };
        let done = bench.with(key, |group| {
            let running = group.begin(&task)?;
            thread::sleep(Duration::from_millis(500));
            let at = monotonic_ns();
            lab.cut(1, 2, Cut::Carrier)?;
            thread::sleep(OUTAGE);
            lab.remediate(1, 2, Cut::Carrier)?;
            Ok((at, group.end(running)?))
        });
        lab.remediate(1, 2, Cut::Carrier)?;
        let said = match done {
            Ok((at, outcome)) => match (outcome.errors().first(), added_stall(&outcome.spans(), at)) {
                (Some(error), _) => json!(format!("failed: {error}")),
                (None, Some(ms)) => json!({"value": ms, "min": ms, "max": ms}),
                (None, None) => json!("no operation after the cut"),
            },
            Err(error) => json!(error),
        };
        stalls.insert(label.to_owned(), said);
        // Whatever state it is in, the next row starts it anew.
        bench.end(key);
    }
    stalls.insert("unit".to_owned(), json!("ms added by an outage of 3 s"));
    Ok(Value::Object(stalls))
}

/// Throughput with a rail of one host away, against healthy, turn by turn.
fn while_down(row: &Row, bench: &Bench, lab: &Lab, (how, name): (Cut, &str), n: usize) -> Result<(), String> {
    let case = format!("{name}: throughput while down, 16 MiB n={n}, of healthy");
    match healthy_and_down(bench, lab, how, n) {
        Ok(turns) => {
            let share =
                turns.iter().map(|(healthy, down)| 100.0 * healthy.mean_s() / down.mean_s()).collect();
            ratio_line(row, &case, (share, "%", Goal::AtLeast(73.0)), &turns);
        }
        Err(error) => row.failed(&case, &error),
    }
    Ok(())
}

type Turns = Vec<(Outcome, Outcome)>;

fn healthy_and_down(bench: &Bench, lab: &Lab, how: Cut, n: usize) -> Result<Turns, String> {
    let key = Key { who: OURS, place: Environment::Rails, n };
    let task = Task { warmup: 4, ..Task::of(16 * MIB, 6) };
    let mut turns = Vec::new();
    for _ in 0..bench.repetitions() {
        let healthy = bench.with(key, |group| group.run(&task));
        let cut = lab.cut(1, 2, how);
        let down = healthy.and_then(|healthy| {
            cut?;
            Ok((healthy, bench.with(key, |group| group.run(&task))?))
        });
        lab.remediate(1, 2, how)?;
        match down {
            Ok(turn) => turns.push(turn),
            Err(error) => {
                bench.end(key);
                return Err(error);
            }
        }
        rejoined(bench, key)?;
    }
    Ok(turns)
}

fn ratio_line(row: &Row, case: &str, (values, unit, goal): (Vec<f64>, &str, Goal), turns: &Turns) {
    let sample = Sample::new(values);
    let bus = |outcome: fn(&(Outcome, Outcome)) -> &Outcome| {
        Sample::new(turns.iter().map(|turn| outcome(turn).bus() / 1e6).collect()).spread()
    };
    let peers = json!({
        "unit": "MB/s bus bandwidth", "ours_healthy": bus(|turn| &turn.0), "ours_down": bus(|turn| &turn.1),
    });
    let cpu = Sample::new(turns.iter().map(|turn| turn.1.busy).collect()).median();
    let line = Line { case, value: sample.median(), unit, goal, sample: &sample, cpu, peers };
    line_about_rails(row, &line);
}

/// A rail of one of four hosts is away: what all lose.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn degraded(row: &Row, bench: &Bench) -> Result<(), String> {
    const CASE: &str = "1 of 4 rails of one of 4 hosts lost, 16 MiB, time over healthy";
    let lab = match bench.lab() {
        Ok(lab) => lab,
        Err(reason) => {
            row.void(CASE, &reason);
            return Ok(());
        }
    };
    match healthy_and_down(bench, lab, Cut::Carrier, 4) {
        Ok(turns) => {
            let over = turns.iter().map(|(healthy, down)| down.mean_s() / healthy.mean_s()).collect();
            ratio_line(row, CASE, (over, "x", Goal::AtMost(1.10)), &turns);
        }
        Err(error) => row.failed(CASE, &error),
    }
    Ok(())
}

/// A rail that comes back, and rails that come and go.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn back(row: &Row, bench: &Bench) -> Result<(), String> {
    let lab = match bench.lab() {
        Ok(lab) => lab,
        Err(reason) => {
            row.void("rail back", &reason);
            return Ok(());
        }
    };
    for (how, name, _) in CUTS {
        let case = format!("{name}, mended: until 95 % of the old rate, 1 MiB n=2, slowest of all returns");
        match returns(bench, lab, how) {
            Ok((times, busy)) => {
                let sample = Sample::new(times);
                let (value, goal) = (sample.quantile(1.0), Goal::AtMost(500.0));
                let peers = json!({"p50_ms": round(sample.median())});
                let line = Line { case: &case, value, unit: "ms", goal, sample: &sample, cpu: busy, peers };
                line_about_rails(row, &line);
            }
            Err(error) => row.failed(&case, &error),
        }
    }
    flaps(row, bench, lab)
}

/// Each time in milliseconds, and the busy cores.
fn returns(bench: &Bench, lab: &Lab, how: Cut) -> Result<(Vec<f64>, f64), String> {
    let key = Key { who: OURS, place: Environment::Rails, n: 2 };
    let mut random = Choices(Random::new(how as u64 + 11));
    let (mut times, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..bench.repetitions() * 2 {
        rejoined(bench, key)?;
        let task = Task { warmup: 10, ..Task::of(STEP, 60) };
        let healthy = Sample::new(
            bench.with(key, |group| group.run(&task))?.spans().into_iter().map(Span::ms).collect(),
        );
        let (host, rail) = random.rail(lab, key.n);
        let run = |group: &mut Group| {
            lab.cut(host, rail, how)?;
            thread::sleep(Duration::from_millis(300));
            let running = group.begin(&Task { warmup: 10, ..Task::of(STEP, 250) })?;
            thread::sleep(Duration::from_millis(700));
            lab.remediate(host, rail, how)?;
            Ok((monotonic_ns(), group.end(running)?))
        };
        let done = bench.with(key, run);
        lab.remediate(host, rail, how)?;
        let (remediated, outcome) = done.inspect_err(|_| bench.end(key))?;
        if let Some(error) = outcome.errors().first() {
            bench.end(key);
            return Err(error.clone());
        }
        busy.push(outcome.busy);
        times.push(until_restored(&outcome.spans(), remediated, healthy.median()).unwrap_or(f64::INFINITY));
    }
    Ok((times, Sample::new(busy).median()))
}

/// From the repair to the end of the first of three operations that took, together, at most what healthy ones take at 95 %.
fn until_restored(spans: &[Span], remediated: u64, healthy_ms: f64) -> Option<f64> {
    let after: Vec<&Span> = spans.iter().filter(|span| span.end > remediated).collect();
    let good = |three: &[&Span]| three.iter().map(|s| s.ms()).sum::<f64>() <= 3.0 * healthy_ms / 0.95;
    let at = after.windows(3).position(good)?;
    Some(after[at].start.saturating_sub(remediated) as f64 / 1e6)
}

/// Rails of random hosts come and go while verified operations run.
fn flaps(row: &Row, bench: &Bench, lab: &Lab) -> Result<(), String> {
    let wanted: u32 = if bench.settings.quick { 60 } else { 1000 };
    let key = Key { who: OURS, place: Environment::Rails, n: 4 };
    let done = AtomicU32::new(0);
    let stop = AtomicU32::new(0);
    let (mut operations, mut wrong, mut busy) = (0, 0, Vec::new());
    let mut error = None;
    thread::scope(|scope| -> Result<(), String> {
        let flapping = scope.spawn(|| flap(lab, key.n, wanted, &done, &stop));
        while done.load(Ordering::Relaxed) < wanted && !flapping.is_finished() {
            eprint!("\rB6: flap {} of {wanted} ", done.load(Ordering::Relaxed));
            let task = Task { verify: true, ..Task::of(STEP, 40) };
            let outcome = bench.with(key, |group| {
                let running = group.begin(&task)?;
                group.end(running)
            });
            match outcome {
                Ok(outcome) => {
                    operations += outcome.operations();
                    wrong += outcome.bad();
                    busy.push(outcome.busy);
                    error = outcome.errors().first().cloned();
                }
                Err(lost) => error = Some(lost),
            }
            if error.is_some() {
                stop.store(1, Ordering::Relaxed);
                bench.end(key);
                break;
            }
        }
        eprintln!();
        flapping.join().unwrap_or_else(|_| Err("the flapping thread ended".to_owned()))
    })?;
    let survived = done.load(Ordering::Relaxed);
    let case = format!("{wanted} random flaps in one run, n=4, errors and wrong elements");
    let sample = Sample::new(vec![wrong as f64 + if error.is_some() { 1.0 } else { 0.0 }]);
    let peers = json!({"flaps": survived, "verified_operations": operations, "wrong": wrong, "error": error});
    let (value, goal, cpu) = (sample.median(), Goal::AtMost(0.0), Sample::new(busy).median());
    row.line(&Line { case: &case, value, unit: "errors", goal, sample: &sample, cpu, peers });
    Ok(())
}

fn flap(lab: &Lab, n: usize, wanted: u32, done: &AtomicU32, stop: &AtomicU32) -> Result<(), String> {
    let mut random = Choices(Random::new(4242));
    while done.load(Ordering::Relaxed) < wanted && stop.load(Ordering::Relaxed) == 0 {
        let (host, rail) = random.rail(lab, n);
        let how = if random.next(2) == 0 { Cut::Carrier } else { Cut::Silent };
        lab.cut(host, rail, how)?;
        random.pause(80);
        lab.remediate(host, rail, how)?;
        random.pause(80);
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ms: &[u64]) -> Vec<Span> {
        let mut at = 0;
        let span = |ms: &u64| {
            let start = at;
            at += ms * 1_000_000;
            Span { start, end: at }
        };
        ms.iter().map(span).collect()
    }

    #[test]
    fn a_stall_is_what_the_longest_adds() {
        assert_eq!(added_stall(&spans(&[10, 10, 10, 35, 13, 13]), 31_000_000), Some(25.0));
        assert_eq!(added_stall(&spans(&[10]), 0), None, "nothing to compare with");
    }

    #[test]
    fn restored_is_where_three_are_fast_again() {
        let spans = spans(&[13, 13, 13, 10, 13, 10, 10, 10]);
        assert_eq!(until_restored(&spans, 20_000_000, 10.0), Some(42.0));
        assert_eq!(until_restored(&spans[..4], 20_000_000, 10.0), None);
    }
}
