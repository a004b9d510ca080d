//! The frame header: 104 bytes, little-endian, fixed layout, followed by `length` bytes of payload.
//!
//! | bytes | field | bytes | field |
//! |---|---|---|---|
//! | 0..4 | magic | 40..44 | operation, dtype, reduction; low byte of the plan that the operation four later follows |
//! | 4 | version | 44..48 | root; rail that a fence, notice or probe is about |
//! | 5 | kind | 48..56 | count |
//! | 6 | space: 0 link, 1 collective, 2 pair | 56..60 | block; generation that a fence is about |
//! | 7 | step; flag of a fence or notice | 60..64 | number of the frame on its link, from 1 (0: not counted) |
//! | 8..12 | epoch | 64..72 | offset |
//! | 12..16 | length of the payload | 72..80 | value |
//! | 16..24 | sequence number; a notification's first word (the others: 48..56, 64..72) | 80..88 | acknowledged bytes |
//! | 24..36 | source rank, target rank, tag | 88..92 | checksum of the payload: CRC32C, where the job asks for it |
//! | 36..40 | shape | 92..96 | generation of the link |
//! | | | 96..100 | when the sender handed the frame over, in microseconds of its own clock; the last four bytes are zero |
//!
//! A data frame names its chunk completely (operation, step, block, offset, length, epoch), so that any rail may
//! carry it, in any order, and again after a rail has died. Generation and number name the frame's place on its link: so a
//! frame of a former life of the link, a frame that came twice and a frame that is missing are each known for what they are.

#[cfg(test)]
mod tests;

use crate::call::{Call, Dtype, OpKind, Operation, ReduceOp};
use crate::error::{CauseKind, FrameError, RemoteCause};
use crate::units::{FULL, MAX_CHUNK, MAX_RAILS, Node, Rail, Rank};

/// Length of an encoded header.
pub const HEADER_BYTES: usize = 104;
/// First four bytes of every frame: `RAIL`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"RAIL");
/// Where the words of a notification lie.
const NOTIFIED_AT: [usize; 3] = [16, 48, 64];
/// Version of the layout.
pub const VERSION: u8 = 4;

/// Which operation a frame belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// None: the frame concerns the rail or the peer.
    Link,
    /// The `seq`-th collective of the communicator.
    Collective {
        /// Sequence number, from 0.
        seq: u64,
    },
    /// The `seq`-th message of a pair of ranks under a tag.
    Pair {
        /// The rank that sends.
        from: Rank,
        /// The rank that receives.
        to: Rank,
        /// The tag that both ranks use.
        tag: u32,
        /// Sequence number within (from, to, tag), from 0.
        seq: u64,
    },
}

impl Key {
    /// The sequence number; 0 for [`Key::Link`].
    #[must_use]
    pub const fn seq(self) -> u64 {
        match self {
            Key::Link => 0,
            Key::Collective { seq } | Key::Pair { seq, .. } => seq,
        }
    }
}

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// "I have started this operation": data may come. Its `value` is the number of chunks per reduced flow that may come.
    Ready,
    /// A chunk. From a node that was not heard of in this operation it is a [`Kind::Ready`] too.
    Data {
        /// Step of the schedule.
        step: u8,
        /// Block of the schedule.
        block: u32,
        /// Offset of the first payload byte in its flow.
        offset: u64,
    },
    /// The number of chunks of the reduced flow that may have come in all.
    Grant,
    /// Carries nothing but the acknowledgement.
    Ack,
    /// The sender's communicator has failed.
    Abort(RemoteCause),
    /// The sender has done its last operation and goes: the end of its rails is no failure.
    Bye,
    /// One life of a link to the receiver is over: the sender takes nothing more from it.
    Fence {
        /// The rail that the link is on.
        rail: Rail,
        /// The generation of the link that is over.
        generation: u32,
        /// Counted frames that the sender of this received on it, whole and without a gap. Nothing after them will ever
        /// count, so what the receiver of this has sent beyond them is to be sent again.
        frames: u32,
        /// The receiver has not said the same to the sender yet.
        asks: bool,
    },
    /// Asks whether the receiver is there; answered by [`Kind::Echo`].
    Probe {
        /// Comes back in the answer.
        number: u64,
    },
    /// "I am", to a [`Kind::Probe`].
    Echo {
        /// The number that the probe carried.
        number: u64,
    },
    /// The sender's port of this rail has its carrier back: links over it are worth an attempt.
    Back {
        /// Number of the rail.
        rail: Rail,
    },
    /// The sender drains its port of this rail, or uses it again. The newest of these counts, by `value`.
    Drain {
        /// Number of the rail.
        rail: Rail,
        /// Whether it is to be left.
        on: bool,
    },
    /// What the sender measures of itself, for node 0. The newest counts, by `value`.
    Report {
        /// What is left of its capacity, of 1024.
        capacity: u16,
        /// Time of a trip in nanoseconds; 0: not known.
        alpha_ns: u32,
        /// Time of a byte on one rail in picoseconds; 0: not known.
        beta_ps: u32,
    },
    /// A piece of a plan of node 0.
    PlanPart {
        /// Version of the plan that the piece belongs to.
        version: u32,
        /// Index of the piece, counted from 0.
        index: u16,
        /// Number of pieces that the plan has.
        of: u16,
        /// The node that this piece is about.
        node: Node,
        /// What is left of its capacity, of 1024.
        capacity: u16,
        /// Time of a trip in nanoseconds.
        alpha_ns: u32,
        /// Time of a byte on one rail in picoseconds.
        beta_ps: u32,
    },
    /// A few words of a rank of the sender's for a rank of the receiver's; `value` is its number among those from node to node.
    Notify {
        /// The rank that made it.
        from: Rank,
        /// The rank that gets it.
        to: Rank,
        /// What it says.
        words: [u64; 3],
    },
    /// The sender has the whole plan.
    PlanTaken {
        /// Version of the plan that the sender has.
        version: u32,
    },
}

