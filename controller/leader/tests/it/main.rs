//! The leader loop over a store that misbehaves on command, and over a real etcd.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on shall say where"
)]

mod audit;
mod dies;
mod etcd;
mod lead;
mod limits;
mod migrate;
mod outage;
mod recorded;
mod rows;
mod sample;
mod standby;
mod store;
mod world;
