//! The messages between a rank and its engine, and their binary form.
//!
//! One message is one packet of a `SOCK_SEQPACKET` socket, at most [`MAX_MESSAGE`] bytes, little-endian:
//! magic `u32`, version `u16`, kind `u16`, id `u64`, then the kind's fields. The rank picks ids; a reply carries the id of
//! the request that it answers. The first request is [`Request::Hello`].

use crate::bounds::{MAX_RAILS, MAX_TEXT, VERSION};
use crate::codec::{ProtocolError, Reader, Writer};
use crate::device::Lent;
use crate::post::Post;

/// Most bytes of a GPU's PCI address.
const MAX_GPU: usize = 32;

/// "RAIL" as the first four bytes.
const MAGIC: u32 = u32::from_le_bytes(*b"RAIL");

/// What a rank asks of its engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Who is calling; answered by [`Reply::Welcome`].
    Hello {
        /// Rank within the job.
        rank: u32,
        /// Process id, for the engine's log only; who may attach is decided by the socket's credentials.
        pid: u32,
        /// Uid of the job that the rank believes it belongs to.
        job_uid: String,
    },
    /// Make a shared buffer; answered by [`Reply::Buffer`].
    Alloc {
        /// Length that the buffer is to have, in bytes.
        bytes: u64,
    },
    /// Give a buffer back; answered by [`Reply::Done`].
    Free {
        /// The buffer's name, as [`Reply::Buffer`] gave it.
        buffer: u32,
    },
    /// Do a collective, a send or a receive; answered when it is complete.
    Post(Post),
    /// Read the engine's counters; answered by [`Reply::Counters`].
    Counters,
    /// Hand out the board of this server's ranks; answered by [`Reply::Board`].
    Board,
    /// Hand out a buffer of another rank of this server; answered by [`Reply::Buffer`].
    Map {
        /// The rank that holds it.
        rank: u32,
        /// The name that the buffer has for the rank that holds it.
        buffer: u32,
    },
    /// A collective on the board has failed: end them all with this cause, unless one is known already. Answered by
    /// [`Reply::Failed`] with the cause that counts.
    Report(Failure),
    /// Why has the board failed? Answered by [`Reply::Failed`].
    Cause,
    /// Hand out queues for this rank's calls; answered by [`Reply::Queues`].
    Queues,
    /// A call is in the queues, and the engine sleeps. Never answered.
    Doorbell,
    /// Register memory of a GPU, `bytes` from `offset` of the dma-buf that comes with this message: rails are to send from it where they
    /// can. Answered by [`Reply::Lent`]; released by [`Request::Free`].
    Lend {
        /// The first byte of the range, counted from the beginning of the dma-buf.
        offset: u64,
        /// Length of the range of the dma-buf, in bytes.
        bytes: u64,
        /// The GPU's PCI address, as sysfs writes it.
        gpu: String,
    },
    /// Hand this rank the notifications that are for it, from now on; answered by [`Reply::Subscribed`]. When the job's communicator fails, the
    /// connection as a whole is answered with the cause, since whoever waits for a notification has no call that would fail.
    Subscribe,
    /// Notify another rank. Never answered: while as many are under way as can be, the engine reads nothing more of this rank.
    Notify {
        /// The rank that gets it.
        to: u32,
        /// What it says.
        words: [u64; 3],
    },
    /// What do rails cost, in numbers that are equal for all ranks of the job that ask with this key, whenever they do? Answered by
    /// [`Reply::Agreed`].
    Agree {
        /// What the ranks that ask have in common.
        key: u64,
    },
    /// The rank is finished: what follows is a clean close. Answered by [`Reply::Done`].
    Detach,
}

