//! E2: rails cut in the middle of operations, judged as the engine's rows B4 and B6 judge theirs: what each cut added to the
//! operation that it hit, what is left while the rail is away, and how soon all of it is back.

use serde_json::{Value, json};

use super::line::{Goal, Line, is_bound, quantile, round};

/// Cuts that a run is made of.
const CUTS: f64 = 50.0;
/// Kinds of cut, their names, and how many milliseconds an operation may stand still for.
const KINDS: [(&str, &str, f64); 2] =
    [("carrier", "carrier lost", 25.0), ("silent", "silently dropped", 100.0)];

/// The kind of cut that cuts no rail: a cable over which nothing goes. What it costs is the machine's doing.
const NONE: &str = "none";

/// One operation; times are milliseconds of the guest's clock.
#[derive(Debug, Clone, Copy)]
struct Op {
    start: f64,
    ms: f64,
}

impl Op {
    fn end(self) -> f64 {
        self.start + self.ms
    }
}

/// One cut: its kind, when it was made and repaired, and when the next was made.
#[derive(Debug)]
struct Cut<'a> {
    kind: &'a str,
    at: f64,
    remediated: f64,
    next: f64,
}

fn operations(results: &[Value]) -> Vec<Op> {
    let Some(engine) = results.iter().find(|result| result["times_us"].is_array()) else { return Vec::new() };
    let list = |name: &str| engine[name].as_array().cloned().unwrap_or_default();
    let pairs = list("began_us").into_iter().zip(list("times_us"));
    let op =
        |(start, time): (Value, Value)| Some(Op { start: start.as_f64()? / 1e3, ms: time.as_f64()? / 1e3 });
    pairs.filter_map(op).collect()
}

fn made(results: &[Value]) -> Vec<Cut<'_>> {
    let cuts: Vec<&Value> = results.iter().filter(|result| result["cut"].is_string()).collect();
    let at = |cut: &Value| cut["at_ms"].as_f64();
    let cut = |(index, cut): (usize, &&'_ Value)| {
        let next = cuts.get(index + 1).and_then(|next| at(next)).unwrap_or(f64::INFINITY);
        Some((at(cut)?, cut["mended_ms"].as_f64()?, next))
    };
    let times = cuts.iter().enumerate().map(cut);
    let whole = times.zip(&cuts).filter_map(|(times, cut)| Some((times?, cut["cut"].as_str()?)));
    whole.map(|((at, remediated, next), kind)| Cut { kind, at, remediated, next }).collect()
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// The median of the last operations that had ended before a cut.
fn healthy(ops: &[Op], cut: &Cut<'_>) -> Option<f64> {
    const LAST: usize = 20;
    let before = ops.iter().rev().filter(|op| op.end() < cut.at).take(LAST);
    median(before.map(|op| op.ms))
}

/// The longest operation from the cut until it was repaired, less a healthy one.
fn added_stall(ops: &[Op], cut: &Cut<'_>) -> Option<f64> {
    let hit = ops.iter().filter(|op| op.end() >= cut.at && op.start < cut.remediated);
    Some(hit.map(|op| op.ms).reduce(f64::max)? - healthy(ops, cut)?)
}

/// Throughput while the rail was away and known to be, as a share of healthy, percent.
fn while_down(ops: &[Op], cut: &Cut<'_>) -> Option<f64> {
    let away = ops.iter().filter(|op| op.start > cut.at && op.end() < cut.remediated);
    // The first of them still finds out.
    let down = median(away.skip(1).map(|op| op.ms))?;
    Some(100.0 * healthy(ops, cut)? / down)
}

/// From the repair to the first of three operations that took, together, at most what healthy ones take at 95 %; if there is
/// none before the next cut, endless.
fn until_restored(ops: &[Op], cut: &Cut<'_>) -> Option<f64> {
    let most = 3.0 * healthy(ops, cut)? / 0.95;
    let after: Vec<&Op> = ops.iter().filter(|op| op.end() > cut.remediated && op.start < cut.next).collect();
    let good = after.windows(3).find(|three| three.iter().map(|op| op.ms).sum::<f64>() <= most);
    Some(good.map_or(f64::INFINITY, |three| (three[0].start - cut.remediated).max(0.0)))
}

/// A figure of cuts: its name, what measures it, its quantile, unit and goal.
type Figure = (&'static str, fn(&[Op], &Cut<'_>) -> Option<f64>, f64, &'static str, Goal);

/// Why a figure cannot show whether its goal is reached: it would not be if no rail were cut.
fn blurred(without: Option<f64>, goal: Goal) -> Option<String> {
    let missed = |without: &f64| match goal {
        Goal::AtLeast(limit) => *without < limit,
        Goal::AtMost(limit) => *without > limit,
    };
    without
        .filter(missed)
        .map(|figure| format!("where no rail is cut it is {figure}: the guest itself is not steadier"))
}

