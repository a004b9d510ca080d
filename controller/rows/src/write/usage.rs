//! Usage records.

use controller_state::rows::usage::{UsageEnd, UsageRecord};

use crate::v1::{self, usage::End};

fn end(end: UsageEnd) -> End {
    match end {
        // What has not ended is not stored.
        UsageEnd::Running => End::Unspecified,
        UsageEnd::Completed => End::Completed,
        UsageEnd::Failed => End::Failed,
        UsageEnd::Cancelled => End::Cancelled,
        UsageEnd::Requeued => End::Requeued,
        UsageEnd::Preempted => End::Preempted,
        UsageEnd::Moved => End::Moved,
    }
}

impl From<&UsageRecord> for v1::Usage {
    fn from(record: &UsageRecord) -> Self {
        let (held, asked) = (record.held, record.asked);
        Self {
            tenant: record.id.tenant.to_string(),
            tenant_uid: record.tenant_uid.clone(),
            job: record.id.name.to_string(),
            job_uid: record.uid.to_string(),
            attempt: record.attempt,
            queue: record.queue.as_ref().map(ToString::to_string).unwrap_or_default(),
            service_class: record.class.as_ref().map(ToString::to_string).unwrap_or_default(),
            priority: record.priority,
            submitter: record.submitter.as_ref().map(Into::into),
            nodes: held.nodes,
            spares: held.spares,
            gpus: held.gpus,
            nics: held.nics,
            rails: held.rails,
            cpus: held.cpus,
            memory_bytes: held.memory_bytes,
            nodes_asked: asked.nodes,
            gpus_asked: asked.gpus,
            submitted_ms: record.submitted.0,
            placed_ms: record.placed.0,
            started_ms: record.started.map_or(0, |started| started.0),
            ended_ms: record.ended.0,
            end: end(record.end).into(),
            reason: record.reason.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}
