//! Cables that are there against those of the document, and the topology drawn.

use std::fmt::Write as _;

use controller_fabric::{
    Verdict,
    draw::{LeafPicture, NodePicture, Picture, PodPicture, PortState},
    verify::{End, Move, Wrong},
};
use proto_model::Fabric;
use proto_wire::v1;
use serde_json::{Value, json};

use super::{Paint, Table, Tone};
use crate::args::Output;

/// Rows of one kind at most, where not all are asked for.
const ROWS: usize = 50;

/// What differs, and the moves that mend it.
pub fn verdict(verdict: &Verdict, output: Output) -> String {
    match output {
        Output::Json => format!("{:#}\n", as_json(verdict)),
        Output::Yaml => proto_manifest::yaml_of(&as_json(verdict)),
        Output::Name => verdict.wrong.iter().map(|wrong| format!("node/{}\n", wrong.node)).collect(),
        Output::Table => tables(verdict, ROWS),
        Output::Wide => tables(verdict, usize::MAX),
    }
}

/// The verdict in one sentence, for the exit message.
pub fn differences(verdict: &Verdict) -> String {
    let silent = verdict.planned - verdict.right - verdict.other_port.len() - verdict.wrong.len();
    format!(
        "{} of {} cables are where they belong; {} wrong, {silent} not heard of, {} not in the document",
        verdict.right + verdict.other_port.len(),
        verdict.planned,
        verdict.wrong.len(),
        verdict.unplanned.len()
    )
}

fn end(end: &End) -> String {
    if end.port.is_empty() { end.switch.clone() } else { format!("{} {}", end.switch, end.port) }
}

fn tables(verdict: &Verdict, most: usize) -> String {
    let mut out = format!("{}\n", differences(verdict));
    let wrong = |out: &mut String, title: &str, list: &[Wrong]| {
        let mut table = Table::new(["NODE", "NIC", "IS ON", "BELONGS ON"]);
        for one in list.iter().take(most) {
            table.row([one.node.to_string(), one.nic.clone(), end(&one.seen), end(&one.planned)]);
        }
        section(out, title, list.len(), most, &table);
    };
    wrong(&mut out, "Wrong", &verdict.wrong);
    wrong(&mut out, "On the right leaf, on another port than the document says", &verdict.other_port);
    let mut table = Table::new(["NODE", "NIC"]);
    for (node, nic) in verdict.silent.iter().take(most) {
        table.row([node.to_string(), nic.clone()]);
    }
    section(&mut out, "Hear nothing", verdict.silent.len(), most, &table);
    let mut table = Table::new(["NODE"]);
    for node in verdict.silent_nodes.iter().take(most) {
        table.row([node.to_string()]);
    }
    section(&mut out, "Servers of which nothing is known", verdict.silent_nodes.len(), most, &table);
    let mut table = Table::new(["NODE", "NIC", "IS ON"]);
    for one in verdict.unplanned.iter().take(most) {
        table.row([one.node.to_string(), one.nic.clone(), format!("{} {}", one.switch, one.port)]);
    }
    section(&mut out, "Not in the document", verdict.unplanned.len(), most, &table);
    if verdict.foreign > 0 {
        let _ = writeln!(out, "\n{} neighbours are switches of other networks", verdict.foreign);
    }
    let mut table = Table::new(["STEP", "CABLE OF", "NIC", "TAKE FROM", "PUT INTO"]);
    for (at, step) in verdict.moves.iter().take(most).enumerate() {
        let (from, to) = words(step);
        table.row([(at + 1).to_string(), step.node.to_string(), step.nic.clone(), from, to]);
    }
    section(&mut out, "The fewest steps that mend it, in this order", verdict.moves.len(), most, &table);
    out
}

fn words(step: &Move) -> (String, String) {
    (
        step.from.as_ref().map_or_else(|| "(hangs)".to_owned(), end),
        step.to.as_ref().map_or_else(|| "(let it hang)".to_owned(), end),
    )
}

fn section(out: &mut String, title: &str, count: usize, most: usize, table: &Table) {
    if count > 0 {
        let _ = writeln!(out, "\n{title} ({count}):");
        out.push_str(&table.render("  "));
        if count > most {
            let _ = writeln!(out, "  and {} more; -o wide shows all", count - most);
        }
    }
}

