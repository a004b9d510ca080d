//! Whose jobs are on each node. Nodes that cannot keep two tenants apart are given to one at a time.
//!
//! Nodes with a user of its own for each attempt cost nothing here when a gang is chosen: only nodes that are *guarded*, because they
//! have none and somebody is there, are looked at one by one.

use std::{collections::BTreeMap, sync::Arc};

use controller_topology::NodeIx;
use proto_model::TenantName;

/// Jobs of one tenant on one node; the tenant by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Share {
    tenant: u32,
    jobs: u32,
}

/// Jobs by tenant on a node that is not in the cluster at the moment.
pub(crate) type Tenants = BTreeMap<TenantName, u32>;

/// Who is on each node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Owners {
    /// Tenants that ever held something here.
    numbers: Arc<BTreeMap<TenantName, u32>>,
    names: Arc<Vec<TenantName>>,
    /// By node; no jobs: nobody.
    first: Vec<Share>,
    /// Further tenants of a node, where there are any.
    further: BTreeMap<NodeIx, Vec<Share>>,
    /// Nodes that cannot keep two tenants apart, as a bitmap by node.
    apart: Vec<u64>,
    /// Those of them that somebody is on.
    guarded: Vec<u64>,
    guards: usize,
}

/// Equal if the same tenants have as many jobs on the same nodes; the numbers of tenants may differ.
impl PartialEq for Owners {
    fn eq(&self, other: &Self) -> bool {
        let nodes = self.first.len().max(other.first.len());
        (0..nodes).map(NodeIx::at).all(|node| {
            self.has_bit(&self.apart, node) == other.has_bit(&other.apart, node)
                && self.on(node) == other.on(node)
        })
    }
}

impl Eq for Owners {}

impl Owners {
    /// The number of a tenant, which it keeps.
    pub(crate) fn number(&mut self, tenant: &TenantName) -> u32 {
        if let Some(number) = self.numbers.get(tenant) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        Arc::make_mut(&mut self.names).push(tenant.clone());
        Arc::make_mut(&mut self.numbers).insert(tenant.clone(), number);
        number
    }

    /// A job of a tenant comes to a node, or leaves it.
    pub(crate) fn change(&mut self, node: NodeIx, tenant: u32, take: bool) {
        if self.first.len() <= node.index() {
            self.first.resize(node.index() + 1, Share::default());
        }
        if take {
            self.enter(node, tenant)
        } else {
            self.leave(node, tenant)
        }
        self.guard(node);
    }

    fn enter(&mut self, node: NodeIx, tenant: u32) {
        let first = &mut self.first[node.index()];
        if first.jobs == 0 || first.tenant == tenant {
            *first = Share { tenant, jobs: first.jobs + 1 };
            return;
        }
        let others = self.further.entry(node).or_default();
        match others.iter_mut().find(|share| share.tenant == tenant) {
            Some(share) => share.jobs += 1,
            None => others.push(Share { tenant, jobs: 1 }),
        }
    }

    fn leave(&mut self, node: NodeIx, tenant: u32) {
        let others = self.further.get_mut(&node);
        let first = &mut self.first[node.index()];
        if first.tenant == tenant && first.jobs > 0 {
            first.jobs -= 1;
            if first.jobs == 0
                && let Some(next) = others.and_then(Vec::pop)
            {
                *first = next;
            }
        } else if let Some(others) = others
            && let Some(at) = others.iter().position(|share| share.tenant == tenant)
        {
            others[at].jobs -= 1;
            if others[at].jobs == 0 {
                others.swap_remove(at);
            }
        }
        if self.further.get(&node).is_some_and(Vec::is_empty) {
            self.further.remove(&node);
        }
    }

    /// A node comes or changes: whether it cannot keep two tenants apart.
    pub(crate) fn set_apart(&mut self, node: NodeIx, apart: bool) {
        let (word, bit) = (node.index() / 64, 1 << (node.index() % 64));
        if self.apart.len() <= word {
            self.apart.resize(word + 1, 0);
            self.guarded.resize(word + 1, 0);
        }
        self.apart[word] = if apart { self.apart[word] | bit } else { self.apart[word] & !bit };
        self.guard(node);
    }

    /// A node leaves, with who is on it.
    pub(crate) fn remove(&mut self, node: NodeIx) -> Tenants {
        let tenants = self.on(node);
        let tenants = tenants.into_iter().map(|(tenant, jobs)| (tenant.clone(), jobs)).collect();
        if let Some(first) = self.first.get_mut(node.index()) {
            *first = Share::default();
        }
        self.further.remove(&node);
        self.set_apart(node, false);
        tenants
    }

    /// Puts back the tenants that a node had, with how many jobs each of them has there.
    pub(crate) fn put(&mut self, node: NodeIx, tenants: &Tenants) {
        for (tenant, jobs) in tenants {
            let number = self.number(tenant);
            (0..*jobs).for_each(|_| self.change(node, number, true));
        }
    }

    fn guard(&mut self, node: NodeIx) {
        let (word, bit) = (node.index() / 64, 1 << (node.index() % 64));
        let held = self.first.get(node.index()).is_some_and(|share| share.jobs > 0);
        let Some(apart) = self.apart.get(word) else { return };
        let (guard, known) = (apart & bit != 0 && held, &mut self.guarded[word]);
        match (guard, *known & bit != 0) {
            (true, false) => self.guards += 1,
            (false, true) => self.guards -= 1,
            _ => return,
        }
        *known ^= bit;
    }

