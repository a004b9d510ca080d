//! How a profile gets to every NIC: what one look decides, from what agents have said and what was begun before. A canary's rails one by
//! one, then one rail of its pod, the rest of the pod, and pod after pod; of one server never two rails at a time. A NIC is
//! out of use from before it is touched until its agent says that the profile is kept there, or is taken back.

use std::{collections::BTreeMap, time::Duration};

use controller_state::{
    rows::rollout::{Active, CHANGES, Run},
    view::rollout::ports::{Port, Stage},
};
use proto_model::{NodeName, QosRollout, QosState, Reason, ReasonCode, Timestamp};

/// Beyond the time of a trial, an agent that is heard is given so long to do what is desired.
const PATIENCE: Duration = Duration::from_secs(60);

/// What of the cluster matters besides.
pub(super) trait Site {
    /// Who still uses this rail of a server, although it is drained.
    fn user(&self, node: &NodeName, rail: u32) -> Option<String>;
    /// Of these NICs those without which a job would have no rail left, with its name.
    fn strands(&self, ports: &[(NodeName, u32)]) -> BTreeMap<NodeName, String>;
}

/// What follows.
#[derive(Debug)]
pub(super) struct Decision {
    pub(super) run: Run,
    /// Why the rollout is to pause.
    pub(super) pause: Option<Reason>,
}

/// Decides; `ports` are in the order of their stages, then of their names.
pub(super) fn decide(
    rollout: &QosRollout,
    ports: &[Port],
    run: &Run,
    site: &dyn Site,
    now: Timestamp,
) -> Decision {
    let mut decision = Decision { run: Run::default(), pause: None };
    for port in ports {
        if let Some(active) = run.ports.get(&port.key()) {
            go_on(rollout, port, active, site, now, &mut decision);
        }
    }
    if rollout.paused.is_some() || decision.pause.is_some() {
        for active in decision.run.ports.values_mut() {
            if !active.kept && active.opened.is_some() {
                active.leaving.get_or_insert(now);
            }
        }
        decision.run.ports.retain(|_, active| active.leaving.is_some() || active.kept);
    } else {
        begin(rollout, ports, site, now, &mut decision);
    }
    decision
}

/// A NIC that is under way.
fn go_on(
    rollout: &QosRollout,
    port: &Port,
    active: &Active,
    site: &dyn Site,
    now: Timestamp,
    decision: &mut Decision,
) {
    let mut active = active.clone();
    if !port.heard {
        away(rollout, port, active, now, decision);
        return;
    }
    active.is_back(now);
    let name = || format!("{} of node '{}'", port.device, port.node);
    let found = match (port.state(), active.leaving) {
        (Some(QosState::Failed), _) => Err((ReasonCode::QosFailed, format!("{}: {}", name(), port.said()))),
        (state, Some(since)) => {
            let settled = port.done && state.is_some_and(|state| state != QosState::Trial);
            if settled || now.since(since) >= patience(rollout) {
                return;
            }
            active.note = "what was tried is taken back".to_owned();
            Ok(())
        }
        // One that is to be changed may have been told so before its agent began.
        (Some(QosState::Kept), None) if active.kept || active.opened.is_none() || port.done => return,
        (Some(QosState::Trial), None) => try_out(rollout, port, &mut active, now),
        (Some(QosState::Held | QosState::Kept | QosState::Differs) | None, None) => {
            open(rollout, port, &mut active, site, now)
        }
    };
    if let Err((code, text)) = found {
        let scope = format!("node/{}:{}", port.node, port.rail);
        decision.pause.get_or_insert(Reason::new(code, text).scope(scope).since(now));
    }
    if port.state() != Some(QosState::Failed) {
        decision.run.ports.insert(port.key(), active);
    }
}

/// A NIC of a server that is not heard. Its agent may be at work on it, and may begin with taking it back when it starts again: nobody uses
/// it until the agent says what became of it, or is away for long.
fn away(rollout: &QosRollout, port: &Port, mut active: Active, now: Timestamp, decision: &mut Decision) {
    let since = *active.away.get_or_insert(now);
    if active.opened.is_some() && now.since(since) < patience(rollout) {
        active.note = "its agent is not heard".to_owned();
        decision.run.ports.insert(port.key(), active);
    }
}

/// How long an agent that is heard may take for what is desired, and how long one that is not heard is waited for.
fn patience(rollout: &QosRollout) -> Duration {
    rollout.confirm_within + PATIENCE
}

