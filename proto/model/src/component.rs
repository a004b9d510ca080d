//! Gangs, and those whose nodes are not all alike: components, one behind the other under one rank map.
//!
//! A component is what Slurm calls a component of a heterogeneous job and Kubernetes' JobSet a replicated job: nodes of one shape.
//! All of them start together or not at all, on the same rails; rank 0 is on the first node of the first component.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::{ComponentName, GpuModel};

/// Nodes of one shape in a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name, which its ranks find in `RAIL_COMPONENT`.
    pub name: ComponentName,
    /// Its nodes; at least 1.
    pub nodes: u32,
    /// GPUs of each node; 0 takes none.
    pub gpus_per_node: u32,
    /// Ranks of each node; at least 1.
    pub ranks_per_node: u32,
    /// CPUs (logical processors) of each node that are the job's alone; 0: none are asked for.
    pub cpus_per_node: u32,
    /// Bytes of main memory of each node that are the job's alone; 0: none is asked for.
    pub memory_per_node: u64,
    /// Models of GPU of which any will do; empty: those of the job's placement.
    pub gpu_models: BTreeSet<GpuModel>,
}

/// What a spec asks of one node of its gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeShape<'a> {
    /// GPUs of the node; 0: none.
    pub gpus: u32,
    /// Ranks of the node; at least 1.
    pub ranks: u32,
    /// CPUs that are the job's alone.
    pub cpus: u32,
    /// Bytes of main memory that are the job's alone.
    pub memory: u64,
    /// Models of GPU of which any will do; empty: any.
    pub gpu_models: &'a BTreeSet<GpuModel>,
}

/// Where a component lies in its gang, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ComponentPlace<'a> {
    /// The component as the spec has it.
    pub component: &'a Component,
    /// Position of the component among all of the gang, from 0.
    pub index: usize,
    /// The position of its first node in the gang.
    pub first_node: u32,
    /// The rank of its first process.
    pub first_rank: u32,
}

impl Component {
    /// Components of one job at most.
    pub const MOST: usize = 8;

    /// Bytes of the store that it is counted with.
    #[must_use]
    pub fn footprint(&self) -> usize {
        let models: usize = self.gpu_models.iter().map(|model| model.as_str().len() + 4).sum();
        self.name.as_str().len() + 32 + models
    }

    /// Ranks on all nodes of the component.
    #[must_use]
    pub fn ranks(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.ranks_per_node)
    }

    /// The gang that such components make: all their nodes, and of everything else the most that any of them asks for.
    #[must_use]
    pub fn gang(components: &[Self]) -> Gang {
        let most = |of: fn(&Self) -> u32| components.iter().map(of).max().unwrap_or(0);
        let nodes = components.iter().fold(0_u32, |sum, one| sum.saturating_add(one.nodes));
        Gang {
            nodes,
            min_nodes: nodes,
            gpus_per_node: most(|one| one.gpus_per_node),
            ranks_per_node: most(|one| one.ranks_per_node),
            cpus_per_node: most(|one| one.cpus_per_node),
            memory_per_node: components.iter().map(|one| one.memory_per_node).max().unwrap_or(0),
        }
    }
}

/// What a gang of components cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ComponentFlaw {
    /// The list has more components than there may be.
    #[error("has {count} entries; at most {} are allowed", Component::MOST)]
    TooMany {
        /// Entries that the list has.
        count: usize,
    },
    /// The gang is said otherwise too.
    #[error("{said} does not fit spec.components, which make {made}; leave it out")]
    Gang {
        /// The field below `gang` that contradicts the components.
        field: &'static str,
        /// What that field says.
        said: u64,
        /// What the components make together.
        made: u64,
    },
    /// A component without nodes.
    #[error("must be at least 1")]
    NoNodes {
        /// Position in the list.
        index: usize,
    },
    /// Two components have the same name.
    #[error("is the name of entry {first} too")]
    Twice {
        /// Position in the list.
        index: usize,
        /// Position in the list of the earlier entry of the same name.
        first: usize,
    },
    /// Models of GPU, and no GPU.
    #[error("the component takes no GPU; give gpusPerNode, or leave the model out")]
    ModelWithoutGpus {
        /// Position in the list.
        index: usize,
    },
    /// Several MIG instances for one rank: see [`crate::SpecFlaw::SeveralInstances`].
    #[error(
        "a rank can use one MIG instance at most, and {gpus} on a node for {ranks} ranks are more; give as many ranks as GPUs"
    )]
    SeveralInstances {
        /// Position in the list.
        index: usize,
        /// GPUs of a node.
        gpus: u32,
        /// Ranks of a node.
        ranks: u32,
    },
    /// What is only for gangs whose nodes are all alike.
    #[error("{what} is for gangs whose nodes are all alike; leave it out, or leave spec.components out")]
    Alike {
        /// The field of the spec, for example `placement.spares`.
        field: &'static str,
        /// What the field asks for, in words for the message.
        what: &'static str,
    },
}

impl ComponentFlaw {
    /// The field, as a path below the spec in lowerCamelCase.
    #[must_use]
    pub fn field(&self) -> String {
        let at = |index: &usize, field: &str| format!("components[{index}].{field}");
        match self {
            Self::TooMany { .. } => "components".into(),
            Self::Gang { field, .. } => format!("gang.{field}"),
            Self::NoNodes { index } => at(index, "nodes"),
            Self::Twice { index, .. } => at(index, "name"),
            Self::ModelWithoutGpus { index } => at(index, "gpuModel"),
            Self::SeveralInstances { index, .. } => at(index, "ranksPerNode"),
            Self::Alike { field, .. } => (*field).into(),
        }
    }
}

