//! Operands on GPUs, from a rank's pointer to the wire and back: real engines and clients over libraries that stand in for CUDA's and for
//! libibverbs. Memory of their GPUs is a memory file that no processor reads but by their copies, which are counted.
//!
//! A program of its own, because its engines find that libibverbs by the environment.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on should say so and end"
)]

mod fake;
mod faults;
mod operations;
mod python;
#[path = "../it/world.rs"]
#[allow(dead_code, reason = "shared with the other program of tests")]
mod world;
