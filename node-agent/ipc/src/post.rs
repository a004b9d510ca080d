//! One call as it crosses the socket: what to do, on which bytes of which buffers.

use node_agent_collective::{Call, Dtype, OpKind, Operation, ReduceOp};

use crate::board::WORDS;
use crate::codec::{ProtocolError, Reader, Writer};

/// A place in a shared buffer; the call says how many bytes from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// The buffer's name; 0 means none, which is right where the call moves no bytes on this side.
    pub buffer: u32,
    /// The operand's first byte, counted from the beginning of the buffer.
    pub offset: u64,
}

/// A call with its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Post {
    /// The operation, its element type and its number of elements.
    pub call: Call,
    /// Where the input is. May be the same place as the output where both are as long.
    pub input: Span,
    /// The place that the output goes to; its name 0 where the call has none on this rank.
    pub output: Span,
    /// How long it may take, in milliseconds; 0 means the engine's own limit.
    pub timeout_ms: u32,
}

impl Post {
    /// The post as words for a board; `extra` is carried along for the ranks' own use.
    pub fn to_words(&self, extra: u64) -> [u64; WORDS] {
        let mut words = self.pack();
        words[WORDS - 1] = extra;
        words
    }

    /// Reads what [`Post::to_words`] made: the post and the extra word.
    ///
    /// # Errors
    /// A word holds a value that its field cannot have.
    pub fn from_words(words: &[u64; WORDS]) -> Result<(Self, u64), ProtocolError> {
        Ok((Self::unpack(words)?, words[WORDS - 1]))
    }

    /// The post in the first of this many words. It has a fixed length, which tests hold against the room.
    pub(crate) fn pack<const N: usize>(&self) -> [u64; N] {
        let mut w = Writer::default();
        self.encode(&mut w);
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(w.finish().chunks(size_of::<u64>())) {
            let mut whole = [0; size_of::<u64>()];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        words
    }

    /// Reads what [`Post::pack`] made.
    pub(crate) fn unpack(words: &[u64]) -> Result<Self, ProtocolError> {
        let mut bytes = [0; WORDS * size_of::<u64>()];
        for (place, word) in bytes.chunks_mut(size_of::<u64>()).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        Self::decode(&mut Reader::new(&bytes))
    }

    pub(crate) fn encode<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        let call = &self.call;
        let (peer, tag) = match call.operation {
            Operation::Broadcast { root } => (root, 0),
            Operation::Send { to, tag } => (to, tag),
            Operation::Recv { from, tag } => (from, tag),
            _ => (0, 0),
        };
        w.u8(call.operation.kind().code()).u8(call.dtype.code()).u8(call.reduce.code()).u8(0);
        w.u32(peer).u32(tag).u32(self.timeout_ms).u64(call.count);
        w.u32(self.input.buffer).u64(self.input.offset).u32(self.output.buffer).u64(self.output.offset)
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let (kind, dtype, reduce, reserved) = (r.u8()?, r.u8()?, r.u8()?, r.u8()?);
        let (peer, tag, timeout_ms, count) = (r.u32()?, r.u32()?, r.u32()?, r.u64()?);
        let field = |field, found: u8| ProtocolError::Field { field, found: found.into() };
        if reserved != 0 {
            return Err(field("reserved", reserved));
        }
        let operation = match OpKind::from_code(kind).ok_or_else(|| field("operation", kind))? {
            OpKind::AllReduce => Operation::AllReduce,
            OpKind::AllGather => Operation::AllGather,
            OpKind::ReduceScatter => Operation::ReduceScatter,
            OpKind::Broadcast => Operation::Broadcast { root: peer },
            OpKind::AllToAll => Operation::AllToAll,
            OpKind::Barrier => Operation::Barrier,
            OpKind::Send => Operation::Send { to: peer, tag },
            OpKind::Recv => Operation::Recv { from: peer, tag },
        };
        let dtype = Dtype::from_code(dtype).ok_or_else(|| field("dtype", dtype))?;
        let reduce = ReduceOp::from_code(reduce).ok_or_else(|| field("reduction", reduce))?;
        let input = Span { buffer: r.u32()?, offset: r.u64()? };
        let output = Span { buffer: r.u32()?, offset: r.u64()? };
        Ok(Self { call: Call { operation, dtype, reduce, count }, input, output, timeout_ms })
    }
}
