//! Counters of NICs, read for `node-agent-health`: files are opened once and read in place, and nothing is allocated for a
//! reading. A port whose device has other counters by now, or was not whole, is opened again.

mod poller;
mod port;
mod private;
pub mod recorded;
#[cfg(test)]
mod tests;

pub use poller::Poller;
pub use port::PortReader;
pub use private::{FolderStatistics, KernelStatistics, OpenStatistics, Statistics};
