//! Health of every rail: what counters of any vendor say, what that shows, and who should stop using what.
//!
//! `step(state, event, now)` takes samples of ports ([`Sample`]) and gives verdicts. A value that a device does not have is
//! missing, which is neither zero nor proof of anything. A condition is raised as soon as its detector is sure, and is over
//! only after proof: time without a sign, with traffic, or a probe. A rail is drained before a server is.

pub mod backoff;
pub mod board;
pub mod condition;
pub mod config;
pub mod counter_kind;
mod counters;
pub mod delta;
pub mod judge;
pub mod layout;
pub mod limits;
pub mod model;
pub mod port;
pub mod rules;
pub mod sample;
pub mod score;
pub mod state;
pub mod step;
#[cfg(test)]
mod tests;
mod trial;
pub mod vendor;
pub mod window;

pub use board::{ActiveCondition, Change};
pub use condition::{Condition, Evidence, Severity};
pub use config::Config;
pub use counter_kind::CounterKind;
pub use layout::{Column, Layout};
pub use sample::{PortKey, ReadFailure, Sample};
pub use score::{Score, conditions_score, score};
pub use state::{JobUse, State};
pub use step::{Event, RailVerdict, Verdict, step};
pub use vendor::{Source, Vendor};

/// The facts of all rules and detectors, by which what is kept finds its own again.
pub fn facts() -> impl Iterator<Item = &'static condition::Fact> {
    let ours = [port::MARKED_FACT, board::EPISODES];
    rules::RULES.iter().map(|rule| &rule.fact).chain(judge::facts()).chain(step::FACTS).chain(ours)
}
