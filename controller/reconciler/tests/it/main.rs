//! The leader loop over a store that misbehaves on command.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on shall say where"
)]

mod lead;
mod limits;
mod outage;
mod store;
mod world;
