//! The fabric, the topology that the scheduler sees, and the cluster's health.

use std::fmt::Write as _;

use proto_wire::v1;

use super::{Paint, Table, Tone};

/// The fabric document in short.
#[must_use]
pub fn fabric(fabric: &v1::Fabric, wide: bool) -> String {
    let spec = fabric.spec.clone().unwrap_or_default();
    let status = fabric.status.clone().unwrap_or_default();
    let listed = |text: &str| proto_model::Names::new(text).map_or(0, |names| names.len());
    let of_group = |group: &v1::LinkGroup| listed(&group.nodes) * listed(&group.nics).max(1);
    let cables = spec.links.len() + spec.link_groups.iter().map(of_group).sum::<usize>();
    let mut table = Table::new(["FABRIC", "RAILS", "LEAVES", "LINKS", "NODES", "PODS", "FINDINGS"]);
    table.row([
        fabric.metadata.clone().unwrap_or_default().name,
        spec.rails.len().to_string(),
        spec.leaves.len().to_string(),
        cables.to_string(),
        status.nodes.to_string(),
        status.pods.to_string(),
        status.findings.len().to_string(),
    ]);
    let mut out = table.render("");
    if wide {
        let mut links = Table::new(["NODE", "NIC", "LEAF", "PORT", "MBIT/S"]);
        for link in spec.links {
            links.row([link.node, link.nic, link.leaf, link.port, link.speed_mbps.to_string()]);
        }
        for group in spec.link_groups {
            let nic = if group.nics.is_empty() { group.nic } else { group.nics };
            let leaf = if group.leaves.is_empty() { group.leaf } else { group.leaves };
            let cells = [group.nodes, nic, leaf, group.ports].map(|list| folded(&list));
            links.row(cells.into_iter().chain([group.speed_mbps.to_string()]));
        }
        out.push('\n');
        out.push_str(&links.render(""));
    }
    findings(&mut out, &status.findings);
    out
}

/// Characters of a list in a cell.
const CELL: usize = 48;
/// Findings of one kind that are shown at most.
const FINDINGS: usize = 50;

/// A list of names as it is, or its first and last name and how many there are.
fn folded(list: &str) -> String {
    let names = match proto_model::Names::new(list) {
        Ok(names) if list.chars().count() > CELL => names,
        _ => return list.to_owned(),
    };
    let (first, last) = (names.iter().next().unwrap_or_default(), names.iter().last().unwrap_or_default());
    format!("{first}…{last} ({})", names.len())
}

pub(super) fn findings(out: &mut String, findings: &[v1::Reason]) {
    if findings.is_empty() {
        return;
    }
    out.push_str("\nFindings:\n");
    let mut kinds: std::collections::BTreeMap<&str, usize> = std::collections::BTreeMap::new();
    for finding in findings {
        let count = kinds.entry(&finding.code).or_default();
        *count += 1;
        if *count > FINDINGS {
            continue;
        }
        let scope = if finding.scope.is_empty() { String::new() } else { format!(" [{}]", finding.scope) };
        let _ = writeln!(out, "  {}{scope}: {}", finding.code, finding.message);
    }
    for (code, count) in kinds.into_iter().filter(|(_, count)| *count > FINDINGS) {
        let _ = writeln!(out, "  {code}: and {} more; -o json has all", count - FINDINGS);
    }
}

