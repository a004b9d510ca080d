//! Tests, data first.

mod checking;
mod planners;
mod reading;
mod rendering;
