//! Tests, data first.

mod data_class;
mod journal;
mod plan;
mod profile;
mod recorded;
mod vendor;
