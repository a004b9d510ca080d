//! Tests, data first.

mod profile;
