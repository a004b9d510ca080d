//! Everything that can go wrong, one variant per cause.

use crate::call::Call;
use crate::units::{Node, Rail, Rank, Time};

/// A [`crate::Config`] that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No nodes, or more than [`crate::units::MAX_NODES`].
    #[error("{0} nodes: between 1 and {max} are possible", max = crate::units::MAX_NODES)]
    Nodes(usize),
    /// The own index is not below the number of nodes.
    #[error("this node is {node}, but there are only {nodes} nodes")]
    OwnNode {
        /// The index that this node was given.
        node: Node,
        /// The number of nodes.
        nodes: usize,
    },
    /// A rank sits on a node that does not exist.
    #[error("rank {rank} is on node {node}, but there are only {nodes} nodes")]
    RankNode {
        /// The rank whose node does not exist.
        rank: Rank,
        /// The node that the rank map names for it.
        node: Node,
        /// The number of nodes.
        nodes: usize,
    },
    /// A node has no ranks; leave it out.
    #[error("node {0} has no rank: every node of a job must have at least one")]
    EmptyNode(Node),
    /// No rails, or more than [`crate::units::MAX_RAILS`], while there is more than one node.
    #[error("{0} rails: between 1 and {max} are needed for more than one node", max = crate::units::MAX_RAILS)]
    Rails(usize),
    /// The chunk size is out of bounds.
    #[error("chunk of {0} bytes: must be a multiple of 64 from {min} to {max}",
        min = crate::units::MIN_CHUNK, max = crate::units::MAX_CHUNK)]
    Chunk(usize),
    /// The scratch region is too small.
    #[error("scratch has {given} bytes, {needed} are needed")]
    Scratch {
        /// Length of the scratch region that was given, in bytes.
        given: usize,
        /// Bytes needed, see [`crate::Config::scratch_bytes`].
        needed: usize,
    },
}

/// A call that cannot be taken in. Nothing was started, no sequence number was used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The rank is not one of this node's.
    #[error("rank {0} is not on this node")]
    NotLocal(Rank),
    /// Root, target or source does not exist.
    #[error("{call}: there is no rank {rank} among {world} ranks")]
    NoSuchRank {
        /// The call that names the rank.
        call: Call,
        /// The rank that it names.
        rank: Rank,
        /// Number of ranks of the job.
        world: usize,
    },
    /// A notification names a rank that does not exist.
    #[error("there is no rank {rank} among {world} ranks to be notified")]
    NobodyThere {
        /// The rank that it names.
        rank: Rank,
        /// Number of ranks of the job.
        world: usize,
    },
    /// Too many notifications are under way to the node of a rank.
    #[error("{max} notifications are under way to rank {rank}'s node already")]
    TooManyNotifications {
        /// The rank that was to be notified.
        rank: Rank,
        /// Most notifications that may be under way to one node.
        max: usize,
    },
    /// Too many different (from, to, tag).
    #[error("more than {max} different (from, to, tag) in one job: use fewer tags", max = crate::units::MAX_PAIRS)]
    TooManyTags,
    /// More bytes than an address can count.
    #[error("{0}: too many bytes")]
    TooLarge(Call),
    /// A buffer has another length than the call needs.
    #[error("{call}: {which} has {given} bytes, {needed} are needed")]
    Length {
        /// The call that needs another length.
        call: Call,
        /// The buffer that is wrong: `input` or `output`.
        which: &'static str,
        /// Length of the buffer that was given, in bytes.
        given: usize,
        /// Length that the call needs, in bytes.
        needed: usize,
    },
    /// Input and output overlap in a way that the operation cannot work with.
    #[error("{0}: input and output overlap; make them disjoint, or in place as the operation defines it")]
    Overlap(Call),
    /// A rank sends to itself.
    #[error("rank {0} cannot send to or receive from itself")]
    ToItself(Rank),
    /// Too many operations of this rank are outstanding.
    #[error("rank {rank} has {max} operations outstanding already: wait for one to complete")]
    TooMany {
        /// The rank whose operations they are.
        rank: Rank,
        /// Most operations that a rank may have outstanding.
        max: usize,
    },
    /// The communicator has failed before.
    #[error("the communicator has failed: {0}")]
    Failed(Failure),
}