    fn has_bit(&self, set: &[u64], node: NodeIx) -> bool {
        set.get(node.index() / 64).is_some_and(|word| word >> (node.index() % 64) & 1 == 1)
    }

    /// Jobs by tenant on a node.
    pub(crate) fn on(&self, node: NodeIx) -> BTreeMap<&TenantName, u32> {
        let first = self.first.get(node.index()).into_iter().filter(|share| share.jobs > 0);
        let further = self.further.get(&node).into_iter().flatten();
        first
            .chain(further)
            .filter_map(|share| Some((self.names.get(share.tenant as usize)?, share.jobs)))
            .collect()
    }

    /// Whether anybody else is on a node; `None`: anybody at all.
    pub(crate) fn has_others(&self, node: NodeIx, tenant: Option<u32>) -> bool {
        let first = self.first.get(node.index()).copied().unwrap_or_default();
        first.jobs > 0 && (Some(first.tenant) != tenant || self.further.contains_key(&node))
    }

    /// Whether a node cannot keep two tenants apart.
    pub(crate) fn is_apart(&self, node: NodeIx) -> bool {
        self.has_bit(&self.apart, node)
    }

    /// Whether there is any node that cannot keep two tenants apart and that somebody is on.
    pub(crate) fn has_guards(&self) -> bool {
        self.guards > 0
    }

    /// Nodes that a tenant must not have now, because another one is there and they cannot keep the two apart.
    pub(crate) fn closed_to(&self, tenant: &TenantName) -> impl Iterator<Item = NodeIx> {
        let own = if self.guards > 0 { self.numbers.get(tenant).copied() } else { None };
        let words = if self.guards > 0 { &self.guarded[..] } else { &[] };
        let nodes = words.iter().enumerate().flat_map(|(at, word)| {
            crate::bins::bits(*word).map(move |bit| NodeIx::at(at * 64 + bit as usize))
        });
        nodes.filter(move |node| self.has_others(*node, own))
    }

    /// The same for one node.
    pub(crate) fn is_closed_to(&self, node: NodeIx, tenant: &TenantName) -> bool {
        self.has_bit(&self.guarded, node) && self.has_others(node, self.numbers.get(tenant).copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tenant(number: u8) -> TenantName {
        TenantName::new(format!("t{number}")).unwrap()
    }

    proptest! {
        /// Against a table of all jobs: who comes and goes in whatever order, nodes too.
        #[test]
        fn who_is_where_is_known(steps in proptest::collection::vec((0_usize..70, 0_u8..4, 0_u8..6), 0..200)) {
            let mut owners = Owners::default();
            let mut table: BTreeMap<usize, (bool, Tenants)> = BTreeMap::new();
            let mut away: BTreeMap<usize, Tenants> = BTreeMap::new();
            for (node, name, kind) in steps {
                let (ix, row) = (NodeIx::at(node), table.entry(node).or_default());
                match kind {
                    0 => { row.0 = !row.0; owners.set_apart(ix, row.0); }
                    1 => match away.remove(&node) {
                        Some(tenants) => { owners.put(ix, &tenants); row.1 = tenants; }
                        None => {
                            let gone = owners.remove(ix);
                            prop_assert_eq!(&gone, &row.1);
                            *row = Default::default();
                            away.insert(node, gone);
                        }
                    },
                    2 if row.1.contains_key(&tenant(name)) => {
                        let number = owners.number(&tenant(name));
                        owners.change(ix, number, false);
                        let jobs = row.1.get_mut(&tenant(name)).unwrap();
                        *jobs -= 1;
                        if *jobs == 0 { row.1.remove(&tenant(name)); }
                    }
                    _ if !away.contains_key(&node) => {
                        let number = owners.number(&tenant(name));
                        owners.change(ix, number, true);
                        *row.1.entry(tenant(name)).or_default() += 1;
                    }
                    _ => {}
                }
            }
            for asking in 0..5 {
                let closed: Vec<usize> = owners.closed_to(&tenant(asking)).map(NodeIx::index).collect();
                let right = table.iter().filter(|(_, (apart, jobs))| *apart && jobs.keys().any(|other| *other != tenant(asking)));
                prop_assert_eq!(&closed, &right.map(|(node, _)| *node).collect::<Vec<_>>());
                for node in 0..70 {
                    prop_assert_eq!(owners.is_closed_to(NodeIx::at(node), &tenant(asking)), closed.contains(&node));
                }
            }
            prop_assert_eq!(owners.has_guards(), table.values().any(|(apart, jobs)| *apart && !jobs.is_empty()));
            // In another order, with other numbers.
            let mut again = Owners::default();
            for (node, (apart, jobs)) in table.iter().rev() {
                again.set_apart(NodeIx::at(*node), *apart);
                for (tenant, jobs) in jobs.iter().rev() {
                    let number = again.number(tenant);
                    (0..*jobs).for_each(|_| again.change(NodeIx::at(*node), number, true));
                }
            }
            prop_assert!(owners == again);
        }
    }
}
