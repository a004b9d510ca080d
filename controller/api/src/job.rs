//! JobService: thin handlers. Into the domain, one call on the loop or one read of the store, back to the wire.

use std::{collections::BTreeMap, sync::Arc};

use aws_lc_rs::digest;
use controller_core::{CoreError, Event, Naming, Reply, Submit};
use controller_leader::{Applied, codec, keys};
use prost::Message;
use proto_model::{JobId, JobName, JobSpec, Reason, ReasonCode, TenantName, Timestamp};
use proto_rpc::{ErrorClass, RpcError, trace};
use proto_wire::{
    convert::{check_job_name, duration_from_wire, job_labels, time_from_wire},
    v1::{self, job_service_server::JobService},
};
use tonic::{Request, Response, Status};

use crate::{
    authz::Rpc,
    changes::{self, elements, request_id},
    context::Context,
    fault,
    guard::Caller,
    logs, page,
    reader::{Reader, stored_job},
    usage, views,
    watch::{self, Change, Events},
};

/// The handlers of `JobService`.
#[derive(Clone)]
pub struct Jobs {
    context: Context,
}

impl Jobs {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    fn id(&self, rpc: Rpc, caller: &Caller, tenant: &str, name: &str) -> Result<JobId, RpcError> {
        let tenant =
            caller.tenant("tenant", tenant).map_err(|error| self.context.guard.note(rpc, caller, error))?;
        let name = JobName::new(name).map_err(|error| fault::field("name", error))?;
        Ok(JobId { tenant, name })
    }

    async fn stored(&self, caller: &Caller, id: &JobId) -> Result<v1::Job, RpcError> {
        stored(&self.context, caller, id).await
    }

    /// Adds what is not stored of waiting jobs: when they will probably start, and why they wait where nothing is stored of that.
    /// Only the controller that leads knows; where it is too busy to say, jobs are as they are stored.
    async fn predict(&self, jobs: &mut [v1::Job], only: Option<&TenantName>) {
        let waits = |job: &&mut v1::Job| {
            job.status.as_ref().is_some_and(|status| status.phase() == v1::job_status::Phase::Pending)
        };
        let named: Vec<(JobId, &mut v1::Job)> = jobs
            .iter_mut()
            .filter(waits)
            .filter_map(|job| {
                let metadata = job.metadata.as_ref()?;
                let tenant = TenantName::new(&metadata.tenant).ok()?;
                let name = JobName::new(&metadata.name).ok()?;
                Some((JobId { tenant, name }, job))
            })
            .collect();
        if named.is_empty() || !self.context.handle.has_loop() {
            return;
        }
        let ids: Vec<JobId> = named.iter().map(|(id, _)| id.clone()).collect();
        let reported = self.context.query(move |state, now| state.prospects(&ids, now)).await;
        for ((_, job), prospect) in named.into_iter().zip(reported.unwrap_or_default()) {
            let status = job.status.get_or_insert_default();
            // What was read is of a moment ago: meanwhile the job may have left, or somebody may have held it.
            if prospect.left {
                let reason = Reason::new(ReasonCode::LeftQueue, "it has left the queue since this was read");
                status.reasons.extend(views::reasons_for(&[reason], only));
                continue;
            }
            status.eta = prospect.eta.map(Into::into);
            status.holds = prospect.holds.iter().map(Into::into).collect();
            status.reasons = views::reasons_for(&prospect.stored, only);
            status.reasons.extend(views::reasons_for(&prospect.reasons, only));
        }
    }

    async fn apply(&self, caller: &Caller, event: Event) -> Result<Applied, RpcError> {
        self.context.handle.apply(&caller.actor, event).await.map_err(|refusal| fault::refused(&refusal))
    }
}

/// The tenant of a submit; what the body says may only confirm it.
fn submitter(
    context: &Context,
    rpc: Rpc,
    caller: &Caller,
    behalf: &str,
    job: &v1::Job,
) -> Result<TenantName, RpcError> {
    let check = || {
        let tenant = caller.tenant("onBehalfOf", behalf)?;
        let named = job.metadata.as_ref().map_or("", |metadata| metadata.tenant.as_str());
        if named.is_empty() || named == tenant.as_str() {
            return Ok(tenant);
        }
        Err(RpcError::new(
            ErrorClass::Denied,
            "FOREIGN_TENANT",
            format!(
                "metadata.tenant is '{named}', but the submit is for tenant '{tenant}'; leave the field out (administrators say on_behalf_of)"
            ),
        ))
    };
    check().map_err(|error| context.guard.note(rpc, caller, error))
}

