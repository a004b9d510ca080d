//! Against the kernel of the machine that runs the tests: what every kernel has, and how it refuses what this machine has not.
#![allow(unsafe_code, reason = "one call of unshare(2), for a network namespace of the test's own")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]

mod namespace;
mod real;
