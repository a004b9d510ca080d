//! Tests, data first.

mod data_class;
mod journal;
mod plan;
mod recorded;
mod vendor;