fn as_json(verdict: &Verdict) -> Value {
    let end = |end: &End| json!({"switch": end.switch, "port": end.port});
    let wrong = |list: &[Wrong]| -> Vec<Value> {
        list.iter()
            .map(|one| {
                json!({"node": one.node.as_str(), "nic": one.nic, "planned": end(&one.planned), "seen": end(&one.seen)})
            })
            .collect()
    };
    let moves: Vec<Value> = verdict
        .moves
        .iter()
        .map(|step| {
            json!({"node": step.node.as_str(), "nic": step.nic,
                "from": step.from.as_ref().map(end), "to": step.to.as_ref().map(end)})
        })
        .collect();
    let unplanned: Vec<Value> = verdict
        .unplanned
        .iter()
        .map(|one| json!({"node": one.node.as_str(), "nic": one.nic, "switch": one.switch, "port": one.port}))
        .collect();
    let silent: Vec<Value> =
        verdict.silent.iter().map(|(node, nic)| json!({"node": node.as_str(), "nic": nic})).collect();
    let nodes: Vec<&str> = verdict.silent_nodes.iter().map(|node| node.as_str()).collect();
    json!({
        "kind": "TopologyVerdict", "apiVersion": "rail/v1",
        "planned": verdict.planned, "right": verdict.right, "otherPort": wrong(&verdict.other_port),
        "wrong": wrong(&verdict.wrong), "silent": silent, "silentNodes": nodes, "unplanned": unplanned,
        "foreign": verdict.foreign, "moves": moves,
    })
}

/// What the controller sees, with what its document says of spines and of servers that have not joined.
pub fn picture(seen: &v1::Topology, fabric: Option<&Fabric>) -> Picture {
    let mut picture = fabric.map(Picture::of).unwrap_or_default();
    picture.rails = picture.rails.max(seen.rails as usize);
    for pod in &mut picture.pods {
        for state in pod.nodes.iter_mut().flat_map(|node| &mut node.ports) {
            if *state != PortState::Missing {
                *state = PortState::Absent;
            }
        }
    }
    for pod in &seen.pods {
        let at = picture.pods.iter().position(|known| known.name == pod.name).unwrap_or_else(|| {
            let leaf = |name: &String| LeafPicture { name: name.clone(), down: false };
            let leaves = pod.rails.iter().map(|rail| rail.leaves.iter().map(leaf).collect()).collect();
            picture.pods.push(PodPicture { name: pod.name.clone(), leaves, nodes: Vec::new() });
            picture.pods.len() - 1
        });
        let known = &mut picture.pods[at].nodes;
        let places: std::collections::BTreeMap<String, usize> =
            known.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
        for node in &pod.nodes {
            let ports = node.ports.iter().map(state).collect();
            match places.get(&node.name) {
                Some(at) => known[*at].ports = ports,
                None => known.push(NodePicture { name: node.name.clone(), ports }),
            }
        }
    }
    picture.settle();
    picture
}

fn state(port: &v1::TopologyPort) -> PortState {
    match (port.nic.is_empty(), port.usable, port.drained) {
        (true, ..) => PortState::Missing,
        (_, false, _) => PortState::Down,
        (_, true, true) => PortState::Drained,
        (_, true, false) => PortState::Up,
    }
}

/// The drawing, and what does not fit.
pub fn drawn_topology(picture: &Picture, findings: &[v1::Reason], paint: Paint) -> String {
    let mut out = signs(&controller_fabric::draw::text(picture), paint);
    super::fabric::findings(&mut out, findings);
    out
}

/// The drawing with its signs in colour: those of servers, and of the line that says what each of them is.
pub fn signs(drawn: &str, paint: Paint) -> String {
    let tone = |sign: char| match sign {
        '●' => Some(Tone::Good),
        '◐' | '~' | '+' | '1'..='9' => Some(Tone::Doubtful),
        '✗' => Some(Tone::Bad),
        '○' => Some(Tone::Faint),
        _ => None,
    };
    let mut out = String::with_capacity(drawn.len());
    for line in drawn.split_inclusive('\n') {
        // A row of servers is nothing but signs; elsewhere digits count, and `+` and `~` may be text.
        let is_row = line.starts_with("  ") && line.trim().chars().all(|sign| tone(sign).is_some());
        let is_legend = line.starts_with("● all rails");
        let tone = |sign: char| {
            tone(sign).filter(|_| is_row || (is_legend && !sign.is_ascii_alphanumeric() && sign != '+'))
        };
        let signs: Vec<char> = line.chars().collect();
        for run in signs.chunk_by(|a, b| tone(*a) == tone(*b)) {
            let text: String = run.iter().collect();
            match run.first().and_then(|sign| tone(*sign)) {
                Some(tone) => out.push_str(&paint.tone(&text, tone)),
                None => out.push_str(&text),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Color;

    #[test]
    fn signs_have_colours_and_texts_do_not() {
        let drawn = "gpu: 3 servers\n\npod1  3  leaf~1\n  ●●3✗\n\n● all rails  1-9 so many rails (+ more)  ✗ none\n  n3: rail 1\n";
        assert_eq!(signs(drawn, Paint::NONE), drawn);
        let painted = signs(drawn, Paint::of(Color::Always, false));
        let row = "  \u{1b}[32m●●\u{1b}[0m\u{1b}[33m3\u{1b}[0m\u{1b}[31m✗\u{1b}[0m\n";
        assert!(painted.contains(row), "{painted}");
        assert!(painted.contains("pod1  3  leaf~1\n") && painted.contains("  n3: rail 1\n"), "{painted}");
        assert!(painted.contains("1-9 so many rails (+ more)  \u{1b}[31m✗\u{1b}[0m none"), "{painted}");
    }
}
