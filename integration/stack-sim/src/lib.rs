//! The simulator of the whole stack: real controllers (store, leader loop, standby, peers' door, API) and real clients speak
//! real HTTP/2 and gRPC over a seeded network, with a model of etcd at its end; with faults, and checks of what was promised.
//!
//! What is real: everything above the sockets, but TLS and the wiring of the process. What is a model: etcd, the network,
//! wall time and random bytes. The same seed gives the same run, event by event.
//!
//! Checked: no acknowledged submit is lost or doubled, and a request id gives one job (C1, C6); nobody but the holder of the
//! leader key writes (C3); a cancel and a deletion that were acknowledged stay (C7); what was acknowledged is read (C10);
//! every reader's copy by watches is what is stored (C9), and so is what a standby takes over; when the faults stop,
//! everything settles (C11).

pub mod check;
pub mod cli;
pub mod client;
pub mod config;
pub mod controller;
pub mod etcd;
pub mod faults;
pub mod net;
pub mod plant;
pub mod reader;
pub mod record;
pub mod report;
pub mod source;
pub mod sums;
#[cfg(test)]
mod tests;
pub mod vacancy;
pub mod weather;
pub mod wire;
pub mod world;

pub use cli::main_from_args;
pub use config::Config;
pub use plant::Bug;
pub use report::Report;
pub use world::run;
