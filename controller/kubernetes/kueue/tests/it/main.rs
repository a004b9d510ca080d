//! Tests of the room as a whole, without a cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod api;
mod cluster;
mod decisions;
mod model;
mod pages;
mod rail;
mod running;
mod running_gangs;
