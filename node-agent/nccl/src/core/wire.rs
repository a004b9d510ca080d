//! What ranks notify each other of, in three words: the lowest byte of the first one is the kind.

/// Most credits of one notification.
pub const MAX_CREDITS: usize = 4;

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
        /// The tags that these messages are to have.
        tags: Tags,
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

/// Tags of one to [`MAX_CREDITS`] messages, in the order of their places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tags {
    count: usize,
    tags: [i32; MAX_CREDITS],
}

impl Tags {
    /// One tag.
    #[must_use]
    pub fn one(tag: i32) -> Self {
        let mut tags = [0; MAX_CREDITS];
        tags[0] = tag;
        Self { count: 1, tags }
    }

    /// Adds a tag; `false` where there is no room for it.
    pub fn push(&mut self, tag: i32) -> bool {
        let Some(place) = self.tags.get_mut(self.count) else { return false };
        *place = tag;
        self.count += 1;
        true
    }

    /// The tags.
    pub fn iter(&self) -> impl Iterator<Item = i32> + '_ {
        self.tags.iter().take(self.count).copied()
    }

    fn words(&self) -> [u64; 2] {
        let [first, second, third, fourth] = self.tags.map(|tag| u64::from(tag.cast_unsigned()));
        [first | second << 32, third | fourth << 32]
    }

    /// Reads `count` tags.
    fn read(count: u64, [first, second]: [u64; 2]) -> Option<Self> {
        let count = usize::try_from(count).ok().filter(|count| (1..=MAX_CREDITS).contains(count))?;
        let tag = |word: u64, shift: u32| ((word >> shift & u64::from(u32::MAX)) as u32).cast_signed();
        Some(Self { count, tags: [tag(first, 0), tag(first, 32), tag(second, 0), tag(second, 32)] })
    }
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
            Self::Credit { sender, tags } => {
                let [second, third] = tags.words();
                [first(4 | (tags.count as u64) << 8, sender), second, third]
            }
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
            5 => {
                let tag = i32::from_le_bytes(small(second)?.to_le_bytes());
                Self::Send { receiver: number, tag, bytes: third }
            }
            6 => Self::SenderClosed { receiver: number },
            7 => Self::ReceiverClosed { sender: number },
            8 => Self::Gone { receiver: number },
            credit if credit & 0xff == 4 => {
                Self::Credit { sender: number, tags: Tags::read(credit >> 8, [second, third])? }
            }
            _ => return None,
        };
        (message.words() == words).then_some(message)
    }
}
