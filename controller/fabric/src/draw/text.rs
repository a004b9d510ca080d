//! For the terminal: rails side by side, a line per pod, a sign per server.

use std::fmt::Write as _;

use super::{Picture, PodPicture, PortState, counts, lacking};

/// Pods that are drawn one by one at most; of more, neighbours that are alike share a line, and the rest is counted.
const PODS: usize = 40;
/// Leaves of a pod and rail that are named one by one at most.
const LEAVES: usize = 2;
/// Servers that lack something and are named at most.
const NAMED: usize = 20;
/// Signs of one line.
const LINE: usize = 64;

/// The picture as lines of text.
#[must_use]
pub fn text(picture: &Picture) -> String {
    let mut out = picture.title() + "\n";
    let cells = cells(picture);
    let widths: Vec<usize> = (0..cells.first().map_or(0, Vec::len))
        .map(|column| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let line = |row: &[String]| {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let _ = writeln!(out, "\n{}", line(&cells[0]));
    let _ = writeln!(out, "{}", line(&cells[1]));
    let many = picture.pods.len() > PODS;
    let (mut drawn, mut folded) = (0, Vec::new());
    let rows: Vec<(&PodPicture, &Vec<String>)> = picture.pods.iter().zip(&cells[2..]).collect();
    for run in rows.chunk_by(|a, b| many && alike(a.0).is_some() && alike(a.0) == alike(b.0)) {
        match run {
            [(first, _), .., (last, _)] => {
                let servers: usize = run.iter().map(|(pod, _)| pod.nodes.len()).sum();
                let (from, to, pods) = (&first.name, &last.name, run.len());
                let state = alike(first).unwrap_or_default();
                let all = |wanted: PortState| state.iter().all(|state| *state == wanted);
                let reported = match signs(first).first() {
                    _ if all(PortState::Up) => "all up on every rail".to_owned(),
                    _ if all(PortState::Absent) => "none has joined".to_owned(),
                    sign => format!("each of them {}", sign.copied().unwrap_or('●')),
                };
                let _ = writeln!(out, "{from} … {to}: {pods} pods, {servers} servers, {reported}");
            }
            _ => {
                for (pod, row) in run {
                    if many && drawn == PODS {
                        folded.push(*pod);
                        continue;
                    }
                    drawn += 1;
                    let _ = writeln!(out, "{}", line(row));
                    for signs in signs(pod).chunks(LINE) {
                        let _ = writeln!(out, "  {}", signs.iter().collect::<String>());
                    }
                }
            }
        }
    }
    if !folded.is_empty() {
        let servers: usize = folded.iter().map(|pod| pod.nodes.len()).sum();
        let whole = folded.iter().flat_map(|pod| &pod.nodes);
        let whole = whole.filter(|node| node.ports.iter().all(|state| *state == PortState::Up)).count();
        let _ = writeln!(
            out,
            "and {} more pods, {servers} servers, {whole} of them up on every rail",
            folded.len()
        );
    }
    out.push_str(
        "\n● all rails  1-9 so many rails (+ more)  ◐ one of two ports  ~ drained  ✗ none  ○ not joined\n",
    );
    let lacking = lacking(picture);
    if !lacking.is_empty() {
        let _ = writeln!(out, "\nNot whole are {} of {} servers:", lacking.len(), picture.nodes());
        for (pod, node, reported) in lacking.iter().take(NAMED) {
            let _ = writeln!(out, "  {}  {}: {reported}", pod.name, node.name);
        }
        if lacking.len() > NAMED {
            let _ = writeln!(out, "  and {} more", lacking.len() - NAMED);
        }
    }
    out
}

/// The state that all servers of a pod are in, if it is one and no leaf is down.
fn alike(pod: &PodPicture) -> Option<&[PortState]> {
    let first = pod.nodes.first()?;
    let one = pod.nodes.iter().all(|node| node.ports == first.ports)
        && !pod.leaves.iter().flatten().any(|leaf| leaf.down);
    one.then_some(&first.ports[..])
}

/// The head, the spines, and a row per pod.
fn cells(picture: &Picture) -> Vec<Vec<String>> {
    let affixes = picture.affixes();
    let mut head = vec!["POD".to_owned(), "SERVERS".to_owned()];
    let mut spines = vec!["(spines)".to_owned(), String::new()];
    for (rail, of_rail) in picture.spines.iter().enumerate() {
        head.push(format!("RAIL {rail}"));
        spines.push(match of_rail {
            spines if spines.count == 0 => "not named".to_owned(),
            spines if spines.down == 0 => format!("{} up", spines.count),
            spines => format!("{} of {} up", spines.count - spines.down, spines.count),
        });
    }
    let mut rows = vec![head, spines];
    for pod in &picture.pods {
        let name = if pod.name.is_empty() { "(no pod)".to_owned() } else { pod.name.clone() };
        let mut row = vec![name, pod.nodes.len().to_string()];
        for (rail, leaves) in pod.leaves.iter().enumerate() {
            let counts = counts(pod, rail);
            let up: usize = [PortState::Up, PortState::Half, PortState::Drained]
                .iter()
                .filter_map(|state| counts.get(state))
                .sum();
            let names: Vec<String> = leaves
                .iter()
                .map(|leaf| {
                    format!("{}{}", if leaf.down { "✗" } else { "" }, picture.short(&leaf.name, affixes))
                })
                .collect();
            let names = match &names[..] {
                [] => "-".to_owned(),
                [first, .., last] if names.len() > LEAVES => {
                    let down = leaves.iter().filter(|leaf| leaf.down).count();
                    let down = if down > 0 { format!(", {down} ✗") } else { String::new() };
                    format!("{first}…{last} ({}{down})", names.len())
                }
                names => names.join("+"),
            };
            row.push(format!("{names} {up}/{}", pod.nodes.len()));
        }
        rows.push(row);
    }
    rows
}

/// A sign per server.
fn signs(pod: &PodPicture) -> Vec<char> {
    let sign = |ports: &[PortState]| {
        let is = |wanted: PortState| ports.iter().filter(|state| **state == wanted).count();
        let works = is(PortState::Up) + is(PortState::Half) + is(PortState::Drained);
        if !ports.is_empty() && is(PortState::Absent) == ports.len() {
            '○'
        } else if works == 0 {
            '✗'
        } else if works < ports.len() {
            u32::try_from(works).ok().and_then(|works| char::from_digit(works, 10)).unwrap_or('+')
        } else if is(PortState::Drained) > 0 {
            '~'
        } else if is(PortState::Half) > 0 {
            '◐'
        } else {
            '●'
        }
    };
    pod.nodes.iter().map(|node| sign(&node.ports)).collect()
}
