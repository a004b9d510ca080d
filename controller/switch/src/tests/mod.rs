//! Tests, data first.

mod checking;
mod mutating;
mod planners;
mod reading;
mod rendering;
