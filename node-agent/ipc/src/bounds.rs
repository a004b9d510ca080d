//! Version and bounds of the messages between a rank and its engine.

/// Version of this protocol; both sides must speak the same. Released versions keep their messages.
pub const VERSION: u16 = 1;
/// Most bytes of one message.
pub const MAX_MESSAGE: usize = 2048;
/// Most bytes of any text in a message.
pub const MAX_TEXT: usize = 512;
/// Most rails whose counters fit in one reply.
pub const MAX_RAILS: usize = 64;
