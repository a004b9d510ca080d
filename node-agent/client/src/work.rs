//! What a call works on: places in shared buffers, or ordinary memory.

use node_agent_collective::Call;

use crate::buffer::BufferOffset;

/// One call on shared buffers.
#[derive(Debug, Clone, Copy)]
pub struct Work<'a> {
    /// What to do, with how many elements; it says how long input and output are.
    pub call: Call,
    /// Where the input is; `None` where the call has none on this rank.
    pub input: Option<BufferOffset<'a>>,
    /// Where the output goes; `None` where the call has none on this rank.
    pub output: Option<BufferOffset<'a>>,
}

/// Ordinary memory that a call reads and writes, as bytes in this machine's order.
#[derive(Debug)]
pub enum Operands<'a> {
    /// Nothing is read or written here.
    None,
    /// The call has an input on this rank and no output.
    Input(&'a [u8]),
    /// The call has an output on this rank and no input.
    Output(&'a mut [u8]),
    /// The output replaces the input; both have one block.
    InPlace(&'a mut [u8]),
    /// The call has an input and an output, in different memory.
    Both(&'a [u8], &'a mut [u8]),
}

impl Operands<'_> {
    pub(crate) fn input(&self) -> &[u8] {
        match self {
            Self::Input(bytes) | Self::Both(bytes, _) => bytes,
            Self::InPlace(bytes) => bytes,
            Self::None | Self::Output(_) => &[],
        }
    }

    pub(crate) fn output(&mut self) -> &mut [u8] {
        match self {
            Self::Output(bytes) | Self::InPlace(bytes) | Self::Both(_, bytes) => bytes,
            Self::None | Self::Input(_) => &mut [],
        }
    }
}
