//! Queues.

use proto_model::{Objective, Queue, QueueName, Shape, TenantName};

use super::{
    API_VERSION, FieldErrors, Fields, duration_from_wire, duration_to_wire, known, metadata,
    tenant::{MAX_WEIGHT, shape_to_wire},
    time_from_wire, time_to_wire,
};
use crate::v1;

impl TryFrom<v1::Queue> for Queue {
    type Error = FieldErrors;

    fn try_from(wire: v1::Queue) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        super::fields::header(&mut fields, &wire.api_version, &wire.kind, "Queue");
        let metadata = metadata::metadata(&mut fields, wire.metadata);
        let spec = wire.spec.unwrap_or_default();
        let tenant = fields.take("metadata.tenant", TenantName::new(&metadata.tenant));
        let name = fields.take("metadata.name", QueueName::new(&metadata.name));
        let parent = match spec.parent.as_str() {
            "" => None,
            text => fields.take("spec.parent", QueueName::new(text)),
        };
        if parent.is_some() && parent == name {
            fields.fail("spec.parent", "is the queue itself");
        }
        let weight = spec.weight.unwrap_or(1);
        if !(1..=MAX_WEIGHT).contains(&weight) {
            fields.fail("spec.weight", format!("{weight} is not from 1 to {MAX_WEIGHT}"));
        }
        let guaranteed = spec.guaranteed.map(Shape::from).unwrap_or_default();
        if let Some(limit) = spec.limit.filter(|limit| *limit < guaranteed.gpus) {
            let asked = guaranteed.gpus;
            fields.fail("spec.limit", format!("{limit} is less than the {asked} GPUs that are guaranteed"));
        }
        let objective = objective(&mut fields, spec.objective, spec.patience, spec.full_delay_gpu_hours);
        let created =
            fields.nest("metadata.createTime", time_from_wire(metadata.create_time.unwrap_or_default()));
        let queue = match (tenant, name, created) {
            (Some(tenant), Some(name), Some(created)) => Some(Self {
                tenant,
                name,
                parent,
                guaranteed,
                limit: spec.limit,
                weight,
                objective,
                uid: metadata.uid,
                generation: metadata.generation,
                created,
            }),
            _ => None,
        };
        fields.finish(queue)
    }
}

/// What the order is for, with its patience and the GPU-hours that are put back by all of it.
fn objective(
    fields: &mut Fields,
    wire: i32,
    patience: Option<prost_types::Duration>,
    gpu_hours: Option<u32>,
) -> Option<Objective> {
    use v1::queue_spec::Objective as O;
    let said = known::<O>(wire);
    if wire != 0 && said.is_none() {
        fields.fail("spec.objective", format!("{wire} is no objective: MEAN_WAIT, LARGE_FIRST or FAIR"));
    }
    let usual = match said {
        Some(O::MeanWait) => Some(Objective::MEAN_WAIT_PATIENCE),
        Some(O::LargeFirst) => Some(Objective::LARGE_FIRST_PATIENCE),
        _ => None,
    };
    if patience.is_some() && usual.is_none() {
        fields.fail("spec.patience", "is for objective MEAN_WAIT or LARGE_FIRST");
    }
    if gpu_hours.is_some() && usual.is_none() {
        fields.fail("spec.fullDelayGpuHours", "is for objective MEAN_WAIT or LARGE_FIRST");
    }
    let patience = patience.and_then(|wire| fields.nest("spec.patience", duration_from_wire(wire)));
    let patience = patience.or(usual).unwrap_or_default();
    if usual.is_some() && !(1..=Objective::PATIENCE_MAX.as_secs()).contains(&patience.as_secs()) {
        let days = Objective::PATIENCE_MAX.as_secs() / 86_400;
        fields.fail("spec.patience", format!("is not from 1 second to {days} days"));
    }
    let most = Objective::GPU_HOURS_MAX;
    if let Some(hours) = gpu_hours.filter(|hours| !(1..=most).contains(hours)) {
        fields.fail("spec.fullDelayGpuHours", format!("{hours} is not from 1 to {most}"));
    }
    let objective = match said? {
        O::MeanWait => Objective::mean_wait(patience),
        O::LargeFirst => Objective::large_first(patience),
        O::Fair => Objective::Fair,
        O::Unspecified => return None,
    };
    Some(objective.with_gpu_hours(gpu_hours))
}

impl From<&Queue> for v1::Queue {
    /// The status (what is used) is added by whoever knows the jobs.
    fn from(queue: &Queue) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: "Queue".to_owned(),
            metadata: Some(v1::Metadata {
                name: queue.name.to_string(),
                tenant: queue.tenant.to_string(),
                uid: queue.uid.clone(),
                generation: queue.generation,
                create_time: Some(time_to_wire(queue.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::QueueSpec {
                parent: queue.parent.as_ref().map(ToString::to_string).unwrap_or_default(),
                guaranteed: shape_to_wire(queue.guaranteed),
                limit: queue.limit,
                weight: Some(queue.weight).filter(|weight| *weight != 1),
                objective: word(queue.objective).into(),
                patience: queue
                    .objective
                    .filter(|of| *of != Objective::Fair)
                    .map(|of| duration_to_wire(of.patience())),
                full_delay_gpu_hours: queue.objective.and_then(Objective::full_delay_gpu_hours),
            }),
            status: None,
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
