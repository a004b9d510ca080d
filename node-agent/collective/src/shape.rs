//! What a job is: who takes part, the sizes that all nodes must agree on, and the rank map from one node's point of view.

use crate::algorithm::Algorithm;
use crate::call::Dtype;
use crate::error::ConfigError;
use crate::memory::Region;
use crate::stripe::Windows;
use crate::units::{MAX_CHUNK, MAX_NODES, MAX_RAILS, MIN_CHUNK, Node, Rank, Time};

/// Bytes on their way on all links of a rail, by default.
const LINK_WINDOW: usize = 1 << 20;
/// Most bytes of the keep.
const KEEP_MOST: usize = 16 << 20;
/// Bytes on their way on all links of a rail in use together, unless they are slow or fast: what the port of a leaf can queue for one node
/// (the least that is known of a switch that drops; 16 ms of 200 Mbit/s), so that senders to one node do not overflow it.
const RAIL_WINDOW: u64 = 400_000;
/// Greatest chunk size that suits TCP rails, taken by large operations only ([`chunk_size`]): four nodes on four rails of 200 Mbit/s
/// reach 90 % of line rate with four times as much, because the chunks of several senders then overflow the queue before the receiver.
pub const DEFAULT_CHUNK: usize = 64 << 10;
/// Chunks beyond this size save processor time, and rails of unequal speed are filled less evenly.
const COMMON_CHUNK: usize = 32 << 10;

/// What a [`crate::Machine`] must know of its job. `ranks`, `nodes`, `rails`, `chunk_bytes`, and of the tuning what
/// it says, must be equal on all nodes; a node that differs is found out by its first frame.
#[derive(Debug, Clone)]
pub struct Config {
    /// This node's index in the job, counted from 0.
    pub node: Node,
    /// Number of nodes of the job.
    pub nodes: usize,
    /// `ranks[r]` is the node of rank r.
    pub ranks: Vec<Node>,
    /// Number of rails that the nodes of the job share.
    pub rails: usize,
    /// Greatest payload of one data frame, in bytes.
    pub chunk_bytes: usize,
    /// Time that an operation has from its first local post (or from the end of the operation before it) to its end.
    pub op_timeout: Time,
    /// Fencing number of the job attempt; frames of another epoch are refused.
    pub epoch: u32,
    /// Region for staging, at least [`Config::scratch_bytes`] long; used by the machine alone.
    pub scratch: Region,
    /// Whether payloads carry a CRC32C, and what fails it is sent again over another rail (or over the same one, once it is
    /// connected again). Equal on all nodes.
    pub checksum: bool,
    /// Numbers that trade memory for speed; the default suits.
    pub tuning: Tuning,
}

/// Numbers that trade memory for speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes handed to one link and not acknowledged, at most (but always one chunk may be). `None`: one MiB shared by the
    /// links of a rail, at least two chunks for each. The link's measured rate narrows it further.
    pub link_window: Option<usize>,
    /// Received bytes after which they are acknowledged at once rather than with the next frame.
    pub ack_bytes: u64,
    /// Time after which any received bytes are acknowledged.
    pub ack_delay: Time,
    /// Greatest chunk that may be sent ahead of its operation's start at the peer. Equal on all nodes.
    pub eager_bytes: usize,
    /// Chunks that may be sent to one peer ahead of their operations' start there. Equal on all nodes.
    pub eager_chunks: usize,
    /// Staged bytes of one reduction, at most (but always four chunks for each peer). Equal on all nodes.
    pub stage_bytes: usize,
    /// Rails whose times for a chunk differ by no more than this count as equal. Of the order of a processor's pauses where
    /// a processor moves the bytes; zero where an adapter does.
    pub rate_noise: Time,
    /// Silence after which a rail is dead that owes an acknowledgement, if its peer answers over another rail meanwhile; the
    /// peer is asked after half of it. Longer than what the slowest useful rail takes for a chunk of each peer.
    pub patience: Time,
    /// Time that a peer is given to come back that closed its last rail. A peer whose rails were lost otherwise is
    /// waited for as long as the operations may take.
    pub peer_grace: Time,
    /// The algorithm of all operations that it fits; `None`: the one that is predicted to be fastest. Equal on all nodes.
    pub algorithm: Option<Algorithm>,
}

impl Default for Tuning {
    fn default() -> Self {
        Tuning {
            link_window: None,
            ack_bytes: 48 << 10,
            ack_delay: Time::from_millis(2),
            eager_bytes: 16 << 10,
            eager_chunks: 16,
            stage_bytes: 12 << 20,
            rate_noise: Time::from_micros(500),
            patience: Time::from_millis(60),
            peer_grace: Time::from_secs(2),
            algorithm: None,
        }
    }
}

