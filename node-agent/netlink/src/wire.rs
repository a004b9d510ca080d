//! Netlink's form of messages and attributes (netlink(7), kernel `include/uapi/linux/netlink.h`), both ways. Any bytes are
//! read without a panic: a length that is too short, too long or cut off is an error that says where, and each step consumes
//! at least a header, so that reading ends.

use std::fmt;

/// Bytes of `struct nlmsghdr`.
pub const HEADER: usize = 16;
/// Bytes of `struct nlattr`.
pub const ATTRIBUTE: usize = 4;

/// `NLMSG_ERROR`: a refusal, or with code 0 an acknowledgement.
pub const ERROR: u16 = 2;
/// `NLMSG_DONE`: the end of a listing.
pub const DONE: u16 = 3;
/// `NLMSG_OVERRUN`: data was lost.
pub const OVERRUN: u16 = 4;

/// `NLM_F_REQUEST`: the message is a request.
pub const REQUEST: u16 = 0x1;
/// `NLM_F_MULTI`: more messages of this answer follow, up to `NLMSG_DONE`.
pub const MULTI: u16 = 0x2;
/// `NLM_F_ACK`: answer also where there is nothing to say.
pub const ACK: u16 = 0x4;
/// `NLM_F_DUMP_INTR`: the listing changed while it was made.
pub const INTERRUPTED: u16 = 0x10;
/// `NLM_F_DUMP`: all there are.
pub const DUMP: u16 = 0x300;
/// `NLM_F_CAPPED`: an error repeats only the header of the request.
pub const CAPPED: u16 = 0x100;
/// `NLM_F_ACK_TLVS`: attributes with the kernel's words follow an error.
pub const ACK_TLVS: u16 = 0x200;

/// `NLA_F_NESTED`: the value is attributes.
pub const NESTED: u16 = 0x8000;
/// The two flag bits above an attribute's kind.
const KIND: u16 = 0x3fff;

/// Bytes that are not what the kernel would have sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A message's header is cut short.
    #[error("{left} bytes are left where a message header takes {HEADER}")]
    ShortHeader {
        /// Number of bytes that are left.
        left: usize,
    },
    /// A message is said to be shorter than its header or longer than what is there.
    #[error("a message says that it has {length} bytes; its header takes {HEADER}, and {left} are there")]
    MessageLength {
        /// Length that the message's header says, in bytes.
        length: u32,
        /// Number of bytes that are there.
        left: usize,
    },
    /// An attribute's header is cut short.
    #[error("{left} bytes are left where an attribute header takes {ATTRIBUTE}")]
    ShortAttribute {
        /// Number of bytes that are left.
        left: usize,
    },
    /// An attribute is said to be shorter than its header or longer than what is there.
    #[error(
        "attribute {kind} says that it has {length} bytes; its header takes {ATTRIBUTE}, and {left} are there"
    )]
    AttributeLength {
        /// Kind of the attribute.
        kind: u16,
        /// Length that the attribute's header says, in bytes.
        length: u16,
        /// Number of bytes that are there.
        left: usize,
    },
    /// A value is shorter than its type.
    #[error("{what} has {found} bytes where {wanted} are needed")]
    Short {
        /// Name of the value.
        what: &'static str,
        /// Number of bytes that are there.
        found: usize,
        /// Number of bytes that the type takes.
        wanted: usize,
    },
    /// A name that is no text.
    #[error("{what} is not text")]
    Text {
        /// Name of the value.
        what: &'static str,
    },
    /// A part without which the answer says nothing.
    #[error("{what} is missing")]
    Missing {
        /// Name of the part that is missing.
        what: &'static str,
    },
}

/// The first bytes of a value as an array.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array(bytes, at).map(u16::from_ne_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array(bytes, at).map(u64::from_ne_bytes)
}

/// One netlink message: its header's fields and its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// The type of the message (`nlmsg_type`).
    pub kind: u16,
    /// The flags of the message (`nlmsg_flags`).
    pub flags: u16,
    /// `nlmsg_seq`: that of the request; 0 for events.
    pub sequence: u32,
    /// What follows the header.
    pub body: &'a [u8],
}

impl<'a> Message<'a> {
    /// The code of an `NLMSG_ERROR` or `NLMSG_DONE`: 0 or minus an errno.
    ///
    /// # Errors
    /// It is cut off: what became of the request is not known.
    pub fn code(&self) -> Result<i32, WireError> {
        let short = WireError::Short { what: "the code of an answer", found: self.body.len(), wanted: 4 };
        u32_at(self.body, 0).map(u32::cast_signed).ok_or(short)
    }

    /// The attributes behind a fixed part of `fixed` bytes.
    #[must_use]
    pub fn attributes(&self, fixed: usize) -> Attributes<'a> {
        Attributes::new(self.body.get(fixed.next_multiple_of(4)..).unwrap_or(&[]))
    }

    /// The kernel's own words on a refusal (`NLMSGERR_ATTR_MSG`), where it has some and the socket asked for them.
    #[must_use]
    pub fn words(&self) -> Option<&'a str> {
        const WORDS: u16 = 1;
        if self.kind != ERROR || self.flags & ACK_TLVS == 0 {
            return None;
        }
        let request = match self.flags & CAPPED {
            0 => usize::try_from(u32_at(self.body, 4)?).ok()?,
            _ => HEADER,
        };
        let attributes = self.body.get(request.next_multiple_of(4).checked_add(4)?..)?;
        let found = Attributes::new(attributes).map_while(Result::ok).find(|a| a.kind == WORDS)?;
        found.text("the kernel's words").ok()
    }
}