/// Why a rail to a peer went down.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RailCause {
    /// The peer closed the connection.
    #[error("closed by the peer")]
    Closed,
    /// The operating system reported an error.
    #[error("{0}")]
    Io(String),
    /// The peer sent what no peer may send.
    #[error("protocol violated: {0}")]
    Protocol(#[from] FrameError),
    /// A frame was withdrawn while it was on its way; the rail was given up so that nobody takes half of it for whole.
    #[error("withdrawn in the middle of a frame")]
    Withdrawn,
    /// The rail was never up before the deadline.
    #[error("not connected within {0:?}")]
    NeverUp(Time),
    /// This node took the rail down on purpose.
    #[error("taken down here")]
    Local,
    /// This node's own port on the rail has no carrier, was switched off, or is gone.
    #[error("the own port has no carrier")]
    NoCarrier,
    /// The peer gave no sign of life for this long.
    #[error("no sign of life for {0:?}")]
    Silent(Time),
    /// The peer gave the rail up.
    #[error("given up by the peer")]
    Fenced,
}

impl RailCause {
    /// Whether the peer itself may be gone, rather than the way to it.
    #[must_use]
    pub const fn is_ending(&self) -> bool {
        !matches!(self, RailCause::NoCarrier | RailCause::Silent(_) | RailCause::Io(_))
    }
}

/// Why an operation failed. A failure is final for the communicator: every outstanding and every later operation
/// on every rank gets it (or [`Failure::Remote`] of it), so that no rank computes on with part of a result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Ranks of the same sequence number made different calls.
    #[error(
        "operation {seq}: node {node} called {theirs}, node {here} called {ours}: all ranks must make equal calls in equal order"
    )]
    Mismatch {
        /// Sequence number of the operation.
        seq: u64,
        /// The node (or the node of the rank) that differs.
        node: Node,
        /// The call that the other node made.
        theirs: Call,
        /// The index of this node.
        here: Node,
        /// What was called here first.
        ours: Call,
    },
    /// The nodes were configured differently (ranks, rails, chunk size).
    #[error(
        "node {node} was given another rank map, rail count or chunk size than node {here}: give all nodes the same"
    )]
    Shape {
        /// The node that differs.
        node: Node,
        /// The index of this node.
        here: Node,
    },
    /// An operation did not complete in time.
    #[error("{call} (operation {seq}) did not complete within {after:?}: waiting for {waiting}")]
    Timeout {
        /// Sequence number of the operation.
        seq: u64,
        /// The call that did not complete.
        call: Call,
        /// The time that it had.
        after: Time,
        /// What is missing: ranks or nodes.
        waiting: Waiting,
    },
    /// The last rail to a node is gone.
    #[error("node {node} is lost: last rail {rail} {cause}")]
    PeerLost {
        /// The node that is lost.
        node: Node,
        /// The rail that went last.
        rail: Rail,
        /// Why that rail went down.
        cause: RailCause,
    },
    /// A node has done its last operation and gone.
    #[error("node {0} has left after its last operation: it takes part in no other")]
    PeerLeft(Node),
    /// A peer's frame made no sense.
    #[error("node {node} on rail {rail} violated the protocol: {error}")]
    Protocol {
        /// The node that sent the frame.
        node: Node,
        /// The rail that the frame came on.
        rail: Rail,
        /// How the frame violates the protocol.
        error: FrameError,
    },
    /// A rank's buffer vanished while an operation used it.
    #[error("a buffer of rank {rank} vanished during operation {seq}")]
    BufferGone {
        /// The rank that the buffer belongs to.
        rank: Rank,
        /// Sequence number of the operation.
        seq: u64,
    },
    /// A rank left (its process ended or detached).
    #[error("rank {0} left")]
    RankGone(Rank),
    /// A call passed the limit that its rank had given it, so that no rank's can complete; the text says which.
    #[error("{0}")]
    Expired(String),
    /// Stopped on request; the text is the reason that was given.
    #[error("stopped: {0}")]
    Stopped(String),
    /// Another node failed and said so.
    #[error("node {node} failed: {cause}")]
    Remote {
        /// The node that said so.
        node: Node,
        /// The failure as that node reported it.
        cause: RemoteCause,
    },
}

