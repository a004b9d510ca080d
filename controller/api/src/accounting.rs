//! UsageService: what attempts of jobs held, and for how long.
//!
//! The loop is asked for a few thousand attempts at a time, and what is summed is summed here: others have their turn between.

use std::sync::Arc;

use controller_core::{
    UsageAmount, UsageBudget, UsageBy, UsageEnd, UsageFilter, UsageGroup, UsagePage, UsagePosition,
    UsageRecord, UsageSum, UsageSums, UsageTooOld,
};
use prost::Message as _;
use proto_model::{JobUid, QueueName, Timestamp};
use proto_rpc::{ErrorClass, RpcError, page_token::PageTokenError};
use proto_wire::{
    convert::{time_from_wire, time_to_wire},
    v1::{self, usage_record::End, usage_service_server::UsageService},
};
use tonic::{Request, Response, Status};

use crate::{
    authz::Rpc,
    context::Context,
    fault,
    guard::Caller,
    page::{Asked, Tokens},
};

/// Longest name of a user that is asked for, in bytes.
const MAX_USER: usize = 256;
/// Records of a page where the caller does not say, and most.
const DEFAULT: usize = 500;
const LARGEST: usize = 1000;
/// Attempts that one question to the loop looks at.
const EXAMINED: usize = 4096;
/// Attempts that may have ended since a list was begun: each question looks at all of them.
const LATE: usize = 4 * EXAMINED;
/// Questions to the loop that one page of a list asks; the client goes on with its token.
const QUESTIONS: usize = 16;
/// Times that a sum is begun: more attempts than [`LATE`] end while it is made only where the loop has no time for it.
const SUMS: usize = 3;
/// Groups of a sum where the caller does not say, and most.
const GROUPS: usize = 1000;
const MOST_GROUPS: usize = 10_000;

/// The handlers of `UsageService`.
#[derive(Clone)]
pub struct Usage {
    context: Context,
}

/// What both calls ask for.
struct Selection {
    filter: UsageFilter,
    /// Up to when what still holds is counted.
    as_of: Timestamp,
}

/// The fields that both calls have.
struct Fields<'a> {
    rpc: Rpc,
    tenant: &'a str,
    queue: &'a str,
    user: &'a str,
    since: Option<prost_types::Timestamp>,
    until: Option<prost_types::Timestamp>,
}

fn moment(field: &str, time: Option<prost_types::Timestamp>) -> Result<Option<Timestamp>, RpcError> {
    let time = time.map(time_from_wire).transpose();
    time.map_err(|errors| fault::fields(errors, field))
}

impl Usage {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    /// What a caller asks for and may see: people of a tenant theirs alone, and nothing of an earlier tenant of the same name.
    fn selection(
        &self,
        caller: &Caller,
        fields: &Fields<'_>,
        as_of: Timestamp,
    ) -> Result<Selection, RpcError> {
        let scope = caller.scope("tenant", fields.tenant);
        let tenant = scope.map_err(|error| self.context.guard.note(fields.rpc, caller, error))?;
        let queue = match fields.queue {
            "" => None,
            name => Some(QueueName::new(name).map_err(|error| fault::field("queue", error))?),
        };
        let since = moment("since", fields.since)?.unwrap_or_default();
        let until = moment("until", fields.until)?;
        if fields.user.len() > MAX_USER {
            return Err(fault::field("user", format!("is longer than {MAX_USER} bytes")));
        }
        let until = until.map_or(as_of, |until| until.min(as_of));
        let filter = UsageFilter {
            tenant,
            tenant_uid: caller.tenancy.as_ref().map(|tenancy| tenancy.uid.to_string()),
            queue,
            user: Some(fields.user.to_owned()).filter(|user| !user.is_empty()),
            since,
            // Nothing is held in an interval that ends before it begins, as before all attempts.
            until: if until > since { until } else { Timestamp::default() },
        };
        Ok(Selection { filter, as_of })
    }

    async fn part(
        &self,
        Selection { filter, as_of }: &Selection,
        after: Option<UsagePosition>,
        records: usize,
    ) -> Result<Result<UsagePage, UsageTooOld>, RpcError> {
        let (filter, as_of) = (filter.clone(), *as_of);
        let budget = UsageBudget { records, examined: EXAMINED, late: LATE };
        self.context.query(move |state, _| state.usage_page(&filter, as_of, after, budget)).await
    }

    /// The sums of what is asked for as of now, and what that is.
    async fn sums(
        &self,
        caller: &Caller,
        fields: &Fields<'_>,
        by: UsageBy,
    ) -> Result<(Selection, UsageSums), RpcError> {
        for _ in 0..SUMS {
            let selection = self.selection(caller, fields, self.context.handle.now())?;
            if let Ok(sums) = self.sums_of(&selection, by).await? {
                return Ok((selection, sums));
            }
        }
        Err(overtaken())
    }

