//! What was deleted and can be brought back, as a value of the store.

use std::sync::Arc;

use controller_core::{DeletedContent, DeletedKey, DeletedTenant, Tombstone};
use controller_store::KeyValue;
use prost::Message as _;
use proto_model::{Tenant, TenantName, Timestamp};
use proto_wire::{FieldErrors, v1};

use crate::{codec, error::CorruptError, keys, packed, records};

pub(crate) fn encode(row: &Tombstone) -> Vec<u8> {
    let (deleted_ms, by) = (row.deleted.0, row.by.clone());
    let record = match &row.content {
        DeletedContent::Fabric(fabric) => {
            records::Tombstone { deleted_ms, by, fabric: packed::encode(fabric), ..Default::default() }
        }
        DeletedContent::Tenant(kept) => records::Tombstone {
            deleted_ms,
            by,
            fabric: Vec::new(),
            tenant: Some(v1::Tenant::from(kept.tenant.as_ref())),
            queues: kept.queues.iter().map(|one| v1::Queue::from(one.as_ref())).collect(),
            schedules: kept.schedules.iter().map(|one| v1::Schedule::from(one.as_ref())).collect(),
            webhooks: kept.webhooks.iter().map(|one| v1::Webhook::from(one.as_ref())).collect(),
            reservations: kept.reservations.iter().map(|one| v1::Reservation::from(one.as_ref())).collect(),
            classes: kept.classes.iter().map(|one| v1::ServiceClass::from(one.as_ref())).collect(),
            left_out: kept.left_out,
        },
    };
    record.encode_to_vec()
}

fn all<W, D>(wire: Vec<W>, wrong: &impl Fn(String) -> CorruptError) -> Result<Vec<Arc<D>>, CorruptError>
where
    D: TryFrom<W, Error = FieldErrors>,
{
    let one = |one| D::try_from(one).map(Arc::new).map_err(|errors| wrong(errors.to_string()));
    wire.into_iter().map(one).collect()
}

/// Decodes a stored tombstone; its key says what was deleted.
///
/// # Errors
/// The value does not decode, or the key names nothing that can be deleted and brought back.
pub fn tombstone(kv: &KeyValue) -> Result<Tombstone, CorruptError> {
    let wrong = |what: String| CorruptError::new(&kv.key, what);
    let record: records::Tombstone = codec::decode(kv)?;
    let text = String::from_utf8_lossy(&kv.key).into_owned();
    let rest = text.strip_prefix(keys::TOMBSTONES).unwrap_or_default();
    let (key, content) = match rest.split_once('/') {
        Some(("fabric", name)) => {
            let fabric = codec::fabric(&KeyValue { value: record.fabric.into(), ..kv.clone() })?;
            (DeletedKey::Fabric(name.to_owned()), DeletedContent::Fabric(Arc::new(fabric)))
        }
        Some(("tenant", name)) => {
            let name = TenantName::new(name).map_err(|error| wrong(error.to_string()))?;
            let tenant = record.tenant.ok_or_else(|| wrong("the tenant is missing".to_owned()))?;
            let kept = DeletedTenant {
                tenant: Arc::new(Tenant::try_from(tenant).map_err(|errors| wrong(errors.to_string()))?),
                queues: all(record.queues, &wrong)?,
                schedules: all(record.schedules, &wrong)?,
                webhooks: all(record.webhooks, &wrong)?,
                reservations: all(record.reservations, &wrong)?,
                classes: all(record.classes, &wrong)?,
                left_out: record.left_out,
            };
            (DeletedKey::Tenant(name), DeletedContent::Tenant(Box::new(kept)))
        }
        _ => return Err(wrong("it is neither a tenant's nor a fabric's".to_owned())),
    };
    Ok(Tombstone { key, deleted: Timestamp(record.deleted_ms), by: record.by, content })
}