/// What the engine answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The rank is attached.
    Welcome(Welcome),
    /// A buffer was made; its memory file comes with this message.
    Buffer {
        /// Its name in later requests, never 0.
        buffer: u32,
        /// Length of the buffer, in bytes.
        bytes: u64,
    },
    /// The board; its memory file comes with this message.
    Board {
        /// Ranks that it was made for.
        ranks: u32,
    },
    /// Queues were made; their memory file comes with this message.
    Queues,
    /// A completion is in the queues, and the rank sleeps. It answers nothing: its id is 0.
    Doorbell,
    /// What rails can do with memory of a GPU.
    Lent(Lent),
    /// The rank is handed its notifications from now on.
    Subscribed {
        /// Attempt of the job, from 1.
        attempt: u32,
        /// The rails of this node, ascending, at most [`MAX_RAILS`].
        rails: Vec<RailSpeed>,
    },
    /// Another rank has notified this one. It answers nothing: its id is 0.
    Notification {
        /// The rank that made it.
        from: u32,
        /// What it says.
        words: [u64; 3],
    },
    /// What rails cost, as all that ask with this key are told.
    Agreed(RailModel),
    /// The request was done; there is nothing else to say.
    Done,
    /// Not done, and why.
    Failed(Failure),
    /// Bytes of each rail since the engine started.
    Counters {
        /// Per rail, at most [`MAX_RAILS`].
        rails: Vec<RailBytes>,
        /// Operations that the engine has finished since it started.
        operations: u64,
    },
}

/// The world as an attached rank sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// Ranks of the job.
    pub size: u32,
    /// This rank's place among the ranks of its node.
    pub local_rank: u32,
    /// Ranks on this node.
    pub local_size: u32,
    /// This node's place in the job.
    pub node: u32,
    /// Nodes of the job.
    pub nodes: u32,
    /// Most buffers that a rank may hold.
    pub max_buffers: u32,
    /// Most bytes that all its buffers together may have.
    pub max_bytes: u64,
    /// Most requests that may wait for an answer.
    pub max_outstanding: u32,
    /// How long an operation may take when its post names no time, in milliseconds.
    pub op_timeout_ms: u32,
}

/// A rail of this node and how fast it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RailSpeed {
    /// Number of the rail in the cluster.
    pub rail: u16,
    /// Speed of its port in Mbit/s; 0 where the kernel does not say.
    pub mbit: u32,
}

/// What rails between servers cost, as measured when it was asked for first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RailModel {
    /// Rails of each node, whether they carry data or not.
    pub rails: u16,
    /// What was left of the capacity of the weakest node over all its rails, in 1024ths.
    pub capacity: u16,
    /// Time of a trip, in nanoseconds.
    pub alpha_ns: u32,
    /// Time of a byte on one rail, in picoseconds.
    pub beta_ps: u32,
}

/// Counters of one rail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RailBytes {
    /// Number of the rail in the cluster.
    pub rail: u16,
    /// Bytes sent on the rail.
    pub tx_bytes: u64,
    /// Bytes received on the rail.
    pub rx_bytes: u64,
    /// Chunks of collectives sent on the rail.
    pub chunks: u64,
}

/// Why something was not done: a cause that programs can match, where it happened, and words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The cause, as a code that programs can match.
    pub code: FailureCode,
    /// The rank concerned, where the cause is one rank.
    pub rank: Option<u32>,
    /// The node concerned, as its place in the job.
    pub node: Option<u32>,
    /// Number of the rail concerned, where the cause is one rail.
    pub rail: Option<u32>,
    /// What happened, where, and what to do; cut at [`MAX_TEXT`] bytes.
    pub text: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}", self.text, self.code.name())?;
        for (what, value) in [("rank", self.rank), ("node", self.node), ("rail", self.rail)] {
            if let Some(value) = value {
                write!(f, ", {what} {value}")?;
            }
        }
        f.write_str(")")
    }
}

