//! A job's gang, node by node: which component a node is of, and what is asked of it.

use crate::{
    Arrange, GpuModel, JobSpec, Pattern, Work,
    component::{Component, ComponentFlaw, ComponentPlace, NodeShape},
};

impl JobSpec {
    /// The components with where each lies.
    pub fn component_places(&self) -> impl Iterator<Item = ComponentPlace<'_>> {
        let (mut node, mut rank) = (0_u32, 0_u32);
        self.components.iter().enumerate().map(move |(index, component)| {
            let place = ComponentPlace { component, index, first_node: node, first_rank: rank };
            node = node.saturating_add(component.nodes);
            rank = rank.saturating_add(u32::try_from(component.ranks()).unwrap_or(u32::MAX));
            place
        })
    }

    /// The component of the node at a position of the gang; `None` where all nodes are alike.
    #[must_use]
    pub fn component_at(&self, position: u32) -> Option<ComponentPlace<'_>> {
        self.component_places().take_while(|place| place.first_node <= position).last()
    }

    /// What is asked of the node at a position of the gang.
    #[must_use]
    pub fn shape_at(&self, position: u32) -> NodeShape<'_> {
        let all = &self.placement.gpu_models;
        match self.component_at(position) {
            Some(ComponentPlace { component, .. }) => NodeShape {
                gpus: component.gpus_per_node,
                ranks: component.ranks_per_node,
                cpus: component.cpus_per_node,
                memory: component.memory_per_node,
                // Who takes no GPU asks for no model.
                gpu_models: if component.gpu_models.is_empty() && component.gpus_per_node > 0 {
                    all
                } else {
                    &component.gpu_models
                },
            },
            None => NodeShape {
                gpus: self.gang.gpus_per_node,
                ranks: self.gang.ranks_per_node,
                cpus: self.gang.cpus_per_node,
                memory: self.gang.memory_per_node,
                gpu_models: all,
            },
        }
    }

    /// The first rank of the node at a position of the gang, and how many it has.
    #[must_use]
    pub fn ranks_at(&self, position: u32) -> (u32, u32) {
        let ranks = self.shape_at(position).ranks;
        let (node, rank) =
            self.component_at(position).map_or((0, 0), |place| (place.first_node, place.first_rank));
        (rank.saturating_add((position - node).saturating_mul(ranks)), ranks)
    }

    /// Ranks on all nodes of the gang, over all its components.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        match self.components.as_slice() {
            [] => u64::from(self.gang.nodes) * u64::from(self.gang.ranks_per_node),
            components => components.iter().map(Component::ranks).sum(),
        }
    }

    /// GPUs that it takes with so many nodes and its spares. The nodes of a gang of components are all it has.
    #[must_use]
    pub fn gpus(&self, nodes: u32) -> u64 {
        let of = |nodes: u32, gpus: u32| u64::from(nodes) * u64::from(gpus);
        match self.components.as_slice() {
            [] => of(nodes.saturating_add(self.placement.spares), self.gang.gpus_per_node),
            components => components.iter().map(|one| of(one.nodes, one.gpus_per_node)).sum(),
        }
    }

    /// What a gang of components cannot be; nothing where all nodes are alike.
    #[must_use]
    pub fn component_flaws(&self) -> Vec<ComponentFlaw> {
        let mut flaws = Vec::new();
        if self.components.is_empty() {
            return flaws;
        }
        if self.components.len() > Component::MOST {
            flaws.push(ComponentFlaw::TooMany { count: self.components.len() });
        }
        for (index, one) in self.components.iter().enumerate() {
            if one.nodes == 0 || one.ranks_per_node == 0 {
                flaws.push(ComponentFlaw::NoNodes { index });
            }
            if let Some(first) = self.components[..index].iter().position(|other| other.name == one.name) {
                flaws.push(ComponentFlaw::Twice { index, first });
            }
            let (gpus, ranks) = (one.gpus_per_node, one.ranks_per_node);
            if gpus == 0 && !one.gpu_models.is_empty() {
                flaws.push(ComponentFlaw::ModelWithoutGpus { index });
            }
            let models = if one.gpu_models.is_empty() { &self.placement.gpu_models } else { &one.gpu_models };
            if gpus > ranks && models.iter().any(GpuModel::names_partition) {
                flaws.push(ComponentFlaw::SeveralInstances { index, gpus, ranks });
            }
        }
        let made = Component::gang(&self.components);
        for (field, said, made) in [
            ("nodes", self.gang.nodes.into(), made.nodes.into()),
            ("minNodes", self.gang.min_nodes.into(), made.min_nodes.into()),
            ("gpusPerNode", self.gang.gpus_per_node.into(), made.gpus_per_node.into()),
            ("ranksPerNode", self.gang.ranks_per_node.into(), made.ranks_per_node.into()),
            ("cpusPerNode", self.gang.cpus_per_node.into(), made.cpus_per_node.into()),
            ("memoryPerNode", self.gang.memory_per_node, made.memory_per_node),
        ] {
            if said != made {
                flaws.push(ComponentFlaw::Gang { field, said, made });
            }
        }
        self.alike_flaws(&mut flaws);
        flaws
    }

    /// What only gangs whose nodes are all alike may ask for.
    fn alike_flaws(&self, flaws: &mut Vec<ComponentFlaw>) {
        let place = &self.placement;
        let mut alike = |wrong: bool, field, what| {
            if wrong {
                flaws.push(ComponentFlaw::Alike { field, what });
            }
        };
        alike(place.spares > 0, "placement.spares", "a spare node, which takes the place of any other,");
        alike(!place.groups.is_empty(), "placement.groups", "a group of nodes");
        alike(matches!(place.pattern, Pattern::Pipeline(_)), "placement.pattern", "PIPELINE");
        alike(place.arrange == Arrange::Spread, "placement.arrange", "SPREAD");
        alike(matches!(self.work, Work::Allocation(_)), "allocation", "an allocation");
    }
}
