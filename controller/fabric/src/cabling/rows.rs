//! Each row by itself, and rows that contradict each other.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::NodeName;

use super::{
    number::sorted,
    work::{At, Entry, Work, lines},
};
use crate::{
    FindingCode, Table, TableError,
    csv::{Field, Meaning, Row},
};

/// Rows that say the same and are named with each of them at most.
const OTHERS: usize = 64;

const SERVER: &str = "server";
const NIC: &str = "NIC";
const LEAF: &str = "leaf";
const PORT: &str = "leaf's port";
const AGAIN: &str = "leaf's port again";

const MEANINGS: [Meaning; 11] = [
    Meaning {
        means: SERVER,
        names: &["node", "server", "host", "hostname", "servername", "sysname"],
        needed: true,
    },
    Meaning {
        means: NIC,
        names: &["nic", "nicname", "device", "netdev", "interface", "ifname"],
        needed: true,
    },
    Meaning { means: LEAF, names: &["leaf", "switch", "switchname", "leafname", "neighbor"], needed: true },
    Meaning {
        means: PORT,
        names: &["port", "accessport", "leafport", "switchport", "neighborport"],
        needed: true,
    },
    Meaning { means: AGAIN, names: &["portname"], needed: false },
    Meaning { means: "rail", names: &["rail"], needed: false },
    Meaning { means: "pod", names: &["pod"], needed: false },
    Meaning { means: "plane", names: &["plane"], needed: false },
    Meaning { means: "speed", names: &["speed", "speedmbps"], needed: false },
    Meaning { means: "server's address", names: &["serverip", "nodeip", "serveraddress"], needed: false },
    Meaning { means: "leaf's address", names: &["switchip", "leafip", "switchaddress"], needed: false },
];

type Columns = BTreeMap<&'static str, usize>;

/// Reads all rows; each becomes an entry or a fault.
pub(super) fn read(table: &Table, work: &mut Work) -> Result<(), TableError> {
    let (columns, others) = table.columns(&MEANINGS)?;
    for field in others {
        let message = format!("column '{}' says nothing that is known here; it is not used", field.text);
        work.note(table.header.line, FindingCode::ColumnNotUsed, message);
    }
    let mut spellings: BTreeMap<NodeName, BTreeSet<&str>> = BTreeMap::new();
    let nics = nics_of_leaves(table, &columns);
    for row in &table.rows {
        if row.fields.len() != table.header.fields.len() {
            let message = format!(
                "the row has {} fields, the header {}; the row is left out",
                row.fields.len(),
                table.header.fields.len()
            );
            work.fault(row.line, 0, FindingCode::FieldCount, message);
            continue;
        }
        let written = &row.fields[columns[SERVER]].text;
        if let Some(entry) = entry(row, &columns, &nics, work) {
            spellings.entry(entry.node.clone()).or_default().insert(written);
            work.entries.push(entry);
        }
    }
    let lowered = spellings.iter().filter(|(name, written)| !written.contains(name.as_str())).count();
    if lowered > 0 {
        let message =
            format!("the names of {lowered} servers are written in lower case, as names of nodes are");
        work.note(0, FindingCode::LowerCase, message);
    }
    for (name, written) in spellings.iter().filter(|(_, written)| written.len() > 1) {
        let written: Vec<&str> = written.iter().copied().collect();
        work.note(
            0,
            FindingCode::Spellings,
            format!("{} are taken to be one server, {name}", written.join(" and ")),
        );
    }
    empty(table, &columns, work);
    Ok(())
}

/// The NICs that the list names on each leaf, to help with a row that names none.
fn nics_of_leaves<'a>(table: &'a Table, columns: &Columns) -> BTreeMap<&'a str, BTreeMap<&'a str, usize>> {
    let mut found: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for row in &table.rows {
        let named = row.fields.get(columns[NIC]).filter(|nic| !nic.text.is_empty());
        if let (Some(leaf), Some(nic)) = (row.fields.get(columns[LEAF]), named) {
            *found.entry(&leaf.text).or_default().entry(&nic.text).or_default() += 1;
        }
    }
    found
}

