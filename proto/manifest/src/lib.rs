//! Strict, located reading of YAML and JSON documents into rail.v1 messages, and back.
//!
//! Text becomes a tree of located nodes (`yaml`, `json`) within hard limits; the tree is checked against a message
//! descriptor (`check`); every error found is a [`Finding`] that says where, what, and the nearest right thing.

mod audit;
mod check;
mod finding;
mod json;
mod nearest;
mod rail_options;
mod registry;
mod scalar;
#[cfg(test)]
mod tests;
mod tree;
mod wellknown;
mod write;
mod yaml;

pub use audit::{LineError, MAX_LINE, read_audit_line, write_audit_line};
pub use finding::{Finding, Findings, MAX_FINDINGS, Position};
pub use rail_options::{RailOption, RailOptions, Switches, WrongOption};
pub use registry::{Document, Registry, Resource, read_message};
pub use tree::{Format, MAX_DEPTH, MAX_NODES, MAX_TEXT};
pub use write::{WriteError, json_of, key_text, to_json, to_yaml, value_json, whole_json_of, yaml_of};
