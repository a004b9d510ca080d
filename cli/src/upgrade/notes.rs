//! What to know besides the steps of an upgrade.

use super::{
    model::Facts,
    steps::{ended_over_rows, known, migrates, named},
    version::Version,
};

/// What to know. `done`: nothing is left to be done.
pub(super) fn notes(facts: &Facts, to: Version, done: bool) -> Vec<String> {
    let mut notes = of_controllers(facts, to);
    notes.extend(silent(facts));
    notes.extend(newer(facts, to));
    notes.extend(majors(facts, to));
    if done {
        notes.push(format!(
            "programs of one number are taken for the same: where another build of {to} is to be installed, start it in the order that docs/operations.md (Upgrade) gives"
        ));
    }
    notes
}

fn of_controllers(facts: &Facts, to: Version) -> Vec<String> {
    let mut notes = Vec::new();
    if facts.controllers.len() == 1 {
        notes.push(
            "one controller was asked: give the addresses of all of them, if there are more".to_owned(),
        );
    }
    let begun = known(&facts.controllers).contains(&to) && known(&facts.controllers).len() > 1;
    if begun && migrates(facts, to) {
        notes.push(format!(
            "the upgrade has begun: once a controller of {to} has led, older ones are no standbys any more; go on soon"
        ));
    }
    let away = facts.controllers.iter().filter_map(|one| Some((&one.at, one.version.as_ref().err()?)));
    for (at, why) in away.filter(|_| ended_over_rows(facts, to)) {
        notes.push(format!(
            "the controller at {at} does not say of which release it is ({why}): an older one ends once one of {to} has led, so start it with {to}, or leave its address out if it is gone"
        ));
    }
    notes
}

/// Servers whose agents cannot be upgraded now.
fn silent(facts: &Facts) -> Option<String> {
    let silent: Vec<String> =
        facts.agents.iter().filter(|agent| !agent.ready).map(|agent| agent.node.clone()).collect();
    (!silent.is_empty()).then(|| {
        format!(
            "not heard now: {}; upgrade their agents when they are back, before the next release, or delete the node of a server that is gone for good (`railctl delete node NAME`)",
            named(&silent)
        )
    })
}

/// What is of a later release than the one to go to, or of a later correction of it.
fn newer(facts: &Facts, to: Version) -> Vec<String> {
    let later = |name: &str, version: Option<Version>| {
        version.filter(|version| *version > to).map(|version| format!("{name} ({version})"))
    };
    let agents = facts.agents.iter().filter_map(|one| later(&one.node, one.version)).collect::<Vec<_>>();
    let switches = facts.switches.iter().filter_map(|one| later(&one.name, one.version)).collect::<Vec<_>>();
    let controllers =
        facts.controllers.iter().filter_map(|one| later(&one.at, one.version.as_ref().ok().copied()));
    let controllers = controllers.collect::<Vec<_>>();
    let mut notes = Vec::new();
    for (kind, names) in
        [("controllers", &controllers), ("agents of servers", &agents), ("agents of switches", &switches)]
    {
        if !names.is_empty() {
            notes.push(format!("{kind} are newer than {to}, and are left as they are: {}", named(names)));
        }
    }
    if known(&facts.controllers).iter().any(|version| *version > to && version.same_release(to)) {
        notes.push(format!(
            "to go back within one release, start {to} in place of the newer controller: their rows are the same"
        ));
    }
    notes
}

/// The last release of a major version is not known from its number.
fn majors(facts: &Facts, to: Version) -> Option<String> {
    let before = known(&facts.controllers).into_iter().rfind(|version| version.major < to.major)?;
    Some(format!(
        "{to} follows the last release of {major} only, and which one that was is not known here: if {before} was not it, go to that one first",
        major = before.major
    ))
}
