//! A question to the kernel and its whole answer: sequence numbers, acknowledgements, listings of many parts, refusals. Every
//! wait, length and number of parts has a bound.

use std::{
    io,
    time::{Duration, Instant},
};

use crate::{
    error::{Errno, NetlinkError},
    kernel::{Channel, Family, Kernel},
    wire::{ACK, Builder, DONE, DUMP, ERROR, INTERRUPTED, MULTI, Message, Messages, OVERRUN},
};

/// A driver may ask its firmware; one that hangs is not waited for.
const LIMIT: Duration = Duration::from_secs(5);
/// The kernel fills datagrams of a listing up to 32 KiB, and a DCB answer to 8 KiB.
pub const DATAGRAM: usize = 64 << 10;
/// Datagrams of one answer.
const DATAGRAMS_MOST: usize = 4096;
/// Times that a listing which changed while it was made is asked for.
const ATTEMPTS: u32 = 8;

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The type of the message (`nlmsg_type`).
    pub kind: u16,
    /// What follows the header.
    pub body: Vec<u8>,
}

impl Part {
    /// It as a message, to read its attributes.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        Message { kind: self.kind, flags: 0, sequence: 0, body: &self.body }
    }
}

/// How far an answer has come.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    More,
    Whole,
    Again,
}

/// A socket for questions.
pub struct Session {
    channel: Box<dyn Channel>,
    sequence: u32,
    buffer: Vec<u8>,
    limit: Duration,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Session {
    /// A socket of this family.
    ///
    /// # Errors
    /// The kernel has no such family.
    pub fn open(kernel: &dyn Kernel, family: Family) -> Result<Self, NetlinkError> {
        let channel = kernel.open(family, &[]).map_err(|source| NetlinkError::Io {
            what: format!("open a {family:?} netlink socket"),
            source,
        })?;
        Ok(Self::over(channel))
    }

    /// Over a socket that is open.
    #[must_use]
    pub fn over(channel: Box<dyn Channel>) -> Self {
        Self { channel, sequence: 0, buffer: vec![0; DATAGRAM], limit: LIMIT }
    }

    /// Waits no longer than this for an answer.
    #[must_use]
    pub fn patience(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Asks for one thing; the flags `REQUEST` and `ACK` are to be set. The parts are those before the acknowledgement.
    ///
    /// # Errors
    /// The kernel's refusal, or an answer that cannot be read.
    pub fn ask(&mut self, what: &str, request: Builder) -> Result<Vec<Part>, NetlinkError> {
        match self.try_once(what, request)? {
            Some(parts) => Ok(parts),
            None => Err(NetlinkError::Restless { what: what.to_owned(), times: 1 }),
        }
    }

    /// Asks for a listing (`REQUEST | DUMP`), again if it changes while it is made.
    ///
    /// # Errors
    /// As [`Session::ask`].
    pub fn list(&mut self, what: &str, request: &Builder) -> Result<Vec<Part>, NetlinkError> {
        for _ in 0..ATTEMPTS {
            if let Some(parts) = self.try_once(what, request.clone())? {
                return Ok(parts);
            }
        }
        Err(NetlinkError::Restless { what: what.to_owned(), times: ATTEMPTS })
    }

    fn try_once(&mut self, what: &str, request: Builder) -> Result<Option<Vec<Part>>, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1).max(1);
        let bytes = request.finish(self.sequence);
        let flags = crate::wire::u16_at(&bytes, 6).unwrap_or(0);
        let acknowledged = flags & (ACK | DUMP) != 0;
        self.channel.send(&bytes).map_err(|source| NetlinkError::Io { what: what.to_owned(), source })?;
        let deadline = Instant::now() + self.limit;
        let (mut parts, mut interrupted) = (Vec::new(), false);
        for _ in 0..DATAGRAMS_MOST {
            let Some(length) = self.receive(what, deadline)? else { continue };
            for message in Messages::new(&self.buffer[..length]) {
                let message =
                    message.map_err(|source| NetlinkError::Unreadable { what: what.to_owned(), source })?;
                // An answer to a question that was given up, or an event: not ours.
                if message.sequence != self.sequence {
                    continue;
                }
                interrupted |= message.flags & INTERRUPTED != 0;
                match take(what, message, acknowledged, &mut parts)? {
                    Progress::More => {}
                    Progress::Whole => return Ok((!interrupted).then_some(parts)),
                    Progress::Again => return Ok(None),
                }
            }
        }
        Err(NetlinkError::Endless { what: what.to_owned() })
    }

    /// One datagram of the kernel's; `None` if another process sent it.
    fn receive(&mut self, what: &str, deadline: Instant) -> Result<Option<usize>, NetlinkError> {
        let most = self.buffer.len();
        let what = || what.to_owned();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NetlinkError::Silent { what: what(), limit: self.limit });
            }
            match self.channel.receive(&mut self.buffer, left) {
                Ok(received) if received.length > most => {
                    return Err(NetlinkError::TooLong { what: what(), length: received.length, most });
                }
                Ok(received) => return Ok(received.from_kernel.then_some(received.length)),
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return Err(NetlinkError::Silent { what: what(), limit: self.limit });
                    }
                    _ => return Err(NetlinkError::Io { what: what(), source: error }),
                },
            }
        }
    }
}

/// Takes one message of an answer.
fn take(
    what: &str,
    message: Message<'_>,
    acknowledged: bool,
    parts: &mut Vec<Part>,
) -> Result<Progress, NetlinkError> {
    let refusal = |code: i32| NetlinkError::Refused {
        what: what.to_owned(),
        errno: Errno(code.saturating_neg()),
        words: message.words().map(str::to_owned),
    };
    match message.kind {
        ERROR | DONE => match message.code() {
            Ok(code) if code < 0 => Err(refusal(code)),
            Ok(_) => Ok(Progress::Whole),
            Err(source) => Err(NetlinkError::Unreadable { what: what.to_owned(), source }),
        },
        OVERRUN => Ok(Progress::Again),
        kind => {
            parts.push(Part { kind, body: message.body.to_vec() });
            // Without an acknowledgement the answer itself is the end, unless it says that more follows.
            let whole = !acknowledged && message.flags & MULTI == 0;
            Ok(if whole { Progress::Whole } else { Progress::More })
        }
    }
}

#[cfg(test)]
mod tests;
