//! What is the same of every kind of document: its metadata, and the labels of jobs in it.

use std::collections::BTreeMap;

use proto_model::{
    TenantName,
    fields::{FieldErrors, Fields, labels},
};

use crate::v1;

/// Labels of a job, in order.
///
/// # Errors
/// There are too many, or one is no printable text, or too long.
pub(crate) fn job_labels(row: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, FieldErrors> {
    labels(row.iter()).map(|()| row)
}

/// Metadata, which must be there, with all that is the same of every kind of document.
pub(crate) fn metadata(fields: &mut Fields, row: Option<v1::Metadata>) -> v1::Metadata {
    let metadata = fields.present("metadata", row).unwrap_or_default();
    fields.nest("metadata.labels", labels(metadata.labels.iter()));
    metadata
}

/// The tenant of a document whose kind no tenant owns: it may be there.
pub(crate) fn unowned(fields: &mut Fields, metadata: &v1::Metadata) {
    if !metadata.tenant.is_empty() {
        fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
    }
}
