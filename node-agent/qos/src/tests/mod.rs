//! Tests, data first.

mod plan;
mod profile;
