//! Tenants and roles.

use proto_model::{Quota, Role, Shape, Tenant, TenantName};

use super::{metadata, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields, known};

/// A role into the domain.
///
/// # Errors
/// The number is unknown or unspecified.
pub fn role_from_row(number: i32) -> Result<Role, FieldErrors> {
    match known(number) {
        Some(v1::Role::Admin) => Ok(Role::Admin),
        Some(v1::Role::TenantAdmin) => Ok(Role::TenantAdmin),
        Some(v1::Role::User) => Ok(Role::User),
        Some(v1::Role::Viewer) => Ok(Role::Viewer),
        Some(v1::Role::Node) => Ok(Role::Node),
        Some(v1::Role::Switch) => Ok(Role::Switch),
        _ => Err(FieldErrors::one("", "must be one of ADMIN, TENANT_ADMIN, USER, VIEWER")),
    }
}

/// The largest weight of a tenant or a queue.
pub(crate) const MAX_WEIGHT: u32 = 1_000_000;

fn quota(fields: &mut Fields, row: &v1::Quota) -> Quota {
    let guaranteed = row.guaranteed.map(Shape::from).unwrap_or_default();
    if u64::from(guaranteed.gpus) > u64::from(row.gpus) {
        let (asked, gpus) = (guaranteed.gpus, row.gpus);
        fields.fail("spec.quota.guaranteed.gpus", format!("{asked} are more than the quota's {gpus} GPUs"));
    }
    if row.weight > MAX_WEIGHT {
        fields.fail("spec.quota.weight", format!("{} is more than {MAX_WEIGHT}", row.weight));
    }
    Quota {
        gpus: row.gpus,
        jobs: row.jobs,
        guaranteed,
        weight: row.weight.max(1),
        stored_bytes: row.stored_bytes,
        schedules: row.schedules,
    }
}

impl From<v1::Shape> for Shape {
    fn from(row: v1::Shape) -> Self {
        Self { pods: row.pods, nodes: row.nodes, gpus: row.gpus }
    }
}

impl TryFrom<v1::Tenant> for Tenant {
    type Error = FieldErrors;

    fn try_from(row: v1::Tenant) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, row.metadata);
        metadata::unowned(&mut fields, &metadata);
        let spec = fields.present("spec", row.spec).unwrap_or_default();
        let name = fields.take("metadata.name", TenantName::new(&metadata.name));
        if spec.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let created =
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
        let quota = quota(&mut fields, &spec.quota.unwrap_or_default());
        let isolation = super::isolation::policy_from_row(&mut fields, "spec.isolation", spec.isolation);
        let tenant = name.zip(created).map(|(name, created)| Self {
            name,
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            description: spec.description,
            quota,
            isolation,
        });
        fields.finish(tenant)
    }
}