/// How the scratch region is cut: first early slots, then chunk-sized slots for staging and for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scratch {
    /// Early slots for each peer.
    pub early_per_peer: usize,
    /// Bytes of an early slot.
    pub early_bytes: usize,
    /// Chunks that each peer may have staged in one reduction.
    pub window: usize,
    /// Staging slots: enough for two reductions at full window.
    pub stage: usize,
    /// Sending slots: they are held until their chunk is acknowledged.
    pub send: usize,
    /// Bytes of the keep: what all windows hold, within bounds.
    pub keep: usize,
}

impl Config {
    /// Bytes of scratch that a machine of this configuration needs.
    #[must_use]
    pub fn scratch_bytes(&self) -> usize {
        let s = self.scratch_layout();
        self.peers() * s.early_per_peer * s.early_bytes + (s.stage + s.send) * self.chunk_bytes + s.keep
    }

    pub(crate) fn peers(&self) -> usize {
        self.nodes.saturating_sub(1)
    }

    pub(crate) fn scratch_layout(&self) -> Scratch {
        let peers = self.peers();
        let window = (self.tuning.stage_bytes / self.chunk_bytes.max(1) / peers.max(1)).clamp(4, 128);
        Scratch {
            // A chunk may still be on its way into its slot when its operation starts, and the credit for it returns:
            // one for each rail at most.
            early_per_peer: self.tuning.eager_chunks.max(1) + self.rails,
            early_bytes: self.tuning.eager_bytes.min(self.chunk_bytes),
            window,
            stage: 2 * window * peers,
            send: if peers == 0 {
                0
            } else {
                (self.rails * LINK_WINDOW / self.chunk_bytes.max(1)).clamp(8, 256)
            },
            keep: if peers == 0 {
                0
            } else {
                let windows = self.rails * peers * self.link_window() as usize;
                windows.clamp(2 * self.chunk_bytes, KEEP_MOST.max(2 * self.chunk_bytes)).next_multiple_of(64)
            },
        }
    }

    /// Bytes that one link may have on its way.
    pub(crate) fn link_window(&self) -> u64 {
        let frame = self.chunk_bytes + crate::header::HEADER_BYTES;
        let default = (LINK_WINDOW / self.peers().max(1)).max(2 * frame);
        self.tuning.link_window.unwrap_or(default) as u64
    }

    /// What links may have on their way.
    pub(crate) fn windows(&self) -> Windows {
        let frame = self.chunk_bytes.min(COMMON_CHUNK) + crate::header::HEADER_BYTES;
        Windows { floor: 2 * frame as u64, rail: RAIL_WINDOW, most: self.link_window() }
    }

    /// Received bytes that are acknowledged at once: well below the window, so that it never closes for want of it.
    pub(crate) fn ack_bytes(&self) -> u64 {
        self.tuning.ack_bytes.min(self.link_window() / 4)
    }

    /// Digest of what all nodes must share.
    pub(crate) fn shape(&self) -> u32 {
        let t = &self.tuning;
        let numbers = [
            self.nodes,
            self.rails,
            self.chunk_bytes,
            t.eager_bytes,
            t.eager_chunks,
            t.stage_bytes,
            self.checksum.into(),
        ];
        let ranks = self.ranks.iter().map(|&n| u64::from(n));
        let forced = t.algorithm.map_or(0, |a| u64::from(a.code()));
        // FNV-1a over 64-bit words: stable across versions of the standard library, unlike its hashers.
        let hash = numbers
            .iter()
            .map(|&n| n as u64)
            .chain(std::iter::once(forced))
            .chain(ranks)
            .fold(0xcbf2_9ce4_8422_2325u64, |h, word| (h ^ word).wrapping_mul(0x0100_0000_01b3));
        (hash ^ hash >> 32) as u32
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if self.nodes == 0 || self.nodes > MAX_NODES {
            return Err(ConfigError::Nodes(self.nodes));
        }
        if usize::from(self.node) >= self.nodes {
            return Err(ConfigError::OwnNode { node: self.node, nodes: self.nodes });
        }
        let mut seen = vec![false; self.nodes];
        for (rank, &node) in self.ranks.iter().enumerate() {
            let Some(seen) = seen.get_mut(usize::from(node)) else {
                return Err(ConfigError::RankNode { rank: rank as Rank, node, nodes: self.nodes });
            };
            *seen = true;
        }
        if let Some(empty) = seen.iter().position(|s| !s) {
            return Err(ConfigError::EmptyNode(empty as Node));
        }
        if self.rails > MAX_RAILS || self.rails == 0 && self.nodes > 1 {
            return Err(ConfigError::Rails(self.rails));
        }
        if !(MIN_CHUNK..=MAX_CHUNK).contains(&self.chunk_bytes) || !self.chunk_bytes.is_multiple_of(64) {
            return Err(ConfigError::Chunk(self.chunk_bytes));
        }
        if self.scratch.len < self.scratch_bytes() {
            return Err(ConfigError::Scratch { given: self.scratch.len, needed: self.scratch_bytes() });
        }
        Ok(())
    }
}

