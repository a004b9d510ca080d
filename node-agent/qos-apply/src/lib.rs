//! Class of service of this server's NICs: read whole, changed one edit at a time, each read back.
//!
//! What should be, in which order it becomes so and how it is undone is decided in `node-agent-qos`; here it is only done, by the
//! interface that each edit names.
//!
//! Around that: the thread that keeps NICs so (`keep.rs`), the journal on disk (`file_journal.rs`), what the controller desires
//! (`desired.rs`), and `rail-node-agent qos` (`command.rs`) for somebody who is logged in.

pub mod agents;
pub mod apply;
pub mod checks;
pub mod command;
mod congestion;
mod connection;
mod convert;
pub mod data_class;
pub mod desired;
pub mod device;
pub mod document;
pub mod file_journal;
pub mod flaps;
pub mod journal;
pub mod keep;
pub mod keeper;
#[cfg(test)]
mod keeper_tests;
#[cfg(test)]
mod keeper_trouble_tests;
pub mod modelled;
mod paths;
pub mod read;
pub mod run;
mod show;
#[cfg(test)]
mod tests;
mod trial;

pub use apply::{ApplyError, apply};
pub use device::devices;
pub use journal::{AuditLine, Journal, MemoryJournal, Record};
pub use keeper::{Keeper, Outcome};
pub use modelled::{Modelled, modelled};
pub use read::observe;
