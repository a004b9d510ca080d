//! What a token says whose signature was checked.

use std::time::SystemTime;

use serde_json::Value;

/// What a good token says.
#[derive(Debug, Clone, PartialEq)]
pub struct Claims {
    /// The provider.
    pub issuer: String,
    /// Who it is, for the provider; never given to anybody else.
    pub subject: String,
    /// When it was issued.
    pub issued: SystemTime,
    /// When it ends.
    pub expires: SystemTime,
    /// All that it says.
    pub all: Value,
}
