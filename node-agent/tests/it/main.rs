//! Real processes: supervisors with the real engine, agents with a controller that the test plays.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod agent;
mod apart;
mod controller;
mod rank_privileges;
mod rank_user;
mod secrets;
mod supervisor;
mod support;