/// Pods, their leaves, and every node with its ports.
#[must_use]
pub fn topology(topology: &v1::Topology, paint: Paint) -> String {
    let mut out = String::new();
    for pod in &topology.pods {
        let name = if pod.name.is_empty() { "(no pod)" } else { &pod.name };
        let _ = writeln!(out, "pod {name}");
        for rail in &pod.rails {
            let _ = writeln!(out, "  rail {}: {}", rail.rail, rail.leaves.join(", "));
        }
        let mut table = Table::bare();
        let mut header = vec!["NODE".to_owned(), "GPUS".to_owned(), "FREE".to_owned(), "USE".to_owned()];
        header.extend((0..topology.rails).map(|rail| format!("RAIL{rail}")));
        table.row(header);
        for node in &pod.nodes {
            let mut row = vec![
                node.name.clone(),
                node.gpus.to_string(),
                node.gpus_free.to_string(),
                if node.schedulable { "yes".to_owned() } else { "no".to_owned() },
            ];
            row.extend(node.ports.iter().map(port));
            table.row(row);
        }
        out.push_str(&table.painted("  ", paint, tone));
    }
    let any = |wanted: fn(&v1::TopologyPort) -> bool| {
        topology.pods.iter().flat_map(|pod| &pod.nodes).flat_map(|node| &node.ports).any(wanted)
    };
    if any(|port| !port.usable && !port.nic.is_empty()) {
        let _ = writeln!(out, "{} is not usable: no new job gets it", paint.tone("!", Tone::Bad));
    }
    if any(|port| port.drained) {
        let _ =
            writeln!(out, "{} is drained: jobs on it use their other rails", paint.tone("~", Tone::Doubtful));
    }
    if topology.pods.is_empty() {
        out.push_str("no nodes and no fabric yet: apply a Fabric document and let servers join\n");
    }
    findings(&mut out, &topology.findings);
    out
}

/// The colour of a cell of the servers' table; the signs of ports and the words say the same.
fn tone(row: usize, column: usize, cell: &str) -> Option<Tone> {
    match (row, column) {
        (0, _) => Some(Tone::Faint),
        (_, 3) if cell == "no" => Some(Tone::Doubtful),
        (_, ..4) => None,
        _ if cell == MISSING || cell.starts_with('!') => Some(Tone::Bad),
        _ if cell.starts_with('~') => Some(Tone::Doubtful),
        _ => Some(Tone::Good),
    }
}

/// What stands for a port that is not there.
const MISSING: &str = "missing";

fn port(port: &v1::TopologyPort) -> String {
    let state = match (port.usable, port.drained) {
        (false, _) => "!",
        (true, true) => "~",
        (true, false) => "",
    };
    match (port.nic.as_str(), port.leaf.as_str()) {
        ("", _) => MISSING.to_owned(),
        (nic, "") => format!("{state}{nic}"),
        (nic, leaf) => format!("{state}{nic}>{leaf}"),
    }
}

/// The cluster at a glance.
#[must_use]
pub fn health(health: &v1::ClusterHealth) -> String {
    let mut table = Table::bare();
    let store = if health.store_writable { "writable" } else { "REFUSES WRITES" };
    let rows = [
        (
            "controller",
            format!(
                "{} leads, {}, epoch {}, revision {}",
                health.leader, health.version, health.epoch, health.store_revision
            ),
        ),
        ("store", store.to_owned()),
        ("nodes", format!("{} of {} ready", health.nodes_ready, health.nodes_total)),
        ("gpus", format!("{} of {} held", health.gpus_held, health.gpus_total)),
        ("jobs", format!("{} running, {} pending", health.jobs_running, health.jobs_pending)),
    ];
    for (what, text) in rows {
        table.row([what.to_owned(), text]);
    }
    for rail in &health.rails {
        table
            .row([format!("rail {}", rail.rail), format!("{} of {} NICs up", rail.nics_up, rail.nics_total)]);
    }
    let mut out = table.render("");
    heat(&mut out, health);
    switches(&mut out, health);
    findings(&mut out, &health.reasons);
    out
}

