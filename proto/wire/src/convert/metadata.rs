//! What is the same of every kind of document: its metadata, and the labels of jobs in it.

use std::collections::{BTreeMap, HashMap};

use proto_model::{JobName, TenantName};

use super::{FieldErrors, Fields};
use crate::v1;

/// Labels of one job, and bytes of a label's key and of its value.
const MAX_LABELS: usize = 64;
const MAX_LABEL: usize = 256;

/// Labels of a job, in order.
///
/// # Errors
/// There are too many, or one is no printable text, or too long.
pub fn job_labels(wire: HashMap<String, String>) -> Result<BTreeMap<String, String>, FieldErrors> {
    if wire.len() > MAX_LABELS {
        return Err(FieldErrors::one("", format!("has {} entries; at most {MAX_LABELS}", wire.len())));
    }
    for (key, value) in &wire {
        let wrong = key.is_empty() || key.len() > MAX_LABEL || value.len() > MAX_LABEL;
        if wrong || key.chars().chain(value.chars()).any(char::is_control) {
            let text =
                format!("{key:?}: a key and its value are printable text of at most {MAX_LABEL} bytes");
            return Err(FieldErrors::one("", text));
        }
    }
    Ok(wire.into_iter().collect())
}

impl Fields {
    /// Metadata, which must be there, with all that is the same of every kind of document.
    pub(super) fn metadata(&mut self, wire: Option<v1::Metadata>) -> v1::Metadata {
        let metadata = self.present("metadata", wire).unwrap_or_default();
        self.nest("metadata.labels", job_labels(metadata.labels.clone()));
        let begin = &metadata.generate_name;
        if !begin.is_empty() {
            // As a name that it begins.
            self.take("metadata.generateName", JobName::new(format!("{begin}aaaaaa")));
        }
        metadata
    }

    /// The tenant of a document whose kind no tenant owns: it may be there.
    pub(super) fn unowned(&mut self, metadata: &v1::Metadata) {
        if !metadata.tenant.is_empty() {
            self.take("metadata.tenant", TenantName::new(&metadata.tenant));
        }
    }
}
