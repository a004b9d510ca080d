//! What NCCL says that happens, and what becomes of it: spans of time. [pure]

/// What a message of NCCL's waits for, by NCCL's numbers of states. Up to v3 there is no [`State::SendPeer`]: see [`Progress`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The GPU has not given the bytes to be sent.
    SendGpu,
    /// The receiver has no room yet.
    SendPeer,
    /// The bytes are on the rails.
    Send,
    /// The bytes have not come over the rails.
    Receive,
    /// What has come is not visible to the GPU yet.
    Flush,
    /// The GPU has not taken the bytes.
    ReceiveGpu,
}

impl State {
    /// The state with this number; `None` where it is none of a message.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            8 => Self::SendGpu,
            9 => Self::Send,
            10 => Self::Receive,
            11 => Self::Flush,
            12 => Self::ReceiveGpu,
            20 => Self::SendPeer,
            _ => return None,
        })
    }

    /// Whether the size that NCCL gives with this state is that of the message: with others it is that of an earlier one.
    pub(super) const fn is_sized(self) -> bool {
        matches!(self, Self::Send | Self::Flush)
    }
}

/// How far one of the proxy's operations is, by NCCL's numbers of states (v1 to v3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The last message of those that it counts is ready, and is to be sent as soon as the receiver has room.
    Ready,
    /// That message was sent, or has come.
    Moved,
    /// Something else, of which its messages say more.
    Other,
}

impl Progress {
    /// The state with this number; `None` where it is none of an operation.
    #[must_use]
    pub const fn from_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Ready),
            2 | 5 => Some(Self::Moved),
            0 | 3 | 4 | 6 | 7 => Some(Self::Other),
            _ => None,
        }
    }
}

/// Whose a span is: a communicator and this process's rank there.
pub type Member = (u64, i32);

/// What a span is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A collective, or a message between two ranks, as the program asked for it.
    Call {
        /// Its name, with algorithm and protocol where NCCL says them.
        name: String,
        /// Number of elements.
        count: u64,
    },
    /// What the proxy does for one channel and one other rank.
    Operation {
        /// The channel.
        channel: u8,
        /// The other rank, as the communicator numbers it.
        peer: i32,
        /// Whether this rank sends.
        sends: bool,
    },
    /// One message of that, in one state.
    Step {
        /// The channel.
        channel: u8,
        /// The other rank.
        peer: i32,
        /// What it waited for.
        state: State,
        /// Bytes, as far as they are known.
        bytes: u64,
    },
}

/// Something that took time, in nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The rank, as its communicator numbers it.
    pub rank: i32,
    /// The communicator.
    pub communicator: u64,
    /// When it began.
    pub start: u64,
    /// When it ended; not before it began.
    pub end: u64,
    /// What it was.
    pub event: Event,
}

/// What begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Beginning {
    /// A call, or the proxy's part of one.
    Whole(Event),
    /// One of the steps that are the messages of an operation.
    Step {
        /// Number of the operation.
        operation: u64,
        /// NCCL's number of the step.
        step: i32,
    },
}
