//! What is wrong with servers and what mends it, one line for each thing, the worst first. Pure: nodes in, lines out.

use std::collections::BTreeMap;

use proto_model::ReasonCode;
use proto_wire::v1::{self, nic_condition::Severity, qos_port::State};
use serde_json::{Value, json};

use super::{Table, gpudirect, isolation};
use crate::args::Output;

/// How bad it is. Worse is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It takes something out of use.
    Fault,
    /// Jobs run, and are slower than they could be.
    Slow,
    /// Worth knowing; nothing suffers from it.
    Note,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Fault => "FAULT",
            Self::Slow => "SLOW",
            Self::Note => "NOTE",
        }
    }
}

/// One thing that is wrong, with all it is wrong with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// How bad it is; the worst come first.
    pub level: Level,
    /// Code of the condition in UpperCamelCase; stable, for programs.
    pub code: String,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What to do; empty where the message says it.
    pub fix: String,
    /// What has it: NODE/DEVICE, or NODE for a server as a whole.
    pub subjects: Vec<String>,
}

/// Subjects that a cell names.
const NAMED: usize = 4;
/// What has no fix of its own.
const CHECK: &str = "see `railctl describe node`";

#[derive(Default)]
struct Lines(BTreeMap<(Level, String, String, String), Vec<String>>);

impl Lines {
    fn say(&mut self, level: Level, code: &str, message: &str, fix: &str, subject: String) {
        let key = (level, code.to_owned(), message.to_owned(), fix.to_owned());
        self.0.entry(key).or_default().push(subject);
    }
}

/// What is wrong with these servers.
#[must_use]
pub fn lines(nodes: &[v1::Node]) -> Vec<Line> {
    let mut lines = Lines::default();
    for node in nodes {
        examine(&mut lines, node);
    }
    let line = |((level, code, message, fix), subjects)| Line { level, code, message, fix, subjects };
    lines.0.into_iter().map(line).collect()
}

/// Whether a cause is of this kind.
fn has(reason: &v1::Reason, code: &ReasonCode) -> bool {
    ReasonCode::from_text(&reason.code) == *code
}

fn examine(lines: &mut Lines, node: &v1::Node) {
    let name = node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
    let Some(status) = &node.status else { return };
    let of = |what: &str| format!("{name}/{what}");
    if status.phase() != v1::node_status::Phase::Ready {
        let fix = "look at its agent: systemctl status rail-node-agent";
        lines.say(Level::Fault, "NotReady", "its agent has not been heard of", fix, name.to_owned());
    }
    if let Some(quarantined) = &status.quarantined {
        let fix = "see to it, then railctl node return NODE";
        lines.say(Level::Fault, "Quarantined", &quarantined.message, fix, name.to_owned());
    }
    for swapped in status.reasons.iter().filter(|reason| has(reason, &ReasonCode::RailsSwapped)) {
        let fix = "swap the cables, or rail-node-agent run --rails map:DEVICE=RAIL,...";
        lines.say(Level::Slow, "RailsSwapped", &swapped.message, fix, name.to_owned());
    }
    for unproved in status.reasons.iter().filter(|reason| has(reason, &ReasonCode::RailUnproved)) {
        lines.say(Level::Note, "RailUnproved", &unproved.message, "", name.to_owned());
    }
    if let Some(spec) = node.spec.as_ref().filter(|spec| spec.unschedulable) {
        let why = if spec.reason.is_empty() { "it takes no new job" } else { &spec.reason };
        lines.say(Level::Note, "Cordoned", why, "railctl node uncordon NODE", name.to_owned());
    }
    let Some(inventory) = &status.inventory else { return };
    for (message, fix) in isolation::lacks(inventory) {
        lines.say(Level::Note, "Isolation", &message, fix, name.to_owned());
    }
    for nic in inventory.nics.iter().filter(|nic| !nic.up) {
        let fix = "look at the cable and the switch's port";
        lines.say(Level::Fault, "NicDown", "the link is down", fix, of(&nic.device));
    }
    for health in &inventory.health {
        for condition in &health.conditions {
            let level = match condition.severity() {
                Severity::Drain => Level::Fault,
                Severity::Degraded => Level::Slow,
                Severity::Note | Severity::Unspecified => Level::Note,
            };
            lines.say(level, &condition.code, &condition.message, "", of(&health.device));
        }
    }
    for port in &inventory.qos {
        let (level, code, fix) = match port.state() {
            State::Failed => (Level::Slow, "QosFailed", "mend it, then railctl qos resume"),
            State::Differs => (Level::Slow, "QosDiffers", "see `railctl qos status`"),
            State::Unspecified | State::Held | State::Trial | State::Kept => continue,
        };
        lines.say(level, code, &format!("class of service: {}", port.message), fix, of(&port.device));
    }
    for finding in &inventory.findings {
        let level = if has(finding, &ReasonCode::PcieDegraded) { Level::Slow } else { Level::Note };
        lines.say(level, &finding.code, &finding.message, "", of(&finding.scope));
    }
    for gpu in &inventory.gpus {
        if let Some(direct) = gpu.facts.as_ref().and_then(|facts| facts.gpu_direct.as_ref()) {
            gpu_direct(lines, direct, &of(&format!("gpu{}", gpu.index)));
        }
    }
}