fn entry(
    row: &Row,
    columns: &Columns,
    nics: &BTreeMap<&str, BTreeMap<&str, usize>>,
    work: &mut Work,
) -> Option<Entry> {
    let field = |means: &str| columns.get(means).and_then(|at| row.fields.get(*at));
    let text = |means: &str| field(means).map_or("", |field| &field.text);
    let before = work.faults.len();
    for means in [SERVER, NIC, LEAF, PORT] {
        let place = field(means)?;
        if place.text.is_empty() {
            let known = nics.get(text(LEAF)).filter(|_| means == NIC);
            let known = known.map_or_else(String::new, |known| {
                let known: Vec<String> =
                    known.iter().map(|(nic, count)| format!("{nic} ({count})")).collect();
                format!("; other servers have {} there", known.join(", "))
            });
            let message =
                format!("the row does not say the {means}: {}{known}; it is left out", rest(row, columns));
            work.fault(row.line, place.column, FindingCode::Missing, message);
        } else if place.text.len() > 128 || place.text.chars().any(char::is_control) {
            let message =
                format!("the {means} must be printable and at most 128 bytes long; the row is left out");
            work.fault(row.line, place.column, FindingCode::Text, message);
        }
    }
    let pod = field("pod").filter(|pod| pod.text.len() > 128 || pod.text.chars().any(char::is_control));
    if let Some(pod) = pod {
        let message = "the pod must be printable and at most 128 bytes long; the row is left out";
        work.fault(row.line, pod.column, FindingCode::Text, message);
    }
    if let Some(again) = field(AGAIN).filter(|again| again.text != text(PORT)) {
        let message = format!(
            "the row names port '{}' and port '{}'; it is not known which is right, and it is left out",
            text(PORT),
            again.text
        );
        work.fault(row.line, again.column, FindingCode::TwoPorts, message);
    }
    let node = NodeName::new(text(SERVER).to_ascii_lowercase());
    if let (Err(error), Some(place)) = (&node, field(SERVER).filter(|place| !place.text.is_empty())) {
        work.fault(row.line, place.column, FindingCode::NodeName, format!("{error}; the row is left out"));
    }
    let rail = number(field("rail"), row.line, 63, work);
    let plane = number(field("plane"), row.line, 1, work);
    let speed = field("speed").filter(|field| !field.text.is_empty()).map(|field| {
        parse_speed(&field.text).unwrap_or_else(|| {
            let message = format!(
                "'{}' is no speed: write Mbit/s, or for example 200G; the row is left out",
                field.text
            );
            work.fault(row.line, field.column, FindingCode::Speed, message);
            0
        })
    });
    let port = text(PORT);
    let entry = Entry {
        line: row.line,
        node: node.ok()?,
        nic: text(NIC).to_owned(),
        leaf: text(LEAF).to_owned(),
        port: port.to_owned(),
        speed: speed.unwrap_or_else(|| super::odd::speed_of(port)),
        rail,
        pod: field("pod").map(|field| field.text.clone()).filter(|pod| !pod.is_empty()),
        plane: plane.unwrap_or(0),
        at: At::default(),
    };
    (work.faults.len() == before).then_some(entry)
}

/// What the row does say.
fn rest(row: &Row, columns: &Columns) -> String {
    let said = [(SERVER, "server"), (NIC, "NIC"), (LEAF, "leaf"), (PORT, "port")].map(|(means, word)| {
        let text = columns.get(means).and_then(|at| row.fields.get(*at)).map_or("", |field| &field.text);
        (word, text)
    });
    let said: Vec<String> = said
        .iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(word, text)| format!("{word} {text}"))
        .collect();
    said.join(", ")
}

fn number(field: Option<&Field>, line: usize, max: u32, work: &mut Work) -> Option<u32> {
    let field = field.filter(|field| !field.text.is_empty())?;
    let number = field.text.parse().ok().filter(|number| *number <= max);
    if number.is_none() {
        let message = format!("'{}' is not a number from 0 to {max}; the row is left out", field.text);
        work.fault(line, field.column, FindingCode::Number, message);
    }
    number
}

