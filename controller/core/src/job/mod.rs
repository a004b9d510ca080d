//! Jobs: submitted, held, placed, started, observed, repaired and ended.
//!
//! From the top: what people ask for (`submit`, `update`, `cancel`, `holds`) and what the clock asks for (`schedules`); jobs that wait for
//! others (`depend`); doing what the queue's policy says (`schedule`); one attempt and what agents report of it (`attempt`, `observe`), with
//! its certification, repair and renamed NICs (`certify`, `repair`, `remap`); what was decided (`decisions`), and what attempts held (`usage`).

pub(crate) mod attempt;
mod cancel;
mod certify;
pub mod decisions;
mod depend;
mod holds;
mod observe;
pub mod remap;
mod repair;
mod schedule;
mod schedules;
mod submit;
mod update;
mod usage;
