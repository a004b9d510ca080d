//! rail-switch-agent: joins the controller from the switch, so that nothing on the switch listens; says what is on it, and puts a
//! configuration in place for a trial that it takes back by itself.
//!
//! `decide` says what becomes of the configuration (pure), `keeper` is the thread that does it with a `switch`; `frr`, `nos` and `config_db` are
//! commands and files as values, `invoke` runs them; `gnmi` is a switch that the agent does not run on. `link` reports what the keeper says, over an `identity` of the controller's.

pub mod arguments;
pub mod cli;
pub mod clock;
pub mod config_db;
pub mod counters;
pub mod decide;
pub mod error;
pub mod files;
pub mod frr;
pub mod gnmi;
pub mod identity;
pub mod invoke;
pub mod keeper;
pub mod link;
pub mod mailbox;
pub mod nos;
pub mod report;
pub mod run;
pub mod schema;
pub mod sessions;
pub mod store;
pub mod switch;
pub mod text;
