//! CPUs and memory in words: that no node has so much, and that too little is free.

use controller_topology::Server;
use proto_model::{Reason, ReasonCode, many, size};

use crate::{explain::Cause, host::Host, place::Need, snapshot::Snapshot};

/// One of the two.
#[derive(Clone)]
struct Kind {
    /// Code where too few nodes have enough of it.
    shape: ReasonCode,
    /// What they are, for those whose agents do not report them.
    what: &'static str,
    of: fn(Host) -> u64,
    text: fn(u64) -> String,
}

const KINDS: [Kind; 2] = [
    Kind {
        shape: ReasonCode::CpuShape,
        what: "CPUs",
        of: |host| host.cpus.into(),
        text: |cpus| many(cpus, "CPU"),
    },
    Kind {
        shape: ReasonCode::MemoryShape,
        what: "memory",
        of: |host| host.memory,
        text: |bytes| format!("{} of memory", size(bytes)),
    },
];

/// Too few nodes have so much, even when idle; and the most that any has.
pub(super) fn shapes(snapshot: &Snapshot, need: &Need, nodes: usize, reasons: &mut Vec<Reason>) {
    for kind in KINDS.into_iter().filter(|kind| (kind.of)(need.host) > 0) {
        reasons.extend(shape(snapshot, need, nodes, kind));
    }
}

fn shape(snapshot: &Snapshot, need: &Need, nodes: usize, kind: Kind) -> Option<Reason> {
    let asked = (kind.of)(need.host);
    let (mut with, mut untold, mut most) = (0, 0, None::<(u64, &Server)>);
    for (_, server, capacity) in snapshot.nodes() {
        let has = (kind.of)(capacity.host);
        with += usize::from(has >= asked);
        untold += usize::from(has == 0);
        if has > 0 && most.is_none_or(|(most, other)| (has, &other.name) > (most, &server.name)) {
            most = Some((has, server));
        }
    }
    let wanted = (need.nodes as usize).min(nodes);
    if with >= wanted {
        return None;
    }
    let text = (kind.text)(asked);
    let Some((most, server)) = most else {
        let message =
            format!("the job asks for {text} per node, and no node's agent tells its {}", kind.what);
        return Some(Reason::new(kind.shape, message).count(nodes));
    };
    let (name, has) = (&server.name, (kind.text)(most));
    let mut message = if with == 0 {
        format!("the job asks for {text} per node, the largest node has {has} ({name})")
    } else {
        let (asked, have) = (many(wanted, "node"), of_nodes(with, nodes));
        format!("the job asks for {asked} with {text}, {have} so much; the largest has {has} ({name})")
    };
    if untold > 0 {
        let of = if untold == 1 { "1 node".to_owned() } else { format!("{untold} nodes") };
        message.push_str(&format!("; of {of} the agent does not tell it"));
    }
    let reason = Reason::new(kind.shape, message).count(nodes - with);
    Some(if with == 0 { reason.scope(format!("node/{name}")) } else { reason })
}

/// The code for nodes that have CPUs and memory enough, but not beside all else that is asked for.
pub(super) fn code(need: &Need) -> ReasonCode {
    if need.host.cpus > 0 { ReasonCode::CpuShape } else { ReasonCode::MemoryShape }
}

/// What is so of nodes that a job's CPUs or memory keep away: code and words; nothing for other causes.
pub(super) fn words(need: &Need, cause: &Cause) -> Option<(ReasonCode, String)> {
    let (cpus, memory) = (u64::from(need.host.cpus), size(need.host.memory));
    let cpus = if cpus == 1 { "no CPU".to_owned() } else { format!("fewer than {cpus} CPUs") };
    Some(match cause {
        Cause::CpuShape => (ReasonCode::CpuShape, format!("HAVE {cpus}, even when idle")),
        Cause::CpusHeld => (ReasonCode::CpuCapacity, format!("HAVE {cpus} free")),
        Cause::CpusUnknown => {
            (ReasonCode::CpusUnknown, "HAVE an agent that tells nothing of CPUs".to_owned())
        }
        Cause::MemoryShape => {
            (ReasonCode::MemoryShape, format!("HAVE less than {memory} of memory, even when idle"))
        }
        Cause::MemoryHeld => (ReasonCode::MemoryCapacity, format!("HAVE less than {memory} of memory free")),
        Cause::MemoryUnknown => {
            (ReasonCode::MemoryUnknown, "HAVE an agent that tells nothing of memory".to_owned())
        }
        _ => return None,
    })
}

/// How many of all nodes have something.
pub(crate) fn of_nodes(with: usize, nodes: usize) -> String {
    format!("{with} of {} {}", many(nodes, "node"), if with == 1 { "has" } else { "have" })
}
