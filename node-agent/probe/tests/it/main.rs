//! Probes over real sockets.
#![allow(unsafe_code, reason = "one call of unshare(2), for network namespaces of a test's own")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod pairs;
mod paused;
mod recorded;
mod relay;
mod swapped;
