//! What a gang asks for.

use std::{collections::BTreeSet, sync::Arc};

use controller_topology::{NodeIx, RailSet};
pub use proto_model::{Arrange, Group, Pattern, Within};
use proto_model::{Component, ComponentName, JobSpec, TenantName};

use crate::{
    capacity_index::{CapacityIndex, Filter},
    host::Host,
    snapshot::Snapshot,
};

/// The rails that a gang needs on every node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RailNeed {
    /// Exactly the rails of this set.
    Exactly(RailSet),
    /// Any so many, the same on every node.
    Any(u32),
}

/// Nodes of one shape in a gang whose nodes are not all alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ComponentNeed {
    /// What its job calls it.
    pub name: ComponentName,
    /// How many nodes; at least 1.
    pub nodes: u32,
    /// GPUs on each of its nodes.
    pub gpus: u32,
    /// CPUs and memory on each.
    pub host: Host,
    /// Labels, taints and models of GPU.
    pub filter: Arc<Filter>,
}

/// What every node of a gang must give, and how they must lie.
///
/// Of a gang of components `nodes` is the number of all nodes, and `gpus` and `host` are the most that any of them asks for: what counts
/// with those reckons with no less than the gang takes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// How many nodes; at least 1.
    pub nodes: u32,
    /// GPUs on each node; of a gang of components the most that any of them asks for.
    pub gpus: u32,
    /// The rails that each node must have.
    pub rails: RailNeed,
    /// CPUs and memory on each that are its alone.
    pub host: Host,
    /// Nobody else on its nodes.
    pub exclusive: bool,
    /// Where the whole gang stays.
    pub within: Within,
    /// Groups inside the gang.
    pub groups: Vec<Group>,
    /// Close together or apart.
    pub arrange: Arrange,
    /// Who talks to whom.
    pub pattern: Pattern,
    /// Further nodes that are held idle for it, near it where possible.
    pub spares: u32,
    /// Labels and taints of the nodes that the gang may have.
    pub filter: Arc<Filter>,
    /// Nodes that it does not want.
    pub exclude: Vec<NodeIx>,
    /// The only nodes that it may have, in ascending order; `None`: any.
    pub only: Option<Arc<[NodeIx]>>,
    /// For whom: some nodes are not given to two tenants at a time. `None`: it does not matter.
    pub tenant: Option<TenantName>,
    /// Its parts in rank order, where its nodes are not all alike; empty: they are.
    pub components: Vec<ComponentNeed>,
}

impl ComponentNeed {
    /// `all` is what the job asks of each of its nodes.
    fn of(components: &[Component], all: &Filter) -> Vec<Self> {
        let of = |component: &Component| {
            let takes = component.gpus_per_node > 0;
            let gpu_models = if component.gpu_models.is_empty() && takes {
                all.gpu_models.clone()
            } else {
                component.gpu_models.clone()
            };
            Self {
                name: component.name.clone(),
                nodes: component.nodes,
                gpus: component.gpus_per_node,
                host: Host { cpus: component.cpus_per_node, memory: component.memory_per_node },
                filter: Arc::new(Filter { gpu_models, whole_gpus: takes, ..all.clone() }),
            }
        };
        components.iter().map(of).collect()
    }
}

impl Need {
    /// So many nodes with so many GPUs and these rails, close together, nothing else asked.
    #[must_use]
    pub fn plain(nodes: u32, gpus: u32, rails: RailNeed) -> Self {
        Self {
            nodes,
            gpus,
            rails,
            host: Host::NONE,
            exclusive: false,
            within: Within::Fabric,
            groups: Vec::new(),
            arrange: Arrange::Pack,
            pattern: Pattern::Ring,
            spares: 0,
            filter: Arc::default(),
            exclude: Vec::new(),
            only: None,
            tenant: None,
            components: Vec::new(),
        }
    }

