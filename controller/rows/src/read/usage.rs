//! Usage records.

use controller_state::rows::usage::{UsageEnd, UsageRecord, UsageRequest, UsageSize};
use proto_model::{
    JobId, JobName, QueueName, ReasonCode, ServiceClassName, TenantName, Timestamp,
    fields::{FieldErrors, Fields, known},
};

use crate::v1::{self, usage::End};

fn end(row: i32) -> Option<UsageEnd> {
    Some(match known::<End>(row)? {
        End::Completed => UsageEnd::Completed,
        End::Failed => UsageEnd::Failed,
        End::Cancelled => UsageEnd::Cancelled,
        End::Requeued => UsageEnd::Requeued,
        End::Preempted => UsageEnd::Preempted,
        End::Moved => UsageEnd::Moved,
        End::Unspecified => return None,
    })
}

/// Text that may be empty.
fn said(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl TryFrom<v1::Usage> for UsageRecord {
    type Error = FieldErrors;

    fn try_from(row: v1::Usage) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let tenant = fields.take("tenant", TenantName::new(&row.tenant));
        let name = fields.take("job", JobName::new(&row.job));
        let uid = fields.take("jobUid", row.job_uid.parse());
        let queue = said(&row.queue).and_then(|name| fields.take("queue", QueueName::new(name)));
        let class = said(&row.service_class)
            .and_then(|name| fields.take("serviceClass", ServiceClassName::new(name)));
        let submitter = row.submitter.and_then(|row| fields.nest("submitter", row.try_into()));
        let end = fields.take("end", end(row.end).ok_or(format!("{} is not known to this release", row.end)));
        if row.ended_ms < row.placed_ms {
            fields.fail("endedMs", "is before placedMs");
        }
        let held = UsageSize {
            nodes: row.nodes,
            spares: row.spares,
            gpus: row.gpus,
            nics: row.nics,
            rails: row.rails,
            cpus: row.cpus,
            memory_bytes: row.memory_bytes,
        };
        let whole = tenant.zip(name).zip(uid.zip(end));
        fields.finish(whole.map(|((tenant, name), (uid, end))| Self {
            uid,
            attempt: row.attempt,
            id: JobId { tenant, name },
            tenant_uid: row.tenant_uid,
            queue,
            class,
            submitter,
            priority: row.priority,
            held,
            asked: UsageRequest { nodes: row.nodes_asked, gpus: row.gpus_asked },
            submitted: Timestamp(row.submitted_ms),
            placed: Timestamp(row.placed_ms),
            started: Some(Timestamp(row.started_ms)).filter(|started| started.0 > 0),
            ended: Timestamp(row.ended_ms),
            end,
            reason: said(&row.reason).map(ReasonCode::from_text),
        }))
    }
}