    async fn sums_of(
        &self,
        selection: &Selection,
        by: UsageBy,
    ) -> Result<Result<UsageSums, UsageTooOld>, RpcError> {
        let mut sums = UsageSums::new(by, selection.filter.since, selection.filter.until);
        let mut after = None;
        loop {
            let part = match self.part(selection, after, EXAMINED).await? {
                Ok(part) => part,
                Err(too_old) => return Ok(Err(too_old)),
            };
            for record in &part.records {
                sums.add(record).map_err(|_| too_many())?;
            }
            after = part.next;
            if after.is_none() {
                return Ok(Ok(sums));
            }
        }
    }
}

/// The time that a list is of, and behind which attempt it goes on, as the inside of a token.
fn position(after: UsagePosition, as_of: Timestamp) -> String {
    let behind = match after {
        UsagePosition::Ended((ended, uid, attempt)) => format!("{} {uid} {attempt}", ended.0),
        UsagePosition::Open(None) => String::new(),
        UsagePosition::Open(Some((uid, attempt))) => format!("{uid} {attempt}"),
    };
    format!("{} {behind}", as_of.0)
}

/// The same the other way round; `None` if it is none.
fn positioned(inside: &[u8]) -> Option<(Timestamp, UsagePosition)> {
    let parts: Vec<&str> = std::str::from_utf8(inside).ok()?.split_whitespace().collect();
    let key = |uid: &str, attempt: &str| Some((uid.parse::<JobUid>().ok()?, attempt.parse::<u32>().ok()?));
    let time = |text: &str| text.parse().ok().map(Timestamp);
    let (as_of, after) = match parts[..] {
        [as_of] => (as_of, UsagePosition::Open(None)),
        [as_of, uid, attempt] => (as_of, UsagePosition::Open(Some(key(uid, attempt)?))),
        [as_of, ended, uid, attempt] => {
            let (uid, attempt) = key(uid, attempt)?;
            (as_of, UsagePosition::Ended((time(ended)?, uid, attempt)))
        }
        _ => return None,
    };
    Some((time(as_of)?, after))
}

fn amount(amount: &UsageAmount) -> v1::UsageAmount {
    v1::UsageAmount {
        held_ms: amount.held_ms,
        node_ms: amount.node_ms,
        gpu_ms: amount.gpu_ms,
        nic_ms: amount.nic_ms,
        rail_ms: amount.rail_ms,
        cpu_ms: amount.cpu_ms,
        startup_gpu_ms: amount.startup_gpu_ms,
    }
}

fn end(end: UsageEnd) -> End {
    match end {
        UsageEnd::Running => End::Running,
        UsageEnd::Completed => End::Completed,
        UsageEnd::Failed => End::Failed,
        UsageEnd::Cancelled => End::Cancelled,
        UsageEnd::Requeued => End::Requeued,
        UsageEnd::Preempted => End::Preempted,
        UsageEnd::Moved => End::Moved,
    }
}

fn text(name: Option<&impl ToString>) -> String {
    name.map(ToString::to_string).unwrap_or_default()
}

fn reported(record: &UsageRecord, filter: &UsageFilter) -> v1::UsageRecord {
    let (held, asked) = (record.held, record.asked);
    let ended = Some(record.ended).filter(|_| record.end != UsageEnd::Running);
    v1::UsageRecord {
        tenant: record.id.tenant.to_string(),
        tenant_uid: record.tenant_uid.clone(),
        job: record.id.name.to_string(),
        job_uid: record.uid.to_string(),
        attempt: record.attempt,
        queue: text(record.queue.as_ref()),
        service_class: text(record.class.as_ref()),
        priority: record.priority,
        user: text(record.submitter.as_ref().map(|submitter| &submitter.user)),
        nodes: held.nodes,
        spares: held.spares,
        gpus: held.gpus,
        nics: held.nics,
        rails: held.rails,
        cpus: held.cpus,
        memory_bytes: held.memory_bytes,
        nodes_asked: asked.nodes,
        gpus_asked: asked.gpus,
        submit_time: Some(time_to_wire(record.submitted)),
        place_time: Some(time_to_wire(record.placed)),
        start_time: record.started.map(time_to_wire),
        end_time: ended.map(time_to_wire),
        end: end(record.end).into(),
        reason: text(record.reason.as_ref()),
        amount: Some(amount(&UsageAmount::of(record, filter.since, filter.until))),
    }
}

fn sum(group: Option<&UsageGroup>, sum: &UsageSum) -> v1::UsageSum {
    let mut wire = v1::UsageSum {
        attempts: sum.attempts,
        attempts_running: sum.running,
        amount: Some(amount(&sum.amount)),
        ..v1::UsageSum::default()
    };
    if let Some(group) = group {
        let job = group.job.as_ref();
        wire.tenant = group.tenant.to_string();
        wire.tenant_uid.clone_from(&group.tenant_uid);
        wire.queue = text(group.queue.as_ref());
        wire.user = text(group.user.as_ref());
        wire.job = text(job.map(|(id, _)| &id.name));
        wire.job_uid = text(job.map(|(_, uid)| uid));
    }
    wire
}

