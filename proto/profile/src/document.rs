//! Profiles as documents: JSON, strict.

use thiserror::Error;

use crate::{check::ProfileError, profile::QosProfile, spec::ProfileSpec};

/// No profile is larger.
const BYTES_MAX: usize = 64 * 1024;

/// Why a text is no profile.
#[derive(Debug, Error)]
pub enum ProfileDocumentError {
    /// It is too large.
    #[error("the profile is larger than {BYTES_MAX} bytes")]
    TooLarge,
    /// It is not JSON of this shape; the text names line, column and field.
    #[error("the profile is not valid: {0}")]
    Shape(#[from] serde_json::Error),
    /// Its fields contradict each other.
    #[error(transparent)]
    Flaws(#[from] ProfileError),
}

/// Reads and checks a profile. What is left out is as in the default profile.
///
/// # Errors
/// [`ProfileDocumentError`] with line and column, or with every field that is wrong.
pub fn from_json(text: &str) -> Result<QosProfile, ProfileDocumentError> {
    if text.len() > BYTES_MAX {
        return Err(ProfileDocumentError::TooLarge);
    }
    let spec: ProfileSpec = serde_json::from_str(text)?;
    Ok(QosProfile::new(spec)?)
}
