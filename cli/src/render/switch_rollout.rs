//! Rollouts to switches: how far one is, and what one would do.

use proto_wire::v1::{self, switch_plan_step::Impact, switch_rollout::State, switch_status::Configuration};

use super::{Table, words};

/// How a switch stands, in a word.
fn configuration(standing: Configuration) -> &'static str {
    match standing {
        Configuration::Unspecified => "-",
        named => named.as_str_name(),
    }
}

/// What a change does to traffic, in a word.
fn impact(impact: Impact) -> &'static str {
    match impact {
        Impact::Unspecified => "-",
        Impact::Hitless => "hitless",
        Impact::QueueDrain => "queue drain",
        Impact::LinkFlap => "link flap",
        Impact::TrafficLoss => "traffic loss",
        Impact::DaemonRestart => "daemon restart",
        Impact::Reboot => "reboot",
    }
}

fn state(seen: &v1::SwitchRollout) -> String {
    match (seen.state(), &seen.paused) {
        (State::Done, _) => "done".to_owned(),
        (State::Cancelled, Some(why)) => format!("cancelled: {}", why.message),
        (_, Some(why)) => format!("paused: {}: {}", why.code, why.message),
        _ => "under way".to_owned(),
    }
}

/// The rollout, its stages, and what it waits for.
#[must_use]
pub fn switch_rollout(seen: &v1::SwitchRollout, now: f64) -> String {
    if seen.generation == 0 {
        return "nothing is rolled out to switches; begin with `railctl switch apply`\n".to_owned();
    }
    let why = if seen.reason.is_empty() { String::new() } else { format!(" ({})", seen.reason) };
    let since = words::age(seen.since.as_ref(), None, now);
    let mut out = format!(
        "rollout {} to switches, by {} {since} ago{why}: {}\n\n",
        seen.generation,
        seen.by,
        state(seen)
    );
    let mut table = Table::new(["STAGE", "SWITCHES", "KEPT", "TRIAL", "FAILED", "NOT HEARD"]);
    for stage in &seen.stages {
        let numbers = [stage.switches, stage.kept, stage.trial, stage.failed, stage.silent];
        let [switches, kept, trial, failed, silent] = numbers.map(|number| number.to_string());
        table.row([stage.name.clone(), switches, kept, trial, failed, silent]);
    }
    out.push_str(&table.render(""));
    if !seen.active.is_empty() {
        let mut active = Table::new(["SWITCH", "STATE", "NOTE"]);
        for one in &seen.active {
            active.row([one.name.clone(), configuration(one.configuration()).to_owned(), one.note.clone()]);
        }
        out.push('\n');
        out.push_str(&active.render(""));
        let more = (seen.active_total as usize).saturating_sub(seen.active.len());
        if more > 0 {
            out.push_str(&format!("and {more} more\n"));
        }
    }
    match seen.state() {
        State::Cancelled => out.push_str(
            "\nWhat has its configuration keeps it; `railctl switch apply` begins a rollout anew\n",
        ),
        State::Paused => out.push_str("\n`railctl switch resume` goes on and tries again what failed\n"),
        _ => {}
    }
    out
}

/// How far it is, in a line.
#[must_use]
pub fn switch_progress(seen: &v1::SwitchRollout) -> (String, usize, usize) {
    let sum = |of: fn(&v1::SwitchStage) -> u32| seen.stages.iter().map(of).sum::<u32>();
    let (all, kept, trial) = (sum(|stage| stage.switches), sum(|stage| stage.kept), sum(|stage| stage.trial));
    let note = seen.active.first().map(|one| format!("; {}: {}", one.name, one.note)).unwrap_or_default();
    let text = format!("{kept} of {all} switches keep it, {trial} on trial{note}");
    (text, kept as usize, all as usize)
}

/// What a rollout would do, switch by switch.
#[must_use]
pub fn switch_plan(plan: &v1::SwitchPlan) -> String {
    if plan.unchanged {
        return "nothing would begin: every switch has its configuration; see `railctl switch status`\n"
            .to_owned();
    }
    let least = plan.at_least.map(|time| u64::try_from(time.seconds).unwrap_or_default()).unwrap_or_default();
    let mut out = format!(
        "{} switches would be changed, {} first; it takes {} at least\n",
        plan.switches_total,
        plan.canary,
        crate::error::human(std::time::Duration::from_secs(least)),
    );
    out.push_str(&match plan.jobs {
        0 => "no job's traffic crosses one of them\n\n".to_owned(),
        jobs => format!(
            "the traffic of {jobs} jobs crosses some of them: each moves off a rail before its switch is changed, and back\n\n"
        ),
    });
    let mut stages = Table::new(["STAGE", "SWITCHES", "AT ONCE", "STEPS", "NOT HEARD"]);
    for stage in &plan.stages {
        let numbers = [stage.switches, stage.at_once, stage.steps, stage.silent].map(|n| n.to_string());
        let [switches, at_once, steps, silent] = numbers;
        stages.row([stage.name.clone(), switches, at_once, steps, silent]);
    }
    out.push_str(&stages.render(""));
    let mut steps = Table::new(["STAGE", "SWITCH", "IMPACT", "CHANGES", "JOBS", "NOTE"]);
    let mut changes = Table::new(["SWITCH", "IMPACT", "SETTING", "DESIRED", "FOUND", "WHY"]);
    for step in &plan.switches {
        let jobs = if step.jobs.is_empty() { "-".to_owned() } else { step.jobs.join(",") };
        let worst = impact(step.impact()).to_owned();
        let total = step.changes_total.to_string();
        steps.row([step.stage.clone(), step.name.clone(), worst, total, jobs, step.note.clone()]);
        for change in &step.changes {
            let difference = change.difference.clone().unwrap_or_default();
            let or = |text: String| if text.is_empty() { "-".to_owned() } else { text };
            changes.row([
                step.name.clone(),
                impact(change.impact()).to_owned(),
                difference.path,
                or(difference.desired),
                or(difference.found),
                change.why.clone(),
            ]);
        }
    }
    out.push('\n');
    out.push_str(&steps.render(""));
    if plan.switches.iter().any(|step| !step.changes.is_empty()) {
        out.push('\n');
        out.push_str(&changes.render(""));
    }
    let more = (plan.switches_total as usize).saturating_sub(plan.switches.len());
    if more > 0 {
        out.push_str(&format!("and {more} more\n"));
    }
    out.push_str("\nnothing has begun (dry run)\n");
    out
}
