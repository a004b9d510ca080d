//! What servers hear over LLDP, as text: what `lldpctl -f keyvalue` prints on many servers, or a table.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::NodeName;
use thiserror::Error;

use crate::{
    Finding, FindingCode, Table, TableError,
    csv::{MAX_BYTES, Meaning},
};

/// A switch that a server hears on one of its network devices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbor {
    /// The server that hears the switch.
    pub node: NodeName,
    /// Its network or RDMA device.
    pub nic: String,
    /// The name that the switch gives itself.
    pub switch: String,
    /// The switch's port, as the switch names it.
    pub port: String,
}

/// What was read. `facts == neighbors + left_out`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Heard {
    /// In the order of servers and NICs.
    pub neighbors: Vec<Neighbor>,
    /// Rows, or neighbours of key-value lines.
    pub facts: usize,
    /// Those that say too little, or contradict another.
    pub left_out: usize,
    /// Lines that are no fact of LLDP.
    pub other_lines: usize,
    /// Every fact that could not be used, with its place.
    pub faults: Vec<Finding>,
}

/// Why a text is not a document of LLDP facts.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LldpError {
    /// Neither a table nor key-value lines.
    #[error("{0}")]
    Table(#[from] TableError),
    /// Key-value lines without servers.
    #[error(
        "line {line} does not say which server heard it; put `NODE: ` before each line, as `pdsh -w NODES lldpctl -f keyvalue` does"
    )]
    NoServer {
        /// Line of the text, from 1.
        line: usize,
    },
}

/// Reads what servers heard.
///
/// # Errors
/// [`LldpError`] where the text as a whole says nothing.
pub fn read(text: &[u8]) -> Result<Heard, LldpError> {
    let key_values = text.split(|byte| *byte == b'\n').take(64).any(|line| {
        let key = line.split(|byte| *byte == b'=').next().unwrap_or_default();
        key.len() < line.len() && String::from_utf8_lossy(key).contains("lldp.")
    });
    let mut heard = if key_values { key_value(text)? } else { table(text)? };
    heard.neighbors.sort();
    heard.faults.sort();
    Ok(heard)
}

const MEANINGS: [Meaning; 4] = [
    Meaning {
        means: "server",
        names: &["node", "server", "host", "hostname", "servername", "sysname"],
        needed: true,
    },
    Meaning {
        means: "NIC",
        names: &["nic", "nicname", "device", "netdev", "interface", "ifname", "localport"],
        needed: true,
    },
    Meaning {
        means: "switch",
        names: &["switch", "leaf", "switchname", "leafname", "neighbor", "chassis", "systemname"],
        needed: true,
    },
    Meaning {
        means: "switch's port",
        names: &["port", "accessport", "leafport", "switchport", "neighborport", "remoteport"],
        needed: true,
    },
];

fn table(text: &[u8]) -> Result<Heard, LldpError> {
    let table = Table::read(text)?;
    let (columns, _) = table.columns(&MEANINGS)?;
    let mut heard = Heard { facts: table.rows.len(), other_lines: table.blank, ..Heard::default() };
    for row in &table.rows {
        let fields = MEANINGS.map(|meaning| (meaning.means, row.fields.get(columns[meaning.means])));
        let text = |at: usize| fields[at].1.map_or("", |field| field.text.as_str());
        let empty = fields.iter().find(|(_, field)| field.is_none_or(|field| field.text.is_empty()));
        let fault = match empty {
            Some((means, field)) => Err((
                field.map_or(0, |field| field.column),
                FindingCode::Missing,
                format!("the row does not say the {means}"),
            )),
            None => fact(text(0), text(1), text(2), text(3)).map_err(|(code, message)| (0, code, message)),
        };
        match fault {
            Ok(neighbor) => heard.neighbors.push(neighbor),
            Err((column, code, message)) => {
                heard.left_out += 1;
                heard.faults.push(Finding {
                    line: row.line,
                    column,
                    code,
                    message: format!("{message}; it is left out"),
                });
            }
        }
    }
    Ok(heard)
}

