//! The decision: what keeps an upgrade from being begun, and the steps of it.

use std::collections::BTreeSet;

use proto_model::reason::many;

use super::{
    model::{Backup, Controller, Facts, Plan, ROWS, ROWS_BEFORE, Refusal, Step, Target, What, Why},
    version::Version,
};

/// Names that a sentence has at most.
const NAMED: usize = 4;

/// The steps of an upgrade, or why it is not to be begun.
#[must_use]
pub fn plan(facts: &Facts, target: &Target) -> Plan {
    let to = target.version;
    let other = target_refused(target);
    if !other.is_empty() {
        // What it would do is for the other one to say.
        return Plan { to, refusals: other, notes: Vec::new(), steps: Vec::new() };
    }
    let refusals = [
        controllers_refused(facts, to),
        agents_refused(facts, to),
        cluster_refused(facts),
        backup_refused(facts, target),
    ];
    let steps = steps(facts, to);
    let mut refusals: Vec<Refusal> = refusals.into_iter().flatten().collect();
    if steps.is_empty() {
        // Where nothing is to be done, nothing stands in its way but what is not known.
        refusals.retain(|refusal| refusal.why != Why::NoBackup);
    }
    Plan { to, refusals, notes: notes(facts, to), steps }
}

fn refused(why: Why, message: String) -> Refusal {
    Refusal { why, message }
}