    /// What a tenant's job needs in this cluster, with as many nodes as it wants. Nodes that it names and that are not there are not
    /// looked for.
    #[must_use]
    pub fn of(tenant: &TenantName, spec: &JobSpec, snapshot: &Snapshot) -> Self {
        let topology = snapshot.topology();
        let all = topology.rails();
        let asked = if spec.rails.required == 0 { all } else { spec.rails.required };
        let rails = if spec.rails.none {
            RailNeed::Exactly(RailSet::EMPTY)
        } else if spec.rails.allow_partial && asked < all {
            RailNeed::Any(asked)
        } else {
            RailNeed::Exactly(RailSet::first(asked))
        };
        let place = &spec.placement;
        let filter = Filter {
            selector: place.selector.clone(),
            tolerations: place.tolerations.clone(),
            isolation: snapshot.tenant(tenant).isolation.demands(),
            avoid_drained: spec.rails.avoid_drained.then_some(match rails {
                RailNeed::Exactly(rails) => rails,
                RailNeed::Any(_) => RailSet::EMPTY,
            }),
            gpu_models: place.gpu_models.clone(),
            whole_gpus: spec.gang.gpus_per_node > 0,
        };
        Self {
            components: ComponentNeed::of(&spec.components, &filter),
            nodes: spec.gang.nodes,
            gpus: spec.gang.gpus_per_node,
            rails,
            host: Host::asked(&spec.gang),
            exclusive: place.exclusive,
            within: place.within,
            groups: place.groups.clone(),
            arrange: place.arrange,
            pattern: place.pattern,
            spares: place.spares,
            filter: Arc::new(filter),
            exclude: place.exclude.iter().filter_map(|name| topology.index(name)).collect(),
            only: (!place.nodes.is_empty()).then(|| {
                let named: BTreeSet<NodeIx> =
                    place.nodes.iter().filter_map(|name| topology.index(name)).collect();
                named.into_iter().collect()
            }),
            tenant: Some(tenant.clone()),
        }
    }

    /// Whether it names this node as one that it does not want, or names others as the only ones.
    #[must_use]
    pub fn bars(&self, node: NodeIx) -> bool {
        self.exclude.contains(&node) || !self.wants(node)
    }

    /// Whether the node is one of those that it names as the only ones, if it does.
    #[must_use]
    pub fn wants(&self, node: NodeIx) -> bool {
        self.only.as_ref().is_none_or(|only| only.binary_search(&node).is_ok())
    }

