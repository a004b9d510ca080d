//! GPUs on nodes that are broken into. On a node that cannot keep two tenants apart only the tenant that is there can have them.

use std::collections::BTreeMap;

use proto_model::TenantName;

use crate::grid::Row;

/// The number of a tenant in one plan.
pub(crate) type TenantAt = usize;

/// GPUs on nodes that are broken into, over time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Loose {
    /// What anybody can have.
    shared: Row,
    /// What only one tenant can have.
    own: BTreeMap<TenantAt, Row>,
    tenants: BTreeMap<TenantName, TenantAt>,
    /// Some nodes are for one tenant at a time.
    pub(super) apart: bool,
}

impl Loose {
    pub(super) fn new(steps: usize, apart: bool) -> Self {
        Self { shared: Row::filled(0, steps), apart, ..Self::default() }
    }

    /// The number of who asks; `None` where that does not matter.
    pub(super) fn tenant(&mut self, tenant: Option<&TenantName>) -> Option<TenantAt> {
        let tenant = tenant.filter(|_| self.apart)?;
        let next = self.tenants.len();
        Some(*self.tenants.entry(tenant.clone()).or_insert(next))
    }

    /// The same without giving it one.
    pub(super) fn known(&self, tenant: Option<&TenantName>) -> Option<TenantAt> {
        self.tenants.get(tenant?).copied()
    }

    fn row(&mut self, owner: Option<TenantAt>) -> &mut Row {
        let steps = self.shared.len();
        match owner {
            Some(owner) => self.own.entry(owner).or_insert_with(|| Row::filled(0, steps)),
            None => &mut self.shared,
        }
    }

    /// As [`Row::note`]; `owner`: of a node that is that tenant's alone.
    pub(super) fn note(&mut self, owner: Option<TenantAt>, from: usize, to: usize, gpus: i32) {
        self.row(owner).note(from, to, gpus);
    }

    pub(super) fn sum_up(&mut self) {
        self.shared.sum_up();
        self.own.values_mut().for_each(Row::sum_up);
    }

    pub(super) fn add(&mut self, owner: Option<TenantAt>, from: usize, to: usize, gpus: i32) {
        self.row(owner).add(from, to, gpus);
    }

    /// What a tenant can have in a step.
    pub(super) fn at(&self, tenant: Option<TenantAt>, step: usize) -> i32 {
        let own = tenant.and_then(|tenant| self.own.get(&tenant)).map_or(0, |row| row.at(step));
        self.shared.at(step).saturating_add(own)
    }

    /// Takes GPUs in a step, of nodes with so many; how many whole nodes are broken into for that. What is left of those is
    /// counted for the tenant alone where some nodes are for one at a time.
    pub(super) fn take(&mut self, tenant: Option<TenantAt>, step: usize, amount: i32, node: i32) -> i32 {
        let mut amount = amount;
        if let Some(row) = tenant.and_then(|tenant| self.own.get_mut(&tenant)) {
            let own = row.get_mut(step);
            let taken = amount.min((*own).max(0));
            (*own, amount) = (*own - taken, amount - taken);
        }
        let shared = self.shared.get_mut(step);
        *shared -= amount;
        if *shared >= 0 {
            return 0;
        }
        let broken = (-*shared + node - 1) / node;
        let left = *shared + broken * node;
        (*shared, amount) = if tenant.is_some() { (0, left) } else { (left, 0) };
        if amount > 0 {
            *self.row(tenant).get_mut(step) += amount;
        }
        broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TenantName {
        TenantName::new(text).unwrap()
    }

    #[test]
    fn what_is_left_of_a_node_is_its_tenants_alone() {
        let mut loose = Loose::new(4, true);
        let (a, b) = (loose.tenant(Some(&name("a"))), loose.tenant(Some(&name("b"))));
        assert_eq!(loose.take(a, 1, 2, 8), 1);
        assert_eq!((loose.at(a, 1), loose.at(b, 1), loose.at(a, 0)), (6, 0, 0));
        // The other one breaks into a node of its own, the first goes on with its own.
        assert_eq!((loose.take(b, 1, 2, 8), loose.take(a, 1, 5, 8)), (1, 0));
        assert_eq!((loose.at(a, 1), loose.at(b, 1)), (1, 6));
    }

    #[test]
    fn where_all_nodes_keep_tenants_apart_it_does_not_matter_who_asks() {
        let mut loose = Loose::new(4, false);
        let (a, b) = (loose.tenant(Some(&name("a"))), loose.tenant(Some(&name("b"))));
        assert_eq!((a, b), (None, None));
        assert_eq!((loose.take(a, 1, 2, 8), loose.take(b, 1, 2, 8)), (1, 0));
        assert_eq!((loose.at(a, 1), loose.at(b, 1)), (4, 4));
    }
}
