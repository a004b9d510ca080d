//! The agent's control core: `step(state, event, now) -> actions`, and the supervisor's beside it.
//!
//! No clock, no file, no process: the shell in `node-agent` carries the actions out and brings the events.
//! Invariants, checked by the property tests of this crate and by the simulator:
//! 1. At most one supervisor is ever spawned for one attempt of one job.
//! 2. Ranks start only by a desired state RUNNING whose epoch is not lower than any accepted before.
//! 3. Desired state and an observed state only ever move forward; an ENDED record stays until it is forgotten.
//! 4. Losing the controller, or the agent itself, changes nothing for a job that runs.

pub mod agent;
#[cfg(test)]
mod agent_tests;
pub mod record;
pub mod steps;
pub mod supervisor;
#[cfg(test)]
mod supervisor_tests;

pub use agent::{Action, Command, Event, Message, Recovered, State, step};
pub use record::{Goal, Key, Life, Order, Record, Report, Snapshot};
