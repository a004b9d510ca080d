//! Real sockets, real handshakes: what two processes of ours do to each other over this crate.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod anonymous;
mod calls;
mod handshake;
mod hostile;
mod lifecycle;
mod revoked;
mod succession;
mod support;