impl Kind {
    /// Whether the frame has a number on its link, is acknowledged, and is sent again if its link dies. The others may be
    /// lost: they are repeated as long as they matter.
    #[must_use]
    pub const fn is_counted(self) -> bool {
        !matches!(
            self,
            Kind::Ack | Kind::Fence { .. } | Kind::Probe { .. } | Kind::Echo { .. } | Kind::Back { .. }
        )
    }

    /// Writes the kind and what it says.
    fn put(&self, put: &mut impl FnMut(usize, &[u8])) {
        match *self {
            Kind::Ready => put(5, &[1]),
            Kind::Data { step, block, offset } => {
                put(5, &[2]);
                put(7, &[step]);
                put(56, &block.to_le_bytes());
                put(64, &offset.to_le_bytes());
            }
            Kind::Grant => put(5, &[3]),
            Kind::Ack => put(5, &[4]),
            Kind::Bye => put(5, &[6]),
            Kind::Abort(cause) => {
                put(5, &[5]);
                put(7, &[cause.kind as u8]);
                put(56, &pack(cause).to_le_bytes());
                put(64, &cause.seq.to_le_bytes());
            }
            Kind::Fence { rail, generation, frames, asks } => {
                put(5, &[7]);
                put(7, &[u8::from(asks)]);
                put(44, &u32::from(rail).to_le_bytes());
                put(56, &generation.to_le_bytes());
                put(64, &u64::from(frames).to_le_bytes());
            }
            Kind::Probe { number } => {
                put(5, &[8]);
                put(64, &number.to_le_bytes());
            }
            Kind::Echo { number } => {
                put(5, &[9]);
                put(64, &number.to_le_bytes());
            }
            Kind::Back { rail } => {
                put(5, &[10]);
                put(44, &u32::from(rail).to_le_bytes());
            }
            Kind::Drain { rail, on } => {
                put(5, &[11]);
                put(7, &[u8::from(on)]);
                put(44, &u32::from(rail).to_le_bytes());
            }
            Kind::Report { capacity, alpha_ns, beta_ps } => {
                put(5, &[12]);
                put(56, &u32::from(capacity).to_le_bytes());
                put(64, &alpha_ns.to_le_bytes());
                put(68, &beta_ps.to_le_bytes());
            }
            Kind::PlanPart { version, index, of, node, capacity, alpha_ns, beta_ps } => {
                put(5, &[13]);
                put(16, &version.to_le_bytes());
                put(24, &index.to_le_bytes());
                put(26, &of.to_le_bytes());
                put(44, &u32::from(node).to_le_bytes());
                put(56, &u32::from(capacity).to_le_bytes());
                put(64, &alpha_ns.to_le_bytes());
                put(68, &beta_ps.to_le_bytes());
            }
            Kind::PlanTaken { version } => {
                put(5, &[14]);
                put(16, &version.to_le_bytes());
            }
            Kind::Notify { from, to, words } => {
                put(5, &[15]);
                put(24, &from.to_le_bytes());
                put(28, &to.to_le_bytes());
                NOTIFIED_AT.iter().zip(words).for_each(|(&at, word)| put(at, &word.to_le_bytes()));
            }
        }
    }

