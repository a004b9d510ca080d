//! What every document says first, and the gathering of wrong fields (`proto_model::fields`).

pub use proto_model::fields::{FieldError, FieldErrors};
pub(super) use proto_model::fields::{Fields, bounded, known, line, range};

/// What every resource says of the schema that it follows.
pub const API_VERSION: &str = "rail/v1";

/// `apiVersion` and `kind` may be left out where the place says what it is; if given, they must be right.
pub(super) fn header(fields: &mut Fields, api_version: &str, kind: &str, expected: &str) {
    if !api_version.is_empty() && api_version != API_VERSION {
        fields.fail("apiVersion", format!("'{api_version}' is not known; write {API_VERSION}"));
    }
    if !kind.is_empty() && kind != expected {
        fields.fail("kind", format!("'{kind}' was given where {expected} is expected"));
    }
}
