//! Switches: F1, faults of both ends of cables that a check catches; F2, planners beside what was published; F3, the proof that lossless
//! traffic never waits for itself; F4, a rollout to real FRR under jobs; F5, what SONiC's own code says of what is rendered; F6, changes by hand
//! that are found; F7, who started a pause storm; F8, flows that have uplinks of their own; F9, what a large fabric costs to render, read,
//! compare and check.

mod counters;
mod rollout;
mod sonic;

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use controller_switch::{
    change,
    check::{Facts, Verdict, check},
    deadlock::{Answer, Clos, Routing, Run},
    ecmp,
    model::Switch,
    mutate, read, render,
    sample::Shape,
    state::{BufferModel, SwitchState},
    storm, vectors,
};
use proto_profile::QosProfile;
use serde_json::json;

use crate::report::{Cpu, Goal, Line, Row, Sample};

/// A row and what measures it; the flag asks for fewer.
pub type Measure = fn(&Row, bool) -> Result<(), String>;

/// All rows with what measures each.
pub const ROWS: [(&str, Measure); 9] = [
    ("F1", faults),
    ("F2", planners),
    ("F3", deadlock),
    ("F4", rollout::row),
    ("F5", sonic::judged),
    ("F6", drift),
    ("F7", storm),
    ("F8", paths),
    ("F9", large),
];

fn joined(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Faults made one at a time in a right fabric of 1,024 servers with 8 rails, and as many other right fabrics.
fn faults(row: &Row, quick: bool) -> Result<(), String> {
    let count: u32 = if quick { 100 } else { 1000 };
    let profile = QosProfile::default();
    let switches = Shape::default().switches().map_err(|why| why.to_string())?;
    let mut facts = Facts::desired(&profile, &switches, BufferModel::Static).map_err(|all| joined(&all))?;
    let ports: usize = switches.iter().map(|switch| switch.ports.len()).sum();
    let cpu = Cpu::start();
    let mut times = Vec::new();
    for _ in 0..5 {
        let begin = Instant::now();
        let verdict = check(&profile, &switches, &facts).map_err(|why| why.to_string())?;
        times.push(begin.elapsed().as_secs_f64());
        if let Verdict::Counterexample(found) = verdict {
            return Err(format!("a right fabric is found wrong: {found}"));
        }
    }
    let made = usize::try_from(count).unwrap_or(usize::MAX);
    let outcome = mutate::run(&profile, &switches, &mut facts, 1, made).map_err(|why| why.to_string())?;
    let mut wrong = Vec::new();
    for seed in 0..u64::from(count) {
        if !variant_is_right(seed)? {
            wrong.push(seed);
        }
    }
    let (cpu, sample) = (cpu.cores(), Sample::new(times));
    let peers =
        json!({"faults": count, "seed": 1, "missed": outcome.missed, "false_seeds": wrong, "ports": ports});
    let share = |found: usize| found as f64 * 100.0 / made as f64;
    let line = |case, value, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers: peers.clone() });
    };
    line("faults caught where they are", share(outcome.caught), "%", Goal::AtLeast(100.0));
    line("counterexamples that a replay confirms", share(outcome.confirmed), "%", Goal::AtLeast(100.0));
    line("right fabrics found wrong", wrong.len() as f64, "fabrics", Goal::AtMost(0.0));
    line("check of all ports", sample.median(), "s", Goal::AtMost(2.0));
    Ok(())
}

fn variant_is_right(seed: u64) -> Result<bool, String> {
    let variant = mutate::variant(seed).map_err(|why| why.to_string())?;
    let switches = variant.shape.switches().map_err(|why| why.to_string())?;
    let facts = Facts::desired(&variant.profile, &switches, variant.model).map_err(|all| joined(&all))?;
    let verdict = check(&variant.profile, &switches, &facts).map_err(|why| why.to_string())?;
    Ok(matches!(verdict, Verdict::Proof(_)))
}

/// Headroom and marking beside what was published.
fn planners(row: &Row, _: bool) -> Result<(), String> {
    let cpu = Cpu::start();
    let begin = Instant::now();
    let found = vectors::compare();
    let sample = Sample::new(vec![begin.elapsed().as_secs_f64()]);
    let cpu = cpu.cores();
    let (exact, all) = found.exact;
    let peers = json!({"vectors": all, "differences": found.differences, "tables": vectors::STATIC.len()});
    let line = |case, value, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers: peers.clone() });
    };
    line(
        "vectors that are the same to the byte",
        exact as f64 * 100.0 / all as f64,
        "%",
        Goal::AtLeast(100.0),
    );
    line("farthest from a vendor's table", found.farthest_percent, "%", Goal::AtMost(10.0));
    Ok(())
}

