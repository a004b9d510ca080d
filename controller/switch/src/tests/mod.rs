//! Tests, data first.

mod planners;
mod reading;
mod rendering;
