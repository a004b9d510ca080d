//! F5: what is rendered for random fabrics, by SONiC's own YANG models; and the plan of a change beside a dry run of SONiC's own updater.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use controller_switch::{
    change::{Change, Settings, changes, merge},
    desired,
    model::{Nos, Switch},
    mutate,
    render::{self, tables::ConfigDb},
    state::BufferModel,
};
use integration_harness::sonic::{Referee, Yang, plan};
use proto_profile::QosProfile;
use serde_json::{Value, json};

use crate::report::{Cpu, Goal, Line, Row, Sample};

/// No dry run begins after this time, whatever the updater takes for each: the row says how many of the fabrics it came to.
const UPDATER_LIMIT: Duration = Duration::from_secs(1500);

/// What a switch has of its own, which no plan speaks of.
const OWN: &str = r#"{"DEVICE_METADATA": {"localhost": {"platform": "x86_64-nvidia_sn5600-r0", "hwsku": "ACS-SN5600", "type": "LeafRouter",
    "mac": "00:11:22:33:44:55"}}, "MGMT_PORT": {"eth0": {"alias": "eth0", "admin_status": "up"}}}"#;

/// Both halves of the row; each is void where what judges is absent.
pub fn judged(row: &Row, quick: bool) -> Result<(), String> {
    models(row, if quick { 50 } else { 500 })?;
    updater(row, if quick { 5 } else { 500 })
}

/// The random fabric of a seed, with switches of SONiC.
fn fabric(seed: u64) -> Result<(mutate::Variant, Vec<Switch>), String> {
    let mut variant = mutate::variant(seed).map_err(|why| why.to_string())?;
    variant.shape.nos = Nos::Sonic;
    let switches = variant.shape.switches().map_err(|why| why.to_string())?;
    Ok((variant, switches))
}

/// What is rendered for all switches; an error carries the planner's refusals.
fn rendered(profile: &QosProfile, switches: &[Switch], model: BufferModel) -> Result<Vec<ConfigDb>, String> {
    let wanted = desired::plan(profile, switches, model)
        .map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    Ok(wanted.values().map(render::sonic::config_db).collect())
}

/// Every switch of so many fabrics: as it is rendered, and laid over what a switch has.
fn models(row: &Row, fabrics: u64) -> Result<(), String> {
    const CASE: &str = "rendered configurations that SONiC's models take";
    if let Err(why) = Yang::parts() {
        row.void(CASE, &why);
        return Ok(());
    }
    let mut yang = Yang::start()?;
    let own = ConfigDb::from_json(OWN).map_err(|why| why.to_string())?;
    let (mut count, mut times, mut invalid) = (0_u64, Vec::new(), Vec::new());
    let cpu = Cpu::start();
    for seed in 0..fabrics {
        let (variant, switches) = fabric(seed)?;
        for (at, config) in rendered(&variant.profile, &switches, variant.model)?.into_iter().enumerate() {
            for config in [merge(&config, &own), config] {
                let (name, text) =
                    (format!("seed {seed}, switch {at}"), config.to_json().map_err(|why| why.to_string())?);
                let begin = Instant::now();
                let faults = yang.faults(&name, &text)?;
                times.push(begin.elapsed().as_secs_f64());
                count += 1;
                if !faults.is_empty() {
                    invalid.push(format!("{name}: {}", faults.join("; ")));
                }
            }
        }
    }
    let (cpu, sample) = (cpu.cores(), Sample::new(times));
    let share = (count - invalid.len() as u64) as f64 * 100.0 / count.max(1) as f64;
    invalid.truncate(10);
    let peers = json!({
        "fabrics": fabrics, "seeds": format!("0..{fabrics}"), "configurations": count, "models": yang.models, "invalid": invalid,
        "seconds_each": sample.median(),
    });
    let (value, goal) = (share, Goal::AtLeast(100.0));
    row.line(&Line { case: CASE, value, unit: "%", goal, sample: &sample, cpu, peers });
    Ok(())
}

/// What became of plans beside dry runs.
#[derive(Default)]
struct Outcome {
    switches: u64,
    /// Plans that are right: the updater takes them and touches what they say, or they say that it does not make or undo them.
    same: u64,
    /// Of those: that the updater refuses as they say, and that it takes and could not undo, as they say.
    reloads: u64,
    reloads_for_the_way_back: u64,
    /// Plans that the updater refuses and that do not say so, with its reason.
    refused: Vec<String>,
    /// Plans that do not say what the updater does, with the first settings or ports of which they do not.
    differ: Vec<String>,
    /// Ports that the updater takes down on its way, and those of which plans say that.
    down: usize,
    said_down: usize,
    /// Settings that the updater takes out and puts back on its way, by their tables.
    passing: BTreeMap<String, u64>,
    /// Switches on which it does.
    with_passing: u64,
    steps: u64,
    times: Vec<f64>,
}

