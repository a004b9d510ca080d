//! The rollout of a profile of class of service.

use proto_wire::v1::{self, get_qos_response::State as Standing, qos_port::State};

use super::{Table, words};

/// The rollout, its stages, and what it waits for.
#[must_use]
pub fn qos(seen: &v1::GetQosResponse, now: f64) -> String {
    let Some(rollout) = &seen.rollout else {
        return "no profile is rolled out; begin with `railctl qos apply -f PROFILE`\n".to_owned();
    };
    let name = name(&rollout.document);
    let why = if rollout.reason.is_empty() { String::new() } else { format!(" ({})", rollout.reason) };
    let since = words::age(rollout.since.as_ref(), None, now);
    let mut out = format!(
        "profile {name}, rollout {}, by {} {since} ago{why}: {}\n\n",
        rollout.generation,
        rollout.by,
        state(seen)
    );
    let mut table = Table::new(["STAGE", "NICS", "KEPT", "TRIAL", "FAILED", "NOT HEARD"]);
    for stage in &seen.stages {
        table.row([
            stage.name.clone(),
            stage.nics.to_string(),
            stage.kept.to_string(),
            stage.trial.to_string(),
            stage.failed.to_string(),
            stage.silent.to_string(),
        ]);
    }
    out.push_str(&table.render(""));
    if !seen.active.is_empty() {
        let mut active = Table::new(["NODE", "RAIL", "NIC", "STATE", "NOTE"]);
        for one in &seen.active {
            let rail = one.rail.to_string();
            active.row([
                one.node.clone(),
                rail,
                one.device.clone(),
                word(one.state()).to_owned(),
                one.note.clone(),
            ]);
        }
        out.push('\n');
        out.push_str(&active.render(""));
        let more = (seen.active_total as usize).saturating_sub(seen.active.len());
        if more > 0 {
            out.push_str(&format!("and {more} more\n"));
        }
    }
    if seen.state() == Standing::Cancelled {
        out.push_str(match rollout.before.as_str() {
            "" => "\nWhat has the profile keeps it; `railctl qos apply` begins a rollout anew\n",
            _ => "\nWhat has the profile keeps it; `railctl qos rollback` brings the profile before back, `railctl qos apply` begins a rollout anew\n",
        });
    } else if rollout.paused.is_some() {
        let back = if rollout.before.is_empty() {
            ""
        } else {
            ", `railctl qos rollback` brings the profile before back"
        };
        out.push_str(&format!("\n`railctl qos resume` goes on and tries again what failed{back}\n"));
    }
    out
}

/// What a rollout would do, stage by stage.
#[must_use]
pub fn qos_plan(plan: &v1::QosPlan) -> String {
    if plan.unchanged {
        return "nothing would begin: this profile is rolled out, or on its way, already; see `railctl qos status`\n".to_owned();
    }
    let least = plan.at_least.map(|time| u64::try_from(time.seconds).unwrap_or_default()).unwrap_or_default();
    let mut out = format!(
        "{} NICs of {} servers would be tried and kept one after the other, {} first; it takes {} at least\n",
        plan.nics_total,
        plan.nodes,
        plan.canary,
        crate::error::human(std::time::Duration::from_secs(least)),
    );
    out.push_str(&match plan.jobs {
        0 => "no job holds one of them\n\n".to_owned(),
        jobs => {
            format!("{jobs} jobs hold some of them: each moves off a NIC before it is changed, and back\n\n")
        }
    });
    let mut stages = Table::new(["STAGE", "SERVERS", "NICS", "AT ONCE", "STEPS", "NOT HEARD"]);
    for stage in &plan.stages {
        let numbers =
            [stage.nodes, stage.nics, stage.at_once, stage.steps, stage.silent].map(|n| n.to_string());
        let [nodes, nics, at_once, steps, silent] = numbers;
        stages.row([stage.name.clone(), nodes, nics, at_once, steps, silent]);
    }
    out.push_str(&stages.render(""));
    let mut nics = Table::new(["STAGE", "NODE", "RAIL", "NIC", "JOBS", "NOTE"]);
    for nic in &plan.nics {
        let jobs = if nic.jobs.is_empty() { "-".to_owned() } else { nic.jobs.join(",") };
        let rail = nic.rail.to_string();
        nics.row([nic.stage.clone(), nic.node.clone(), rail, nic.device.clone(), jobs, nic.note.clone()]);
    }
    out.push('\n');
    out.push_str(&nics.render(""));
    let more = (plan.nics_total as usize).saturating_sub(plan.nics.len());
    if more > 0 {
        out.push_str(&format!("and {more} more\n"));
    }
    out.push_str("\nnothing has begun (dry run)\n");
    out
}

/// The name that a profile gives itself.
fn name(document: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(document).ok();
    let name = value.as_ref().and_then(|value| value.get("name")).and_then(serde_json::Value::as_str);
    name.filter(|name| !name.is_empty())
        .map_or_else(|| "without a name".to_owned(), |name| format!("'{name}'"))
}