/// All the tasks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gang {
    /// Nodes that the gang wants; at least 1.
    pub nodes: u32,
    /// Started with so many at least: fewer than `nodes` makes the job elastic.
    pub min_nodes: u32,
    /// GPUs of each node; 0: none.
    pub gpus_per_node: u32,
    /// Ranks of each node; at least 1.
    pub ranks_per_node: u32,
    /// CPUs of each node that are the job's alone; 0: none are asked for.
    pub cpus_per_node: u32,
    /// Bytes of main memory of each node that are the job's alone; 0: none is asked for.
    pub memory_per_node: u64,
}

impl Gang {
    /// A gang of exactly so many nodes, which asks for no CPUs and no memory.
    #[must_use]
    pub fn new(nodes: u32, gpus_per_node: u32, ranks_per_node: u32) -> Self {
        Self { nodes, min_nodes: nodes, gpus_per_node, ranks_per_node, cpus_per_node: 0, memory_per_node: 0 }
    }

    /// Whether fewer nodes will do too.
    #[must_use]
    pub fn is_elastic(self) -> bool {
        self.min_nodes < self.nodes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Arrange, CommandSpec, JobSpec, Pattern, Work};

    fn component(name: &str, nodes: u32, gpus: u32, ranks: u32) -> Component {
        Component {
            name: ComponentName::new(name).unwrap(),
            nodes,
            gpus_per_node: gpus,
            ranks_per_node: ranks,
            cpus_per_node: 0,
            memory_per_node: 0,
            gpu_models: BTreeSet::new(),
        }
    }

    fn spec(components: &[Component]) -> JobSpec {
        let command = CommandSpec {
            argv: vec!["x".into()],
            env: BTreeMap::new(),
            env_from: Vec::new(),
            working_dir: String::new(),
        };
        JobSpec {
            components: components.to_vec(),
            ..JobSpec::new(Component::gang(components), Work::Command(command))
        }
    }

    #[test]
    fn ranks_are_in_the_order_of_components() {
        let spec = spec(&[component("learner", 2, 8, 4), component("actor", 3, 2, 1)]);
        assert_eq!(spec.flaws(), []);
        assert_eq!((spec.gang.nodes, spec.ranks(), spec.gpus(5)), (5, 11, 22));
        let ranks: Vec<(u32, u32)> = (0..5).map(|position| spec.ranks_at(position)).collect();
        assert_eq!(ranks, [(0, 4), (4, 4), (8, 1), (9, 1), (10, 1)]);
        let at = |position: u32| spec.component_at(position).unwrap();
        assert_eq!((at(1).component.name.as_str(), at(1).first_node, at(1).first_rank), ("learner", 0, 0));
        assert_eq!((at(4).component.name.as_str(), at(4).first_node, at(4).first_rank), ("actor", 2, 8));
        assert_eq!((spec.shape_at(0).gpus, spec.shape_at(2).gpus), (8, 2));
    }

    #[test]
    fn nodes_that_are_alike_have_no_component() {
        let mut spec = spec(&[]);
        spec.gang = Gang::new(3, 4, 2);
        assert_eq!((spec.ranks(), spec.gpus(2), spec.ranks_at(2)), (6, 8, (4, 2)));
        assert!(spec.component_at(0).is_none() && spec.component_flaws().is_empty());
    }

    #[test]
    fn what_components_cannot_be_is_told_with_its_field() {
        let good = || spec(&[component("a", 2, 8, 8), component("b", 3, 0, 1)]);
        type Spoil = fn(&mut JobSpec);
        let cases: [(Spoil, &str); 11] = [
            (|s| s.gang.nodes = 7, "gang.nodes"),
            (|s| s.gang.min_nodes = 1, "gang.minNodes"),
            (|s| s.gang.gpus_per_node = 1, "gang.gpusPerNode"),
            (|s| s.components[1].name = s.components[0].name.clone(), "components[1].name"),
            (|s| s.placement.spares = 1, "placement.spares"),
            (|s| s.placement.pattern = Pattern::Pipeline(5), "placement.pattern"),
            (|s| s.placement.arrange = Arrange::Spread, "placement.arrange"),
            (|s| s.work = Work::Allocation(crate::AllocationSpec::default()), "allocation"),
            (
                |s| s.components[1].gpu_models = [GpuModel::new("H100").unwrap()].into(),
                "components[1].gpuModel",
            ),
            (
                |s| {
                    s.components[0].ranks_per_node = 1;
                    s.gang.ranks_per_node = 1;
                    s.components[0].gpu_models = [GpuModel::new("1g.10gb").unwrap()].into();
                },
                "components[0].ranksPerNode",
            ),
            (|s| s.components = vec![s.components[0].clone(); 9], "components"),
        ];
        assert_eq!(good().component_flaws(), []);
        for (spoil, field) in cases {
            let mut spec = good();
            spoil(&mut spec);
            let found: Vec<String> = spec.component_flaws().iter().map(ComponentFlaw::field).collect();
            assert!(found.iter().any(|found| found == field), "{field}: {found:?}");
        }
    }
}
