//! A server of eight NICs in virtual time: traffic of jobs, the noise of a healthy fabric, and faults that are put in.
//!
//! Everything follows from a seed. The noise is what reports of real fabrics describe: marks and notifications, small pauses,
//! dips, now and then a retransmission, jobs that are killed, drivers that are reloaded, counters that are cleared,
//! renames, restarts of the agent, gaps of polling, storage traffic of the host itself.

mod campaign;
mod faults;
mod nic;
mod noise;
mod server;
mod traffic;

pub use campaign::{Alarm, Found, Noise, inject, month};
pub use faults::{Fault, Kind};
pub use nic::full_layout;
