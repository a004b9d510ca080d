//! Usage records by when they ended, over all and of each tenant's name, and which tenants have the most.

use std::collections::{BTreeMap, BTreeSet};

use proto_model::{JobUid, TenantName, Timestamp};

use crate::rows::usage::{UsageKey, UsageRecord};

/// Records in the order of their ends.
pub type UsageOrder = (Timestamp, JobUid, u32);

/// Usage records by when they ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageIndex {
    /// All of them.
    pub all: BTreeSet<UsageOrder>,
    /// Those of each tenant's name.
    pub tenants: BTreeMap<TenantName, BTreeSet<UsageOrder>>,
    /// How many each has.
    counts: BTreeSet<(usize, TenantName)>,
}

impl UsageIndex {
    /// Puts a record in, or takes it out.
    pub fn change(&mut self, record: &UsageRecord, there: bool) {
        let (tenant, order) = (&record.id.tenant, (record.ended, record.uid, record.attempt));
        let own = self.tenants.entry(tenant.clone()).or_default();
        self.counts.remove(&(own.len(), tenant.clone()));
        if there {
            self.all.insert(order);
            own.insert(order);
        } else {
            self.all.remove(&order);
            own.remove(&order);
        }
        if own.is_empty() {
            self.tenants.remove(tenant);
        } else {
            self.counts.insert((own.len(), tenant.clone()));
        }
    }

    /// The record that goes when there are too many: the oldest of whoever has the most, whoever's attempt is counted.
    #[must_use]
    pub fn surplus(&self) -> Option<UsageKey> {
        let (_, tenant) = self.counts.last()?;
        let (_, uid, attempt) = self.tenants.get(tenant)?.first()?;
        Some((*uid, *attempt))
    }
}
