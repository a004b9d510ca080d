//! Stored rows: the schema `rail.store.v1`, checked conversions between it and the domain, and the migrations of its versions.
//!
//! Nothing here is the API's: public messages change without touching what is stored, and the other way round. It must never drop what it
//! cannot read: every wrong field is named.

pub mod format;
mod hidden;
pub mod migrate;
pub mod packed;
mod read;
mod words;
mod write;

#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/rail.store.v1.rs"));
}

pub use proto_model::fields::{FieldError, FieldErrors};
pub use read::{resting_name, tombstone, values};

/// The schema of rows with its comments, as a `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/rail.store.v1.binpb"));