/// The messages of one datagram; ends after the first that is wrong.
#[derive(Debug, Clone)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Messages<'a> {
    /// The messages that are in this datagram.
    #[must_use]
    pub fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    fn take(&mut self) -> Result<Message<'a>, WireError> {
        let rest = std::mem::take(&mut self.rest);
        let header: [u8; HEADER] = array(rest, 0).ok_or(WireError::ShortHeader { left: rest.len() })?;
        let length = u32_at(&header, 0).unwrap_or(0);
        let whole = usize::try_from(length).unwrap_or(usize::MAX);
        let body = rest.get(HEADER..whole).ok_or(WireError::MessageLength { length, left: rest.len() })?;
        self.rest = rest.get(whole.next_multiple_of(4)..).unwrap_or(&[]);
        let number = |at| u16_at(&header, at).unwrap_or(0);
        Ok(Message { kind: number(4), flags: number(6), sequence: u32_at(&header, 8).unwrap_or(0), body })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.take())
    }
}

/// One attribute of a message (`struct nlattr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// Its kind, without the flags.
    pub kind: u16,
    /// The bytes of its value, without header and padding.
    pub value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// A `u8`.
    ///
    /// # Errors
    /// The value is empty. Longer values are read as the kernel reads them: by their beginning.
    pub fn u8(&self, what: &'static str) -> Result<u8, WireError> {
        self.fixed::<1>(what).map(|[byte]| byte)
    }

    /// A `u32` in the machine's order.
    ///
    /// # Errors
    /// The value is shorter.
    pub fn u32(&self, what: &'static str) -> Result<u32, WireError> {
        self.fixed(what).map(u32::from_ne_bytes)
    }

    /// A `u64` in the machine's order.
    ///
    /// # Errors
    /// The value is shorter.
    pub fn u64(&self, what: &'static str) -> Result<u64, WireError> {
        self.fixed(what).map(u64::from_ne_bytes)
    }

    /// The first `N` bytes.
    ///
    /// # Errors
    /// The value is shorter.
    pub fn fixed<const N: usize>(&self, what: &'static str) -> Result<[u8; N], WireError> {
        array(self.value, 0).ok_or(WireError::Short { what, found: self.value.len(), wanted: N })
    }

    /// Text up to its end or the first zero byte.
    ///
    /// # Errors
    /// Not UTF-8.
    pub fn text(&self, what: &'static str) -> Result<&'a str, WireError> {
        let end = self.value.iter().position(|byte| *byte == 0).unwrap_or(self.value.len());
        std::str::from_utf8(&self.value[..end]).map_err(|_| WireError::Text { what })
    }

    /// The attributes in the value.
    #[must_use]
    pub fn nest(&self) -> Attributes<'a> {
        Attributes::new(self.value)
    }
}

/// Attributes in their order; ends after the first that is wrong. Nests are only opened by those who know them, so that their
/// depth is that of the code that reads them, whatever the bytes say.
#[derive(Debug, Clone)]
pub struct Attributes<'a> {
    rest: &'a [u8],
}

impl<'a> Attributes<'a> {
    /// The attributes that are in these bytes.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self) -> Result<Attribute<'a>, WireError> {
        let rest = std::mem::take(&mut self.rest);
        let left = rest.len();
        let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) else {
            return Err(WireError::ShortAttribute { left });
        };
        let kind = kind & KIND;
        let value = rest.get(ATTRIBUTE..usize::from(length));
        let value = value.ok_or(WireError::AttributeLength { kind, length, left })?;
        self.rest = rest.get(usize::from(length).next_multiple_of(4)..).unwrap_or(&[]);
        Ok(Attribute { kind, value })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<Attribute<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest.is_empty()).then(|| self.take())
    }
}

/// A message, or what follows a header, in the making.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Builder {
    bytes: Vec<u8>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Builder({:02x?})", self.bytes)
    }
}

impl Builder {
    /// A message of this kind with these flags, and its fixed part.
    #[must_use]
    pub fn message(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        let mut message = Self { bytes };
        message.pad();
        message
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Adds an attribute. A value that no attribute can hold (64 KiB) is cut; ours are short.
    #[must_use]
    pub fn put(mut self, kind: u16, value: &[u8]) -> Self {
        let value = &value[..value.len().min(usize::from(u16::MAX) - ATTRIBUTE)];
        let length = u16::try_from(value.len() + ATTRIBUTE).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&length.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
        self
    }

    /// Adds text with the zero byte at its end.
    #[must_use]
    pub fn put_text(self, kind: u16, text: &str) -> Self {
        let mut value = text.as_bytes().to_vec();
        value.push(0);
        self.put(kind, &value)
    }

    /// Adds an attribute that holds what `fill` adds.
    #[must_use]
    pub fn nest(self, kind: u16, fill: impl FnOnce(Builder) -> Builder) -> Self {
        let inside = fill(Builder::default());
        self.put(kind | NESTED, &inside.bytes)
    }

    /// What was put, for a nest or a test.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The message with its length and this sequence number.
    #[must_use]
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        if let Some(at) = self.bytes.get_mut(..HEADER) {
            at[..4].copy_from_slice(&length.to_ne_bytes());
            at[8..12].copy_from_slice(&sequence.to_ne_bytes());
        }
        self.bytes
    }
}

#[cfg(test)]
mod tests;
