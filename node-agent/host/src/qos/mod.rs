//! Class of service of this server's NICs: read whole, changed one edit at a time, each read back.
//!
//! What should be, in which order it becomes so and how it is undone is decided in `node-agent-qos`; here it is only done, by the
//! interface that each edit names.

pub mod agents;
pub mod apply;
pub mod checks;
mod congestion;
mod connection;
mod convert;
pub mod device;
pub mod journal;
pub mod keeper;
#[cfg(test)]
mod keeper_tests;
#[cfg(test)]
mod keeper_trouble_tests;
pub mod modelled;
mod paths;
pub mod read;
pub mod run;
#[cfg(test)]
mod tests;

pub use apply::{ApplyError, apply};
pub use device::devices;
pub use journal::{AuditLine, Journal, MemoryJournal, Record};
pub use keeper::{Keeper, Outcome};
pub use modelled::{Modelled, modelled};
pub use read::observe;
