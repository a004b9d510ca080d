//! A gang with noise and faults in virtual time: what its nodes would report, and how long all of it would take.

mod clock;
mod fault;
mod gang;
mod random;

pub use clock::Clock;
pub use fault::Fault;
pub use gang::{Outcome, World};
pub use random::Random;
