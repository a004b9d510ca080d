//! What goes with a tenant.

use std::sync::Arc;

use proto_model::{Reservation, TenantName, ValuesKind};

use crate::tables::state::State;

/// What goes with a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TenantImpact {
    /// Jobs that have ended; their records and logs go.
    pub jobs: usize,
    /// How many queues it has.
    pub queues: usize,
    /// Its schedules of jobs.
    pub schedules: usize,
    /// How many webhooks it has.
    pub webhooks: usize,
    /// How many secrets it has.
    pub secrets: usize,
    /// How many configs it has.
    pub configs: usize,
    /// Reservations that it has a share in.
    pub reservations: usize,
}

impl TenantImpact {
    /// What there is of this tenant now.
    pub fn of(state: &State, name: &TenantName) -> Self {
        let reserved = |found: &&Arc<Reservation>| found.tenants.contains(name);
        Self {
            jobs: state
                .index
                .tenants
                .get(name)
                .map_or(0, |jobs| jobs.all.saturating_sub(jobs.active) as usize),
            queues: state.queues_of(name).count(),
            schedules: state.job_schedules_of(name).count(),
            webhooks: state.webhooks_of(name).count(),
            secrets: state.values_of(name).filter(|one| one.id.kind == ValuesKind::Secret).count(),
            configs: state.values_of(name).filter(|one| one.id.kind == ValuesKind::Config).count(),
            reservations: state.base.reservations.values().filter(reserved).count(),
        }
    }
}
