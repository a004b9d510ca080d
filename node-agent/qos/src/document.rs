//! NICs as they were read, as a document: a JSON list, strict. What recorded servers and plans without a server are made of.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::observed::Observed;

/// No server's NICs are described by more.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why a text does not describe NICs.
#[derive(Debug, Error)]
pub enum ObservedDocumentError {
    /// It is too large.
    #[error("the list of NICs is larger than {BYTES_MAX} bytes; one document describes one server")]
    TooLarge,
    /// It is not JSON of this shape; the text names line, column and field.
    #[error("the list of NICs is not valid: {0}")]
    Shape(#[from] serde_json::Error),
    /// One network device twice.
    #[error("[{at}].device.netdev: '{netdev}' is there twice")]
    Twice {
        /// Index of the second.
        at: usize,
        /// Name of the network device.
        netdev: String,
    },
}

/// Reads a list of NICs.
///
/// # Errors
/// [`ObservedDocumentError`] with line and column, or with the NIC that is there twice.
pub fn from_json(text: &str) -> Result<Vec<Observed>, ObservedDocumentError> {
    if text.len() > BYTES_MAX {
        return Err(ObservedDocumentError::TooLarge);
    }
    let all: Vec<Observed> = serde_json::from_str(text)?;
    let mut seen = BTreeSet::new();
    for (at, observed) in all.iter().enumerate() {
        let netdev = &observed.device.netdev;
        if !seen.insert(netdev) {
            return Err(ObservedDocumentError::Twice { at, netdev: netdev.clone() });
        }
    }
    Ok(all)
}
