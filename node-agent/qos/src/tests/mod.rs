//! Tests, data first.

mod journal;
mod lane;
mod plan;
mod profile;
mod recorded;
mod vendor;
