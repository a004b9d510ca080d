//! What an engine is given when it starts: a JSON file, checked as a whole before anything is opened.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use node_agent_collective::Algorithm;
use node_agent_collective::units::{MAX_CHUNK, MAX_NODES, MAX_RAILS, MIN_CHUNK};
use serde::{Deserialize, Serialize};

/// Most bytes of a configuration file: a rank map of many thousand ranks fits.
const MAX_FILE: u64 = 4 << 20;
/// Most ranks of a job.
const MAX_RANKS: usize = 1 << 16;

/// The configuration of one engine. All engines of a job get the same `nodes`, `ranks`, `attempt`, `epoch`, `chunk_bytes`,
/// `checksum`, `reproducible`, `algorithm`, `protection` and rail numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The job as `tenant/name`, for messages.
    pub job: String,
    /// Uid of the job; ranks and peers must know the same.
    pub uid: String,
    /// Attempt of the job, from 1.
    pub attempt: u32,
    /// The epoch of the controller's leadership term.
    pub epoch: u64,
    /// Index of this engine's node in `nodes`.
    pub node: usize,
    /// Names of the job's nodes.
    pub nodes: Vec<String>,
    /// `ranks[r]` is the index of rank r's node.
    pub ranks: Vec<usize>,
    /// The rails of this node.
    pub rails: Vec<RailConfig>,
    /// Path of the Unix socket on which ranks attach.
    pub socket: PathBuf,
    /// Path of the Unix socket on which the supervisor sends requests.
    pub control: PathBuf,
    /// How long `connect` may take when it does not say, in milliseconds.
    #[serde(default = "defaults::connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// How long one operation may take from its first local post, in milliseconds.
    #[serde(default = "defaults::op_timeout_ms")]
    pub op_timeout_ms: u64,
    /// Greatest payload of one frame on a rail, in bytes.
    #[serde(default = "defaults::chunk_bytes")]
    pub chunk_bytes: usize,
    /// Whether what goes over the rails carries checksums (CRC32C), and what fails them is sent again.
    #[serde(default)]
    pub checksum: bool,
    /// Whether floats must be equal to the bit whichever algorithm is taken.
    #[serde(default = "defaults::reproducible")]
    pub reproducible: bool,
    /// The algorithm of all operations that it fits; the one that is predicted to be fastest if none.
    #[serde(default, with = "algorithm_name", skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// Connections keep to the network devices of their rails, too: some address of this job is of another rail's subnet, and the
    /// kernel's routes would lead there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// How what goes over the rails is protected between servers.
    #[serde(default, skip_serializing_if = "Protection::is_none")]
    pub protection: Protection,
    /// What carries the rails.
    #[serde(default, skip_serializing_if = "Transport::is_default")]
    pub transport: Transport,
    /// How verbs rails are set up.
    #[serde(default, skip_serializing_if = "Verbs::is_default")]
    pub verbs: Verbs,
    /// User whose processes may attach as ranks; the engine's own user and root if none. Beside it, whoever owns the socket by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_uid: Option<u32>,
    /// Ranks come and go: one that has left is awaited as one that has not come yet. Otherwise its next collective ends the job at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ranks_return: bool,
    /// What one rank may hold.
    #[serde(default)]
    pub limits: Limits,
    /// What the agent found of this node's GPUs. Of others nothing is known: their memory is tried.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuConfig>,
}

/// How memory of a GPU reaches NICs, as the agent found it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuConfig {
    /// Its PCI address, as sysfs writes it.
    pub gpu: String,
    /// NICs can register its dma-bufs, as far as that shows.
    pub dma_buf: bool,
    /// Why that is so; where they cannot, also what would change it.
    pub why: String,
}

/// One rail of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RailConfig {
    /// The rail's number in the fabric.
    pub rail: u16,
    /// The NIC, for messages.
    pub device: String,
    /// IP address of the NIC on this rail, which the engine binds and from which it connects.
    pub address: IpAddr,
    /// The NIC's network device, where it is known: what is measured before ranks start keeps to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netdev: Option<String>,
}

impl RailConfig {
    /// The device to keep to: the NIC's own, if its address is there. (One on a loopback or dummy device, announced by a routing
    /// daemon, comes in by whatever way leads to it.)
    pub fn own_device(&self) -> Option<String> {
        let netdev = self.netdev.as_ref()?;
        node_agent_probe::device_of(self.address).filter(|device| device == netdev)
    }
}

/// How what goes over the rails is protected between servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Protection {
    /// Not at all: who is on the way can read and change it.
    #[default]
    None,
    /// What was changed on its way is known, and sent again over another rail. It can be read.
    Integrity,
    /// The same, and nobody else can read it.
    Encrypted,
}

impl Protection {
    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

impl From<Protection> for node_agent_engine_transport::tcp::Protection {
    fn from(protection: Protection) -> Self {
        match protection {
            Protection::None => Self::None,
            Protection::Integrity => Self::Integrity,
            Protection::Encrypted => Self::Encrypted,
        }
    }
}

/// What carries the rails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// RDMA verbs on each rail whose NIC has them at both ends, TCP on the others.
    #[default]
    Auto,
    /// RDMA verbs on all rails, or not at all.
    Verbs,
    /// TCP, whatever the NICs have.
    Tcp,
}

