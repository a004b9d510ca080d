//! Tests, data first.

mod journal;
mod plan;
mod profile;
mod recorded;
mod vendor;