    /// Reads the kind and what it says.
    fn read(bytes: &[u8]) -> Result<Self, FrameError> {
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let field = |field, value| FrameError::Field { field, value };
        let rail = || {
            let rail = u32_at(44);
            let known = Rail::try_from(rail).ok().filter(|&r| usize::from(r) < MAX_RAILS);
            known.ok_or_else(|| field("rail", rail.into()))
        };
        let capacity = || {
            let capacity = u32_at(56);
            let known = u16::try_from(capacity).ok().filter(|&c| c <= FULL);
            known.ok_or_else(|| field("capacity", capacity.into()))
        };
        let flag = || match bytes[7] {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(field("flag", other.into())),
        };
        Ok(match bytes[5] {
            1 => Kind::Ready,
            2 => Kind::Data { step: bytes[7], block: u32_at(56), offset: u64_at(64) },
            3 => Kind::Grant,
            4 => Kind::Ack,
            5 => Kind::Abort(unpack(bytes[7], u32_at(56), u64_at(64))),
            6 => Kind::Bye,
            7 => Kind::Fence {
                rail: rail()?,
                generation: u32_at(56),
                frames: u32::try_from(u64_at(64)).map_err(|_| field("frames", u64_at(64)))?,
                asks: flag()?,
            },
            8 => Kind::Probe { number: u64_at(64) },
            9 => Kind::Echo { number: u64_at(64) },
            10 => Kind::Back { rail: rail()? },
            11 => Kind::Drain { rail: rail()?, on: flag()? },
            12 => Kind::Report { capacity: capacity()?, alpha_ns: u32_at(64), beta_ps: u32_at(68) },
            13 => Kind::PlanPart {
                version: u32_at(16),
                index: u16::from_le_bytes([bytes[24], bytes[25]]),
                of: u16::from_le_bytes([bytes[26], bytes[27]]),
                node: Node::try_from(u32_at(44)).map_err(|_| field("node", u32_at(44).into()))?,
                capacity: capacity()?,
                alpha_ns: u32_at(64),
                beta_ps: u32_at(68),
            },
            14 => Kind::PlanTaken { version: u32_at(16) },
            15 => Kind::Notify { from: u32_at(24), to: u32_at(28), words: NOTIFIED_AT.map(u64_at) },
            other => return Err(field("kind", other.into())),
        })
    }
}

/// The header of a frame, as values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// The operation that the frame belongs to.
    pub key: Key,
    /// Epoch of the job attempt.
    pub epoch: u32,
    /// Digest of the configuration that all nodes must share.
    pub shape: u32,
    /// The call that the sender's ranks made; given for [`Kind::Ready`] and [`Kind::Data`].
    pub call: Option<Call>,
    /// Chunks granted, for [`Kind::Ready`] and [`Kind::Grant`].
    pub value: u64,
    /// Bytes (headers and payloads of whole frames) that the sender has received on this rail from the receiver.
    pub acked: u64,
    /// Length of the payload, in bytes.
    pub length: u32,
    /// CRC32C of the payload; 0 where the job does not ask for it.
    pub checksum: u32,
    /// Which life of the link carries the frame.
    pub generation: u32,
    /// The frame's number among the counted frames of that life, from 1; 0 for others.
    pub number: u32,
    /// Low byte of the version of the plan that the operation four later follows. Node 0 says so with its calls.
    pub plan: u8,
    /// When the sender handed the frame to the link, in microseconds of its own clock, which begins anywhere and runs over; 0: not known.
    pub sent_us: u32,
}

impl Header {
    /// A header without payload.
    #[must_use]
    pub const fn control(kind: Kind, key: Key, epoch: u32, shape: u32) -> Self {
        Header {
            kind,
            key,
            epoch,
            shape,
            call: None,
            value: 0,
            acked: 0,
            length: 0,
            checksum: 0,
            generation: 0,
            number: 0,
            plan: 0,
            sent_us: 0,
        }
    }

    /// Bytes of the whole frame.
    #[must_use]
    pub const fn frame_bytes(&self) -> u64 {
        HEADER_BYTES as u64 + self.length as u64
    }