/// Changes by hand on switches, and changes of what is a switch's own.
fn drift(row: &Row, quick: bool) -> Result<(), String> {
    let cpu = Cpu::start();
    let begin = Instant::now();
    let found = change::bench::drift(if quick { 100 } else { 1000 }, 1)?;
    let each = begin.elapsed().as_secs_f64() / found.comparisons as f64;
    let cpu = cpu.cores();
    let sample = Sample::new(vec![each]);
    let peers = json!({"made": found.made, "missed": found.missed, "false_alarms": found.false_alarms});
    let line = |case, value, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers: peers.clone() });
    };
    line("changes by hand that are missed", found.missed.len() as f64, "changes", Goal::AtMost(0.0));
    let own = found.false_alarms.len() as f64;
    line("a switch's own settings taken for drift", own, "changes", Goal::AtMost(0.0));
    // A switch's agent reads every second; what a comparison takes comes on top.
    line("comparison of a switch, with what makes it", each, "s", Goal::AtMost(1.0));
    Ok(())
}

/// Two tiers with 512 leaves under every single and double failure.
fn deadlock(row: &Row, quick: bool) -> Result<(), String> {
    let sizes = if quick { vec![(64, 16)] } else { vec![(64, 16), (512, 64), (512, 512)] };
    let cases = [
        (false, Routing::UpDown, "proof"),
        (true, Routing::UpDown, "valley"),
        (false, Routing::Bounce, "bounces"),
    ];
    for (leaves, spines) in sizes {
        for (valley, routing, name) in cases {
            let cpu = Cpu::start();
            let begin = Instant::now();
            let run = Run::of(Clos { leaves, spines, rails: 1 }, valley, routing).ok_or("no such fabric")?;
            let seconds = begin.elapsed().as_secs_f64();
            let cpu = cpu.cores();
            let case = format!("{leaves} leaves, {spines} spines: {name}");
            let (is_right, peers) = match &run.answer {
                Answer::Proof(proof) => {
                    (name == "proof", json!({"covered": proof.covered, "checked": proof.checked}))
                }
                Answer::Cycle(_) => (name != "proof", json!({"description": run.description})),
                Answer::Undecided(proof) => (false, json!({"undecided_after": proof.checked})),
            };
            if !is_right {
                row.failed(&case, &peers.to_string());
                continue;
            }
            let sample = Sample::new(vec![seconds]);
            let (value, goal) = (seconds, Goal::AtMost(60.0));
            row.line(&Line { case: &case, value, unit: "s", goal, sample: &sample, cpu, peers });
        }
    }
    Ok(())
}

/// Storms of the model, one of each seed, and a month of it without one.
fn storm(row: &Row, quick: bool) -> Result<(), String> {
    let (seeds, seconds) = if quick { (300, 86_400) } else { (10_000, 30 * 86_400) };
    let cpu = Cpu::start();
    let found = storm::storms(0..seeds);
    let calm = storm::month(seconds, 1);
    let cpu = cpu.cores();
    let sample = Sample::new(vec![found.longest_ms as f64 / 1e3]);
    let peers = json!({
        "storms": found.made, "seeds": format!("0..{seeds}"), "missed_seeds": found.missed, "looks_without": calm.looks,
        "seconds_without": seconds,
    });
    let line = |case, value, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers: peers.clone() });
    };
    let share = f64::from(found.named) * 100.0 / f64::from(found.made.max(1));
    line("storms whose port is named", share, "%", Goal::AtLeast(100.0));
    line("longest until it is named", found.longest_ms as f64 / 1e3, "s", Goal::AtMost(2.0));
    line("ports isolated at a time", f64::from(found.most_isolated), "ports", Goal::AtMost(1.0));
    line("alarms in a month without a storm", calm.alarms as f64, "alarms", Goal::AtMost(0.0));
    Ok(())
}

