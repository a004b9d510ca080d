//! Tenants and roles.

use proto_model::{Quota, Role, Shape, Tenant, TenantName};

use super::{API_VERSION, FieldErrors, Fields, known, metadata, time_from_wire, time_to_wire};
use crate::v1;

/// A role out of the domain.
#[must_use]
pub fn role_to_wire(role: Role) -> v1::Role {
    match role {
        Role::Admin => v1::Role::Admin,
        Role::TenantAdmin => v1::Role::TenantAdmin,
        Role::User => v1::Role::User,
        Role::Viewer => v1::Role::Viewer,
        Role::Node => v1::Role::Node,
        Role::Switch => v1::Role::Switch,
    }
}

/// A role into the domain.
///
/// # Errors
/// The number is unknown or unspecified.
pub fn role_from_wire(number: i32) -> Result<Role, FieldErrors> {
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
pub(super) const MAX_WEIGHT: u32 = 1_000_000;

fn quota(fields: &mut Fields, wire: &v1::Quota) -> Quota {
    let guaranteed = wire.guaranteed.map(Shape::from).unwrap_or_default();
    if u64::from(guaranteed.gpus) > u64::from(wire.gpus) {
        let (asked, gpus) = (guaranteed.gpus, wire.gpus);
        fields.fail("spec.quota.guaranteed.gpus", format!("{asked} are more than the quota's {gpus} GPUs"));
    }
    if wire.weight > MAX_WEIGHT {
        fields.fail("spec.quota.weight", format!("{} is more than {MAX_WEIGHT}", wire.weight));
    }
    Quota {
        gpus: wire.gpus,
        jobs: wire.jobs,
        guaranteed,
        weight: wire.weight.max(1),
        stored_bytes: wire.stored_bytes,
        schedules: wire.schedules,
    }
}

/// Nothing that is at its default is written.
fn quota_to_wire(quota: Quota) -> v1::Quota {
    v1::Quota {
        gpus: quota.gpus,
        jobs: quota.jobs,
        guaranteed: shape_to_wire(quota.guaranteed),
        weight: if quota.weight == 1 { 0 } else { quota.weight },
        stored_bytes: quota.stored_bytes,
        schedules: quota.schedules,
    }
}

impl From<v1::Shape> for Shape {
    fn from(wire: v1::Shape) -> Self {
        Self { pods: wire.pods, nodes: wire.nodes, gpus: wire.gpus }
    }
}

pub(super) fn shape_to_wire(shape: Shape) -> Option<v1::Shape> {
    (!shape.is_empty()).then_some(v1::Shape { pods: shape.pods, nodes: shape.nodes, gpus: shape.gpus })
}

impl TryFrom<v1::Tenant> for Tenant {
    type Error = FieldErrors;

    fn try_from(wire: v1::Tenant) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "Tenant");
        let metadata = metadata::metadata(&mut fields, wire.metadata);
        metadata::unowned(&mut fields, &metadata);
        let spec = fields.present("spec", wire.spec).unwrap_or_default();
        let name = fields.take("metadata.name", TenantName::new(&metadata.name));
        if spec.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let quota = quota(&mut fields, &spec.quota.unwrap_or_default());
        let isolation = super::isolation::policy_from_wire(&mut fields, "spec.isolation", spec.isolation);
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

impl From<&Tenant> for v1::Tenant {
    /// The status (what is used) is added by whoever knows the jobs.
    fn from(tenant: &Tenant) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Tenant".to_owned(),
            metadata: Some(v1::Metadata {
                name: tenant.name.to_string(),
                uid: tenant.uid.clone(),
                generation: tenant.generation,
                create_time: Some(time_to_wire(tenant.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::TenantSpec {
                description: tenant.description.clone(),
                quota: Some(quota_to_wire(tenant.quota)),
                isolation: super::isolation::policy_asked(tenant.isolation).into(),
            }),
            status: None,
        }
    }
}
