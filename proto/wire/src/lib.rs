//! rail.v1 on the wire: generated code, its descriptors, and checked conversions to and from the domain.
//!
//! Nothing else lives here. `v1` is generated from `proto/rail/v1`; `convert` holds one file per noun, and
//! every conversion into the domain names the field that is wrong; `rules` is what the schema allows of each field, and
//! `json_schema` how JSON Schema says that.

pub mod convert;
mod descriptors;
mod hidden;
pub mod json_schema;
pub mod rules;
#[allow(
    missing_docs,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("rail.v1");
}

pub use convert::{FieldError, FieldErrors};
pub use descriptors::{FILE_DESCRIPTOR_SET, descriptor_pool};