/// The first few names, and how many more there are.
fn named(names: &[String]) -> String {
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn target_refused(target: &Target) -> Vec<Refusal> {
    let Target { version, railctl, .. } = target;
    if version == railctl {
        return Vec::new();
    }
    let message = format!("railctl {railctl} knows the way to its own release: ask railctl {version}");
    vec![refused(Why::OtherRailctl, message)]
}

fn known(controllers: &[Controller]) -> BTreeSet<Version> {
    controllers.iter().filter_map(|one| one.version.as_ref().ok().copied()).collect()
}

fn controllers_refused(facts: &Facts, to: Version) -> Vec<Refusal> {
    let mut all = Vec::new();
    for one in &facts.controllers {
        if let Err(why) = &one.version {
            let message = format!(
                "the controller at {} does not say of which release it is ({why}): mend it, or leave its address out if it is gone",
                one.at
            );
            all.push(refused(Why::ControllerAway, message));
        }
    }
    let versions = known(&facts.controllers);
    if let Some(newer) = versions.last().filter(|version| **version > to) {
        let message = format!(
            "a controller of {newer} runs already, and {to} is older: there is no way back by starting older programs once a newer controller has led; restore the backup of before with them"
        );
        all.push(refused(Why::NoWayBack, message));
    }
    for version in versions.iter().filter(|version| !version.fits(to)) {
        let message = format!(
            "a controller of {version} and one of {to} do not work together: go from release to release, {version} to the one after it first"
        );
        all.push(refused(Why::TooFar, message));
    }
    let others: Vec<_> = versions.iter().filter(|version| !version.same_release(to)).collect();
    if let [first, second, ..] = others[..] {
        let message = format!(
            "controllers are of {first} and of {second}: end the upgrade that was begun before, with the railctl of {second}"
        );
        all.push(refused(Why::Mixed, message));
    }
    all
}

fn agents_refused(facts: &Facts, to: Version) -> Vec<Refusal> {
    let agents = facts.agents.iter().filter_map(|agent| Some((&agent.node, agent.version?)));
    let switches = facts.switches.iter().filter_map(|switch| Some((&switch.name, switch.version?)));
    let controllers = known(&facts.controllers);
    let mut refusals = kind_refused("agents of servers", &agents.collect::<Vec<_>>(), &controllers, to);
    refusals.extend(kind_refused("agents of switches", &switches.collect::<Vec<_>>(), &controllers, to));
    refusals
}

fn kind_refused(
    kind: &str,
    all: &[(&String, Version)],
    controllers: &BTreeSet<Version>,
    to: Version,
) -> Vec<Refusal> {
    let of = |is: &dyn Fn(Version) -> bool| -> Vec<String> {
        let found = all.iter().filter(|(_, version)| is(*version));
        found.map(|(name, version)| format!("{name} ({version})")).collect()
    };
    let mut refusals = Vec::new();
    let far = of(&|version| !version.fits(to));
    if !far.is_empty() {
        let message = format!("{kind} do not work with a controller of {to}: upgrade {} first", named(&far));
        refusals.push(refused(Why::TooFar, message));
    }
    // They are not part of this upgrade: neither of the release to go to, nor of that of a controller.
    let begun = controllers.iter().any(|one| !one.same_release(to));
    let third = of(&|version| {
        let known = version.same_release(to) || controllers.iter().any(|one| one.same_release(version));
        begun && version.fits(to) && !known
    });
    if !third.is_empty() {
        let message = format!(
            "{kind} are of a release that no controller is of: end the upgrade that was begun before with {}",
            named(&third)
        );
        refusals.push(refused(Why::Mixed, message));
    }
    refusals
}

fn cluster_refused(facts: &Facts) -> Vec<Refusal> {
    let mut all = Vec::new();
    if let Some(cause) = &facts.unwritable {
        let message = format!(
            "the store takes no writes ({cause}): an etcd without quorum or room is mended first, no controller could take the lead on it"
        );
        all.push(refused(Why::StoreUnwritable, message));
    }
    for rollout in &facts.rollouts {
        let message = format!(
            "a rollout to {rollout} has begun and not ended: let it end, pause or cancel it, so that what goes wrong has one cause"
        );
        all.push(refused(Why::RolloutUnderWay, message));
    }
    all
}

fn backup_refused(facts: &Facts, target: &Target) -> Vec<Refusal> {
    let message = match &facts.backup {
        Backup::Waived => return Vec::new(),
        Backup::Newest { at, .. } if facts.now - at <= target.backup_within => return Vec::new(),
        Backup::Newest { at, revision } => {
            let minutes = (facts.now - at) / 60;
            let behind = facts.revision.saturating_sub(*revision);
            format!(
                "the newest backup is {minutes} minutes old, {behind} revisions behind: make one now (`rail-controller store backup`), it is the only way back"
            )
        }
        Backup::Absent => "there is no backup where --backup says: make one now (`rail-controller store backup`), it is the only way back".to_owned(),
        Backup::Unknown => "no backup is known: say where they are by --backup, or --without-backup".to_owned(),
    };
    vec![refused(Why::NoBackup, message)]
}

/// Whether controllers of the release before lead, whose rows are of another version.
fn migrates(facts: &Facts, to: Version) -> bool {
    ROWS > ROWS_BEFORE && known(&facts.controllers).iter().any(|version| !version.same_release(to))
}

fn steps(facts: &Facts, to: Version) -> Vec<Step> {
    let behind = |version: Option<Version>| version.is_none_or(|version| version < to);
    let old: Vec<&Controller> =
        facts.controllers.iter().filter(|one| behind(one.version.as_ref().ok().copied())).collect();
    let mut steps = controller_steps(facts, to, &old);
    let agents: Vec<_> = facts.agents.iter().filter(|agent| behind(agent.version)).collect();
    if !agents.is_empty() {
        let jobs: usize = agents.iter().map(|agent| agent.jobs).sum();
        steps.push(Step {
            what: What::Agents,
            names: agents.iter().map(|agent| agent.node.clone()).collect(),
            effect: format!(
                "an agent starts anew under {}: ranks and engines go on, logs and steps are out of reach meanwhile; jobs that start from then on take the new engine and librail.so",
                match jobs { 0 => "no job".to_owned(), jobs => format!("{} that run there", many(jobs, "placement")) }
            ),
            lasts: "a few seconds",
            back: "start the older agent again",
        });
    }
    let switches: Vec<_> =
        facts.switches.iter().filter(|switch| switch.version.is_some_and(|version| version < to)).collect();
    if !switches.is_empty() {
        steps.push(Step {
            what: What::SwitchAgents,
            names: switches.iter().map(|switch| switch.name.clone()).collect(),
            effect: "ports and counters of the switch are not read meanwhile; traffic is not touched"
                .to_owned(),
            lasts: "a few seconds",
            back: "start the older agent again",
        });
    }
    if !steps.is_empty() {
        let effect = "nothing waits for it".to_owned();
        let names = vec!["the store".to_owned()];
        steps.insert(0, Step { what: What::Backup, names, effect, lasts: "seconds", back: "not needed" });
    }
    steps
}

/// Those that do not lead first, each by itself; the one that leads last.
fn controller_steps(facts: &Facts, to: Version, old: &[&Controller]) -> Vec<Step> {
    let alone = facts.controllers.len() < 2;
    let mut steps = Vec::new();
    let known = old.iter().any(|one| one.leads);
    let standbys: Vec<String> =
        old.iter().filter(|one| !one.leads && !alone).map(|one| one.at.clone()).collect();
    let leader = old.iter().find(|one| one.leads || alone).map(|one| one.at.clone());
    if !standbys.is_empty() {
        let order = if known { "" } else { ", the one that leads last" };
        steps.push(Step {
            what: What::Standby,
            names: standbys,
            effect: format!(
                "one at a time{order}: a standby is away, calls through it are made to another one; nothing else"
            ),
            lasts: "as long as it takes to start",
            back: "start the older program again, as long as no newer one has led",
        });
    }
    // Where nobody's address tells who leads, the last of them is it.
    let leader = leader.or_else(|| (!known && !old.is_empty()).then(|| facts.leader.clone()));
    if let Some(leader) = leader {
        let moves = match alone {
            true => "nothing is scheduled and nobody is answered until it has started; jobs run on",
            false => {
                "it hands the lead over when it is told to end: calls wait and are answered by the next one; jobs run on"
            }
        };
        let rows = match migrates(facts, to) {
            true => format!(
                ". The first controller of {to} that leads brings the rows of the store from version {ROWS_BEFORE} to {ROWS}"
            ),
            false => String::new(),
        };
        steps.push(Step {
            what: What::Leader,
            names: vec![leader],
            effect: format!("{moves}{rows}"),
            lasts: if alone { "as long as it takes to start" } else { "below a second" },
            back: match migrates(facts, to) {
                true => "none but restoring the backup with the older program: what came since is lost",
                false => "start the older program again",
            },
        });
    }
    steps
}

fn notes(facts: &Facts, to: Version) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.controllers.len() == 1 {
        notes.push(
            "one controller was asked: give the addresses of all of them, if there are more".to_owned(),
        );
    }
    let silent: Vec<String> =
        facts.agents.iter().filter(|agent| !agent.ready).map(|agent| agent.node.clone()).collect();
    if !silent.is_empty() {
        notes.push(format!(
            "not heard now: {}; upgrade their agents when they are back, before the next release",
            named(&silent)
        ));
    }
    let begun = known(&facts.controllers).contains(&to) && known(&facts.controllers).len() > 1;
    if begun && migrates(facts, to) {
        notes.push(format!(
            "the upgrade has begun: once a controller of {to} has led, older ones are no standbys any more; go on soon"
        ));
    }
    notes
}