impl Transport {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How verbs rails are set up. Equal at all engines of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verbs {
    /// Queue pairs of each link, 1 to 8: more take more ways through the fabric.
    pub pairs: usize,
    /// The IP traffic class of all packets: DSCP times four, and two bits of ECN. By default DSCP 26, ECN-capable.
    pub traffic_class: u8,
}

impl Default for Verbs {
    fn default() -> Self {
        Self { pairs: 1, traffic_class: 26 << 2 | 2 }
    }
}

impl Verbs {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What one rank may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Most shared buffers at a time, the ranges of GPU memory included.
    pub buffers: u32,
    /// Bytes of all its shared buffers, and again bytes of the operands of its calls under way.
    pub bytes: u64,
    /// Requests that wait for an answer.
    pub outstanding: u32,
    /// Bytes of GPUs' memory that rails may send from. They count as buffers, but not with the bytes of those.
    pub gpu_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { buffers: 256, bytes: 8 << 30, outstanding: 64, gpu_bytes: 1 << 40 }
    }
}

mod defaults {
    pub(super) fn connect_timeout_ms() -> u64 {
        20_000
    }
    pub(super) fn op_timeout_ms() -> u64 {
        60_000
    }
    pub(super) fn chunk_bytes() -> usize {
        node_agent_collective::shape::DEFAULT_CHUNK
    }
    pub(super) fn reproducible() -> bool {
        node_agent_collective::Plan::default().reproducible
    }
}