/// A row for each server, a column for each rail, and below them what is wrong.
fn heat(out: &mut String, health: &v1::ClusterHealth) {
    let rails = health.nodes.iter().flat_map(|node| &node.rails).map(|rail| rail.rail + 1).max().unwrap_or(0);
    if rails == 0 {
        return;
    }
    let head = std::iter::once("NODE".to_owned()).chain((0..rails).map(|rail| format!("RAIL {rail}")));
    let mut table = Table::bare();
    table.row(head);
    let mut wrong = Vec::new();
    for node in &health.nodes {
        let cell = |rail: u32| {
            let Some(one) = node.rails.iter().find(|one| one.rail == rail) else { return "-".to_owned() };
            if one.codes.iter().any(|code| code == "Down") {
                "down".to_owned()
            } else {
                one.score.to_string()
            }
        };
        table.row(std::iter::once(node.node.clone()).chain((0..rails).map(cell)));
        for rail in node.rails.iter().filter(|rail| !rail.codes.is_empty()) {
            let use_ = if rail.usable { "" } else { "; takes no new job" };
            wrong.push(format!("{} rail {}: {}{use_}", node.node, rail.rail, rail.codes.join(", ")));
        }
    }
    let _ = write!(out, "\n{}", table.render(""));
    if health.nodes_left_out > 0 {
        let _ = writeln!(out, "and {} nodes more, as well as the last or better", health.nodes_left_out);
    }
    for line in wrong {
        let _ = writeln!(out, "{line}");
    }
}