    /// All nodes that it bars; some perhaps more than once.
    pub(crate) fn barred<'a>(
        &'a self,
        capacity_index: &'a CapacityIndex,
    ) -> impl Iterator<Item = NodeIx> + 'a {
        let others = self.only.iter().flat_map(|_| capacity_index.records_by_node()).map(|(node, _)| node);
        self.exclude.iter().copied().chain(others.filter(|node| !self.wants(*node)))
    }

    /// The same for whoever asks, where it does not matter who does: so that jobs of many tenants that ask alike are known as alike.
    #[must_use]
    pub fn as_asked(&self, capacity_index: &CapacityIndex) -> Self {
        let tenant = self.tenant.clone().filter(|_| capacity_index.has_guards());
        Self { tenant, ..self.clone() }
    }

    /// Other rails are asked for, and it is those that must not be drained.
    pub(crate) fn name_avoided(&mut self, rails: RailSet) {
        let filters = self.components.iter_mut().map(|component| &mut component.filter);
        for filter in std::iter::once(&mut self.filter).chain(filters) {
            if filter.avoid_drained.is_some_and(|avoided| avoided != rails) {
                *filter = Arc::new(Filter { avoid_drained: Some(rails), ..Filter::clone(filter) });
            }
        }
    }

    /// The same with another filter for all its nodes, whichever component they are of; models of GPU stay each component's own.
    #[must_use]
    pub fn with_filter(&self, change: impl Fn(&mut Filter)) -> Self {
        let mut need = self.clone();
        let filters = need.components.iter_mut().map(|component| &mut component.filter);
        for filter in std::iter::once(&mut need.filter).chain(filters) {
            change(Arc::make_mut(filter));
        }
        need
    }

    /// What some of its components need by themselves, in the same order; all that is said of the gang as a whole holds for them too.
    #[must_use]
    pub fn of_components(&self, which: impl Fn(usize) -> bool) -> Self {
        let some = self.components.iter().enumerate().filter(|(at, _)| which(*at));
        let components: Vec<ComponentNeed> = some.map(|(_, component)| component.clone()).collect();
        let most = |of: fn(&ComponentNeed) -> u32| components.iter().map(of).max().unwrap_or(0);
        let host = Host {
            cpus: most(|component| component.host.cpus),
            memory: components.iter().map(|component| component.host.memory).max().unwrap_or(0),
        };
        let (nodes, gpus) = (components.iter().map(|component| component.nodes).sum(), most(|one| one.gpus));
        let need = Self { nodes, gpus, host, components: Vec::new(), ..self.clone() };
        match components.as_slice() {
            [one] => Self { filter: Arc::clone(&one.filter), ..need },
            _ => Self { components, ..need },
        }
    }

    /// The component of the node at a position of the gang; `None` where all nodes are alike.
    #[must_use]
    pub fn component_at(&self, position: usize) -> Option<&ComponentNeed> {
        let mut end = 0;
        self.components.iter().find(|component| {
            end += component.nodes as usize;
            position < end
        })
    }

    /// What the node at a position of the gang must give, as a gang of one.
    #[must_use]
    pub fn at(&self, position: usize) -> Self {
        let alike = Self { nodes: 1, components: Vec::new(), ..self.clone() };
        match self.component_at(position) {
            Some(ComponentNeed { gpus, host, filter, .. }) => {
                Self { gpus: *gpus, host: *host, filter: Arc::clone(filter), ..alike }
            }
            None => alike,
        }
    }

    /// GPUs that it takes with so many nodes and its spares. The nodes of a gang of components are all it has.
    #[must_use]
    pub fn gpus_in_all(&self, nodes: u32) -> u64 {
        let of = |nodes: u32, gpus: u32| u64::from(nodes) * u64::from(gpus);
        match self.components.as_slice() {
            [] => of(nodes.saturating_add(self.spares), self.gpus),
            components => components.iter().map(|component| of(component.nodes, component.gpus)).sum(),
        }
    }

    /// The fewest GPUs that it takes of any node.
    #[must_use]
    pub fn least_gpus(&self) -> u32 {
        self.components.iter().map(|component| component.gpus).min().unwrap_or(self.gpus)
    }

    /// The number of rails that the gang needs on each node.
    #[must_use]
    pub fn rail_count(&self) -> u32 {
        match self.rails {
            RailNeed::Exactly(set) => set.len(),
            RailNeed::Any(count) => count,
        }
    }

    /// Whether a set of rails can be enough for one node.
    #[must_use]
    pub fn rails_in(&self, set: RailSet) -> bool {
        match self.rails {
            RailNeed::Exactly(need) => set.covers(need),
            RailNeed::Any(count) => set.len() >= count,
        }
    }

    /// The sizes that do not divide the gang, or one another: such groups cannot be formed.
    pub fn uneven_groups(&self) -> impl Iterator<Item = u32> {
        let divides = |size: u32| {
            let fits = |other: u32| other.is_multiple_of(size) || size.is_multiple_of(other);
            size > 0
                && self.nodes.is_multiple_of(size)
                && self.groups.iter().all(|group| group.size == 0 || fits(group.size))
        };
        self.groups.iter().map(|group| group.size).filter(move |size| !divides(*size))
    }

    /// Nodes that must stay together inside a pod or on the same leaves, as the largest group says; 1 if none.
    pub(crate) fn unit(&self, within: Within, required: bool) -> u32 {
        let inside = |group: &&Group| group.within <= within && (group.required || !required);
        self.groups.iter().filter(inside).map(|group| group.size).max().unwrap_or(1).max(1)
    }
}
