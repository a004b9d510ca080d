//! The controller's own small records.

use controller_state::rows::records::{RequestRecord, RestingName, TokenRecord};
use proto_model::TokenHolder;

use crate::v1;

impl From<&RequestRecord> for v1::Request {
    fn from(record: &RequestRecord) -> Self {
        Self {
            tenant: record.tenant.to_string(),
            request: record.request.to_string(),
            digest: record.digest.to_vec(),
            job_uid: record.uid.to_string(),
            job: record.id.name.to_string(),
            time_ms: record.time.0,
        }
    }
}

impl From<&TokenRecord> for v1::JoinToken {
    fn from(record: &TokenRecord) -> Self {
        let (node, switch) = match &record.holder {
            TokenHolder::Node(name) => (name.to_string(), String::new()),
            TokenHolder::Switch(name) => (String::new(), name.to_string()),
        };
        Self {
            hash: record.hash.to_vec(),
            node,
            switch,
            expires_ms: record.expires.0,
            used_by: record.used_by.map(Vec::from).unwrap_or_default(),
        }
    }
}

impl From<&RestingName> for v1::RestingName {
    /// Without the name, which stands in the key.
    fn from(row: &RestingName) -> Self {
        Self { uid: row.uid.clone(), deleted_ms: row.deleted.0 }
    }
}