#[tonic::async_trait]
impl UsageService for Usage {
    async fn list_usage_records(
        &self,
        request: Request<v1::ListUsageRecordsRequest>,
    ) -> Result<Response<v1::ListUsageRecordsResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let whole = v1::ListUsageRecordsRequest { page_token: String::new(), page_size: 0, ..wire.clone() };
        let asked = Asked {
            rpc: Rpc::ListUsageRecords,
            prefix: bytes::Bytes::new(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: whole.encode_to_vec(),
        };
        let (as_of, mut after) = match asked.token {
            "" => (self.context.handle.now(), None),
            token => {
                let (_, after) = Tokens::of(&self.context, &caller, &asked).await?.open(token)?;
                let (as_of, after) = positioned(&after)
                    .ok_or_else(|| fault::field("pageToken", "is of no list of records"))?;
                (as_of, Some(after))
            }
        };
        let fields = Fields {
            rpc: Rpc::ListUsageRecords,
            tenant: &wire.tenant,
            queue: &wire.queue,
            user: &wire.user,
            since: wire.since,
            until: wire.until,
        };
        let selection = self.selection(&caller, &fields, as_of)?;
        let size = if wire.page_size == 0 { DEFAULT } else { LARGEST.min(wire.page_size as usize) };
        let mut found: Vec<Arc<UsageRecord>> = Vec::new();
        for _ in 0..QUESTIONS {
            let part = self.part(&selection, after, size - found.len()).await?;
            let part = part.map_err(|UsageTooOld| fault::field("pageToken", PageTokenError::Expired))?;
            found.extend(part.records);
            after = part.next;
            if after.is_none() || found.len() >= size {
                break;
            }
        }
        let next_page_token = match after {
            None => String::new(),
            Some(after) => {
                let tokens = Tokens::of(&self.context, &caller, &asked).await?;
                // The time that the list is of stands for a revision.
                tokens.seal(u64::MAX, position(after, as_of).as_bytes())?
            }
        };
        let records = found.iter().map(|record| reported(record, &selection.filter)).collect();
        let as_of = Some(time_to_wire(as_of));
        Ok(Response::new(v1::ListUsageRecordsResponse { records, next_page_token, as_of }))
    }

    async fn sum_usage(
        &self,
        request: Request<v1::SumUsageRequest>,
    ) -> Result<Response<v1::SumUsageResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let by = match v1::sum_usage_request::By::try_from(wire.by) {
            Ok(v1::sum_usage_request::By::Unspecified | v1::sum_usage_request::By::Tenant) => UsageBy::Tenant,
            Ok(v1::sum_usage_request::By::Queue) => UsageBy::Queue,
            Ok(v1::sum_usage_request::By::User) => UsageBy::User,
            Ok(v1::sum_usage_request::By::Job) => UsageBy::Job,
            Err(_) => return Err(fault::field("by", "must be one of TENANT, QUEUE, USER, JOB").into()),
        };
        let limit = match wire.limit as usize {
            0 => GROUPS,
            limit if limit <= MOST_GROUPS => limit,
            _ => return Err(fault::field("limit", format!("is more than {MOST_GROUPS}")).into()),
        };
        let fields = Fields {
            rpc: Rpc::SumUsage,
            tenant: &wire.tenant,
            queue: &wire.queue,
            user: &wire.user,
            since: wire.since,
            until: wire.until,
        };
        let (Selection { filter, as_of }, sums) = self.sums(&caller, &fields, by).await?;
        // Last: what was dropped meanwhile may be missing from the sums.
        let oldest = self.context.query(move |state, _| state.oldest_usage(&filter)).await?;
        let total = Some(sum(None, &sums.total()));
        let (largest, left_out) = sums.largest(limit);
        Ok(Response::new(v1::SumUsageResponse {
            sums: largest.iter().map(|(group, one)| sum(Some(group), one)).collect(),
            total,
            left_out: left_out as u64,
            as_of: Some(time_to_wire(as_of)),
            oldest_end_time: oldest.map(time_to_wire),
        }))
    }
}

fn too_many() -> RpcError {
    let most = UsageSums::GROUPS;
    let message = format!("there are more than {most} groups; ask for a shorter interval, or for one tenant");
    RpcError::new(ErrorClass::Infeasible, "TOO_MANY_GROUPS", message)
}

fn overtaken() -> RpcError {
    let message =
        format!("attempts end faster than they are summed ({SUMS} times); ask for one tenant, or later");
    RpcError::new(ErrorClass::Overloaded, "SUM_OVERTAKEN", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_was_written() {
        let (uid, as_of) = (JobUid::from_random([7; 16]), Timestamp(1_800_000_000_123));
        let ended = UsagePosition::Ended((Timestamp(5), uid, 3));
        for after in [ended, UsagePosition::Open(None), UsagePosition::Open(Some((uid, 1)))] {
            assert_eq!(positioned(position(after, as_of).as_bytes()), Some((as_of, after)));
        }
        for bad in ["", "x", "1 2", "1 2 3 4", "1 2 3 4 5"] {
            assert_eq!(positioned(bad.as_bytes()), None, "{bad}");
        }
    }
}
