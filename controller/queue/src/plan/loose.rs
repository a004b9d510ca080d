//! GPUs on nodes that are broken into. On a node that cannot keep two tenants apart only the tenant that is there can have them.

use std::collections::BTreeMap;

use proto_model::TenantName;

use crate::{
    grid::NEVER,
    row::{Row, Sum},
};

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
    pub(super) fn new(apart: bool) -> Self {
        Self { apart, ..Self::default() }
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
        match owner {
            Some(owner) => self.own.entry(owner).or_default(),
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
        self.all(tenant).at(step)
    }

    /// What a tenant can have over time.
    pub(super) fn all(&self, tenant: Option<TenantAt>) -> Sum<'_> {
        let own = tenant.and_then(|tenant| self.own.get(&tenant));
        Sum([Some((&self.shared, 1)), own.map(|own| (own, 1)), None])
    }

    /// The same with so many GPUs of each node that is whole.
    pub(super) fn with<'a>(&'a self, tenant: Option<TenantAt>, whole: &'a Row, node: i32) -> Sum<'a> {
        let Sum([shared, own, _]) = self.all(tenant);
        Sum([Some((whole, node)), shared, own])
    }

    /// Takes GPUs over a range of steps, of nodes with so many, and then breaks into whole nodes: how many, and when, is added
    /// to a list. What is left of those is counted for the tenant alone where some nodes are for one at a time.
    pub(super) fn take(
        &mut self,
        tenant: Option<TenantAt>,
        (from, to): (usize, usize),
        (amount, node): (i32, i32),
        broken: &mut Vec<(usize, usize, i32)>,
    ) {
        let mut take = |(from, to), own: i32, shared: i32| {
            let taken = amount.min(own.max(0));
            let left = shared.saturating_sub(amount - taken);
            let nodes = if left < 0 { (node - 1).saturating_sub(left) / node } else { 0 };
            match broken.last_mut() {
                _ if nodes == 0 => {}
                Some((_, end, same)) if *end == from && *same == nodes => *end = to,
                _ => broken.push((from, to, nodes)),
            }
            (taken, left.saturating_add(nodes.saturating_mul(node)), nodes > 0)
        };
        let Some(own) = tenant else {
            self.shared.change((from, to), |range, shared| take(range, 0, shared).1);
            return;
        };
        let mut step = from;
        while step < to {
            let row = self.own.get(&own);
            let end = row.map_or(NEVER, |row| row.next(step)).min(self.shared.next(step)).min(to);
            let (before, shared) = (row.map_or(0, |row| row.at(step)), self.shared.at(step));
            let (taken, rest, breaks) = take((step, end), before, shared);
            let (for_all, for_own) = if breaks { (0, rest) } else { (rest, 0) };
            self.shared.add(step, end, for_all.saturating_sub(shared));
            if for_own != taken {
                self.row(tenant).add(step, end, for_own - taken);
            }
            step = end;
        }
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
        let mut loose = Loose::new(true);
        let (a, b) = (loose.tenant(Some(&name("a"))), loose.tenant(Some(&name("b"))));
        let take = |loose: &mut Loose, tenant, gpus| {
            let mut broken = Vec::new();
            loose.take(tenant, (1, 2), (gpus, 8), &mut broken);
            broken.iter().map(|(_, _, nodes)| *nodes).sum::<i32>()
        };
        assert_eq!(take(&mut loose, a, 2), 1);
        assert_eq!((loose.at(a, 1), loose.at(b, 1), loose.at(a, 0)), (6, 0, 0));
        // The other one breaks into a node of its own, the first goes on with its own.
        assert_eq!((take(&mut loose, b, 2), take(&mut loose, a, 5)), (1, 0));
        assert_eq!((loose.at(a, 1), loose.at(b, 1)), (1, 6));
    }

    #[test]
    fn where_all_nodes_keep_tenants_apart_it_does_not_matter_who_asks() {
        let mut loose = Loose::new(false);
        let (a, b) = (loose.tenant(Some(&name("a"))), loose.tenant(Some(&name("b"))));
        assert_eq!((a, b), (None, None));
        let mut broken = Vec::new();
        loose.take(a, (1, 9), (2, 8), &mut broken);
        loose.take(b, (3, 12), (2, 8), &mut broken);
        // Parts that follow one another with as many nodes are one.
        assert_eq!(broken, [(1, 12, 1)]);
        assert_eq!((loose.at(a, 1), loose.at(b, 4), loose.at(b, 10), loose.at(a, 12)), (6, 4, 6, 0));
    }
}