fn fact(node: &str, nic: &str, switch: &str, port: &str) -> Result<Neighbor, (FindingCode, String)> {
    let node = NodeName::new(node.trim().to_ascii_lowercase())
        .map_err(|error| (FindingCode::NodeName, error.to_string()))?;
    for (what, text) in [("NIC", nic), ("switch", switch), ("port", port)] {
        if text.is_empty() {
            return Err((
                FindingCode::Missing,
                format!(
                    "{node} does not say the {what} of a neighbour (NIC {nic}, switch {switch}, port {port})"
                ),
            ));
        }
        if text.len() > 128 || text.chars().any(char::is_control) {
            return Err((
                FindingCode::Text,
                format!("the {what} that {node} names must be printable and at most 128 bytes long"),
            ));
        }
    }
    Ok(Neighbor { node, nic: nic.to_owned(), switch: switch.to_owned(), port: port.to_owned() })
}

/// What one device of one server says of its neighbour.
#[derive(Default)]
struct Said {
    line: usize,
    switch: BTreeSet<String>,
    /// By how well it names the port: its interface name, what is locally known, its description.
    ports: [BTreeSet<String>; 3],
}

fn key_value(text: &[u8]) -> Result<Heard, LldpError> {
    if text.len() > MAX_BYTES {
        let size = format!("{} bytes", text.len());
        return Err(TableError::TooLarge { what: "the text".into(), size, limit: MAX_BYTES }.into());
    }
    let text = String::from_utf8_lossy(text);
    let mut heard = Heard::default();
    let mut said: BTreeMap<(&str, &str), Said> = BTreeMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let Some((key, value)) = content.split_once('=') else {
            heard.other_lines += 1;
            continue;
        };
        let Some((node, rest)) = key.split_once("lldp.") else {
            heard.other_lines += 1;
            continue;
        };
        let node = node.trim().trim_end_matches(':').trim();
        if node.is_empty() {
            return Err(LldpError::NoServer { line });
        }
        // The device's name may have dots of its own.
        let cut = |word: &str| rest.find(word).map(|at| (&rest[..at], &rest[at + word.len()..]));
        let Some((nic, what, of_port)) = cut(".chassis.")
            .map(|(nic, what)| (nic, what, false))
            .or_else(|| cut(".port.").map(|(nic, what)| (nic, what, true)))
        else {
            continue;
        };
        let entry = said.entry((node, nic)).or_default();
        if entry.line == 0 {
            entry.line = line;
        }
        let rank = ["ifname", "local", "descr"].iter().position(|word| *word == what);
        match (of_port, what, rank) {
            (false, "name", _) => drop(entry.switch.insert(value.trim().to_owned())),
            (true, _, Some(rank)) => drop(entry.ports[rank].insert(value.trim().to_owned())),
            _ => {}
        }
    }
    heard.facts = said.len();
    for ((node, nic), said) in said {
        let best = said.ports.iter().find(|ports| !ports.is_empty());
        let many = said.switch.len() > 1 || best.is_some_and(|ports| ports.len() > 1);
        let first = |texts: Option<&BTreeSet<String>>| {
            texts.and_then(|texts| texts.first().cloned()).unwrap_or_default()
        };
        let made = if many {
            let names: Vec<&str> = said.switch.iter().map(String::as_str).collect();
            let message = format!(
                "{node} hears several neighbours on NIC {nic} ({}): is there a bridge between?",
                names.join(", ")
            );
            Err((FindingCode::SeveralNeighbors, message))
        } else {
            fact(node, nic, &first(Some(&said.switch)), &first(best))
        };
        match made {
            Ok(neighbor) => heard.neighbors.push(neighbor),
            Err((code, message)) => {
                heard.left_out += 1;
                let message = format!("{message}; it is left out");
                heard.faults.push(Finding { line: said.line, column: 0, code, message });
            }
        }
    }
    Ok(heard)
}
