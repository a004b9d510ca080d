//! Engines, real sockets and real clients together: everything that one crate alone cannot show.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so and end"
)]

mod bad_input;
mod board;
mod certify;
mod collectives;
mod drain;
mod loss;
mod notifications;
mod operands;
mod over_verbs;
mod processes;
mod world;
