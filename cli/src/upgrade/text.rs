//! Plan and status for people.

use std::collections::BTreeMap;

use proto_model::reason::many;

use super::{
    model::{Facts, Plan, Step, What},
    version::Version,
};
use crate::render::Table;

/// Names of a step that are printed; the rest is counted, and in `-o json`.
const NAMED: usize = 8;

/// What a step is, in a few words.
fn title(step: &Step) -> String {
    match step.what {
        What::Backup => "back up the store".to_owned(),
        What::Standby | What::Controllers => many(step.names.len(), "controller"),
        What::Leader => "the controller that leads".to_owned(),
        What::Agents => many(step.names.len(), "agent"),
        What::SwitchAgents => format!("{} of switches", many(step.names.len(), "agent")),
    }
}

/// The plan as it is read.
#[must_use]
pub fn plan(of: &Plan) -> String {
    let mut text = String::new();
    for refusal in &of.refusals {
        text.push_str(&format!("refused ({}): {}\n", refusal.why.code(), refusal.message));
    }
    for note in &of.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    if of.steps.is_empty() {
        if of.refusals.is_empty() {
            text.push_str(&format!(
                "nothing that answers is older than {}: there is nothing to upgrade\n",
                of.to
            ));
        }
        return text;
    }
    text.push_str(&format!("to {}, in this order:\n", of.to));
    for (number, step) in of.steps.iter().enumerate() {
        let more = step.names.len().saturating_sub(NAMED);
        let names = step.names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        let names = if more > 0 { format!("{names} and {more} more") } else { names };
        text.push_str(&format!("{}. {}: {names}\n", number + 1, title(step)));
        let mut table = Table::bare();
        for (name, fact) in [("effect", step.effect.as_str()), ("lasts", step.lasts), ("back", step.back)] {
            table.row([name.to_owned(), fact.to_owned()]);
        }
        text.push_str(&table.render("   "));
    }
    text
}

/// Of which release each part is; servers and switches by release.
#[must_use]
pub fn status(of: &Facts, railctl: Version) -> String {
    let mut table = Table::new(["PART", "VERSION", "WHICH"]);
    let mut row = |part: &str, version: String, which: String| table.row([part.to_owned(), version, which]);
    row("railctl", railctl.to_string(), String::new());
    for one in &of.controllers {
        let version = match &one.version {
            Ok(version) => version.to_string(),
            Err(error) => format!("? ({error})"),
        };
        let leads = if one.leads { ", leads" } else { "" };
        row("controller", version, format!("{}{leads}", one.at));
    }
    let agents = of.agents.iter().map(|one| (one.node.as_str(), one.version));
    for (version, names) in by_version(agents) {
        row("agents", version, names);
    }
    let switches = of.switches.iter().map(|one| (one.name.as_str(), one.version));
    for (version, names) in by_version(switches) {
        row("switch agents", version, names);
    }
    let leader = match &of.leader {
        Ok(leader) => leader.clone(),
        Err(error) => format!("none answers ({error}); servers and switches are not known without one"),
    };
    format!("{}leader: {leader}\n", table.render(""))
}

fn by_version<'a>(all: impl Iterator<Item = (&'a str, Option<Version>)>) -> Vec<(String, String)> {
    let mut found: BTreeMap<Option<Version>, Vec<&str>> = BTreeMap::new();
    for (name, version) in all {
        found.entry(version).or_default().push(name);
    }
    let lines = found.into_iter().map(|(version, names)| {
        let version = version.map_or_else(|| "?".to_owned(), |version| version.to_string());
        let more = names.len().saturating_sub(NAMED);
        let first = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        (version, if more > 0 { format!("{first} and {more} more") } else { first })
    });
    lines.collect()
}
