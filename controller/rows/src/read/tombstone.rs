//! What was deleted and can be brought back.

use std::sync::Arc;

use controller_state::rows::deleted::{DeletedContent, DeletedKey, DeletedTenant, Tombstone};
use proto_model::{Tenant, Timestamp};

use crate::{packed, v1};
use proto_model::fields::{FieldErrors, Fields};

/// A tombstone; what it is of stands in the row's key.
///
/// # Errors
/// Every wrong field.
pub fn tombstone(key: DeletedKey, row: v1::Tombstone) -> Result<Tombstone, FieldErrors> {
    let mut fields = Fields::default();
    let (deleted, by) = (Timestamp(row.deleted_ms), row.by.clone());
    let content = match &key {
        DeletedKey::Fabric(_) => {
            let fabric = fields.nest("fabric", packed::decode(row.fabric.into()));
            fabric.map(|fabric| DeletedContent::Fabric(Arc::new(fabric)))
        }
        DeletedKey::Tenant(_) => tenant(&mut fields, row).map(|kept| DeletedContent::Tenant(Box::new(kept))),
    };
    fields.finish(content.map(|content| Tombstone { key, deleted, by, content }))
}

fn tenant(fields: &mut Fields, row: v1::Tombstone) -> Option<DeletedTenant> {
    let tenant = fields.present("tenant", row.tenant);
    let tenant: Option<Tenant> = tenant.and_then(|tenant| fields.nest("tenant", tenant.try_into()));
    Some(DeletedTenant {
        queues: all(fields, "queues", row.queues),
        schedules: all(fields, "schedules", row.schedules),
        webhooks: all(fields, "webhooks", row.webhooks),
        reservations: all(fields, "reservations", row.reservations),
        classes: all(fields, "classes", row.classes),
        left_out: row.left_out,
        tenant: Arc::new(tenant?),
    })
}

fn all<W, D: TryFrom<W, Error = FieldErrors>>(fields: &mut Fields, field: &str, rows: Vec<W>) -> Vec<Arc<D>> {
    fields.list(field, rows).into_iter().map(Arc::new).collect()
}
