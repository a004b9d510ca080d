//! What is the same of every kind of document: its metadata, and the labels of jobs in it.

use std::collections::BTreeMap;

use proto_model::TenantName;

use crate::{
    fields::{FieldErrors, Fields},
    v1,
};

/// Labels of one job, and bytes of a label's key and of its value.
const MAX_LABELS: usize = 64;

const MAX_LABEL: usize = 256;

/// Labels of a job, in order.
///
/// # Errors
/// There are too many, or one is no printable text, or too long.
pub(crate) fn job_labels(row: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, FieldErrors> {
    check_labels(&row).map(|()| row)
}

fn check_labels(row: &BTreeMap<String, String>) -> Result<(), FieldErrors> {
    if row.len() > MAX_LABELS {
        return Err(FieldErrors::one("", format!("has {} entries; at most {MAX_LABELS}", row.len())));
    }
    for (key, value) in row {
        let wrong = key.is_empty() || key.len() > MAX_LABEL || value.len() > MAX_LABEL;
        if wrong || key.chars().chain(value.chars()).any(char::is_control) {
            let text =
                format!("{key:?}: a key and its value are printable text of at most {MAX_LABEL} bytes");
            return Err(FieldErrors::one("", text));
        }
    }
    Ok(())
}

impl Fields {
    /// Metadata, which must be there, with all that is the same of every kind of document.
    pub(crate) fn metadata(&mut self, row: Option<v1::Metadata>) -> v1::Metadata {
        let metadata = self.present("metadata", row).unwrap_or_default();
        self.nest("metadata.labels", check_labels(&metadata.labels));
        metadata
    }

    /// The tenant of a document whose kind no tenant owns: it may be there.
    pub(crate) fn unowned(&mut self, metadata: &v1::Metadata) {
        if !metadata.tenant.is_empty() {
            self.take("metadata.tenant", TenantName::new(&metadata.tenant));
        }
    }
}