/// The event that submits a job.
pub(crate) fn to_submit(
    context: &Context,
    caller: &Caller,
    job: &v1::Job,
    (behalf, request, hold): (&str, &str, bool),
) -> Result<Submit, RpcError> {
    let tenant = submitter(context, Rpc::CreateJob, caller, behalf, job)?;
    header(job)?;
    let metadata = job.metadata.clone().unwrap_or_default();
    let name = naming(&metadata)?;
    let labels = job_labels(metadata.labels).map_err(|errors| fault::fields(errors, "metadata.labels"))?;
    let spec = spec(job)?;
    Ok(Submit {
        tenant,
        by: changes::authority(caller)?,
        digest: body_digest(&name, &labels, &spec, hold),
        name,
        labels,
        spec: Box::new(spec),
        request: request_id(request)?,
        trace_parent: trace::current_traceparent().unwrap_or_default(),
        hold,
    })
}

/// A job as it is stored, as the caller may see it.
pub(crate) async fn stored(context: &Context, caller: &Caller, id: &JobId) -> Result<v1::Job, RpcError> {
    let found = context.handle.store().get(keys::job(id)).await.map_err(|error| fault::store(&error))?;
    let kv = found.ok_or_else(|| {
        let error = CoreError::JobNotFound { id: id.clone() };
        RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
    })?;
    stored_job(&kv, &Reader::of(caller)?)
}

fn header(job: &v1::Job) -> Result<(), RpcError> {
    let right = |value: &str, expected: &str| value.is_empty() || value == expected;
    if !right(&job.api_version, proto_wire::convert::API_VERSION) {
        return Err(fault::field("apiVersion", format!("'{}' is not known; write rail/v1", job.api_version)));
    }
    if !right(&job.kind, "Job") {
        return Err(fault::field("kind", format!("'{}' was given where Job is expected", job.kind)));
    }
    Ok(())
}

fn naming(metadata: &v1::Metadata) -> Result<Naming, RpcError> {
    if !metadata.generate_name.is_empty() {
        // As a name that it begins.
        let whole = JobName::new(format!("{}aaaaaa", metadata.generate_name));
        let text = |error| format!("with 6 characters added, {error}");
        whole.map_err(|error| fault::field("metadata.generateName", text(error)))?;
    }
    match (metadata.name.as_str(), metadata.generate_name.as_str()) {
        ("", "") => Err(fault::field("metadata.name", "is required, or metadata.generateName")),
        ("", prefix) => Ok(Naming::Generate(prefix.to_owned())),
        (name, _) => Ok(Naming::Name(JobName::new(name).map_err(|e| fault::field("metadata.name", e))?)),
    }
}

fn spec(job: &v1::Job) -> Result<JobSpec, RpcError> {
    let wire = job.spec.clone().ok_or_else(|| fault::field("spec", "is required"))?;
    let spec = JobSpec::try_from(wire).map_err(|errors| fault::fields(errors, "spec"))?;
    let name = job.metadata.as_ref().and_then(|metadata| JobName::new(&metadata.name).ok());
    let wrong = name.map_or(Ok(()), |name| check_job_name(&name, &spec));
    wrong.map_err(|errors| fault::fields(errors, "spec"))?;
    Ok(spec)
}

