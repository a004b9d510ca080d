//! Probes over real sockets.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod pairs;
