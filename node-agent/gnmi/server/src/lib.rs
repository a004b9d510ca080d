//! A switch for tests: gNMI over mutual TLS before databases in memory, changed as SONiC's server changes them, with faults on demand.
//!
//! What is taken from sonic-net/sonic-gnmi: a Set of `CONFIG_DB` is a JSON patch, of which deletions come first and those of what is not
//! there are left out; changes one after the other, also those whose caller is gone, and what is read meanwhile is what was there before;
//! entries are keyed with `~1` for `/`; other databases are read by the target of the prefix, or by the path.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking, its helpers too")]
#![allow(clippy::missing_panics_doc, reason = "as above")]

mod database;
mod server;
mod switch;

pub use database::Database;
pub use server::{Fault, State, Updater};
pub use switch::{Switch, limits};