/// A digest of what was asked for, whatever way it came: maps are brought into order first.
fn body_digest(name: &Naming, labels: &BTreeMap<String, String>, spec: &JobSpec, hold: bool) -> [u8; 32] {
    let mut wire = v1::JobSpec::from(spec);
    let mut env = BTreeMap::new();
    match wire.work.as_mut() {
        Some(v1::job_spec::Work::Command(command)) => {
            env = std::mem::take(&mut command.env).into_iter().collect();
        }
        Some(v1::job_spec::Work::Allocation(held)) => {
            env = std::mem::take(&mut held.env).into_iter().collect();
        }
        Some(v1::job_spec::Work::Collective(_)) | None => {}
    }
    let mut context = digest::Context::new(&digest::SHA256);
    let mut part = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_be_bytes());
        context.update(bytes);
    };
    match name {
        Naming::Name(name) => part(name.as_str().as_bytes()),
        Naming::Generate(prefix) => part(format!("*{prefix}").as_bytes()),
    }
    part(&wire.encode_to_vec());
    for (key, value) in labels {
        part(key.as_bytes());
        part(value.as_bytes());
    }
    part(b"env");
    for (key, value) in &env {
        part(key.as_bytes());
        part(value.as_bytes());
    }
    if hold {
        part(b"hold");
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

fn job_reply(caller: &Caller, applied: Applied) -> Result<Response<v1::Job>, Status> {
    match applied.reply {
        Reply::Job { job, .. } => {
            let mut wire = codec::job_to_wire(&job, applied.version);
            Reader::of(caller)?.report_job(&mut wire);
            Ok(Response::new(wire))
        }
        _ => Err(crate::context::unexpected()),
    }
}

#[tonic::async_trait]
impl JobService for Jobs {
    type WatchJobsStream = Events<v1::JobEvent>;
    type StreamLogsStream = Events<v1::LogChunk>;

    #[tracing::instrument(name = "submit", skip_all, fields(tenant, job))]
    async fn create_job(&self, request: Request<v1::CreateJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let job = wire.job.ok_or_else(|| fault::field("job", "is required"))?;
        let caller = caller.asking(&wire.request_id);
        let submit =
            to_submit(&self.context, &caller, &job, (&wire.on_behalf_of, &wire.request_id, wire.hold))?;
        let span = tracing::Span::current();
        span.record("tenant", submit.tenant.as_str());
        if let Naming::Name(name) = &submit.name {
            span.record("job", name.as_str());
        }
        job_reply(&caller, self.apply(&caller, Event::Submit(Box::new(submit))).await?)
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::GetJob, &caller, &wire.tenant, &wire.name)?;
        let mut job = self.stored(&caller, &id).await?;
        self.predict(std::slice::from_mut(&mut job), caller.own_tenant()?.as_ref()).await;
        Ok(Response::new(job))
    }

    async fn list_jobs(
        &self,
        request: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let scope = caller.scope("tenant", &wire.tenant);
        let tenant = scope.map_err(|error| self.context.guard.note(Rpc::ListJobs, &caller, error))?;
        for phase in &wire.phases {
            if v1::job_status::Phase::try_from(*phase).is_err() {
                return Err(fault::field("phases", format!("{phase} is not a phase")).into());
            }
        }
        for (field, text) in [("queue", &wire.queue), ("array", &wire.array)] {
            // Both are names of the same form.
            let checked = if text.is_empty() { Ok(()) } else { JobName::new(text).map(drop) };
            checked.map_err(|error| fault::field(field, error))?;
        }
        let filter = v1::ListJobsRequest { page_token: String::new(), page_size: 0, ..wire.clone() };
        let asked = page::Asked {
            rpc: Rpc::ListJobs,
            prefix: keys::jobs_of(tenant.as_ref()),
            size: wire.page_size,
            token: &wire.page_token,
            filter: filter.encode_to_vec(),
        };
        let reader = Reader::of(&caller)?;
        let listed = page::list(&self.context, &caller, asked, |kv| {
            let job = stored_job(kv, &reader)?;
            let phase = job.status.as_ref().map_or(0, |status| status.phase);
            let queue = job.spec.as_ref().map_or("", |spec| spec.queue.as_str());
            let array = job.status.as_ref().and_then(|status| status.array.as_ref());
            let wanted = (wire.phases.is_empty() || wire.phases.contains(&phase))
                && (wire.queue.is_empty() || wire.queue == queue)
                && (wire.array.is_empty() || array.is_some_and(|place| place.array == wire.array));
            Ok(wanted.then_some(job))
        });
        let page::Listed { items: mut jobs, next, revision } = listed.await?;
        self.predict(&mut jobs, reader.tenant()).await;
        Ok(Response::new(v1::ListJobsResponse { jobs, next_page_token: next, revision }))
    }

    async fn list_job_usage(
        &self,
        request: Request<v1::ListJobUsageRequest>,
    ) -> Result<Response<v1::ListJobUsageResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        Ok(Response::new(usage::of_jobs(&self.context, &caller, request.into_inner()).await?))
    }

    async fn watch_jobs(
        &self,
        request: Request<v1::WatchJobsRequest>,
    ) -> Result<Response<Self::WatchJobsStream>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        if !wire.name.is_empty() && !wire.array.is_empty() {
            return Err(fault::field("array", "is another question than name: ask one of them").into());
        }
        let noted = |error| self.context.guard.note(Rpc::WatchJobs, &caller, error);
        let (prefix, exact) = if wire.name.is_empty() {
            let tenant = caller.scope("tenant", &wire.tenant).map_err(noted)?;
            (keys::jobs_of(tenant.as_ref()), None)
        } else {
            let key = keys::job(&self.id(Rpc::WatchJobs, &caller, &wire.tenant, &wire.name)?);
            (key.clone(), Some(key))
        };
        let store = Arc::clone(self.context.handle.store());
        // A job's key is also a prefix of longer names' keys: only the exact one is meant.
        let reader = Reader::of(&caller)?;
        let make = move |change: Change| {
            let event = job_event(&change, exact.as_deref(), &reader);
            std::future::ready(event.map(|event| event.filter(|event| is_of(event, &wire.array))))
        };
        let after = caller.after(wire.after_revision);
        Ok(Response::new(watch::follow(store, prefix, after, self.context.ending.clone(), make).await?))
    }

    async fn cancel_job(&self, request: Request<v1::CancelJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::CancelJob, &caller, &wire.tenant, &wire.name)?;
        let grace = wire.grace_period.map(duration_from_wire).transpose();
        let grace = grace.map_err(|errors| fault::fields(errors, "gracePeriod"))?;
        let by = Some(changes::authority(&caller)?);
        let event = Event::Cancel { indices: elements(&wire.elements)?, id, grace, by };
        job_reply(&caller, self.apply(&caller, event).await?)
    }

    async fn delete_job(
        &self,
        request: Request<v1::DeleteJobRequest>,
    ) -> Result<Response<v1::DeleteJobResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::DeleteJob, &caller, &wire.tenant, &wire.name)?;
        let by = Some(changes::authority(&caller)?);
        self.apply(&caller, Event::DeleteJob { indices: elements(&wire.elements)?, id, by }).await?;
        Ok(Response::new(v1::DeleteJobResponse {}))
    }

    async fn hold_job(&self, request: Request<v1::HoldJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::HoldJob, &caller, &wire.tenant, &wire.name)?;
        let by = (Rpc::HoldJob, &caller);
        let order = Box::new(changes::order(by, id, &wire.elements, &wire.request_id, &wire)?);
        let caller = caller.asking(&wire.request_id);
        job_reply(&caller, self.apply(&caller, Event::HoldJob { order, reason: wire.reason }).await?)
    }

    async fn release_job(
        &self,
        request: Request<v1::ReleaseJobRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::ReleaseJob, &caller, &wire.tenant, &wire.name)?;
        let by = (Rpc::ReleaseJob, &caller);
        let order = changes::order(by, id, &wire.elements, &wire.request_id, &wire)?;
        let caller = caller.asking(&wire.request_id);
        job_reply(&caller, self.apply(&caller, Event::ReleaseJob(Box::new(order))).await?)
    }

    async fn suspend_job(
        &self,
        request: Request<v1::SuspendJobRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::SuspendJob, &caller, &wire.tenant, &wire.name)?;
        let by = (Rpc::SuspendJob, &caller);
        let order = Box::new(changes::order(by, id, &wire.elements, &wire.request_id, &wire)?);
        let caller = caller.asking(&wire.request_id);
        job_reply(&caller, self.apply(&caller, Event::SuspendJob { order, reason: wire.reason }).await?)
    }

    async fn resume_job(&self, request: Request<v1::ResumeJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::ResumeJob, &caller, &wire.tenant, &wire.name)?;
        let by = (Rpc::ResumeJob, &caller);
        let order = Box::new(changes::order(by, id, &wire.elements, &wire.request_id, &wire)?);
        let caller = caller.asking(&wire.request_id);
        job_reply(&caller, self.apply(&caller, Event::ReleaseJob(order)).await?)
    }

    async fn requeue_job(
        &self,
        request: Request<v1::RequeueJobRequest>,
    ) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::RequeueJob, &caller, &wire.tenant, &wire.name)?;
        let by = (Rpc::RequeueJob, &caller);
        let order = Box::new(changes::order(by, id, &wire.elements, &wire.request_id, &wire)?);
        let caller = caller.asking(&wire.request_id);
        job_reply(&caller, self.apply(&caller, Event::RequeueJob { order, reason: wire.reason }).await?)
    }

    async fn update_job(&self, request: Request<v1::UpdateJobRequest>) -> Result<Response<v1::Job>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::UpdateJob, &caller, &wire.tenant, &wire.name)?;
        let by = (Rpc::UpdateJob, &caller);
        let order = changes::order(by, id, &wire.elements, &wire.request_id, &wire)?;
        let update = Box::new(changes::update(order, &wire)?);
        let caller = caller.asking(&wire.request_id);
        job_reply(&caller, self.apply(&caller, Event::UpdateJob(update)).await?)
    }

    async fn plan_job(
        &self,
        request: Request<v1::PlanJobRequest>,
    ) -> Result<Response<v1::PlanJobResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let job = wire.job.ok_or_else(|| fault::field("job", "is required"))?;
        let tenant = submitter(&self.context, Rpc::PlanJob, &caller, &wire.on_behalf_of, &job)?;
        header(&job)?;
        // What a submit would be refused for is wrong in a plan too, but that a plan needs no name.
        let metadata = job.metadata.clone().unwrap_or_default();
        if !metadata.name.is_empty() || !metadata.generate_name.is_empty() {
            naming(&metadata)?;
        }
        job_labels(metadata.labels).map_err(|errors| fault::fields(errors, "metadata.labels"))?;
        let spec = spec(&job)?;
        let only = caller.scope("tenant", "")?;
        let by = changes::authority(&caller)?;
        let planned = self.context.query(move |state, now| state.plan(&tenant, &by, &spec, now)).await?;
        let plan = planned.map_err(|error| fault::refused(&error.into()))?;
        Ok(Response::new(crate::explain::plan(&plan, only.as_ref())))
    }

    async fn explain_job(
        &self,
        request: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::ExplainJob, &caller, &wire.tenant, &wire.name)?;
        let only = caller.scope("tenant", "")?;
        if let Some(at) = wire.at {
            let at = time_from_wire(at).map_err(|errors| fault::fields(errors, "at"))?;
            let all = caller.is_admin();
            let past = self.context.query(move |state, _| {
                let from = if all { Timestamp(0) } else { state.tenant_begin(&id.tenant) };
                state.explain_at(&id, from, at)
            });
            let past = past.await?;
            let past = past.map_err(|error| fault::refused(&error.into()))?;
            return Ok(Response::new(crate::explain::past(&past, only.as_ref())));
        }
        let explained = self.context.query(move |state, now| state.explain(&id, now)).await?;
        let explanation = explained.map_err(|error| fault::refused(&error.into()))?;
        Ok(Response::new(crate::explain::explanation(&explanation, only.as_ref())))
    }

    async fn stream_logs(
        &self,
        request: Request<v1::StreamLogsRequest>,
    ) -> Result<Response<Self::StreamLogsStream>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let id = self.id(Rpc::StreamLogs, &caller, &wire.tenant, &wire.name)?;
        let job = self.stored(&caller, &id).await?;
        Ok(Response::new(logs::stream(&self.context, id, job, wire)?))
    }
}

