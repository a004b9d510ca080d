//! Components of a gang whose nodes are not all alike.

use proto_model::{Component, ComponentName, Gang};

use super::{
    Fields,
    fields::{bounded, range},
    limits::{LIMITS, memory_per_node, ranks_per_node},
    request::gpu_models,
};
use crate::v1;

/// Those that are well formed; what is wrong with the others is noted.
pub(super) fn components(fields: &mut Fields, wire: Vec<v1::Component>, is_command: bool) -> Vec<Component> {
    if !bounded(fields, "components", &wire, Component::MOST) {
        return Vec::new();
    }
    let each = wire.into_iter().enumerate();
    each.filter_map(|(index, one)| component(fields, &format!("components[{index}]"), one, is_command))
        .collect()
}

fn component(fields: &mut Fields, at: &str, wire: v1::Component, is_command: bool) -> Option<Component> {
    for (field, value, least, most) in [
        ("nodes", wire.nodes, 1, LIMITS.nodes),
        ("gpusPerNode", wire.gpus_per_node, 0, LIMITS.gpus_per_node),
        ("ranksPerNode", wire.ranks_per_node, 0, LIMITS.ranks_per_node),
        ("cpusPerNode", wire.cpus_per_node, 0, LIMITS.cpus_per_node),
    ] {
        range(fields, &format!("{at}.{field}"), value, least, most);
    }
    memory_per_node(fields, &format!("{at}.memoryPerNode"), wire.memory_per_node);
    let gpu_models = gpu_models(fields, &format!("{at}.gpuModel"), wire.gpu_model);
    Some(Component {
        name: fields.take(&format!("{at}.name"), ComponentName::new(&wire.name))?,
        nodes: wire.nodes,
        gpus_per_node: wire.gpus_per_node,
        ranks_per_node: ranks_per_node(wire.ranks_per_node, wire.gpus_per_node, is_command),
        cpus_per_node: wire.cpus_per_node,
        memory_per_node: wire.memory_per_node,
        gpu_models,
    })
}

/// The gang that components make. What is said of it beside them is taken as it is, so that the check of the spec finds what differs.
pub(super) fn gang(components: &[Component], said: v1::Gang) -> Gang {
    let made = Component::gang(components);
    let or = |said: u32, made: u32| if said == 0 { made } else { said };
    Gang {
        nodes: or(said.nodes, made.nodes),
        min_nodes: or(said.min_nodes, made.min_nodes),
        gpus_per_node: or(said.gpus_per_node, made.gpus_per_node),
        ranks_per_node: or(said.ranks_per_node, made.ranks_per_node),
        cpus_per_node: or(said.cpus_per_node, made.cpus_per_node),
        memory_per_node: if said.memory_per_node == 0 { made.memory_per_node } else { said.memory_per_node },
    }
}

impl v1::JobSpec {
    /// Nodes of each shape, in rank order: how many, and GPUs and ranks of each.
    fn shapes(&self) -> Vec<(u32, u32, u32)> {
        let gang = self.gang.unwrap_or_default();
        match self.components.as_slice() {
            [] => vec![(gang.nodes, gang.gpus_per_node, gang.ranks_per_node)],
            parts => parts.iter().map(|one| (one.nodes, one.gpus_per_node, one.ranks_per_node)).collect(),
        }
    }

    /// GPUs that the job asks for in all, spares aside.
    #[must_use]
    pub fn total_gpus(&self) -> u64 {
        self.shapes().into_iter().map(|(nodes, gpus, _)| u64::from(nodes) * u64::from(gpus)).sum()
    }

    /// Ranks of the job in all; of a spec that does not say how many ranks a node has, one for each GPU.
    #[must_use]
    pub fn total_ranks(&self) -> u64 {
        let ranks = |(nodes, gpus, ranks): (u32, u32, u32)| {
            u64::from(nodes) * u64::from(if ranks > 0 { ranks } else { gpus.max(1) })
        };
        self.shapes().into_iter().map(ranks).sum()
    }
}

impl From<&Component> for v1::Component {
    fn from(component: &Component) -> Self {
        Self {
            name: component.name.to_string(),
            nodes: component.nodes,
            gpus_per_node: component.gpus_per_node,
            ranks_per_node: component.ranks_per_node,
            cpus_per_node: component.cpus_per_node,
            memory_per_node: component.memory_per_node,
            gpu_model: component.gpu_models.iter().map(ToString::to_string).collect(),
        }
    }
}