impl Failure {
    /// The peer that the failure names, if any.
    #[must_use]
    pub fn node(&self) -> Option<Node> {
        match self {
            Failure::Mismatch { node, .. }
            | Failure::Shape { node, .. }
            | Failure::PeerLost { node, .. }
            | Failure::Protocol { node, .. }
            | Failure::Remote { node, .. }
            | Failure::PeerLeft(node) => Some(*node),
            Failure::Timeout { waiting, .. } => waiting.nodes.first().copied(),
            Failure::BufferGone { .. } | Failure::RankGone(_) | Failure::Expired(_) | Failure::Stopped(_) => {
                None
            }
        }
    }

    /// The failure as it is reported to other nodes.
    #[must_use]
    pub fn reported(&self) -> RemoteCause {
        let (kind, seq) = match self {
            Failure::Mismatch { seq, .. } => (CauseKind::Mismatch, *seq),
            Failure::Shape { .. } => (CauseKind::Shape, 0),
            Failure::Timeout { seq, .. } => (CauseKind::Timeout, *seq),
            Failure::Expired(_) => (CauseKind::Timeout, 0),
            Failure::PeerLost { .. } => (CauseKind::PeerLost, 0),
            Failure::PeerLeft(_) => (CauseKind::PeerLeft, 0),
            Failure::Protocol { .. } => (CauseKind::Protocol, 0),
            Failure::BufferGone { seq, .. } => (CauseKind::BufferGone, *seq),
            Failure::RankGone(_) => (CauseKind::RankGone, 0),
            Failure::Stopped(_) => (CauseKind::Stopped, 0),
            Failure::Remote { cause, .. } => return *cause,
        };
        RemoteCause { kind, seq, node: self.node(), rail: self.rail() }
    }

    /// The rail that the failure names, if any.
    #[must_use]
    pub fn rail(&self) -> Option<Rail> {
        match self {
            Failure::PeerLost { rail, .. } | Failure::Protocol { rail, .. } => Some(*rail),
            Failure::Remote { cause, .. } => cause.rail,
            _ => None,
        }
    }
}

/// What an operation that timed out was waiting for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Local ranks that have not posted it.
    pub ranks: Vec<Rank>,
    /// Nodes that have not announced it or whose data is missing.
    pub nodes: Vec<Node>,
    /// Rails to these nodes that are down, and why.
    pub rails: Vec<(Node, Rail, RailCause)>,
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |items: &[u16]| items.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let ranks: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        match (self.ranks.is_empty(), self.nodes.is_empty()) {
            (true, true) => write!(f, "its own transmissions")?,
            (false, true) => write!(f, "rank {} on this node", ranks.join(", "))?,
            (true, false) => write!(f, "node {}", list(&self.nodes))?,
            (false, false) => {
                write!(f, "rank {} on this node and node {}", ranks.join(", "), list(&self.nodes))?;
            }
        }
        const NAMED: usize = 8;
        for (node, rail, cause) in self.rails.iter().take(NAMED) {
            write!(f, "; rail {rail} to node {node} is down: {cause}")?;
        }
        match self.rails.len().saturating_sub(NAMED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// The kind of a failure as it travels in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{kind} (operation {seq}){}", named(*.node, *.rail))]
pub struct RemoteCause {
    /// The kind of the failure on the other node.
    pub kind: CauseKind,
    /// Sequence number of the operation, where one was to blame.
    pub seq: u64,
    /// The node that the failing node blames.
    pub node: Option<Node>,
    /// The rail that the failing node blames.
    pub rail: Option<Rail>,
}

fn named(node: Option<Node>, rail: Option<Rail>) -> String {
    let node = node.map(|n| format!(", it names node {n}")).unwrap_or_default();
    let rail = rail.map(|r| format!(", rail {r}")).unwrap_or_default();
    node + &rail
}

/// A [`Failure`] without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CauseKind {
    /// Ranks made different calls: [`Failure::Mismatch`].
    #[error("calls differ among ranks")]
    Mismatch = 1,
    /// Nodes have different configurations: [`Failure::Shape`].
    #[error("configurations differ")]
    Shape = 2,
    /// An operation did not complete in time: [`Failure::Timeout`], [`Failure::Expired`].
    #[error("an operation timed out")]
    Timeout = 3,
    /// The last rail to a node is gone: [`Failure::PeerLost`].
    #[error("a node is lost")]
    PeerLost = 4,
    /// A peer's frame made no sense: [`Failure::Protocol`].
    #[error("the protocol was violated")]
    Protocol = 6,
    /// A buffer vanished while it was used: [`Failure::BufferGone`].
    #[error("a buffer vanished")]
    BufferGone = 7,
    /// A rank ended or detached: [`Failure::RankGone`].
    #[error("a rank left")]
    RankGone = 8,
    /// It was stopped on request: [`Failure::Stopped`].
    #[error("it was stopped")]
    Stopped = 9,
    /// A node left before the others were done: [`Failure::PeerLeft`].
    #[error("a node left before the others were done")]
    PeerLeft = 10,
    /// A cause that this version does not know.
    #[error("unknown cause")]
    Unknown = 255,
}

