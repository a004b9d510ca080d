//! Tenants and roles.

use proto_model::{Quota, Role, Tenant, TenantName};

use super::{API_VERSION, FieldErrors, Fields, known, time_from_wire, time_to_wire};
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
        _ => Err(FieldErrors::one("", "must be one of ADMIN, TENANT_ADMIN, USER, VIEWER")),
    }
}

impl TryFrom<v1::Tenant> for Tenant {
    type Error = FieldErrors;

    fn try_from(wire: v1::Tenant) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::job::header(&mut fields, &wire.api_version, &wire.kind, "Tenant");
        let metadata = fields.present("metadata", wire.metadata).unwrap_or_default();
        let spec = fields.present("spec", wire.spec).unwrap_or_default();
        let name = fields.take("metadata.name", TenantName::new(&metadata.name));
        if spec.description.len() > 1024 {
            fields.fail("spec.description", "must be at most 1024 bytes long");
        }
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let quota = spec.quota.unwrap_or_default();
        let tenant = name.zip(created).map(|(name, created)| Self {
            name,
            uid: metadata.uid,
            generation: metadata.generation,
            created,
            description: spec.description,
            quota: Quota::new(quota.gpus, quota.jobs),
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
                quota: Some(v1::Quota { gpus: tenant.quota.gpus, jobs: tenant.quota.jobs }),
            }),
            status: None,
        }
    }
}
