//! Queues.

use proto_model::{Objective, Queue};

use super::{duration_to_row, tenant::shape_to_row, time_to_row};
use crate::v1;

impl From<&Queue> for v1::Queue {
    /// What is used follows from the jobs, and is not stored.
    fn from(queue: &Queue) -> Self {
        Self {
            metadata: Some(v1::Metadata {
                name: queue.name.to_string(),
                tenant: queue.tenant.to_string(),
                uid: queue.uid.clone(),
                generation: queue.generation,
                create_time: Some(time_to_row(queue.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::QueueSpec {
                parent: queue.parent.as_ref().map(ToString::to_string).unwrap_or_default(),
                guaranteed: shape_to_row(queue.guaranteed),
                limit: queue.limit,
                weight: Some(queue.weight).filter(|weight| *weight != 1),
                objective: word(queue.objective).into(),
                patience: queue
                    .objective
                    .filter(|of| *of != Objective::Fair)
                    .map(|of| duration_to_row(of.patience())),
                full_delay_gpu_hours: queue.objective.and_then(Objective::full_delay_gpu_hours),
            }),
        }
    }
}

fn word(objective: Option<Objective>) -> v1::queue_spec::Objective {
    use v1::queue_spec::Objective as O;
    match objective {
        None => O::Unspecified,
        Some(Objective::MeanWait { .. }) => O::MeanWait,
        Some(Objective::LargeFirst { .. }) => O::LargeFirst,
        Some(Objective::Fair) => O::Fair,
    }
}
