//! Components of a gang whose nodes are not all alike.

use proto_model::{Component, ComponentName, Gang};

use super::{
    limits::{LIMITS, memory_per_node, ranks_per_node},
    request::gpu_models,
};
use crate::v1;
use proto_model::fields::{Fields, bounded, range};

/// Those that are well formed; what is wrong with the others is noted.
pub(crate) fn components(fields: &mut Fields, row: Vec<v1::Component>, is_command: bool) -> Vec<Component> {
    if !bounded(fields, "components", &row, Component::MOST) {
        return Vec::new();
    }
    let each = row.into_iter().enumerate();
    each.filter_map(|(index, one)| component(fields, &format!("components[{index}]"), one, is_command))
        .collect()
}

fn component(fields: &mut Fields, at: &str, row: v1::Component, is_command: bool) -> Option<Component> {
    for (field, value, least, most) in [
        ("nodes", row.nodes, 1, LIMITS.nodes),
        ("gpusPerNode", row.gpus_per_node, 0, LIMITS.gpus_per_node),
        ("ranksPerNode", row.ranks_per_node, 0, LIMITS.ranks_per_node),
        ("cpusPerNode", row.cpus_per_node, 0, LIMITS.cpus_per_node),
    ] {
        range(fields, &format!("{at}.{field}"), value, least, most);
    }
    memory_per_node(fields, &format!("{at}.memoryPerNode"), row.memory_per_node);
    let gpu_models = gpu_models(fields, &format!("{at}.gpuModel"), row.gpu_model);
    Some(Component {
        name: fields.take(&format!("{at}.name"), ComponentName::new(&row.name))?,
        nodes: row.nodes,
        gpus_per_node: row.gpus_per_node,
        ranks_per_node: ranks_per_node(row.ranks_per_node, row.gpus_per_node, is_command),
        cpus_per_node: row.cpus_per_node,
        memory_per_node: row.memory_per_node,
        gpu_models,
    })
}

/// The gang that components make. What is said of it beside them is taken as it is, so that the check of the spec finds what differs.
pub(crate) fn gang(components: &[Component], said: v1::Gang) -> Gang {
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
