//! The controller's own small records.

use controller_state::rows::records::{RequestRecord, RestingName, TokenRecord};
use proto_model::{JobId, JobName, NodeName, RequestId, SwitchName, TenantName, Timestamp, TokenHolder};

use crate::v1;
use proto_model::fields::{FieldErrors, Fields};

/// A field of 32 bytes.
pub(crate) fn bytes(fields: &mut Fields, field: &str, row: Vec<u8>) -> Option<[u8; 32]> {
    fields.take(field, row.try_into().map_err(|_| "is not 32 bytes"))
}

impl TryFrom<v1::Request> for RequestRecord {
    type Error = FieldErrors;

    fn try_from(row: v1::Request) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let tenant = fields.take("tenant", TenantName::new(&row.tenant));
        let name = fields.take("job", JobName::new(&row.job));
        let request = fields.take("request", RequestId::new(&row.request).ok_or("is not an id"));
        let digest = bytes(&mut fields, "digest", row.digest);
        let uid = fields.take("jobUid", row.job_uid.parse());
        let whole = tenant.zip(name).zip(request).zip(digest.zip(uid));
        fields.finish(whole.map(|(((tenant, name), request), (digest, uid))| Self {
            tenant: tenant.clone(),
            request,
            digest,
            uid,
            id: JobId { tenant, name },
            time: Timestamp(row.time_ms),
        }))
    }
}

impl TryFrom<v1::JoinToken> for TokenRecord {
    type Error = FieldErrors;

    fn try_from(row: v1::JoinToken) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let hash = bytes(&mut fields, "hash", row.hash);
        let holder = if row.switch.is_empty() {
            fields.take("node", NodeName::new(&row.node)).map(TokenHolder::Node)
        } else {
            fields.take("switch", SwitchName::new(&row.switch)).map(TokenHolder::Switch)
        };
        let used_by = match row.used_by.is_empty() {
            true => None,
            false => bytes(&mut fields, "usedBy", row.used_by),
        };
        fields.finish(hash.zip(holder).map(|(hash, holder)| Self {
            hash,
            holder,
            expires: Timestamp(row.expires_ms),
            used_by,
        }))
    }
}

/// The name of a deleted tenant, which stands in the row's key.
#[must_use]
pub fn resting_name(name: TenantName, row: v1::RestingName) -> RestingName {
    RestingName { name, uid: row.uid, deleted: Timestamp(row.deleted_ms) }
}
