//! Verdicts and plans as text. The same value always gives the same text; for programs there is their JSON.

mod describe;

use std::fmt::Write;

use crate::{
    diff::{Deviation, Finding, Verdict},
    edit::Edit,
    item::Item,
    plan::Plan,
};

pub use describe::describe;

/// A verdict as a table; one line where there is nothing to show.
#[must_use]
pub fn verdict(netdev: &str, verdict: &Verdict) -> String {
    let mut text = String::new();
    if verdict.deviations.is_empty() {
        let _ = writeln!(text, "{netdev}: as the profile says");
    } else {
        let _ = writeln!(text, "{netdev}: {}", count(verdict.deviations.len(), "deviation"));
        let mut rows = vec![["ITEM", "WANTED", "FOUND", "MEANS"].map(str::to_owned)];
        rows.extend(grouped(&verdict.deviations));
        table(&mut text, &rows);
    }
    findings(&mut text, &verdict.findings);
    text
}

/// A plan: what is wrong, the edits with their commands, what is withheld, what nobody can do from here.
#[must_use]
pub fn plan(plan: &Plan) -> String {
    let mut text = String::new();
    let rdma = plan.rdma.as_ref().map_or(String::new(), |rdma| format!(" ({rdma})"));
    let what = match (plan.edits.len(), plan.withheld.len()) {
        (0, 0) => "nothing to do".to_owned(),
        (edits, 0) => format!("{}, worst effect: {}", count(edits, "edit"), plan.blast()),
        (0, held) => format!("nothing now, {} withheld", count(held, "edit")),
        (edits, held) => {
            format!("{}, worst effect: {}; {held} withheld", count(edits, "edit"), plan.blast())
        }
    };
    let _ = writeln!(text, "{}{rdma}, driver {}, profile {}: {what}", plan.netdev, plan.vendor, plan.profile);
    if !plan.deviations.is_empty() {
        text.push('\n');
        let mut rows = vec![["ITEM", "WANTED", "FOUND", "MEANS"].map(str::to_owned)];
        rows.extend(grouped(&plan.deviations));
        table(&mut text, &rows);
    }
    for agent in &plan.stop_agents {
        let _ = writeln!(text, "\nfirst: stop {agent}, whose place is taken");
    }
    for (number, edit) in (1..).zip(&plan.edits) {
        text.push('\n');
        self::edit(&mut text, &format!("{number}."), edit);
    }
    for held in &plan.withheld {
        text.push('\n');
        self::edit(&mut text, "withheld:", &held.edit);
        let _ = writeln!(text, "   not now: {}", held.reason);
    }
    if !plan.findings.is_empty() {
        text.push('\n');
    }
    findings(&mut text, &plan.findings);
    text
}

fn edit(text: &mut String, head: &str, edit: &Edit) {
    let _ = writeln!(text, "{head} {} [{}]", describe(&edit.change), edit.blast);
    let _ = writeln!(text, "   why:  {}", edit.why);
    for command in &edit.commands {
        let _ = writeln!(text, "   do:   {command}");
    }
    for command in &edit.undo_commands {
        let _ = writeln!(text, "   undo: {command}");
    }
}

fn findings(text: &mut String, findings: &[Finding]) {
    for matters in [true, false] {
        for finding in findings.iter().filter(|finding| finding.matters == matters) {
            let _ = writeln!(text, "{}: {}", if matters { "look" } else { "note" }, finding.text);
        }
    }
}

fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// One row for each deviation; neighbouring DSCPs, priorities and classes that are wrong alike share one.
fn grouped(deviations: &[Deviation]) -> Vec<[String; 4]> {
    let mut rows: Vec<(Item, Item, &Deviation)> = Vec::new();
    for deviation in deviations {
        match rows.last_mut() {
            Some((_, last, first)) if follows(*last, deviation.item) && alike(first, deviation) => {
                *last = deviation.item;
            }
            _ => rows.push((deviation.item, deviation.item, deviation)),
        }
    }
    let row = |(first, last, deviation): (Item, Item, &Deviation)| {
        let item =
            if first == last { first.to_string() } else { format!("{first}-{}", number(last).unwrap_or(0)) };
        let meaning = if first == last {
            deviation.meaning.clone()
        } else {
            // The number of the first one would be wrong for the others.
            deviation.meaning.replace(&format!("DSCP {}", number(first).unwrap_or(0)), "these DSCPs")
        };
        [item, deviation.wanted.clone(), deviation.found.clone(), meaning]
    };
    rows.into_iter().map(row).collect()
}

const fn number(item: Item) -> Option<u8> {
    match item {
        Item::Dscp(dscp) => Some(dscp.get()),
        _ => None,
    }
}

fn follows(last: Item, next: Item) -> bool {
    number(last).zip(number(next)).is_some_and(|(last, next)| last + 1 == next)
}

fn alike(first: &Deviation, next: &Deviation) -> bool {
    let plain = |deviation: &Deviation| {
        let own = number(deviation.item).unwrap_or(0);
        deviation.meaning.replace(&format!("DSCP {own}"), "")
    };
    (&first.wanted, &first.found) == (&next.wanted, &next.found) && plain(first) == plain(next)
}

/// Columns as wide as their widest cell; the last one is not filled up.
fn table(text: &mut String, rows: &[[String; 4]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    for row in rows {
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(text, "{cell:<width$}  ");
        }
        let _ = writeln!(text, "{}", row[3]);
    }
}
