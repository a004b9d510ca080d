//! The steps of an upgrade, in their order, and what each does to those who use the cluster.

use std::collections::BTreeSet;

use proto_model::reason::many;

use super::{
    model::{Controller, Facts, ROWS, ROWS_BEFORE, Step, What},
    version::Version,
};

/// Names that a sentence has at most.
const NAMED: usize = 4;
/// The way back where nothing newer has stored anything.
const START_OLDER: &str = "start the older program again";
/// The way back where it has.
const RESTORE: &str = "none but restoring the backup with the older program: what came since is lost";

/// The first few names, and how many more there are.
pub(super) fn named(names: &[String]) -> String {
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The releases of controllers, as far as they say them.
pub(super) fn known(controllers: &[Controller]) -> BTreeSet<Version> {
    controllers.iter().filter_map(|one| one.version.as_ref().ok().copied()).collect()
}

/// Whether a controller that does not answer may be of the release before and have ended, because one of the release to go to has led and stored rows
/// of another version.
pub(super) fn ended_over_rows(facts: &Facts, to: Version) -> bool {
    ROWS > ROWS_BEFORE && known(&facts.controllers).contains(&to)
}

/// Whether controllers of the release before run, whose rows are of another version.
pub(super) fn migrates(facts: &Facts, to: Version) -> bool {
    ROWS > ROWS_BEFORE && known(&facts.controllers).iter().any(|version| !version.same_release(to))
}

/// Whether a controller of the release to go to leads, as far as addresses tell.
fn has_led(facts: &Facts, to: Version) -> bool {
    facts.controllers.iter().any(|one| one.leads && one.version.as_ref().is_ok_and(|version| *version == to))
}

/// What is older than the release to go to, in the order in which to upgrade it.
pub(super) fn steps(facts: &Facts, to: Version) -> Vec<Step> {
    let mut steps = controller_steps(facts, to);
    if !steps.is_empty() && !has_led(facts, to) {
        let effect = "nothing waits for it".to_owned();
        let names = vec!["the store".to_owned()];
        steps.insert(0, Step { what: What::Backup, names, effect, lasts: "seconds", back: "not needed" });
    }
    steps.extend(agents(facts, to));
    steps.extend(switch_agents(facts, to));
    steps
}

fn is_behind(version: Option<Version>, to: Version) -> bool {
    version.is_none_or(|version| version < to)
}

fn agents(facts: &Facts, to: Version) -> Option<Step> {
    let agents: Vec<_> = facts.agents.iter().filter(|agent| is_behind(agent.version, to)).collect();
    let under = match agents.iter().map(|agent| agent.jobs).sum() {
        0 => "no job".to_owned(),
        jobs => format!("{} that run there", many(jobs, "placement")),
    };
    (!agents.is_empty()).then(|| Step {
        what: What::Agents,
        names: agents.iter().map(|agent| agent.node.clone()).collect(),
        effect: format!(
            "an agent starts anew under {under}: ranks and engines go on, logs and steps are out of reach meanwhile; jobs that start from then on take the new engine and librail.so"
        ),
        lasts: "a few seconds",
        back: "start the older agent again",
    })
}

fn switch_agents(facts: &Facts, to: Version) -> Option<Step> {
    // A switch without an agent has none to upgrade.
    let old = facts.switches.iter().filter(|switch| switch.version.is_some_and(|version| version < to));
    let names: Vec<String> = old.map(|switch| switch.name.clone()).collect();
    (!names.is_empty()).then(|| Step {
        what: What::SwitchAgents,
        names,
        effect: "ports and counters of the switch are not read meanwhile; traffic is not touched".to_owned(),
        lasts: "a few seconds",
        back: "start the older agent again",
    })
}

/// Those that do not lead first, each by itself; the one that leads last.
fn controller_steps(facts: &Facts, to: Version) -> Vec<Step> {
    let old = facts.controllers.iter().filter(|one| is_behind(one.version.as_ref().ok().copied(), to));
    let alone = facts.controllers.len() < 2;
    let (leaders, standbys): (Vec<_>, Vec<_>) = old.partition(|one| one.leads || alone);
    let names = |all: &[&Controller]| all.iter().map(|one| one.at.clone()).collect::<Vec<_>>();
    if !alone && !facts.controllers.iter().any(|one| one.leads) {
        return if standbys.is_empty() { Vec::new() } else { vec![unknown(facts, to, names(&standbys))] };
    }
    let mut steps = Vec::new();
    if !standbys.is_empty() {
        let migrated = ROWS > ROWS_BEFORE && has_led(facts, to);
        steps.push(Step {
            what: What::Standby,
            names: names(&standbys),
            effect:
                "one at a time: a standby is away, calls through it are made to another one; nothing else"
                    .to_owned(),
            lasts: "as long as it takes to start",
            back: if migrated {
                RESTORE
            } else {
                "start the older program again, as long as no newer one has led"
            },
        });
    }
    if !leaders.is_empty() {
        let moves = match alone {
            true => "nothing is scheduled and nobody is answered until it has started; jobs run on",
            false => {
                "it hands the lead over when it is told to end: calls wait and are answered by the next one; jobs run on"
            }
        };
        steps.push(Step {
            what: What::Leader,
            names: names(&leaders),
            effect: format!("{moves}{}", rows(facts, to)),
            lasts: if alone { "as long as it takes to start" } else { "below a second" },
            back: if migrates(facts, to) { RESTORE } else { START_OLDER },
        });
    }
    steps
}

/// Where no address tells who leads: all of them, each once.
fn unknown(facts: &Facts, to: Version, names: Vec<String>) -> Step {
    let itself = facts.leader.as_ref().map_or(String::new(), |leader| format!(" (it calls itself {leader})"));
    let rows = rows(facts, to);
    Step {
        what: What::Controllers,
        names,
        effect: format!(
            "one at a time, the one that leads{itself} last, if it is among them: while a standby is away, calls through it are made to another one; the one that leads hands the lead over when it is told to end, calls wait and are answered by the next one; jobs run on{rows}"
        ),
        lasts: "as long as it takes to start; below a second where it leads",
        back: match migrates(facts, to) {
            true => {
                "start the older program again, as long as no newer one has led; then none but restoring the backup with it"
            }
            false => START_OLDER,
        },
    }
}

/// What is stored anew, where it is.
fn rows(facts: &Facts, to: Version) -> String {
    match migrates(facts, to) {
        true => format!(
            ". The first controller of {to} that leads brings the rows of the store from version {ROWS_BEFORE} to {ROWS}"
        ),
        false => String::new(),
    }
}