/// A GPU is slow by everything that keeps it from better ways and by what makes its own slow: without dma-bufs the engine stages in host
/// memory, whatever serves others.
fn gpu_direct(lines: &mut Lines, direct: &v1::GpuDirect, subject: &str) {
    for cause in &direct.causes {
        let what = match cause.path == direct.path {
            true => format!("GPU memory by {} is slow: {}", gpudirect::words(cause.path()), cause.message),
            false => format!(
                "GPU memory goes by {}, not by {}: {}",
                gpudirect::words(gpudirect::engine(direct.path())),
                gpudirect::words(cause.path()),
                cause.message
            ),
        };
        lines.say(Level::Slow, &cause.code, &what, &cause.fix, subject.to_owned());
    }
}

/// Whether something is out of use.
#[must_use]
pub fn faults(lines: &[Line]) -> usize {
    lines.iter().filter(|line| line.level == Level::Fault).count()
}

/// In the format that was asked for.
#[must_use]
pub fn render(lines: &[Line], nodes: usize, output: Output) -> String {
    let all = || {
        json!({
            "kind": "Diagnosis", "apiVersion": "rail/v1", "nodes": nodes,
            "lines": lines.iter().map(as_json).collect::<Vec<_>>(),
        })
    };
    match output {
        Output::Json => format!("{:#}\n", all()),
        Output::Yaml => proto_manifest::yaml_of(&all()),
        Output::Name => {
            lines.iter().flat_map(|line| &line.subjects).map(|subject| format!("{subject}\n")).collect()
        }
        Output::Table | Output::Wide => table(lines, nodes, output == Output::Wide),
    }
}

fn as_json(line: &Line) -> Value {
    json!({
        "level": line.level.word(), "code": line.code, "message": line.message, "fix": line.fix,
        "subjects": line.subjects,
    })
}

fn table(lines: &[Line], nodes: usize, wide: bool) -> String {
    if lines.is_empty() {
        return format!("nothing is wrong with {}\n", proto_model::reason::many(nodes, "node"));
    }
    let mut table = Table::new(["", "WHERE", "CODE", "WHAT", "FIX"]);
    for line in lines {
        let shown = if wide { line.subjects.len() } else { line.subjects.len().min(NAMED) };
        let more = line.subjects.len() - shown;
        let more = if more == 0 { String::new() } else { format!(",+{more}") };
        let fix = if line.fix.is_empty() { CHECK } else { &line.fix };
        table.row([
            line.level.word().to_owned(),
            line.subjects[..shown].join(",") + &more,
            line.code.clone(),
            line.message.clone(),
            fix.to_owned(),
        ]);
    }
    table.render("")
}

#[cfg(test)]
mod tests {
    use proto_wire::v1::gpu_direct::Path;

    use super::*;

    fn cause(path: Path, code: &str) -> v1::gpu_direct::Cause {
        let (message, fix) = (format!("of {code}"), format!("mend {code}"));
        v1::gpu_direct::Cause { path: path.into(), code: code.into(), message, fix }
    }

    fn node(name: &str, path: Path, causes: Vec<v1::gpu_direct::Cause>) -> v1::Node {
        let direct = v1::GpuDirect { path: path.into(), reason: String::new(), causes };
        let facts = v1::GpuFacts { gpu_direct: Some(direct), ..Default::default() };
        let gpu = |index| v1::Gpu { index, facts: Some(facts.clone()), ..Default::default() };
        let features = vec![v1::IsolationFeature { active: true, ..Default::default() }];
        let isolation = Some(v1::Isolation { features });
        let inventory = v1::Inventory { gpus: vec![gpu(0), gpu(1)], isolation, ..Default::default() };
        let status = v1::NodeStatus { phase: 1, inventory: Some(inventory), ..Default::default() };
        v1::Node {
            metadata: Some(v1::Metadata { name: name.into(), ..Default::default() }),
            status: Some(status),
            ..Default::default()
        }
    }