/// Mbit/s, or a number with G or T behind it.
fn parse_speed(text: &str) -> Option<u64> {
    let (digits, factor) = match text.to_ascii_uppercase().trim_end_matches("BIT").trim_end_matches("BPS") {
        text if text.ends_with('T') => (text.trim_end_matches('T').to_owned(), 1_000_000),
        text if text.ends_with('G') => (text.trim_end_matches('G').to_owned(), 1000),
        text => (text.trim_end_matches('M').to_owned(), 1),
    };
    digits.trim().parse::<u64>().ok()?.checked_mul(factor)
}

/// Fields that no cable needs but that the list has for others.
fn empty(table: &Table, columns: &Columns, work: &mut Work) {
    for means in ["server's address", "leaf's address", "rail", "pod", "plane", "speed"] {
        let Some(at) = columns.get(means) else { continue };
        let empty =
            table.rows.iter().filter(|row| row.fields.get(*at).is_some_and(|field| field.text.is_empty()));
        let empty: Vec<usize> = empty.map(|row| row.line).collect();
        if !empty.is_empty() && empty.len() < table.rows.len() {
            let message = format!("{} rows do not say the {means}: lines {}", empty.len(), lines(&empty));
            work.note(empty[0], FindingCode::EmptyField, message);
        }
    }
}

/// Rows that say the same, ports with two cables, NICs on two ports.
pub(super) fn twice(work: &mut Work) {
    let mut out: BTreeSet<usize> = BTreeSet::new();
    let mut faults = Vec::new();
    // Of equal rows the first one is the first in the list.
    let order = sorted(&work.entries, row);
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        for (_, entry) in same.iter().skip(1) {
            let message = format!("the row says what line {} says; it is left out", same[0].1.line);
            faults.push((entry.line, FindingCode::DuplicateRow, message));
            out.insert(entry.line);
        }
    }
    let rest: Vec<&Entry> =
        order.into_iter().map(|(_, entry)| entry).filter(|entry| !out.contains(&entry.line)).collect();
    let split = several(sorted(rest.iter().copied(), nic).chunk_by(|a, b| a.0 == b.0));
    let shared = sorted(rest.iter().copied(), |entry| (entry.at.leaf, entry.at.port, entry.line));
    let shared =
        several(shared.chunk_by(|((leaf, port, _), _), (other, _)| (*leaf, *port) == (other.0, other.1)));
    let shared = shared.iter().map(|entries| (entries, FindingCode::DuplicatePort, "port"));
    let split = split.iter().map(|entries| (entries, FindingCode::NicTwice, "NIC"));
    for (entries, code, what) in shared.chain(split) {
        for entry in entries {
            // Of very many the first few are reported: each row's message lists the others.
            let others = entries.iter().map(|other| other.line).filter(|line| *line != entry.line);
            let others: Vec<usize> = others.take(OTHERS).collect();
            let hint = if code == FindingCode::NicTwice {
                "; a NIC with two ports needs a column 'plane' that says 0 or 1"
            } else {
                ""
            };
            let message = format!(
                "the {what} of this row ({}) is also that of line {}; it is not known which is right, and both are left out{hint}",
                entry.reported(),
                lines(&others)
            );
            faults.push((entry.line, code, message));
            out.insert(entry.line);
        }
    }
    for (line, code, message) in faults {
        work.fault(line, 0, code, message);
    }
    work.leave_out(&out);
}

fn row(entry: &Entry) -> (u32, u32, u32, u32) {
    let At { node, nic, leaf, port } = entry.at;
    (node, nic, leaf, port)
}

fn nic(entry: &Entry) -> (u32, u32, u32) {
    (entry.at.node, entry.at.nic, entry.plane)
}

/// The groups of more than one row.
fn several<'a, 'b: 'a, K: 'a>(groups: impl Iterator<Item = &'a [(K, &'b Entry)]>) -> Vec<Vec<&'b Entry>> {
    let rows = |rows: &'a [(K, &'b Entry)]| rows.iter().map(|(_, entry)| *entry).collect();
    groups.filter(|rows| rows.len() > 1).map(rows).collect()
}