    /// The header as it travels.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0u8; HEADER_BYTES];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &[VERSION]);
        put(8, &self.epoch.to_le_bytes());
        put(12, &self.length.to_le_bytes());
        put(36, &self.shape.to_le_bytes());
        put(72, &self.value.to_le_bytes());
        put(80, &self.acked.to_le_bytes());
        put(60, &self.number.to_le_bytes());
        put(88, &self.checksum.to_le_bytes());
        put(92, &self.generation.to_le_bytes());
        put(96, &self.sent_us.to_le_bytes());
        match self.key {
            Key::Link => {}
            Key::Collective { seq } => {
                put(6, &[1]);
                put(16, &seq.to_le_bytes());
            }
            Key::Pair { from, to, tag, seq } => {
                put(6, &[2]);
                put(16, &seq.to_le_bytes());
                put(24, &from.to_le_bytes());
                put(28, &to.to_le_bytes());
                put(32, &tag.to_le_bytes());
            }
        }
        if let Some(call) = self.call.map(Call::canonical) {
            put(40, &[call.operation.kind().code(), call.dtype.code(), call.reduce.code()]);
            let root = if let Operation::Broadcast { root } = call.operation { root } else { 0 };
            put(44, &root.to_le_bytes());
            put(48, &call.count.to_le_bytes());
            put(43, &[self.plan]);
        }
        self.kind.put(&mut put);
        out
    }

    /// Reads a header. Any bytes give a header or a typed error.
    ///
    /// # Errors
    /// [`FrameError`] when the bytes are no header of this version.
    pub fn decode(bytes: &[u8]) -> Result<Header, FrameError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(FrameError::Short(bytes.len()));
        };
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let field = |field, value| FrameError::Field { field, value };
        if u32_at(0) != MAGIC {
            return Err(FrameError::Magic(u32_at(0)));
        }
        if bytes[4] != VERSION {
            return Err(FrameError::Version(bytes[4]));
        }
        let length = u32_at(12);
        if length as usize > MAX_CHUNK {
            return Err(FrameError::Length(length));
        }
        let key = match bytes[6] {
            0 => Key::Link,
            1 => Key::Collective { seq: u64_at(16) },
            2 => Key::Pair { seq: u64_at(16), from: u32_at(24), to: u32_at(28), tag: u32_at(32) },
            other => return Err(field("space", other.into())),
        };
        let kind = Kind::read(bytes)?;
        if length > 0 && !matches!(kind, Kind::Data { .. }) {
            return Err(FrameError::Length(length));
        }
        let for_operation = matches!(kind, Kind::Ready | Kind::Data { .. } | Kind::Grant);
        if for_operation != (key != Key::Link) {
            return Err(field("space", bytes[6].into()));
        }
        let call = if matches!(kind, Kind::Ready | Kind::Data { .. }) {
            Some(call_of([bytes[40], bytes[41], bytes[42]], u32_at(44), u64_at(48), key)?)
        } else {
            None
        };
        Ok(Header {
            kind,
            key,
            epoch: u32_at(8),
            shape: u32_at(36),
            call,
            value: u64_at(72),
            acked: u64_at(80),
            length,
            checksum: u32_at(88),
            generation: u32_at(92),
            number: u32_at(60),
            plan: if call.is_some() { bytes[43] } else { 0 },
            sent_us: u32_at(96),
        })
    }
}

fn call_of(codes: [u8; 3], root: u32, count: u64, key: Key) -> Result<Call, FrameError> {
    let field = |field, value: u8| FrameError::Field { field, value: value.into() };
    let kind = OpKind::from_code(codes[0]).ok_or_else(|| field("operation", codes[0]))?;
    let dtype = Dtype::from_code(codes[1]).ok_or_else(|| field("dtype", codes[1]))?;
    let reduce = ReduceOp::from_code(codes[2]).ok_or_else(|| field("reduction", codes[2]))?;
    let operation = match (kind, key) {
        (OpKind::Send, Key::Pair { to, tag, .. }) => Operation::Send { to, tag },
        (OpKind::AllReduce, Key::Collective { .. }) => Operation::AllReduce,
        (OpKind::AllGather, Key::Collective { .. }) => Operation::AllGather,
        (OpKind::ReduceScatter, Key::Collective { .. }) => Operation::ReduceScatter,
        (OpKind::Broadcast, Key::Collective { .. }) => Operation::Broadcast { root },
        (OpKind::AllToAll, Key::Collective { .. }) => Operation::AllToAll,
        (OpKind::Barrier, Key::Collective { .. }) => Operation::Barrier,
        _ => return Err(field("operation", codes[0])),
    };
    Ok(Call { operation, dtype, reduce, count }.canonical())
}

/// Node and rail of a cause, each plus one, 0 for none.
fn pack(cause: RemoteCause) -> u32 {
    let half = |v: Option<u16>| v.map_or(0, |v| u32::from(v.saturating_add(1)));
    half(cause.node) | half(cause.rail) << 16
}

fn unpack(kind: u8, packed: u32, seq: u64) -> RemoteCause {
    let half = |v: u32| ((v & 0xffff) as u16).checked_sub(1);
    let kind = match kind {
        1 => CauseKind::Mismatch,
        2 => CauseKind::Shape,
        3 => CauseKind::Timeout,
        4 => CauseKind::PeerLost,
        6 => CauseKind::Protocol,
        7 => CauseKind::BufferGone,
        8 => CauseKind::RankGone,
        9 => CauseKind::Stopped,
        10 => CauseKind::PeerLeft,
        _ => CauseKind::Unknown,
    };
    RemoteCause { kind, seq, node: half(packed), rail: half(packed >> 16) }
}