/// 64 flows at line rate over 64 uplinks, by chance and chosen, and the same between 8 leaves.
fn paths(row: &Row, quick: bool) -> Result<(), String> {
    let runs = if quick { 20 } else { 200 };
    for (family, name) in [(ecmp::Family::Broadcom, "Broadcom"), (ecmp::Family::Spectrum, "Spectrum")] {
        for leaves in [2, 8] {
            let cpu = Cpu::start();
            let begin = Instant::now();
            let found = ecmp::spread(family, leaves, 64, 64, runs, 1).map_err(|why| why.to_string())?;
            let took = begin.elapsed().as_secs_f64() / f64::from(runs);
            let cpu = cpu.cores();
            let sample = Sample::new(vec![found.chosen * 100.0]);
            let case = format!("{name}: slowest of 64 flows over 64 uplinks, {leaves} leaves");
            let peers =
                json!({"by_chance_percent": found.chance * 100.0, "runs": runs, "seconds_each": took});
            let (value, goal) = (found.chosen * 100.0, Goal::AtLeast(95.0));
            row.line(&Line { case: &case, value, unit: "% of line", goal, sample: &sample, cpu, peers });
        }
    }
    Ok(())
}

/// Some 4,096 switches: planned, rendered, read back, compared and checked.
fn large(row: &Row, quick: bool) -> Result<(), String> {
    let fabrics = if quick { 3 } else { 29 };
    let profile = QosProfile::default();
    let mut sites = Vec::with_capacity(fabrics);
    for fabric in 0..fabrics {
        let shape = Shape { prefix: format!("f{fabric}-"), ..Shape::default() };
        sites.push(shape.switches().map_err(|why| why.to_string())?);
    }
    let switches: usize = sites.iter().map(Vec::len).sum();
    // The highest use of memory is counted from here on.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let cpu = Cpu::start();
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..if quick { 1 } else { 5 } {
        let begin = Instant::now();
        bytes = all_sites(&profile, &sites)?;
        times.push(begin.elapsed().as_secs_f64());
    }
    let cpu = cpu.cores();
    let status = std::fs::read_to_string("/proc/self/status").map_err(|why| why.to_string())?;
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    let peak = peak.ok_or("the kernel tells no VmHWM")? / 1024.0 / 1024.0;
    let sample = Sample::new(times);
    let peers = json!({"switches": switches, "rendered_bytes": bytes});
    let line = |case, value, unit, goal| {
        row.line(&Line { case, value, unit, goal, sample: &sample, cpu, peers: peers.clone() });
    };
    line("plan, render, read, compare and check", sample.median(), "s", Goal::AtMost(5.0));
    line("memory at most", peak, "GiB", Goal::AtMost(1.0));
    counters::lines(row, quick)
}

/// Bytes that were rendered for all sites; each core takes the next site that none has taken.
fn all_sites(profile: &QosProfile, sites: &[Vec<Switch>]) -> Result<usize, String> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut bytes = 0;
        while let Some(site) = sites.get(next.fetch_add(1, Ordering::Relaxed)) {
            bytes += round_trip(profile, site)?;
        }
        Ok(bytes)
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().map(|one| one.join().map_err(|_| "a thread panicked".to_owned())?).sum()
    })
}

/// Bytes that were rendered. What is read back must be what was rendered, and right.
fn round_trip(profile: &QosProfile, switches: &[Switch]) -> Result<usize, String> {
    let mut facts = Facts::desired(profile, switches, BufferModel::Static).map_err(|all| joined(&all))?;
    let wanted = std::mem::take(&mut facts.switches);
    let (bytes, found) = read_back(wanted.values())?;
    facts.switches.extend(found.into_iter().map(|state| (state.name.clone(), state)));
    match check(profile, switches, &facts).map_err(|why| why.to_string())? {
        Verdict::Proof(_) => Ok(bytes),
        Verdict::Counterexample(found) => Err(found.to_string()),
    }
}

/// What is rendered for switches and read again, and its bytes.
fn read_back<'a>(states: impl Iterator<Item = &'a SwitchState>) -> Result<(usize, Vec<SwitchState>), String> {
    let (mut bytes, mut all) = (0, Vec::new());
    for state in states {
        let config = render::sonic::config_db(state).to_json().map_err(|why| why.to_string())?;
        let frr = render::frr::text(state);
        bytes += config.len() + frr.len();
        let found = read::sonic(&config, Some(&frr)).map_err(|why| why.to_string())?;
        if found.state != *state {
            return Err(format!("{} reads back otherwise than it was rendered", state.name));
        }
        all.push(found.state);
    }
    Ok((bytes, all))
}
