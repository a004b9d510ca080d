//! What can go wrong between this program and the kernel, with the errno and what to do.

use std::{fmt, io, time::Duration};

use crate::wire::WireError;

/// An error number of the kernel (errno(3)), positive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Errno(pub i32);

impl Errno {
    /// Not permitted: CAP_NET_ADMIN is missing.
    pub const PERM: Self = Self(1);
    /// ENOENT: there is no such entry.
    pub const NOENT: Self = Self(2);
    /// The device or its firmware failed.
    pub const IO: Self = Self(5);
    /// EBUSY: another holds the device.
    pub const BUSY: Self = Self(16);
    /// EEXIST: the entry is there already.
    pub const EXIST: Self = Self(17);
    /// ENODEV: there is no such device.
    pub const NODEV: Self = Self(19);
    /// EINVAL: the driver refuses the value.
    pub const INVAL: Self = Self(22);
    /// ERANGE: the value is out of the driver's range.
    pub const RANGE: Self = Self(34);
    /// Too long for the answer's buffer.
    pub const MSGSIZE: Self = Self(90);
    /// The driver cannot do this.
    pub const OPNOTSUPP: Self = Self(95);

    /// Number, name, and what to do.
    const KNOWN: [(Self, &'static str, &'static str); 14] = [
        (Self::PERM, "EPERM", "run the agent as root or give it CAP_NET_ADMIN"),
        (Self::NOENT, "ENOENT", "there is no such entry: another tool may have removed it; look again"),
        (Self::IO, "EIO", "the device or its firmware failed; see the kernel's log"),
        (Self(13), "EACCES", "run the agent as root"),
        (Self::BUSY, "EBUSY", "another holds the device; end its use and try again"),
        (Self::EXIST, "EEXIST", "the entry is there already; look again"),
        (
            Self::NODEV,
            "ENODEV",
            "there is no such device: it was renamed, or its driver is being loaded; look again",
        ),
        (Self::INVAL, "EINVAL", "the driver refuses this value; see its limits"),
        (Self(28), "ENOSPC", "the device's table is full; remove entries that are not needed"),
        (Self::RANGE, "ERANGE", "the value is out of the driver's range"),
        (
            Self::MSGSIZE,
            "EMSGSIZE",
            "the device's tables do not fit into an answer; remove entries that are not needed",
        ),
        (
            Self::OPNOTSUPP,
            "EOPNOTSUPP",
            "the device's driver cannot do this; leave it out of the profile or use the vendor's driver",
        ),
        (Self(100), "ENETDOWN", "switch the interface on first"),
        (Self(110), "ETIMEDOUT", "the device's firmware does not answer; see the kernel's log"),
    ];

    /// Its name, such as `EINVAL`; `errno` for those that are rare here.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::KNOWN.iter().find(|known| known.0 == self).map_or("errno", |known| known.1)
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(self) -> &'static str {
        Self::KNOWN
            .iter()
            .find(|known| known.0 == self)
            .map_or("see errno(3) and the kernel's log", |known| known.2)
    }

    /// That of an IO error; `EIO` where it has none.
    #[must_use]
    pub fn of(error: &io::Error) -> Self {
        error.raw_os_error().map_or(Self::IO, Self)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (-{})", self.name(), self.0)
    }
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        io::Error::from_raw_os_error(errno.0)
    }
}

/// A question to the kernel that has no answer, or a bad one. `what` says which question and of which device.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel answered the question with an error number.
    #[error("{what}: {errno}{}: {}", words.as_deref().map(|words| format!(" \"{words}\"")).unwrap_or_default(), errno.advice())]
    Refused {
        /// The question, and the device that it is about.
        what: String,
        /// The error number of the kernel.
        errno: Errno,
        /// The kernel's own words, where it has some.
        words: Option<String>,
    },
    /// The kernel took the request, and the driver's status in the answer is a failure (DCB).
    #[error("{what}: the driver answers {errno}: {}", errno.advice())]
    Status {
        /// The question, and the device that it is about.
        what: String,
        /// The error number that the driver answered.
        errno: Errno,
    },
    /// The answer is not what the kernel would say.
    #[error("{what}: the answer cannot be read: {source}; report this with the kernel's version")]
    Unreadable {
        /// The question, and the device that it is about.
        what: String,
        /// Which part of the answer is wrong.
        source: WireError,
    },
    /// The kernel answered and said nothing of what was asked.
    #[error("{what}: the answer lacks {missing}; report this with the kernel's version")]
    Lacks {
        /// The question, and the device that it is about.
        what: String,
        /// The part that the answer lacks.
        missing: &'static str,
    },
    /// No answer in time.
    #[error("{what}: no answer within {} ms; the device's firmware may hang, see the kernel's log", limit.as_millis())]
    Silent {
        /// The question, and the device that it is about.
        what: String,
        /// The time that was waited.
        limit: Duration,
    },
    /// A datagram that is longer than any that the kernel sends.
    #[error("{what}: an answer of {length} bytes is longer than the {most} that are taken")]
    TooLong {
        /// The question, and the device that it is about.
        what: String,
        /// Length of the answer, in bytes.
        length: usize,
        /// Bytes taken at most.
        most: usize,
    },
    /// A listing without an end, or answers to questions that were not asked.
    #[error("{what}: the answer does not end")]
    Endless {
        /// The question, and the device that it is about.
        what: String,
    },
    /// A listing that changed each time while it was made.
    #[error("{what}: the listing changed {times} times while it was made; try again")]
    Restless {
        /// The question, and the device that it is about.
        what: String,
        /// How often it was tried.
        times: u32,
    },
    /// Sending or receiving on the socket failed.
    #[error("{what}: {source}")]
    Io {
        /// The question, and the device that it is about.
        what: String,
        /// What the operating system answered.
        source: io::Error,
    },
}

impl NetlinkError {
    /// The kernel's error number, if it gave one.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused { errno, .. } | Self::Status { errno, .. } => Some(*errno),
            Self::Io { source, .. } => source.raw_os_error().map(Errno),
            _ => None,
        }
    }

    /// True if driver or kernel do not have what was asked for at all.
    #[must_use]
    pub fn is_unsupported(&self) -> bool {
        self.errno() == Some(Errno::OPNOTSUPP)
    }

    /// True if the device is not there: gone, or under another name.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.errno() == Some(Errno::NODEV)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_where_and_what_to_do() {
        let refused = |code, words: Option<&str>| NetlinkError::Refused {
            what: "set PFC of eth0".into(),
            errno: Errno(code),
            words: words.map(str::to_owned),
        };
        let text = refused(1, None).to_string();
        assert_eq!(text, "set PFC of eth0: EPERM (-1): run the agent as root or give it CAP_NET_ADMIN");
        let text = refused(22, Some("sum is not 100")).to_string();
        assert!(text.starts_with("set PFC of eth0: EINVAL (-22) \"sum is not 100\": "), "{text}");
        assert!(refused(95, None).is_unsupported() && refused(19, None).is_gone());
        assert_eq!(Errno(77).to_string(), "errno (-77)");
        assert!(Errno::KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0), "in order");
    }
}
