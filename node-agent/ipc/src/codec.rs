//! Little-endian fields in and out of one message; every read is checked.

/// Why a message was refused. The sender's connection is closed: after one bad message nothing of it can be trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The message ends before its fields do.
    #[error("message of {len} bytes ends inside its fields")]
    Truncated {
        /// Bytes of the message that was received.
        len: usize,
    },
    /// The message goes on after its last field.
    #[error("message has {extra} bytes after its last field")]
    Trailing {
        /// Number of bytes after the last field.
        extra: usize,
    },
    /// Longer than any message may be.
    #[error("message is longer than {limit} bytes", limit = crate::MAX_MESSAGE)]
    TooLong,
    /// The first bytes are not those of this protocol.
    #[error("not a message of the rank protocol (magic {found:#010x})")]
    Magic {
        /// The first four bytes of the message, which should be the protocol's magic number.
        found: u32,
    },
    /// The other side speaks another version.
    #[error("peer speaks version {found} of the rank protocol, this side speaks {ours}", ours = crate::VERSION)]
    Version {
        /// The protocol version that the other side names.
        found: u16,
    },
    /// No message has this kind.
    #[error("unknown message kind {found:#06x}")]
    Kind {
        /// The kind that the message's header names.
        found: u16,
    },
    /// A field holds a value that it cannot have.
    #[error("field {field} cannot hold {found}")]
    Field {
        /// Name of the field whose value is wrong.
        field: &'static str,
        /// The value that the field has in the message.
        found: u64,
    },
    /// Text that is not UTF-8 or longer than allowed.
    #[error("field {field} is not text of at most {limit} bytes")]
    Text {
        /// Name of the field whose text is wrong.
        field: &'static str,
        /// Most bytes that the field's text may have.
        limit: usize,
    },
    /// A file descriptor came with a message that carries none, or did not come with one that needs it.
    #[error("message came with {found} file descriptors, expected {wanted}")]
    Descriptors {
        /// Number of descriptors that came with the message.
        found: usize,
        /// Descriptors that belong to this message.
        wanted: usize,
    },
}

/// Reads fields from the front of a message.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
    len: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, len: bytes.len() }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (field, rest) =
            self.rest.split_first_chunk::<N>().ok_or(ProtocolError::Truncated { len: self.len })?;
        self.rest = rest;
        Ok(*field)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ProtocolError> {
        Ok(u8::from_le_bytes(self.take()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_le_bytes(self.take()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ProtocolError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    /// A u32 whose value `u32::MAX` means absent.
    pub(crate) fn option_u32(&mut self) -> Result<Option<u32>, ProtocolError> {
        Ok(Some(self.u32()?).filter(|value| *value != u32::MAX))
    }

    pub(crate) fn text(&mut self, field: &'static str, limit: usize) -> Result<String, ProtocolError> {
        let len = usize::from(self.u16()?);
        if len > limit {
            return Err(ProtocolError::Text { field, limit });
        }
        let (text, rest) =
            self.rest.split_at_checked(len).ok_or(ProtocolError::Truncated { len: self.len })?;
        self.rest = rest;
        match std::str::from_utf8(text) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(ProtocolError::Text { field, limit }),
        }
    }

    pub(crate) fn finish(self) -> Result<(), ProtocolError> {
        match self.rest.len() {
            0 => Ok(()),
            extra => Err(ProtocolError::Trailing { extra }),
        }
    }
}

/// Appends fields to a message.
#[derive(Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_le_bytes())
    }

    pub(crate) fn option_u32(&mut self, value: Option<u32>) -> &mut Self {
        self.u32(value.unwrap_or(u32::MAX))
    }

    /// Text is cut at the last whole character within `limit`, so an error text can never make a message too long.
    pub(crate) fn text(&mut self, text: &str, limit: usize) -> &mut Self {
        let mut end = text.len().min(limit).min(usize::from(u16::MAX));
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let text = &text[..end];
        self.u16(u16::try_from(text.len()).unwrap_or(u16::MAX)).put(text.as_bytes())
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.bytes
    }
}
