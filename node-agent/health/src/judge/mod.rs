//! Detectors: each looks at one port's deltas, or at the rails of a server side by side, and says what it saw.

pub mod flap;
pub mod priority;
pub mod rates;
pub mod slow;
mod step;
pub mod storm;
pub mod swap;

use crate::condition::Fact;

pub use step::Step;

/// The facts of all detectors; those of the rules are in their table.
pub(crate) fn facts() -> impl Iterator<Item = &'static Fact> {
    flap::FACTS.into_iter().chain(priority::FACTS).chain(slow::FACTS).chain(storm::FACTS).chain(swap::FACTS)
}
