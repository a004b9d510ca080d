//! What the agent and a job's supervisor say to each other of a step: messages of `rail.v1`, each with its length before it.

use prost::Message;
use thiserror::Error;

/// An order holds a command and an environment.
pub const ORDER_MAX: usize = 4 << 20;
/// Whatever comes after it: a piece of input or output and a few fields.
pub const FRAME_MAX: usize = 64 << 10;
/// Bytes of a length.
pub const LENGTH: usize = 4;

/// Why a frame is none.
#[derive(Debug, Error)]
pub enum FrameError {
    /// Longer than it may be.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// The frame holds no message of the expected type.
    #[error("a frame is damaged: {0}")]
    Damaged(#[from] prost::DecodeError),
}

/// A message with its length before it.
#[must_use]
pub fn encode(message: &impl Message) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    let mut frame = Vec::with_capacity(LENGTH + bytes.len());
    frame.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend(bytes);
    frame
}

/// The length that stands before a frame.
///
/// # Errors
/// It is longer than `most`.
pub fn length(header: [u8; LENGTH], most: usize) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(header) as usize;
    if length > most { Err(FrameError::TooLong(length)) } else { Ok(length) }
}

/// Takes one whole message off what has come; `None` while it is not whole.
///
/// # Errors
/// It is longer than `most`, or damaged.
pub fn take<M: Message + Default>(held: &mut Vec<u8>, most: usize) -> Result<Option<M>, FrameError> {
    let Some(header) = held.first_chunk::<LENGTH>() else { return Ok(None) };
    let end = LENGTH + length(*header, most)?;
    let Some(bytes) = held.get(LENGTH..end) else { return Ok(None) };
    let message = M::decode(bytes)?;
    held.drain(..end);
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto_wire::v1;

    #[test]
    fn frames_come_back_whole_and_no_longer_than_they_may_be() {
        let exit = v1::StepExit { code: 3, signal: 0 };
        let frame = encode(&exit);
        let mut held = Vec::new();
        for byte in &frame {
            assert!(take::<v1::StepExit>(&mut held, FRAME_MAX).unwrap().is_none());
            held.push(*byte);
        }
        held.extend(&frame[..2]);
        assert_eq!(take(&mut held, FRAME_MAX).unwrap(), Some(exit));
        assert_eq!(held, &frame[..2]);
        let mut long = encode(&v1::StepEvent { node: "x".repeat(100), ..Default::default() });
        assert!(matches!(take::<v1::StepEvent>(&mut long, 64), Err(FrameError::TooLong(_))));
        let mut damaged = vec![0, 0, 0, 1, 0xff];
        assert!(matches!(take::<v1::StepEvent>(&mut damaged, 64), Err(FrameError::Damaged(_))));
    }
}
