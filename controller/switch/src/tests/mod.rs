//! Tests, data first.

mod planners;