/// A row for each switch, and below them what is wrong.
fn switches(out: &mut String, health: &v1::ClusterHealth) {
    if health.switches.is_empty() {
        return;
    }
    let mut table = Table::bare();
    table.row(["SWITCH", "CONNECTED", "PORTS UP"].map(str::to_owned));
    for switch in &health.switches {
        let connected = if switch.connected { "yes" } else { "no" };
        let ports = match switch.ports_total {
            0 => "-".to_owned(),
            all => format!("{} of {all}", switch.ports_up),
        };
        table.row([switch.switch.clone(), connected.to_owned(), ports]);
    }
    let _ = write!(out, "\n{}", table.render(""));
    if health.switches_left_out > 0 {
        let _ =
            writeln!(out, "and {} switches more, as well as the last or better", health.switches_left_out);
    }
    for reason in health.switches.iter().flat_map(|switch| &switch.reasons) {
        let at = reason.scope.strip_prefix("switch/").unwrap_or(&reason.scope);
        let _ = writeln!(out, "{at}: {}: {}", reason.code, reason.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_shows_every_port() {
        let port = |rail: u32, usable| v1::TopologyPort {
            rail,
            nic: format!("rail{rail}"),
            leaf: format!("l{rail}"),
            usable,
            drained: rail == 0,
        };
        let node = v1::TopologyNode {
            name: "n0".into(),
            gpus: 4,
            gpus_free: 2,
            schedulable: true,
            ports: vec![port(0, true), port(1, false)],
        };
        let rail = |rail: u32| v1::TopologyRail { rail, leaves: vec![format!("l{rail}")] };
        let pod = v1::TopologyPod { name: "p0".into(), rails: vec![rail(0), rail(1)], nodes: vec![node] };
        let finding = v1::Reason {
            code: "LinkUnknown".into(),
            scope: "node/n0".into(),
            message: "m".into(),
            ..Default::default()
        };
        let expected = "\
pod p0
  rail 0: l0
  rail 1: l1
  NODE  GPUS  FREE  USE  RAIL0      RAIL1
  n0    4     2     yes  ~rail0>l0  !rail1>l1
! is not usable: no new job gets it
~ is drained: jobs on it use their other rails

Findings:
  LinkUnknown [node/n0]: m
";
        let seen = v1::Topology { pods: vec![pod], rails: 2, findings: vec![finding] };
        assert_eq!(topology(&seen, Paint::NONE), expected);
        let painted = topology(&seen, Paint::of(crate::args::Color::Always, false));
        assert!(
            painted.contains("\u{1b}[33m~rail0>l0\u{1b}[0m  \u{1b}[31m!rail1>l1\u{1b}[0m\n"),
            "{painted}"
        );
        let plain = [0, 31, 32, 33, 90]
            .iter()
            .fold(painted, |text, number| text.replace(&format!("\x1b[{number}m"), ""));
        assert_eq!(plain, expected, "colour changes nothing but colour");
    }

    #[test]
    fn long_lists_are_folded() {
        let group = v1::LinkGroup {
            nodes: (0..90).map(|at| format!("i{at}q")).collect::<Vec<_>>().join(","),
            nics: "mlx5_[0-7]".into(),
            leaves: "r[0-7]-leaf1".into(),
            ports: "Ethernet[1-90]".into(),
            ..Default::default()
        };
        let spec = v1::FabricSpec { link_groups: vec![group], ..Default::default() };
        let finding = v1::Reason { code: "NodeNotCabled".into(), message: "m".into(), ..Default::default() };
        let status = v1::FabricStatus { findings: vec![finding; 60], ..Default::default() };
        let wire = v1::Fabric { spec: Some(spec), status: Some(status), ..Default::default() };
        let text = fabric(&wire, true);
        assert!(
            text.contains("i0q…i89q (90)  mlx5_[0-7]  r[0-7]-leaf1  Ethernet[1-90]")
                && text.contains(" 720 "),
            "{text}"
        );
        assert!(text.ends_with("  NodeNotCabled: and 10 more; -o json has all\n"), "{text}");
    }

    #[test]
    fn health_says_when_the_store_refuses() {
        let text = health(&v1::ClusterHealth { nodes_ready: 3, nodes_total: 4, ..Default::default() });
        assert!(text.contains("REFUSES WRITES") && text.contains("3 of 4 ready"), "{text}");
    }

    #[test]
    fn health_shows_a_row_of_rails_for_each_server_and_what_is_wrong() {
        let rail = |rail, score, codes: &[&str]| v1::RailScore {
            rail,
            score,
            usable: score > 0,
            codes: codes.iter().map(|code| (*code).to_owned()).collect(),
        };
        let node = |name: &str, rails| v1::NodeRailHealth { node: name.into(), rails };
        let nodes = vec![
            node("n3", vec![rail(0, 0, &["Storm"]), rail(1, 60, &["Lossy"]), rail(3, 0, &["Down"])]),
            node("n1", vec![rail(0, 100, &[]), rail(1, 100, &[]), rail(3, 100, &[])]),
        ];
        let text = health(&v1::ClusterHealth { nodes, nodes_left_out: 2, ..Default::default() });
        let right = "NODE  RAIL 0  RAIL 1  RAIL 2  RAIL 3\n\
                     n3    0       60      -       down\n\
                     n1    100     100     -       100\n\
                     and 2 nodes more, as well as the last or better\n\
                     n3 rail 0: Storm; takes no new job\n\
                     n3 rail 1: Lossy\n\
                     n3 rail 3: Down; takes no new job\n";
        assert!(text.contains(right), "{text}");
    }

    #[test]
    fn health_shows_switches_and_what_their_ports_say() {
        let reason = v1::Reason {
            code: "SwitchLosslessDrops".into(),
            message: "3 packets".into(),
            scope: "switch/leaf0/Ethernet0".into(),
            ..Default::default()
        };
        let bad = v1::SwitchHealth {
            switch: "leaf0".into(),
            connected: true,
            ports_up: 3,
            ports_total: 4,
            reasons: vec![reason],
        };
        let unread = v1::SwitchHealth { switch: "spine1".into(), ..Default::default() };
        let switches = vec![bad, unread];
        let text = health(&v1::ClusterHealth { switches, switches_left_out: 1, ..Default::default() });
        let right = "SWITCH  CONNECTED  PORTS UP\n\
                     leaf0   yes        3 of 4\n\
                     spine1  no         -\n\
                     and 1 switches more, as well as the last or better\n\
                     leaf0/Ethernet0: SwitchLosslessDrops: 3 packets\n";
        assert!(text.contains(right), "{text}");
        assert!(!health(&v1::ClusterHealth::default()).contains("SWITCH"));
    }
}
