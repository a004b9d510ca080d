//! What ranks notify each other of, in three words: the lowest byte of the first one is the kind.

/// What one rank says to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// A rank wants to send to a listener.
    Connect {
        /// Number of the listener, and its cookie.
        listener: u32,
        /// The listener's cookie, as its handle says it.
        cookie: u64,
        /// Number of the connection at the sender.
        sender: u32,
    },
    /// The listener has accepted.
    Accept {
        /// Number of the connection at the sender.
        sender: u32,
        /// Its number at the receiver.
        receiver: u32,
    },
    /// There is no such listener, or no room there.
    Refuse {
        /// Number of the connection at the sender.
        sender: u32,
    },
    /// The receiver has room for more messages.
    Credit {
        /// Number of the connection at the sender.
        sender: u32,
        /// Messages that it has or had room for since the connection began.
        total: u64,
    },
    /// A message comes.
    Send {
        /// Number of the connection at the receiver.
        receiver: u32,
        /// The message's tag.
        tag: i32,
        /// Its size in bytes; where that is not 0, the engine's send has begun.
        bytes: u64,
    },
    /// The sender will send nothing more.
    SenderClosed {
        /// Number of the connection at the receiver.
        receiver: u32,
    },
    /// The receiver will take nothing more: what comes all the same is thrown away.
    ReceiverClosed {
        /// Number of the connection at the sender.
        sender: u32,
    },
    /// The sender knows that the receiver has closed; nothing more of this connection comes.
    Gone {
        /// Number of the connection at the receiver.
        receiver: u32,
    },
}

impl Message {
    /// The words of a notification.
    #[must_use]
    pub fn words(self) -> [u64; 3] {
        let first = |kind: u64, number: u32| kind | u64::from(number) << 32;
        match self {
            Self::Connect { listener, cookie, sender } => [first(1, listener), cookie, sender.into()],
            Self::Accept { sender, receiver } => [first(2, sender), receiver.into(), 0],
            Self::Refuse { sender } => [first(3, sender), 0, 0],
            Self::Credit { sender, total } => [first(4, sender), total, 0],
            Self::Send { receiver, tag, bytes } => {
                [first(5, receiver), u64::from(u32::from_le_bytes(tag.to_le_bytes())), bytes]
            }
            Self::SenderClosed { receiver } => [first(6, receiver), 0, 0],
            Self::ReceiverClosed { sender } => [first(7, sender), 0, 0],
            Self::Gone { receiver } => [first(8, receiver), 0, 0],
        }
    }

    /// Reads a notification; `None` where it is no message of this version.
    #[must_use]
    pub fn read(words: [u64; 3]) -> Option<Self> {
        let [first, second, third] = words;
        let number = u32::try_from(first >> 32).ok()?;
        let small = |word: u64| u32::try_from(word).ok();
        let message = match first & 0xffff_ffff {
            1 => Self::Connect { listener: number, cookie: second, sender: small(third)? },
            2 => Self::Accept { sender: number, receiver: small(second)? },
            3 => Self::Refuse { sender: number },
            4 => Self::Credit { sender: number, total: second },
            5 => {
                let tag = i32::from_le_bytes(small(second)?.to_le_bytes());
                Self::Send { receiver: number, tag, bytes: third }
            }
            6 => Self::SenderClosed { receiver: number },
            7 => Self::ReceiverClosed { sender: number },
            8 => Self::Gone { receiver: number },
            _ => return None,
        };
        (message.words() == words).then_some(message)
    }
}
