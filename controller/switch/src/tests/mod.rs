//! Tests, data first.

mod checking;
mod documents;
mod mutating;
mod planners;
mod reading;
mod rendering;
