//! The log of decisions: what the scheduler was given and what it decided, a JSON object a line.
//!
//! The first line is the header: the version of the format, the fabric with its digest, and the numbers of the policy.
//! Then come, in the order in which they happened, what the scheduler was given (`tenant`, `queue`, `reservation`, `job`,
//! `end`, `node`) and a `pass` with what it decided. From the given lines alone [`replay`](crate::replay) decides again.
//! The last line is `close`. Every line ends with its [`Sum`].
//!
//! Whoever writes such a log (the simulator, a controller) tells the book nothing that the log does not say, and
//! everything in the same order.

mod differ;
mod job;
mod seal;
#[cfg(test)]
mod tests;
mod words;
mod writer;

use std::fmt::Write as _;

use proto_model::Fabric;
use serde::{Deserialize, Serialize};

pub(crate) use differ::words as difference;
pub use job::{JobLine, RunLine};
pub use seal::Sum;
pub use words::{
    ActLine, BackfillLine, LineError, NodeLine, ObjectiveLine, PlacementLine, PolicyLine, QueueLine,
    ReservationLine, ShapeLine, TenantLine,
};
pub(crate) use words::{node, tenant, uid};
pub use writer::Recorder;

use crate::{
    servers::Kind,
    site::{Site, Spot},
};

/// What the header's `format` says.
pub const FORMAT: &str = "rail.decisions";
/// The version that is written; no other one is read.
pub const VERSION: u32 = 2;
/// Bytes of a line at most.
pub const MAX_LINE: usize = 64 << 20;

/// One line of a log of decisions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub enum Line {
    /// The header, which is the first line.
    Header(Header),
    /// A tenant comes, changes or goes.
    Tenant(TenantLine),
    /// A queue comes, changes or goes.
    Queue(QueueLine),
    /// A reservation comes, changes or goes.
    Reservation(ReservationLine),
    /// A job is queued, changes, or (with `run`) holds a place already.
    Job(Box<JobLine>),
    /// An attempt of a job has ended.
    End(EndLine),
    /// A server takes jobs, or no longer does.
    Node(NodeLine),
    /// A pass over the queue, with what it decided.
    Pass(PassLine),
    /// The last line, which says that the log is whole.
    Close(CloseLine),
}

/// The first line: format, fabric and policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// Name of the format, always [`FORMAT`].
    pub format: String,
    /// Version of the format, always [`VERSION`].
    pub version: u32,
    /// Name of the fabric document.
    pub fabric: String,
    /// The [`digest`] of the fabric document.
    pub digest: String,
    /// GPUs of each server, where no `node` line says otherwise.
    pub gpus_per_node: u32,
    /// What the servers are where they differ, in the order of the document's names: runs of those that are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServersLine>,
    /// The fabric's document, as the canonical JSON of the API has it; null where it is elsewhere.
    pub document: serde_json::Value,
    /// The numbers of the policy, which replays decide by.
    pub policy: PolicyLine,
    /// The sum over this line, to go on with.
    #[serde(skip)]
    pub sum: Sum,
}

/// Servers in a row that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServersLine {
    /// Servers of the run.
    pub count: u32,
    /// GPUs of each of these servers.
    pub gpus: u32,
    /// Their model; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub model: String,
    /// CPUs of each; 0 if not known.
    #[serde(default)]
    pub cpus: u32,
    /// Bytes of memory of each; 0 if not known.
    #[serde(default)]
    pub memory: u64,
}

/// The servers of a site as a header has them; none where no list says what they are.
#[must_use]
pub fn servers(site: &Site) -> Vec<ServersLine> {
    let mut lines: Vec<ServersLine> = Vec::new();
    if !site.listed {
        return lines;
    }
    let mut spots: Vec<&Spot> = site.spots.iter().collect();
    spots.sort_by_key(|spot| spot.node.index());
    for run in spots.chunk_by(|a, b| a.kind == b.kind) {
        let Kind { gpus, model, cpus, memory } = site.kinds[run[0].kind].clone();
        let count = u32::try_from(run.len()).unwrap_or(u32::MAX);
        lines.push(ServersLine { count, gpus, model, cpus, memory });
    }
    lines
}

/// The last line: nothing was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloseLine {
    /// When the log was closed, in milliseconds since 1970.
    pub at: u64,
    /// Lines of the log before this one.
    pub lines: u64,
}

/// An attempt of a job has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndLine {
    /// When the attempt ended, in milliseconds since 1970.
    pub at: u64,
    /// Identifier of the job.
    pub uid: String,
    /// It has run to its own end; else it was stopped, and a `job` line queues it again if it is.
    pub whole: bool,
}

/// A pass over the queue, with what it decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassLine {
    /// When the pass was made, in milliseconds since 1970.
    pub at: u64,
    /// Jobs that were looked at, at most.
    pub depth: u64,
    /// What the pass decided, in order.
    pub acts: Vec<ActLine>,
}

fn listed(rails: impl Iterator<Item = u32>) -> String {
    rails.map(|rail| rail.to_string()).collect::<Vec<_>>().join(",")
}

/// A digest of a fabric: of its rails, leaves, spines, cables and what is down, whatever the order of their lines and
/// however its cables are grouped. FNV-1a, 128 bits; it tells fabrics apart, it does not keep secrets.
#[must_use]
pub fn digest(fabric: &Fabric) -> String {
    let mut lines: Vec<String> = Vec::new();
    for rail in &fabric.rails {
        lines.push(format!("rail {} {}", rail.index, rail.name));
    }
    for leaf in &fabric.leaves {
        let rails = listed(leaf.rails());
        lines.push(format!("leaf {} {rails} {} {} {}", leaf.name, leaf.pod, leaf.plane, leaf.down));
    }
    for spine in &fabric.spines {
        let rails = listed(spine.rails());
        lines.push(format!("spine {} {rails} {} {}", spine.name, spine.plane, spine.down));
    }
    for link in fabric.each_link() {
        let place = format!("{} {} {} {}", link.node, link.nic, link.leaf, link.port);
        let rail = link.rail.map_or_else(String::new, |rail| format!(" on {rail}"));
        lines.push(format!("link {place} {} {}{rail}", link.speed_mbps, link.down));
    }
    for up in &fabric.uplinks {
        let ends = format!("{} {}", up.lower, up.upper);
        lines.push(format!("uplink {ends} {} {} {}", up.cables, up.down, up.speed_mbps));
    }
    lines.sort_unstable();
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in lines.iter().flat_map(|line| line.bytes().chain([b'\n'])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut text = String::with_capacity(32);
    let _ = write!(text, "{hash:032x}");
    text
}
