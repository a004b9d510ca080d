//! Tests, data first.

mod checking;
mod clusters;
mod counting;
mod documents;
mod mutating;
mod planners;
mod reading;
mod rendering;