/// A switch of each fabric: from what another profile, and a change by hand, left there to what is desired.
fn updater(row: &Row, fabrics: u64) -> Result<(), String> {
    const CASE: &str = "plans that are what SONiC's dry run does";
    if let Err(why) = Referee::root() {
        row.void(CASE, &why);
        return Ok(());
    }
    let mut referee = Referee::start()?;
    let (mut outcome, cpu, begin) = (Outcome::default(), Cpu::start(), Instant::now());
    for seed in 0..fabrics {
        one(seed, &mut referee, &mut outcome)?;
        if begin.elapsed() > UPDATER_LIMIT {
            break;
        }
    }
    let (cpu, sample) = (cpu.cores(), Sample::new(outcome.times.clone()));
    outcome.refused.truncate(10);
    outcome.differ.truncate(10);
    let peers = json!({
        "fabrics_asked": fabrics, "switches": outcome.switches, "refused": outcome.refused, "differ": outcome.differ, "steps": outcome.steps,
        "refused_as_said": outcome.reloads, "not_undone_as_said": outcome.reloads_for_the_way_back, "ports_taken_down": outcome.down,
        "ports_said_to_go_down": outcome.said_down,
        "settings_taken_out_and_put_back": outcome.passing, "switches_with_those": outcome.with_passing, "seconds_each": sample.median(),
    });
    let share = outcome.same as f64 * 100.0 / outcome.switches.max(1) as f64;
    let goal = Goal::AtLeast(100.0);
    row.line(&Line { case: CASE, value: share, unit: "%", goal, sample: &sample, cpu, peers });
    Ok(())
}

fn one(seed: u64, referee: &mut Referee, outcome: &mut Outcome) -> Result<(), String> {
    let own = ConfigDb::from_json(OWN).map_err(|why| why.to_string())?;
    let (variant, switches) = fabric(seed)?;
    let mut all = rendered(&variant.profile, &switches, variant.model)?;
    let (before, _) = fabric(seed + 1_000_000)?;
    let at = usize::try_from(seed).unwrap_or(0) % all.len();
    let desired = all.swap_remove(at);
    // Headroom of another profile may not fit this fabric: then the default's.
    let earlier = rendered(&before.profile, &switches, variant.model)
        .or_else(|_| rendered(&QosProfile::default(), &switches, variant.model));
    let Ok(mut earlier) = earlier else { return Ok(()) };
    let found = merge(&earlier.swap_remove(at), &own);
    let settings = |tables: &ConfigDb| Settings { tables: Some(tables.clone()), routing: None };
    let changes = changes(&settings(&desired), &settings(&found));
    if changes.is_empty() {
        return Ok(());
    }
    let after = plan::applied(&changes, &desired, &found);
    let says: BTreeSet<String> = changes.iter().map(|change| change.path.clone()).collect();
    outcome.switches += 1;
    let json = |config: &ConfigDb| serde_json::to_value(config).map_err(|why| why.to_string());
    referee.load(&json(&found)?)??;
    let start = Instant::now();
    let ran = referee.dry_run(&plan::patch(&found, &after))?;
    outcome.times.push(start.elapsed().as_secs_f64());
    let reload = plan::says_reload(&changes);
    let states = match ran {
        Ok(run) => run.states,
        Err(_) if reload => {
            (outcome.same, outcome.reloads) = (outcome.same + 1, outcome.reloads + 1);
            return Ok(());
        }
        Err(why) => {
            outcome.refused.push(format!("seed {seed}: {why}"));
            return Ok(());
        }
    };
    // A plan that the updater takes and whose end it could not undo is loaded as a whole, too.
    if reload && !is_read_at_start(&changes) {
        referee.load(&json(&after)?)??;
        if referee.dry_run(&plan::patch(&after, &found))?.is_ok() {
            outcome
                .differ
                .push(format!("seed {seed}: it is made and undone, and said to be loaded as a whole"));
            return Ok(());
        }
        outcome.reloads_for_the_way_back += 1;
    }
    judge(seed, &Plan { changes: &changes, says: &says, end: merge(&desired, &found) }, states, outcome)
}

/// Whether it changes what SONiC's services read when they start, which its updater does not know.
fn is_read_at_start(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.path == "DEVICE_METADATA|localhost|buffer_model")
}

/// What a plan says: its changes, their paths, and what the switch has in the end.
struct Plan<'a> {
    changes: &'a [Change],
    says: &'a BTreeSet<String>,
    end: ConfigDb,
}

/// Holds the states that a dry run goes through against what the plan says.
fn judge(seed: u64, plan: &Plan<'_>, states: Vec<Value>, outcome: &mut Outcome) -> Result<(), String> {
    outcome.steps += states.len().saturating_sub(1) as u64;
    let states = states.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let (Some(first), Some(last)) = (states.first(), states.last()) else {
        return Err("a dry run without states".to_owned());
    };
    let does = plan::touched(first, last);
    let passes: BTreeSet<String> =
        states.windows(2).flat_map(|two| plan::touched(&two[0], &two[1])).collect();
    let passing: Vec<_> = passes.difference(&does).collect();
    outcome.with_passing += u64::from(!passing.is_empty());
    for path in passing {
        let table = path.split('|').next().unwrap_or_default();
        *outcome.passing.entry(table.to_owned()).or_default() += 1;
    }
    let (down, said_down) = (plan::switched_ports(passes.iter()), plan::says_down(plan.changes));
    (outcome.down, outcome.said_down) = (outcome.down + down.len(), outcome.said_down + said_down.len());
    let unsaid: Vec<_> = down.difference(&said_down).take(5).collect();
    if does == *plan.says && *last == plan.end && unsaid.is_empty() {
        outcome.same += 1;
    } else {
        let odd: Vec<_> = does.symmetric_difference(plan.says).take(5).collect();
        outcome.differ.push(format!("seed {seed}: settings {odd:?}, ports that go down {unsaid:?}"));
    }
    Ok(())
}

fn read(state: Value) -> Result<ConfigDb, String> {
    serde_json::from_value(state).map_err(|why| format!("the updater's configuration: {why}"))
}
