//! Components of a gang whose nodes are not all alike.

use proto_model::Component;

use crate::v1;

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