/// What a change of a job is to its reader; nothing for a key other than `exact`.
///
/// # Errors
/// The stored value cannot be read.
pub(crate) fn job_event(
    change: &Change,
    exact: Option<&[u8]>,
    reader: &Reader,
) -> Result<Option<v1::JobEvent>, RpcError> {
    use v1::job_event::Type;
    let meant = |key: &[u8]| exact.is_none_or(|exact| exact == key);
    let (kind, job, revision) = match change {
        Change::Put(kv, revision) if meant(&kv.key) => (Type::Put, Some(stored_job(kv, reader)?), *revision),
        Change::Delete(key, prev, revision) if meant(key) => {
            let job = match prev {
                Some(kv) => stored_job(kv, reader)?,
                None => named_by(key),
            };
            (Type::Delete, Some(job), *revision)
        }
        Change::Synced(revision) => (Type::Synced, None, *revision),
        Change::Put(..) | Change::Delete(..) => return Ok(None),
    };
    Ok(Some(v1::JobEvent { r#type: kind.into(), job, revision }))
}

/// Whether an event is of an element of an array, or none of a job. What is not known any more may be.
fn is_of(event: &v1::JobEvent, array: &str) -> bool {
    let Some(job) = event.job.as_ref().filter(|_| !array.is_empty()) else { return true };
    let of = job.status.as_ref().map(|status| status.array.as_ref().map_or("", |place| &place.array));
    of.is_none_or(|of| of == array)
}

/// Where the store does not know the last value, the key still says which job it was.
fn named_by(key: &[u8]) -> v1::Job {
    let text = String::from_utf8_lossy(key);
    let (tenant, name) =
        text.strip_prefix(keys::JOBS).and_then(|rest| rest.split_once('/')).unwrap_or_default();
    let metadata =
        v1::Metadata { name: name.to_owned(), tenant: tenant.to_owned(), ..v1::Metadata::default() };
    v1::Job { metadata: Some(metadata), ..v1::Job::default() }
}
