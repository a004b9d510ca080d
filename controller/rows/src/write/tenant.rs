//! Tenants and roles.

use proto_model::{Quota, Role, Shape, Tenant};

use super::time_to_row;
use crate::v1;

/// A role out of the domain.
#[must_use]
pub fn role_to_row(role: Role) -> v1::Role {
    match role {
        Role::Admin => v1::Role::Admin,
        Role::TenantAdmin => v1::Role::TenantAdmin,
        Role::User => v1::Role::User,
        Role::Viewer => v1::Role::Viewer,
        Role::Node => v1::Role::Node,
        Role::Switch => v1::Role::Switch,
    }
}

/// Nothing that is at its default is written.
fn quota_to_row(quota: Quota) -> v1::Quota {
    v1::Quota {
        gpus: quota.gpus,
        jobs: quota.jobs,
        guaranteed: shape_to_row(quota.guaranteed),
        weight: if quota.weight == 1 { 0 } else { quota.weight },
        stored_bytes: quota.stored_bytes,
        schedules: quota.schedules,
    }
}

pub(crate) fn shape_to_row(shape: Shape) -> Option<v1::Shape> {
    (!shape.is_empty()).then_some(v1::Shape { pods: shape.pods, nodes: shape.nodes, gpus: shape.gpus })
}

impl From<&Tenant> for v1::Tenant {
    /// What is used follows from the jobs, and is not stored.
    fn from(tenant: &Tenant) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: tenant.name.to_string(),
                uid: tenant.uid.clone(),
                generation: tenant.generation,
                create_time: Some(time_to_row(tenant.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::TenantSpec {
                description: tenant.description.clone(),
                quota: Some(quota_to_row(tenant.quota)),
                isolation: super::isolation::policy_asked(tenant.isolation).into(),
            }),
        }
    }
}