/// Why a rollout has to pause.
type Trouble = (ReasonCode, String);

/// An agent that is heard, and does not do what is desired.
fn silent(rollout: &QosRollout, port: &Port, what: &str) -> Trouble {
    let limit = patience(rollout).as_secs();
    let text = format!(
        "the agent of node '{}' is heard and has not {what} {} within {limit} s; it may be of an older release, see its log",
        port.node, port.device
    );
    (ReasonCode::QosSilent, text)
}

/// A NIC that is to be given to its agent, or was.
fn open(
    rollout: &QosRollout,
    port: &Port,
    active: &mut Active,
    site: &dyn Site,
    now: Timestamp,
) -> Result<(), Trouble> {
    match active.opened {
        None => match site.user(&port.node, port.rail) {
            None => {
                active.opened = Some(now);
                active.note = CHANGES.to_owned();
            }
            Some(user) => active.note = user,
        },
        Some(opened) if now.since(opened) >= patience(rollout) => {
            // It has had its time, and gets no more of it to take back what it has not said it has done.
            active.leaving = Some(opened);
            return Err(silent(rollout, port, "changed"));
        }
        Some(_) => {}
    }
    Ok(())
}

/// A NIC on trial.
fn try_out(rollout: &QosRollout, port: &Port, active: &mut Active, now: Timestamp) -> Result<(), Trouble> {
    let since = *active.trial.get_or_insert(now);
    active.opened.get_or_insert(now);
    let (passed, needed) = (now.since(since), rollout.soak);
    match &port.unwell {
        _ if active.kept && passed >= patience(rollout) => {
            active.kept = false;
            return Err(silent(rollout, port, "confirmed"));
        }
        None if passed >= needed => {
            active.kept = true;
            active.note = "it is well and is to be kept".to_owned();
        }
        None => active.note = format!("it is on trial, and has to be well for {} s", needed.as_secs()),
        Some(why) if passed >= rollout.confirm_within => {
            let text = format!("{} of node '{}' is not well with it: {why}", port.device, port.node);
            return Err((ReasonCode::QosUnwell, text));
        }
        Some(why) => active.note = format!("it is on trial, and not well: {why}"),
    }
    Ok(())
}

/// More NICs of the first stage that has not all of it.
fn begin(rollout: &QosRollout, ports: &[Port], site: &dyn Site, now: Timestamp, decision: &mut Decision) {
    let lacks = |port: &&Port| port.heard && port.state() != Some(QosState::Kept);
    let Some(stage) = ports.iter().filter(lacks).map(|port| port.stage).min() else { return };
    let at_once = if matches!(stage, Stage::Canary(_)) { 1 } else { rollout.at_once as usize };
    let room = at_once.saturating_sub(decision.run.ports.len());
    let busy = |node: &NodeName| {
        decision.run.ports.range((node.clone(), 0)..=(node.clone(), u32::MAX)).next().is_some()
    };
    let mut chosen: Vec<&Port> = Vec::new();
    for port in ports.iter().filter(|port| port.stage == stage).filter(lacks) {
        if decision.run.ports.contains_key(&port.key()) {
            continue;
        }
        if port.state() == Some(QosState::Failed) {
            let text = format!("{} of node '{}': {}", port.device, port.node, port.said());
            let scope = format!("node/{}:{}", port.node, port.rail);
            decision.pause = Some(Reason::new(ReasonCode::QosFailed, text).scope(scope).since(now));
            return;
        }
        if chosen.len() < room && !busy(&port.node) {
            chosen.push(port);
        }
    }
    // What is on trial already is out of use already: this controller has begun since.
    let fresh: Vec<(NodeName, u32)> =
        chosen.iter().filter(|port| port.state() != Some(QosState::Trial)).map(|port| port.key()).collect();
    let strands = if rollout.force || fresh.is_empty() { BTreeMap::new() } else { site.strands(&fresh) };
    for port in chosen {
        let on_trial = port.state() == Some(QosState::Trial);
        if let Some(job) = strands.get(&port.node).filter(|_| !on_trial) {
            let text = format!(
                "job '{job}' would have no rail left; it is waited for, unless the rollout is forced"
            );
            decision.run.waits.insert(port.key(), text);
            continue;
        }
        let active = if on_trial { Active::on_trial(now) } else { Active::begun() };
        decision.run.ports.insert(port.key(), active);
    }
}