fn state(seen: &v1::GetQosResponse) -> String {
    let paused = seen.rollout.as_ref().and_then(|rollout| rollout.paused.as_ref());
    match paused {
        Some(paused) if seen.state() == Standing::Cancelled => format!("CANCELLED: {}", paused.message),
        Some(paused) => format!("PAUSED, {}: {}", paused.code, paused.message),
        None if seen.done => "done".to_owned(),
        None => "under way".to_owned(),
    }
}

fn word(state: State) -> &'static str {
    match state {
        State::Unspecified => "-",
        State::Held => "held",
        State::Trial => "trial",
        State::Kept => "kept",
        State::Differs => "differs",
        State::Failed => "failed",
    }
}

/// One line for who waits.
#[must_use]
pub fn qos_progress(seen: &v1::GetQosResponse) -> (String, usize, usize) {
    let (nics, kept): (u32, u32) =
        seen.stages.iter().fold((0, 0), |sum, stage| (sum.0 + stage.nics, sum.1 + stage.kept));
    let first = seen.active.first().map(|one| format!("; {}:{} {}", one.node, one.rail, one.note));
    let text = format!("{kept} of {nics} NICs{}", first.unwrap_or_default());
    (text, kept as usize, nics as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_roll_out_is_shown_with_what_it_waits_for() {
        let empty = v1::GetQosResponse::default();
        assert!(qos(&empty, 0.0).contains("railctl qos apply"));
        let mut seen = v1::GetQosResponse {
            rollout: Some(v1::QosRollout {
                generation: 3,
                document: r#"{"name": "roce"}"#.into(),
                by: "admin/root".into(),
                reason: "bigger".into(),
                since: Some(prost_types::Timestamp { seconds: 10, nanos: 0 }),
                ..Default::default()
            }),
            stages: vec![v1::QosStage {
                name: "canary n1".into(),
                nics: 8,
                kept: 2,
                trial: 1,
                failed: 0,
                silent: 0,
            }],
            active: vec![v1::QosActive {
                node: "n1".into(),
                rail: 2,
                device: "mlx5_2".into(),
                state: State::Trial.into(),
                note: "it is on trial".into(),
            }],
            active_total: 3,
            state: Standing::UnderWay.into(),
            ..Default::default()
        };
        let shown = qos(&seen, 70.0);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "profile 'roce', rollout 3, by admin/root 1m ago (bigger): under way");
        assert!(
            lines[3].starts_with("canary n1") && shown.contains("mlx5_2") && shown.contains("and 2 more"),
            "{shown}"
        );
        assert_eq!(qos_progress(&seen), ("2 of 8 NICs; n1:2 it is on trial".to_owned(), 2, 8));
        let paused = v1::Reason { code: "QosFailed".into(), message: "why".into(), ..Default::default() };
        seen.rollout.as_mut().unwrap().paused = Some(paused);
        let shown = qos(&seen, 70.0);
        assert!(shown.contains("PAUSED, QosFailed: why") && shown.contains("railctl qos resume"), "{shown}");
        assert!(!shown.contains("rollback"), "there is nothing before");
        let by = "admin/root cancelled it: too small".to_owned();
        seen.rollout.as_mut().unwrap().paused = Some(v1::Reason { message: by, ..Default::default() });
        seen.state = Standing::Cancelled.into();
        let shown = qos(&seen, 70.0);
        assert!(shown.contains(": CANCELLED: admin/root cancelled it: too small"), "{shown}");
        assert!(!shown.contains("resume") && !shown.contains("rollback"), "{shown}");
        seen.rollout.as_mut().unwrap().before = "{}".into();
        assert!(qos(&seen, 70.0).contains("railctl qos rollback"));
    }

    #[test]
    fn a_plan_says_what_is_taken_out_of_use_and_that_nothing_has_begun() {
        let stage =
            v1::QosPlanStage { name: "canary n1".into(), nics: 2, nodes: 1, silent: 0, at_once: 1, steps: 2 };
        let nic = v1::QosPlanNic {
            stage: "canary n1".into(),
            node: "n1".into(),
            rail: 0,
            device: "mlx5_0".into(),
            jobs: vec!["red/a".into()],
            note: String::new(),
        };
        let plan = v1::QosPlan {
            canary: "n1".into(),
            stages: vec![stage],
            nics: vec![nic],
            nics_total: 2,
            nodes: 1,
            jobs: 1,
            at_least: Some(prost_types::Duration { seconds: 20, nanos: 0 }),
            unchanged: false,
        };
        let shown = qos_plan(&plan);
        assert!(
            shown.starts_with("2 NICs of 1 servers would be tried and kept one after the other, n1 first")
        );
        assert!(
            shown.contains("20s at least") && shown.contains("red/a") && shown.contains("and 1 more"),
            "{shown}"
        );
        assert!(shown.ends_with("nothing has begun (dry run)\n"), "{shown}");
        assert!(qos_plan(&v1::QosPlan { unchanged: true, ..plan }).starts_with("nothing would begin"));
    }
}
