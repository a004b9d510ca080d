//! The simulator of the collective engine: the machines of all nodes of a job over links in virtual time, with seeded faults, in
//! numbers that tests cannot run. [`bits`] is row B9 of the benchmark (results do not depend on rails, faults, chunks, plans or
//! algorithms), [`deadlines`] row B11 (every call ends in time, and every failure says why).
//!
//! The network and the naive reference are those of the collective crate's own tests.

pub mod bits;
pub mod cli;
pub mod deadlines;
pub mod order;
pub mod problem;
pub mod storm;

#[allow(
    missing_docs,
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::should_implement_trait,
    reason = "the simulated network stops at the first thing that is wrong; the caller catches that and names the seed"
)]
#[path = "../../../node-agent/collective/tests/it/sim.rs"]
pub mod sim;

#[allow(missing_docs, clippy::unwrap_used, reason = "as above")]
#[path = "../../../node-agent/collective/tests/it/reference.rs"]
pub mod reference;

#[cfg(test)]
mod tests;

/// Runs what may panic, and gives the panic's words as an error.
///
/// # Errors
/// The error of `run`, or the text of its panic.
pub fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|t| (*t).to_owned()));
        Err(text.unwrap_or_else(|| "a panic without words".to_owned()))
    })
}
