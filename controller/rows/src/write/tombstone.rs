//! What was deleted and can be brought back.

use controller_state::rows::deleted::{DeletedContent, Tombstone};

use crate::{packed, v1};

impl From<&Tombstone> for v1::Tombstone {
    /// Without what it is of, which stands in the key.
    fn from(row: &Tombstone) -> Self {
        let (deleted_ms, by) = (row.deleted.0, row.by.clone());
        match &row.content {
            DeletedContent::Fabric(fabric) => {
                Self { deleted_ms, by, fabric: packed::encode(fabric), ..Self::default() }
            }
            DeletedContent::Tenant(kept) => Self {
                deleted_ms,
                by,
                fabric: Vec::new(),
                tenant: Some(kept.tenant.as_ref().into()),
                queues: kept.queues.iter().map(|one| one.as_ref().into()).collect(),
                schedules: kept.schedules.iter().map(|one| one.as_ref().into()).collect(),
                webhooks: kept.webhooks.iter().map(|one| one.as_ref().into()).collect(),
                reservations: kept.reservations.iter().map(|one| one.as_ref().into()).collect(),
                classes: kept.classes.iter().map(|one| one.as_ref().into()).collect(),
                left_out: kept.left_out,
            },
        }
    }
}