/// All lines of the row.
pub(super) fn lines(results: &[Value]) -> Vec<Line> {
    let (ops, cuts) = (operations(results), made(results));
    let number = |name: &str| results.iter().find_map(|result| result[name].as_f64());
    let busy = number("busy");
    let line = |case: String, value, unit, goal, sample, peers| Line {
        case,
        value,
        unit,
        goal,
        sample,
        busy,
        void: None,
        peers,
    };
    let rails = || cuts.iter().filter(|cut| cut.kind != NONE);
    let survived = ops.last().map(|last| rails().filter(|cut| cut.remediated < last.end()).count() as f64);
    let shaped = number("shaped").map(round);
    let about = json!({"operations": ops.len(), "Mbit/s shaped": shaped, "errors": number("errors")});
    let wrong = number("mismatches");
    let mut lines = vec![
        line(
            "cuts survived, 4 rails n=2, 0 errors".into(),
            survived,
            "cuts",
            Goal::AtLeast(CUTS),
            vec![],
            about,
        ),
        line(
            "wrong elements, every one of every result checked".into(),
            wrong,
            "elements",
            Goal::AtMost(0.0),
            vec![],
            json!({}),
        ),
    ];
    for (kind, name, most) in KINDS {
        let of = |kind: &str, measure: fn(&[Op], &Cut<'_>) -> Option<f64>| {
            let cuts = cuts.iter().filter(|cut| cut.kind == kind);
            let mut sample: Vec<f64> = cuts.filter_map(|cut| measure(&ops, cut)).collect();
            sample.sort_by(f64::total_cmp);
            sample
        };
        let figures: [Figure; 3] = [
            ("added stall p99", added_stall, 0.99, "ms", Goal::AtMost(most)),
            ("throughput while down, of healthy", while_down, 0.5, "%", Goal::AtLeast(73.0)),
            ("mended: until 95 % of the old rate, slowest", until_restored, 1.0, "ms", Goal::AtMost(500.0)),
        ];
        for (what, measure, q, unit, goal) in figures {
            let (sample, without) = (of(kind, measure), of(NONE, measure));
            let without = quantile(&without, q).map(round);
            let peers = json!({"p50": quantile(&sample, 0.5).map(round), "no rail cut": without});
            let value = quantile(&sample, q);
            let mut line = line(format!("{name}: {what}"), value, unit, goal, sample, peers);
            line.void = is_bound(busy).or_else(|| blurred(without, goal));
            lines.push(line);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{super::said, *};

    /// What a guest says of operations of these lengths in a row, and of cuts.
    fn run(ms: &[u64], cuts: &[(&str, u64, u64)], busy: f64) -> Vec<Value> {
        let starts: Vec<u64> = ms.iter().scan(0, |at, ms| Some(std::mem::replace(at, *at + ms))).collect();
        let us = |list: &[u64]| list.iter().map(|ms| ms * 1000).collect::<Vec<_>>();
        let engine = json!({"mismatches": 0, "times_us": us(ms), "began_us": us(&starts)});
        let mut text: Vec<String> = cuts
            .iter()
            .map(|(kind, at, remediated)| {
                format!("result {}", json!({"cut": kind, "at_ms": at, "mended_ms": remediated}))
            })
            .collect();
        text.push(format!("result {engine}"));
        text.push(format!("result {}", json!({"busy": busy, "shaped": 160, "errors": 0})));
        said(&text.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn line(lines: &[Line], case: &str) -> Value {
        lines.iter().find(|line| line.case == case).unwrap().json("E2")
    }

    #[test]
    fn a_cut_costs_a_stall_and_a_quarter_until_it_is_mended() {
        // Cut at 35, mended at 120: 15 longer, then 13 each; 10 again from 130 on.
        let ms = [10, 10, 10, 25, 13, 13, 13, 13, 13, 10, 10, 10, 10];
        let lines = lines(&run(&ms, &[("carrier", 35, 119)], 1.0));
        let figure = |case: &str| line(&lines, case)["value"].as_f64().unwrap();
        assert_eq!(figure("carrier lost: added stall p99"), 15.0);
        assert_eq!(figure("carrier lost: throughput while down, of healthy"), 76.923);
        assert_eq!(figure("carrier lost: mended: until 95 % of the old rate, slowest"), 1.0);
        assert_eq!(line(&lines, "silently dropped: added stall p99")["holds"], json!(false), "none was made");
        let survived = line(&lines, "cuts survived, 4 rails n=2, 0 errors");
        assert_eq!((&survived["value"], &survived["holds"]), (&json!(1.0), &json!(false)), "one of fifty");
    }

    #[test]
    fn a_rail_that_does_not_come_back_is_no_rail_that_is_back() {
        let ms = [10, 10, 10, 25, 13, 13, 13, 13, 13, 13];
        for (busy, holds) in [(1.0, json!(false)), (1.9, json!("void"))] {
            let lines = lines(&run(&ms, &[("silent", 35, 90)], busy));
            assert_eq!(
                line(&lines, "silently dropped: mended: until 95 % of the old rate, slowest")["holds"],
                holds
            );
        }
    }

    #[test]
    fn what_no_cut_costs_too_is_the_machines() {
        // The same stall of 30 where a rail is cut at 35, and where none is at 135.
        let ms = [10, 10, 10, 40, 10, 10, 10, 10, 10, 10, 40, 10, 10, 10];
        for (kind, holds, survived) in [("none", json!("void"), 1.0), ("carrier", json!(false), 2.0)] {
            let lines = lines(&run(&ms, &[("carrier", 35, 75), (kind, 135, 175)], 1.0));
            let stall = line(&lines, "carrier lost: added stall p99");
            assert_eq!((&stall["value"], &stall["holds"]), (&json!(30.0), &holds), "{stall}");
            assert_eq!(line(&lines, "cuts survived, 4 rails n=2, 0 errors")["value"], json!(survived));
        }
    }

    #[test]
    fn a_run_that_says_nothing_holds_nothing() {
        assert!(lines(&[]).iter().all(|line| !line.holds()));
    }
}
