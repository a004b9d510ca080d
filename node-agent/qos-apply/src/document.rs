//! The profile in a file.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use node_agent_qos::{
    QosProfile,
    profile::{ProfileDocumentError, from_json},
};

/// A profile that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileFileError {
    /// It cannot be read.
    #[error("cannot read the profile {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// What the operating system answered.
        source: io::Error,
    },
    /// It is no profile.
    #[error("{}: {source}", path.display())]
    Document {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the document.
        source: ProfileDocumentError,
    },
}

/// The profile in a file; without one the default profile.
///
/// # Errors
/// [`ProfileFileError`].
pub fn profile(path: Option<&Path>) -> Result<QosProfile, ProfileFileError> {
    let Some(path) = path else { return Ok(QosProfile::default()) };
    let text = fs::read_to_string(path);
    let text = text.map_err(|source| ProfileFileError::Read { path: path.to_owned(), source })?;
    from_json(&text).map_err(|source| ProfileFileError::Document { path: path.to_owned(), source })
}