/// A frame that no honest peer sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Fewer bytes than a header has.
    #[error("header of {0} bytes")]
    Short(usize),
    /// The first bytes are not those of this protocol.
    #[error("magic {0:#010x} is not ours")]
    Magic(u32),
    /// Another version of our protocol.
    #[error("protocol version {0} is not spoken here")]
    Version(u8),
    /// A field has a value that it cannot have.
    #[error("field {field} cannot be {value}")]
    Field {
        /// Name of the header's field.
        field: &'static str,
        /// The value that the field has.
        value: u64,
    },
    /// The payload is longer than any payload.
    #[error("payload of {0} bytes")]
    Length(u32),
    /// An operation so far ahead that no peer can have started it.
    #[error("operation {seq} while {next} is the next here")]
    Ahead {
        /// Sequence number of the frame's operation.
        seq: u64,
        /// The next to start here.
        next: u64,
    },
    /// A rank of the frame does not sit where the frame says.
    #[error("rank {0} does not sit there")]
    Rank(Rank),
    /// More early frames than were allowed.
    #[error("more data ahead of its operation than was granted")]
    Overrun,
    /// No flow of the operation has this step, block, offset and length.
    #[error(
        "operation {seq} has no chunk step {step} block {block} offset {offset} length {length} from there"
    )]
    NoSuchChunk {
        /// Sequence number of the operation.
        seq: u64,
        /// Step of the flow that the chunk is said to belong to.
        step: u8,
        /// Block of the flow that the chunk is said to belong to.
        block: u32,
        /// Offset in the flow.
        offset: u64,
        /// Length of the payload, in bytes.
        length: u32,
    },
    /// A frame of a link is missing.
    #[error("frame {number} came, {next} is the next")]
    Gap {
        /// The number of the frame that arrived.
        number: u32,
        /// The number that was to come.
        next: u32,
    },
    /// The payload is not what was sent.
    #[error("the checksum of a payload of {length} bytes is {found:#010x}, {sent:#010x} was sent")]
    Checksum {
        /// The checksum of the payload that came in.
        found: u32,
        /// The checksum that the header has.
        sent: u32,
        /// Length of the payload, in bytes.
        length: u32,
    },
    /// A chunk that was received before.
    #[error("operation {seq}: chunk step {step} block {block} offset {offset} came twice")]
    Twice {
        /// Sequence number of the operation.
        seq: u64,
        /// Step of the flow that the chunk belongs to.
        step: u8,
        /// Block of the flow that the chunk belongs to.
        block: u32,
        /// Offset in the flow.
        offset: u64,
    },
    /// Acknowledges more than was sent.
    #[error("{acked} bytes acknowledged, {sent} sent")]
    Ack {
        /// Number of bytes that the peer acknowledges.
        acked: u64,
        /// Number of bytes that were sent on the link.
        sent: u64,
    },
}