macro_rules! failure_codes {
    ($($(#[doc = $doc:literal])* $name:ident = $code:literal $text:literal,)*) => {
        /// Causes of failure, with their fixed numbers; the C ABI returns the same numbers, negated.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum FailureCode {
            $($(#[doc = $doc])* $name = $code,)*
        }

        impl FailureCode {
            /// Every code, in the order of their definition.
            pub const ALL: &[FailureCode] = &[$(FailureCode::$name,)*];

            /// The code's number in messages, which no later version changes.
            pub fn number(self) -> u16 {
                self as u16
            }

            /// The code with this number.
            pub fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// A short fixed name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

failure_codes! {
    /// The request makes no sense: a buffer that does not exist, a range outside it, a rank outside the job.
    InvalidArgument = 1 "invalid argument",
    /// The ranks do not agree on what to do.
    Mismatch = 2 "ranks disagree",
    /// The caller may not attach.
    Denied = 3 "denied",
    /// A bound was reached: buffers, bytes, waiting requests.
    Exhausted = 4 "limit reached",
    /// Not done in time.
    TimedOut = 5 "timed out",
    /// Another rank of the job ended.
    RankLost = 6 "rank lost",
    /// Another node's engine is gone.
    PeerLost = 7 "peer lost",
    /// Rails to a peer are gone.
    RailLost = 8 "rail lost",
    /// The job is being stopped.
    Stopped = 9 "stopped",
    /// The engine is not (yet) connected to its peers.
    NotReady = 10 "not ready",
    /// The two sides do not speak the same protocol.
    Protocol = 11 "protocol error",
    /// The engine failed in a way that is its own fault.
    Internal = 12 "internal error",
    /// This rank's own engine ended. Never sent, only found by the rank.
    EngineLost = 13 "engine lost",
}

impl Request {
    const HELLO: u16 = 1;
    const ALLOC: u16 = 2;
    const FREE: u16 = 3;
    const POST: u16 = 4;
    const COUNTERS: u16 = 5;
    const DETACH: u16 = 6;
    const BOARD: u16 = 7;
    const MAP: u16 = 8;
    const REPORT: u16 = 9;
    const CAUSE: u16 = 10;
    const QUEUES: u16 = 11;
    const DOORBELL: u16 = 12;
    const LEND: u16 = 13;
    const SUBSCRIBE: u16 = 14;
    const NOTIFY: u16 = 15;
    const AGREE: u16 = 16;

    /// The packet of this request under `id`.
    pub fn encode(&self, id: u64) -> Vec<u8> {
        match self {
            Self::Hello { rank, pid, job_uid } => {
                let mut w = header(Self::HELLO, id);
                w.u32(*rank).u32(*pid).text(job_uid, MAX_TEXT);
                w
            }
            Self::Alloc { bytes } => with(Self::ALLOC, id, |w| w.u64(*bytes)),
            Self::Free { buffer } => with(Self::FREE, id, |w| w.u32(*buffer)),
            Self::Post(post) => with(Self::POST, id, |w| post.encode(w)),
            Self::Counters => header(Self::COUNTERS, id),
            Self::Detach => header(Self::DETACH, id),
            Self::Board => header(Self::BOARD, id),
            Self::Map { rank, buffer } => with(Self::MAP, id, |w| w.u32(*rank).u32(*buffer)),
            Self::Report(failure) => with(Self::REPORT, id, |w| failure.encode(w)),
            Self::Cause => header(Self::CAUSE, id),
            Self::Queues => header(Self::QUEUES, id),
            Self::Doorbell => header(Self::DOORBELL, id),
            Self::Subscribe => header(Self::SUBSCRIBE, id),
            Self::Agree { key } => with(Self::AGREE, id, |w| w.u64(*key)),
            Self::Notify { to, words } => with(Self::NOTIFY, id, |w| put_words(w.u32(*to), words)),
            Self::Lend { offset, bytes, gpu } => {
                with(Self::LEND, id, |w| w.u64(*offset).u64(*bytes).text(gpu, MAX_GPU))
            }
        }
        .finish()
    }

    /// Reads a packet: the id and the request.
    ///
    /// # Errors
    /// The packet is no request of this protocol version: its length, kind or a field's value cannot be.
    pub fn decode(packet: &[u8]) -> Result<(u64, Self), ProtocolError> {
        let mut r = Reader::new(packet);
        let (kind, id) = read_header(&mut r)?;
        let request = match kind {
            Self::HELLO => {
                Self::Hello { rank: r.u32()?, pid: r.u32()?, job_uid: r.text("job_uid", MAX_TEXT)? }
            }
            Self::ALLOC => Self::Alloc { bytes: r.u64()? },
            Self::FREE => Self::Free { buffer: r.u32()? },
            Self::POST => Self::Post(Post::decode(&mut r)?),
            Self::COUNTERS => Self::Counters,
            Self::DETACH => Self::Detach,
            Self::BOARD => Self::Board,
            Self::MAP => Self::Map { rank: r.u32()?, buffer: r.u32()? },
            Self::REPORT => Self::Report(Failure::decode(&mut r)?),
            Self::CAUSE => Self::Cause,
            Self::QUEUES => Self::Queues,
            Self::DOORBELL => Self::Doorbell,
            Self::SUBSCRIBE => Self::Subscribe,
            Self::AGREE => Self::Agree { key: r.u64()? },
            Self::NOTIFY => Self::Notify { to: r.u32()?, words: words(&mut r)? },
            Self::LEND => Self::Lend { offset: r.u64()?, bytes: r.u64()?, gpu: r.text("gpu", MAX_GPU)? },
            found => return Err(ProtocolError::Kind { found }),
        };
        r.finish()?;
        Ok((id, request))
    }

    /// Whether a file descriptor travels with this request.
    pub fn has_descriptor(&self) -> bool {
        matches!(self, Self::Lend { .. })
    }
}

impl Reply {
    const WELCOME: u16 = 0x8001;
    const BUFFER: u16 = 0x8002;
    const DONE: u16 = 0x8003;
    const FAILED: u16 = 0x8004;
    const COUNTERS: u16 = 0x8005;
    const BOARD: u16 = 0x8006;
    const QUEUES: u16 = 0x8007;
    const DOORBELL: u16 = 0x8008;
    const LENT: u16 = 0x8009;
    const SUBSCRIBED: u16 = 0x800a;
    const NOTIFICATION: u16 = 0x800b;
    const AGREED: u16 = 0x800c;

    /// The packet of this reply to request `id`.
    pub fn encode(&self, id: u64) -> Vec<u8> {
        match self {
            Self::Welcome(welcome) => with(Self::WELCOME, id, |w| welcome.encode(w)),
            Self::Buffer { buffer, bytes } => with(Self::BUFFER, id, |w| w.u32(*buffer).u64(*bytes)),
            Self::Board { ranks } => with(Self::BOARD, id, |w| w.u32(*ranks)),
            Self::Queues => header(Self::QUEUES, id),
            Self::Doorbell => header(Self::DOORBELL, id),
            Self::Lent(lent) => with(Self::LENT, id, |w| lent.encode(w)),
            Self::Subscribed { attempt, rails } => with(Self::SUBSCRIBED, id, |w| {
                let rails = &rails[..rails.len().min(MAX_RAILS)];
                w.u32(*attempt).u16(u16::try_from(rails.len()).unwrap_or(0));
                rails.iter().fold(w, |w, r| w.u16(r.rail).u32(r.mbit))
            }),
            Self::Notification { from, words } => {
                with(Self::NOTIFICATION, id, |w| put_words(w.u32(*from), words))
            }
            Self::Agreed(model) => with(Self::AGREED, id, |w| {
                w.u16(model.rails).u16(model.capacity);
                w.u32(model.alpha_ns).u32(model.beta_ps)
            }),
            Self::Done => header(Self::DONE, id),
            Self::Failed(failure) => with(Self::FAILED, id, |w| failure.encode(w)),
            Self::Counters { rails, operations } => with(Self::COUNTERS, id, |w| {
                let rails = &rails[..rails.len().min(MAX_RAILS)];
                w.u64(*operations).u16(u16::try_from(rails.len()).unwrap_or(0));
                rails.iter().fold(w, |w, r| w.u16(r.rail).u64(r.tx_bytes).u64(r.rx_bytes).u64(r.chunks))
            }),
        }
        .finish()
    }

    /// Reads a packet: the id of the answered request and the reply.
    ///
    /// # Errors
    /// The packet is no reply of this protocol version: its length, kind or a field's value cannot be.
    pub fn decode(packet: &[u8]) -> Result<(u64, Self), ProtocolError> {
        let mut r = Reader::new(packet);
        let (kind, id) = read_header(&mut r)?;
        let reply = match kind {
            Self::WELCOME => Self::Welcome(Welcome::decode(&mut r)?),
            Self::BUFFER => Self::Buffer { buffer: r.u32()?, bytes: r.u64()? },
            Self::BOARD => Self::Board { ranks: r.u32()? },
            Self::QUEUES => Self::Queues,
            Self::DOORBELL => Self::Doorbell,
            Self::DONE => Self::Done,
            Self::FAILED => Self::Failed(Failure::decode(&mut r)?),
            Self::COUNTERS => decode_counters(&mut r)?,
            Self::LENT => Self::Lent(Lent::decode(&mut r)?),
            Self::SUBSCRIBED => decode_subscribed(&mut r)?,
            Self::AGREED => Self::Agreed(RailModel {
                rails: r.u16()?,
                capacity: r.u16()?,
                alpha_ns: r.u32()?,
                beta_ps: r.u32()?,
            }),
            Self::NOTIFICATION => Self::Notification { from: r.u32()?, words: words(&mut r)? },
            found => return Err(ProtocolError::Kind { found }),
        };
        r.finish()?;
        Ok((id, reply))
    }

    /// File descriptors that travel with this reply.
    pub fn descriptors(&self) -> usize {
        usize::from(matches!(self, Self::Buffer { .. } | Self::Board { .. } | Self::Queues))
    }
}

fn header(kind: u16, id: u64) -> Writer {
    let mut w = Writer::default();
    w.u32(MAGIC).u16(VERSION).u16(kind).u64(id);
    w
}

fn with(kind: u16, id: u64, fields: impl FnOnce(&mut Writer) -> &mut Writer) -> Writer {
    let mut w = header(kind, id);
    fields(&mut w);
    w
}

fn read_header(r: &mut Reader<'_>) -> Result<(u16, u64), ProtocolError> {
    match r.u32()? {
        MAGIC => {}
        found => return Err(ProtocolError::Magic { found }),
    }
    match r.u16()? {
        VERSION => {}
        found => return Err(ProtocolError::Version { found }),
    }
    Ok((r.u16()?, r.u64()?))
}

impl Welcome {
    fn encode<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        w.u32(self.size).u32(self.local_rank).u32(self.local_size).u32(self.node).u32(self.nodes);
        w.u32(self.max_buffers).u64(self.max_bytes).u32(self.max_outstanding).u32(self.op_timeout_ms)
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        Ok(Self {
            size: r.u32()?,
            local_rank: r.u32()?,
            local_size: r.u32()?,
            node: r.u32()?,
            nodes: r.u32()?,
            max_buffers: r.u32()?,
            max_bytes: r.u64()?,
            max_outstanding: r.u32()?,
            op_timeout_ms: r.u32()?,
        })
    }
}

impl Failure {
    fn encode<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        w.u16(self.code.number()).option_u32(self.rank).option_u32(self.node).option_u32(self.rail);
        w.text(&self.text, MAX_TEXT)
    }

    fn decode(r: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let number = r.u16()?;
        let code = FailureCode::from_number(number)
            .ok_or(ProtocolError::Field { field: "code", found: number.into() })?;
        Ok(Self {
            code,
            rank: r.option_u32()?,
            node: r.option_u32()?,
            rail: r.option_u32()?,
            text: r.text("text", MAX_TEXT)?,
        })
    }
}

fn put_words<'w>(w: &'w mut Writer, words: &[u64; 3]) -> &'w mut Writer {
    words.iter().fold(w, |w, word| w.u64(*word))
}

fn words(r: &mut Reader<'_>) -> Result<[u64; 3], ProtocolError> {
    Ok([r.u64()?, r.u64()?, r.u64()?])
}

fn decode_subscribed(r: &mut Reader<'_>) -> Result<Reply, ProtocolError> {
    let attempt = r.u32()?;
    let count = usize::from(r.u16()?);
    if count > MAX_RAILS {
        return Err(ProtocolError::Field { field: "rails", found: count as u64 });
    }
    let mut rails = Vec::with_capacity(count);
    for _ in 0..count {
        rails.push(RailSpeed { rail: r.u16()?, mbit: r.u32()? });
    }
    Ok(Reply::Subscribed { attempt, rails })
}

fn decode_counters(r: &mut Reader<'_>) -> Result<Reply, ProtocolError> {
    let operations = r.u64()?;
    let count = usize::from(r.u16()?);
    if count > MAX_RAILS {
        return Err(ProtocolError::Field { field: "rails", found: count as u64 });
    }
    let mut rails = Vec::with_capacity(count);
    for _ in 0..count {
        rails.push(RailBytes { rail: r.u16()?, tx_bytes: r.u64()?, rx_bytes: r.u64()?, chunks: r.u64()? });
    }
    Ok(Reply::Counters { rails, operations })
}
