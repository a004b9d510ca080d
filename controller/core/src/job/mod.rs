//! Jobs: submitted, held, placed, started, observed, repaired and ended.
//!
//! From the top: what people ask for (`submit`, `update`, `cancel`, `holds`, `orders`) and what the clock asks for (`schedules`); what a job
//! waits for (`depend`, `arrays`); doing what the queue's policy says (`schedule`); one attempt and what agents report of it (`attempt`,
//! `observe`), with its certification, repair and renamed NICs (`certify`, `repair`, `remap`); and what is told of all that (`explain`,
//! `standing`, `decisions`).

pub(crate) mod arrays;
pub(crate) mod attempt;
mod cancel;
pub(crate) mod certify;
pub mod decisions;
mod depend;
pub mod explain;
mod holds;
pub(crate) mod observe;
pub mod orders;
pub(crate) mod remap;
pub(crate) mod repair;
mod schedule;
pub(crate) mod schedules;
pub(crate) mod standing;
mod submit;
mod update;