/// The rank map from one node's point of view.
#[derive(Debug, Clone)]
pub struct Layout {
    /// This node's index in the job, counted from 0.
    pub node: Node,
    /// Ranks of each node, ascending.
    pub ranks_of: Vec<Vec<Rank>>,
    /// Node of each rank.
    pub node_of: Vec<Node>,
}

impl Layout {
    /// The layout of a checked rank map.
    #[must_use]
    pub fn new(node: Node, nodes: usize, node_of: &[Node]) -> Self {
        let mut ranks_of = vec![Vec::new(); nodes];
        for (rank, &node) in node_of.iter().enumerate() {
            ranks_of[usize::from(node)].push(rank as Rank);
        }
        Layout { node, ranks_of, node_of: node_of.to_vec() }
    }

    /// Number of nodes of the job.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.ranks_of.len()
    }

    /// Number of ranks of the job.
    #[must_use]
    pub fn world(&self) -> usize {
        self.node_of.len()
    }

    /// The ranks of this node, ascending.
    #[must_use]
    pub fn local(&self) -> &[Rank] {
        &self.ranks_of[usize::from(self.node)]
    }

    /// The ranks of `node`, ascending.
    #[must_use]
    pub fn ranks(&self, node: Node) -> &[Rank] {
        &self.ranks_of[usize::from(node)]
    }

    /// The place of a rank among this node's.
    #[must_use]
    pub fn local_index(&self, rank: Rank) -> Option<usize> {
        self.local().binary_search(&rank).ok()
    }

    /// The other nodes, in the order in which this node serves them: the next one first, so that at any moment the
    /// nodes serve different ones.
    pub fn peers(&self) -> impl Iterator<Item = Node> + use<> {
        let (node, nodes) = (self.node, self.nodes() as Node);
        (node + 1..nodes).chain(0..node)
    }
}

/// Chunk size of an operation whose greatest flow between two nodes has `flow` bytes: small enough that every rail
/// gets some (and many, of those of more than 32 KiB), large enough to be worth a frame. Equal on all nodes.
#[must_use]
pub fn chunk_size(flow: usize, config: &Config) -> usize {
    const WORTH_A_FRAME: usize = 4096;
    let rail = flow.saturating_mul(config.peers()) / config.rails.max(1);
    let most = (rail / 16).clamp(WORTH_A_FRAME, COMMON_CHUNK).max(rail / 64).min(config.chunk_bytes);
    // Chunks of one size: a short one at the end would leave the rails unequal.
    let chunks = flow.div_ceil(most).max(1);
    flow.div_ceil(chunks).max(WORTH_A_FRAME).next_multiple_of(64).min(config.chunk_bytes)
}

/// The dtype whose size divides every chunk and block edge is any of them: 64 bytes hold whole elements of all.
const _: () = assert!(64 % Dtype::F64.size() == 0);

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(nodes: usize, rails: usize, flow: usize) -> usize {
        let config = Config {
            node: 0,
            nodes,
            ranks: (0..nodes as Node).collect(),
            rails,
            chunk_bytes: DEFAULT_CHUNK,
            op_timeout: Time::from_secs(1),
            epoch: 0,
            scratch: Region::EMPTY,
            checksum: false,
            tuning: Tuning::default(),
        };
        chunk_size(flow, &config)
    }

    #[test]
    fn only_large_operations_take_large_chunks() {
        const KIB: usize = 1 << 10;
        assert_eq!(chunk(2, 4, 1), 4 * KIB, "worth a frame");
        assert_eq!(chunk(2, 4, 512 * KIB), 8 * KIB, "sixteen for each rail");
        assert_eq!([2, 4, 8].map(|mib| chunk(2, 4, mib * KIB * KIB)), [32 * KIB; 3]);
        assert_eq!(chunk(2, 4, 12 * KIB * KIB), 48 * KIB, "sixty-four for each rail");
        assert_eq!([16, 32, 500].map(|mib| chunk(2, 4, mib * KIB * KIB)), [64 * KIB; 3]);
        for flow in (1..5000).map(|n| n * 7919) {
            for (nodes, rails) in [(2, 1), (2, 4), (4, 4), (8, 8), (64, 8)] {
                let (size, rail) = (chunk(nodes, rails, flow), flow * (nodes - 1) / rails);
                assert!(
                    size.is_multiple_of(64) && (4 * KIB..=DEFAULT_CHUNK).contains(&size),
                    "{flow} {size}"
                );
                assert!(size <= 32 * KIB || rail / size >= 63, "{flow} {nodes} {rails} {size}");
            }
        }
    }
}
