//! Tokens of the event sources of TCP rails.

use mio::Token;

use super::EXTERNAL_TOKENS;

pub(super) const WAKER: Token = Token(EXTERNAL_TOKENS);
pub(super) const PORTS: Token = Token(EXTERNAL_TOKENS + 1);
pub(super) const CARRIER: Token = Token(EXTERNAL_TOKENS + 2);
pub(super) const FIRST_LISTENER: usize = EXTERNAL_TOKENS + 3;