/// An algorithm by its name.
mod algorithm_name {
    use node_agent_collective::Algorithm;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(algorithm: &Option<Algorithm>, to: S) -> Result<S::Ok, S::Error> {
        algorithm.map(Algorithm::name).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Algorithm>, D::Error> {
        let name = Option::<String>::deserialize(from)?;
        name.map(|name| name.parse().map_err(D::Error::custom)).transpose()
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The configuration's path.
        path: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// Not JSON, or not of this form; the text names line, column and field.
    #[error("{}: {source}", path.display())]
    Parse {
        /// The configuration's path.
        path: PathBuf,
        /// What is wrong and where.
        source: serde_json::Error,
    },
    /// Values that cannot work together: all findings, not only the first.
    #[error("configuration cannot work: {}", .0.join("; "))]
    Invalid(Vec<String>),
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read or is too long, is not JSON of this form, or does not pass [`Config::check`].
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let read = |source| ConfigError::Read { path: path.into(), source };
        let file = std::fs::File::open(path).map_err(read)?;
        let mut text = String::new();
        let taken = std::io::Read::read_to_string(&mut std::io::Read::take(file, MAX_FILE + 1), &mut text);
        if taken.map_err(read)? as u64 > MAX_FILE {
            return Err(read(std::io::Error::other(format!("longer than {MAX_FILE} bytes"))));
        }
        let config: Self =
            serde_json::from_str(&text).map_err(|source| ConfigError::Parse { path: path.into(), source })?;
        config.check()?;
        Ok(config)
    }

    /// Checks that the values can work together.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] lists every value that is out of range or contradicts another.
    pub fn check(&self) -> Result<(), ConfigError> {
        let mut found = Vec::new();
        let mut expect = |holds: bool, text: String| {
            if !holds {
                found.push(text);
            }
        };
        let nodes = self.nodes.len();
        expect(
            (1..=MAX_NODES).contains(&nodes),
            format!("nodes: {nodes} given, 1 to {MAX_NODES} are possible"),
        );
        expect(
            self.node < nodes,
            format!("node: {} is none of the {nodes} nodes, counted from 0", self.node),
        );
        let ranks = self.ranks.len();
        expect(
            (1..=MAX_RANKS).contains(&ranks),
            format!("ranks: {ranks} given, 1 to {MAX_RANKS} are possible"),
        );
        for (rank, node) in self.ranks.iter().enumerate().filter(|(_, node)| **node >= nodes) {
            expect(false, format!("ranks[{rank}]: {node} is none of the {nodes} nodes"));
        }
        for (node, name) in self.nodes.iter().enumerate().filter(|(node, _)| !self.ranks.contains(node)) {
            expect(false, format!("ranks: node {node} ({name}) has no rank"));
        }
        let rails = self.rails.len();
        let fewest = usize::from(nodes > 1);
        expect(
            (fewest..=MAX_RAILS).contains(&rails),
            format!("rails: {rails} given, {fewest} to {MAX_RAILS} are possible"),
        );
        let numbers: BTreeSet<u16> = self.rails.iter().map(|rail| rail.rail).collect();
        expect(numbers.len() == rails, "rails: a rail is given twice".into());
        let chunk = self.chunk_bytes;
        let fits = (MIN_CHUNK..=MAX_CHUNK).contains(&chunk) && chunk.is_multiple_of(64);
        expect(fits, format!("chunk_bytes: {chunk} is no multiple of 64 from {MIN_CHUNK} to {MAX_CHUNK}"));
        let pairs = self.verbs.pairs;
        expect((1..=8).contains(&pairs), format!("verbs.pairs: {pairs} given, 1 to 8 are possible"));
        expect(self.op_timeout_ms > 0, "op_timeout_ms: must not be 0".into());
        expect(u32::try_from(self.op_timeout_ms).is_ok(), "op_timeout_ms: longer than 49 days".into());
        expect(self.connect_timeout_ms > 0, "connect_timeout_ms: must not be 0".into());
        expect(self.limits.outstanding > 0, "limits.outstanding: must not be 0".into());
        expect(self.socket != self.control, "socket and control must not be the same".into());
        if found.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(found)) }
    }

    /// The ranks of this node, ascending: local rank l is the l-th of them.
    pub fn local_ranks(&self) -> Vec<u32> {
        let ranks = (0_u32..).zip(&self.ranks);
        ranks.filter(|(_, node)| **node == self.node).map(|(rank, _)| rank).collect()
    }

    /// The rails in the order that engines number them among themselves: by rail number, whatever the order in the file.
    pub fn ordered_rails(&self) -> Vec<RailConfig> {
        let mut rails = self.rails.clone();
        rails.sort_by_key(|rail| rail.rail);
        rails
    }

    /// How long one operation may take.
    pub fn op_timeout(&self) -> Duration {
        Duration::from_millis(self.op_timeout_ms)
    }

    /// How messages name a node: its place and its name.
    pub fn node_name(&self, node: usize) -> String {
        let mut text = format!("node {node}");
        if let Some(name) = self.nodes.get(node) {
            // Writing to a string cannot fail.
            let _ = write!(text, " ({name})");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"job":"t/j","uid":"u","attempt":1,"epoch":7,"node":0,"nodes":["n0","n1"],"ranks":[0,0,1,1],
        "rails":[{"rail":1,"device":"b","address":"10.0.1.1"},{"rail":0,"device":"a","address":"10.0.0.1"}],
        "socket":"/run/e.sock","control":"/run/e.control"}"#;

    fn load(text: &str) -> Result<Config, ConfigError> {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("c.json");
        std::fs::write(&path, text).unwrap();
        Config::load(&path)
    }

    #[test]
    fn a_good_file_is_read_with_defaults() {
        let config = load(GOOD).unwrap();
        assert_eq!(config.op_timeout_ms, 60_000);
        assert_eq!(config.local_ranks(), [0, 1]);
        assert_eq!(config.ordered_rails()[0].device, "a");
        assert_eq!((config.checksum, config.reproducible, config.algorithm), (false, true, None));
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(load(&text).unwrap(), config);
    }

    #[test]
    fn how_operations_are_carried_out_is_read_by_name() {
        for &algorithm in Algorithm::ALL {
            let how =
                format!("\"epoch\":7,\"checksum\":true,\"reproducible\":false,\"algorithm\":\"{algorithm}\"");
            let config = load(&GOOD.replacen("\"epoch\":7", &how, 1)).unwrap();
            let read = (config.checksum, config.reproducible, config.algorithm);
            assert_eq!(read, (true, false, Some(algorithm)));
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(load(&text).unwrap(), config);
        }
        let protected = "\"epoch\":7,\"protection\":\"encrypted\"";
        let config = load(&GOOD.replacen("\"epoch\":7", protected, 1)).unwrap();
        assert_eq!(config.protection, Protection::Encrypted);
        let none = load(&GOOD.replacen("\"epoch\":7", "\"epoch\":7,\"algorithm\":null", 1)).unwrap();
        assert_eq!(none.algorithm, None);
    }

    #[test]
    fn bad_files_are_refused_with_place_and_cause() {
        for (from, to, words) in [
            ("\"job\"", "\"jobb\"", &["jobb", "line 1"][..]),
            ("\"node\":0", "\"node\":2", &["node: 2"]),
            ("[0,0,1,1]", "[0,0,5,0]", &["ranks[2]: 5", "node 1 (n1) has no rank"]),
            ("\"rail\":1", "\"rail\":0", &["given twice"]),
            ("10.0.1.1", "10.0.1", &["line 2"]),
            ("\"epoch\":7", "\"epoch\":7,\"chunk_bytes\":100", &["chunk_bytes: 100"]),
            ("\"epoch\":7", "\"epoch\":7,\"op_timeout_ms\":0", &["op_timeout_ms"]),
            (
                "\"epoch\":7",
                "\"epoch\":7,\"algorithm\":\"rng\"",
                &["`rng`", "one-shot, ring, halving", "line 1"],
            ),
            ("\"epoch\":7", "\"epoch\":7,\"reproducible\":1", &["boolean", "line 1"]),
            ("e.control", "e.sock", &["same"]),
            ("\"epoch\":7", "\"epoch\":7,\"verbs\":{\"pairs\":9}", &["verbs.pairs: 9"]),
            ("\"nodes\":[\"n0\",\"n1\"]", "\"nodes\":[]", &["nodes: 0 given", "node: 0"]),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = load(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{word} in {error}");
            }
        }
        assert!(Config::load(Path::new("/nonexistent/c.json")).unwrap_err().to_string().contains("c.json"));
    }
}
