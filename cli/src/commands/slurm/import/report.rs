//! The report: every setting of every input, and what has become of it.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Value, json};

use super::fate::Fate;
use super::ledger::{Entry, Position};

/// Places of one line that are named at most.
const PLACES: usize = 3;

/// How many settings have which fate, in the order of reports.
#[must_use]
pub fn counts(entries: &[Entry]) -> Vec<(Fate, usize)> {
    Fate::ALL.map(|fate| (fate, entries.iter().filter(|entry| entry.fate == fate).count())).to_vec()
}

/// One line: `2 settings: 1 not carried over, 1 carried over`.
#[must_use]
pub fn summary(entries: &[Entry]) -> String {
    let said = counts(entries).into_iter().filter(|(_, count)| *count > 0);
    let said: Vec<String> = said.map(|(fate, count)| format!("{count} {}", fate.as_str())).collect();
    format!("{} settings: {}", entries.len(), said.join(", "))
}

/// What is the same of several settings.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Same<'a> {
    fate: Fate,
    section: &'static str,
    name: &'a str,
    there: &'a str,
    here: &'a str,
    /// Where each is to stand for itself.
    at: Option<&'a Position>,
}

/// For people. `all`: each setting on a line of its own; otherwise those with the same answer are one.
#[must_use]
pub fn text(entries: &[Entry], notes: &[String], all: bool) -> String {
    let mut groups: BTreeMap<Same<'_>, Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        let same = Same {
            fate: entry.fate,
            section: entry.section.title(),
            name: &entry.token.name,
            there: &entry.there,
            here: &entry.here,
            at: all.then_some(&entry.token.place),
        };
        groups.entry(same).or_default().push(entry);
    }
    let mut text = String::new();
    let mut last = None;
    for (same, entries) in groups {
        if last != Some((same.fate, same.section)) {
            let _ = writeln!(
                text,
                "{}{}: {}",
                if last.is_some() { "\n" } else { "" },
                same.fate.as_str(),
                same.section
            );
            last = Some((same.fate, same.section));
        }
        let _ = writeln!(text, "  {}", line(&same, &entries));
    }
    for note in notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    let _ = writeln!(text, "\n{}", summary(entries));
    text
}

fn line(same: &Same<'_>, entries: &[&Entry]) -> String {
    let places: Vec<String> =
        entries.iter().take(PLACES).map(|entry| entry.token.place.to_string()).collect();
    let more =
        if entries.len() > PLACES { format!(" and {} more", entries.len() - PLACES) } else { String::new() };
    let value = match entries {
        [one] if one.of.is_empty() => format!("={}", shown(&one.token.value)),
        [one] => format!("={} of {}", shown(&one.token.value), one.of),
        _ => String::new(),
    };
    let there = if same.there.is_empty() { String::new() } else { format!(" ({})", same.there) };
    format!("{}{more}: {}{value}{there}: {}", places.join(" "), same.name, same.here)
}

/// A value that is not too long for a line.
fn shown(value: &str) -> String {
    const LONGEST: usize = 60;
    let short: String = value.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    if value.chars().count() > LONGEST { format!("{short}...") } else { short }
}

/// For programs: every setting.
#[must_use]
pub fn json(entries: &[Entry], notes: &[String]) -> Value {
    let one = |entry: &Entry| {
        json!({
            "file": entry.token.place.file,
            "line": entry.token.place.line,
            "column": entry.token.place.column,
            "section": entry.section.title(),
            "of": entry.of,
            "name": entry.token.name,
            "value": entry.token.value,
            "fate": entry.fate.code(),
            "there": entry.there,
            "here": entry.here,
            "known": !entry.is_unknown,
        })
    };
    let summary: serde_json::Map<String, Value> =
        counts(entries).into_iter().map(|(fate, count)| (fate.code().to_owned(), count.into())).collect();
    json!({
        "summary": summary,
        "notes": notes,
        "settings": entries.iter().map(one).collect::<Vec<_>>(),
    })
}
