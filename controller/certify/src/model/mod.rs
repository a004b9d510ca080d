//! A gang with noise and faults in virtual time: what its nodes would report, and how long all of it would take.

mod clock;
mod fault;
mod gang;

pub use clock::Clock;
pub use fault::Fault;
pub use gang::{Outcome, World};