    #[test]
    fn gpus_are_slow_by_what_has_the_engine_stage() {
        let staged =
            node("n0", Path::HostStaging, vec![cause(Path::DmaBuf, "A"), cause(Path::PeerMemory, "B")]);
        let peer = node("n1", Path::PeerMemory, vec![cause(Path::DmaBuf, "A"), cause(Path::PeerMemory, "C")]);
        let reported: Vec<_> = lines(&[staged, peer])
            .into_iter()
            .map(|line| (line.level, line.message, line.subjects))
            .collect();
        let of = |names: &[&str]| -> Vec<String> {
            names.iter().flat_map(|name| [format!("{name}/gpu0"), format!("{name}/gpu1")]).collect()
        };
        let slow = |message: &str, names: &[&str]| (Level::Slow, message.to_owned(), of(names));
        let expected = [
            slow("GPU memory goes by host staging, not by dma-buf: of A", &["n0", "n1"]),
            slow("GPU memory goes by host staging, not by peer memory: of B", &["n0"]),
            slow("GPU memory by peer memory is slow: of C", &["n1"]),
        ];
        assert_eq!(reported, expected);
    }

    #[test]
    fn the_worst_is_first_and_the_same_is_one_line() {
        let mut sick: Vec<v1::Node> =
            (0..6).map(|n| node(&format!("n{n}"), Path::DmaBuf, Vec::new())).collect();
        for node in &mut sick {
            let inventory = node.status.as_mut().unwrap().inventory.as_mut().unwrap();
            let finding =
                |code: &str| v1::Reason { code: code.into(), scope: "x".into(), ..Default::default() };
            inventory.findings = vec![finding("NoGid"), finding("PcieDegraded")];
            inventory.nics = vec![v1::Nic { device: "mlx5_0".into(), ..Default::default() }];
        }
        sick[0].status.as_mut().unwrap().phase = 2;
        let lines = lines(&sick);
        let codes: Vec<&str> = lines.iter().map(|line| line.code.as_str()).collect();
        assert_eq!((codes, faults(&lines)), (vec!["NicDown", "NotReady", "PcieDegraded", "NoGid"], 2));
        let text = render(&lines, 6, Output::Table);
        let first = "FAULT  n0/mlx5_0,n1/mlx5_0,n2/mlx5_0,n3/mlx5_0,+2  NicDown       the link is down";
        assert!(text.lines().nth(1).unwrap().starts_with(first), "{text}");
        assert!(render(&lines, 6, Output::Wide).contains("n5/mlx5_0"));
        let value: Value = serde_json::from_str(&render(&lines, 6, Output::Json)).unwrap();
        assert_eq!(value["lines"][1]["fix"], "look at its agent: systemctl status rail-node-agent");
    }

    #[test]
    fn a_nic_without_the_profile_that_it_should_have_is_named() {
        let mut sick = node("n0", Path::DmaBuf, Vec::new());
        let port = |device: &str, state: State| v1::QosPort {
            device: device.into(),
            state: state.into(),
            message: "why".into(),
            ..Default::default()
        };
        sick.status.as_mut().unwrap().inventory.as_mut().unwrap().qos =
            vec![port("mlx5_0", State::Kept), port("mlx5_1", State::Differs), port("mlx5_2", State::Failed)];
        let reported: Vec<_> =
            lines(&[sick]).into_iter().map(|line| (line.code, line.message, line.subjects)).collect();
        let one = |code: &str, nic: &str| {
            (code.to_owned(), "class of service: why".to_owned(), vec![format!("n0/{nic}")])
        };
        assert_eq!(reported, [one("QosDiffers", "mlx5_1"), one("QosFailed", "mlx5_2")]);
    }

    #[test]
    fn a_server_that_gives_less_isolation_than_it_could_is_named() {
        let mut weak = node("n0", Path::DmaBuf, Vec::new());
        let inventory = weak.status.as_mut().unwrap().inventory.as_mut().unwrap();
        inventory.isolation.as_mut().unwrap().features.push(v1::IsolationFeature {
            kind: v1::isolation_feature::Kind::Seccomp.into(),
            reason: "not root".into(),
            fix: "run it as root".into(),
            ..Default::default()
        });
        let mut old = node("n1", Path::DmaBuf, Vec::new());
        old.status.as_mut().unwrap().inventory.as_mut().unwrap().isolation = None;
        let reported: Vec<_> =
            lines(&[weak, old]).into_iter().map(|line| (line.level, line.fix, line.subjects)).collect();
        let one = |fix: &str, name: &str| (Level::Note, fix.to_owned(), vec![name.to_owned()]);
        assert_eq!(reported, [one("upgrade rail-node-agent", "n1"), one("run it as root", "n0")]);
    }

    #[test]
    fn a_well_cluster_is_said_to_be_well() {
        assert_eq!(
            render(&lines(&[node("n0", Path::DmaBuf, Vec::new())]), 1, Output::Table),
            "nothing is wrong with 1 node\n"
        );
    }
}
