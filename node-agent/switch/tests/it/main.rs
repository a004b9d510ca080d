//! The real agent, on a machine of a few scripts, with a controller that the test plays.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod agent;
mod controller;
mod gnmi;
mod machine;
