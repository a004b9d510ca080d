//! What is the same of every kind of document: its metadata, and the labels of jobs in it.

use std::collections::{BTreeMap, HashMap};

use proto_model::{JobName, TenantName, fields::labels};

use super::{FieldErrors, Fields};
use crate::v1;

/// Labels of a job, in order.
///
/// # Errors
/// There are too many, or one is no printable text, or too long.
pub fn job_labels(wire: HashMap<String, String>) -> Result<BTreeMap<String, String>, FieldErrors> {
    labels(wire.iter())?;
    Ok(wire.into_iter().collect())
}

/// Metadata, which must be there, with all that is the same of every kind of document.
pub(super) fn metadata(fields: &mut Fields, wire: Option<v1::Metadata>) -> v1::Metadata {
    let metadata = fields.present("metadata", wire).unwrap_or_default();
    fields.nest("metadata.labels", job_labels(metadata.labels.clone()));
    let begin = &metadata.generate_name;
    if !begin.is_empty() {
        // As a name that it begins.
        fields.take("metadata.generateName", JobName::new(format!("{begin}aaaaaa")));
    }
    metadata
}

/// The tenant of a document whose kind no tenant owns: it may be there.
pub(super) fn unowned(fields: &mut Fields, metadata: &v1::Metadata) {
    if !metadata.tenant.is_empty() {
        fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
    }
}
