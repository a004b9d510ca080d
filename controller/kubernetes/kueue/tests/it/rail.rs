//! A controller of Railyard in this process, with some servers: plans, a watch, and allocations that go on when a test says so.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
};

use proto_rpc::{Client, ClientOptions, Endpoint};
use proto_wire::v1::{
    self, job_event,
    job_service_server::{JobService, JobServiceServer},
    job_status::Phase,
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_stream::{
    Stream,
    wrappers::{TcpListenerStream, UnboundedReceiverStream},
};
use tonic::{Request, Response, Status, transport::Server};

type Event = Result<v1::JobEvent, Status>;

#[derive(Default)]
struct Store {
    revision: u64,
    jobs: BTreeMap<String, v1::Job>,
    /// With the tenant whose jobs are meant; empty: all.
    watches: Vec<(String, mpsc::UnboundedSender<Event>)>,
    nodes: Vec<String>,
    /// Allocations of one workload that held servers at the same time, at most.
    most: usize,
}

/// The controller.
#[derive(Clone, Default)]
pub struct Rail(Arc<Mutex<Store>>);

impl Rail {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap()
    }

    /// A controller of these servers.
    pub fn of(nodes: &[&str]) -> Self {
        let rail = Self::default();
        rail.store().nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        rail
    }

    /// Serves until the test ends, and gives a client of it.
    pub async fn serve(&self) -> Client {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let service = JobServiceServer::new(self.clone());
        tokio::spawn(
            Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)),
        );
        let endpoint = Endpoint::Tcp { host: "127.0.0.1".to_owned(), port };
        Client::of_others(&endpoint, None, &ClientOptions::default()).unwrap()
    }

    /// Names of allocations that hold servers or will.
    pub fn held(&self) -> Vec<String> {
        let store = self.store();
        store.jobs.iter().filter(|(_, job)| !is_over(job)).map(|(name, _)| name.clone()).collect()
    }

    /// How many allocations one workload had at the same time, at most.
    pub fn most(&self) -> usize {
        self.store().most
    }

    /// Each allocation goes on by one stage: it gets servers, runs, or has ended.
    pub fn step(&self) {
        let mut store = self.store();
        for mut job in store.jobs.values().filter(|job| !is_over(job)).cloned().collect::<Vec<_>>() {
            let free = store.free();
            let status = job.status.get_or_insert_default();
            match status.phase() {
                _ if status.cancel_requested => status.set_phase(Phase::Cancelled),
                Phase::Preparing => {
                    status.set_phase(Phase::Running);
                    status.start_time = Some(prost_types::Timestamp::default());
                }
                Phase::Pending if job.spec.is_some() => place(&mut job, free),
                _ => continue,
            }
            store.put(job);
        }
    }

    /// Somebody has a job of this name, which has nothing to do with Kueue.
    pub fn squat(&self, name: &str) {
        let metadata =
            v1::Metadata { name: name.into(), tenant: "research".into(), ..v1::Metadata::default() };
        let mut job = v1::Job { metadata: Some(metadata), ..v1::Job::default() };
        job.status.get_or_insert_default().set_phase(Phase::Pending);
        self.store().put(job);
    }

    /// An allocation fails.
    pub fn fail(&self, name: &str) {
        self.store().end(name, Phase::Failed);
    }
}

fn is_over(job: &v1::Job) -> bool {
    matches!(job.status.as_ref().map(v1::JobStatus::phase), Some(Phase::Failed | Phase::Cancelled))
}

fn is_hold(job: &v1::Job) -> bool {
    job.metadata.as_ref().unwrap().labels.contains_key("kueue/uid")
}

/// It gets servers, if there are as many as it wants.
fn place(job: &mut v1::Job, free: Vec<String>) {
    let nodes: Vec<String> = free.into_iter().take(wanted(job)).collect();
    let fits = nodes.len() == wanted(job);
    let status = job.status.get_or_insert_default();
    status.set_phase(Phase::Pending);
    if fits {
        status.set_phase(Phase::Preparing);
        let place = |node: String| v1::NodePlace { node, ..v1::NodePlace::default() };
        let nodes = nodes.into_iter().map(place).collect();
        status.placement = Some(v1::Placement { nodes, ..v1::Placement::default() });
    }
}

impl Store {
    fn free(&self) -> Vec<String> {
        let places = self
            .jobs
            .values()
            .filter(|job| !is_over(job))
            .filter_map(|job| job.status.as_ref()?.placement.as_ref());
        let used: Vec<&String> = places.flat_map(|place| &place.nodes).map(|place| &place.node).collect();
        self.nodes.iter().filter(|node| !used.contains(node)).cloned().collect()
    }

    fn put(&mut self, mut job: v1::Job) -> v1::Job {
        self.revision += 1;
        let metadata = job.metadata.get_or_insert_default();
        metadata.resource_version = self.revision;
        let name = metadata.name.clone();
        self.jobs.insert(name, job.clone());
        let event = v1::JobEvent {
            r#type: job_event::Type::Put.into(),
            job: Some(job.clone()),
            revision: self.revision,
        };
        let tenant = job.metadata.as_ref().unwrap().tenant.clone();
        self.watches.retain(|(of, watch)| {
            let is_meant = of.is_empty() || *of == tenant;
            !is_meant || watch.send(Ok(event.clone())).is_ok()
        });
        let mut of: BTreeMap<String, usize> = BTreeMap::new();
        for job in self.jobs.values().filter(|job| !is_over(job) && is_hold(job)) {
            let labels = &job.metadata.as_ref().unwrap().labels;
            *of.entry(labels["kueue/uid"].clone()).or_default() += 1;
        }
        self.most = self.most.max(of.into_values().max().unwrap_or(0));
        job
    }

    fn end(&mut self, name: &str, phase: Phase) -> Option<v1::Job> {
        let mut job = self.jobs.get(name).filter(|job| !is_over(job))?.clone();
        let status = job.status.get_or_insert_default();
        status.set_phase(phase);
        status.reasons = vec![v1::Reason { message: "it has ended".into(), ..v1::Reason::default() }];
        Some(self.put(job))
    }
}

fn wanted(job: &v1::Job) -> usize {
    let gang = job.spec.as_ref().and_then(|spec| spec.gang.as_ref()).unwrap();
    usize::try_from(gang.nodes).unwrap()
}

fn none<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not here"))
}

#[tonic::async_trait]
impl JobService for Rail {
    type WatchJobsStream = Pin<Box<dyn Stream<Item = Event> + Send>>;
    type StreamLogsStream = Pin<Box<dyn Stream<Item = Result<v1::LogChunk, Status>> + Send>>;

    async fn create_job(&self, request: Request<v1::CreateJobRequest>) -> Result<Response<v1::Job>, Status> {
        let request = request.into_inner();
        let mut job = request.job.unwrap();
        assert_eq!(request.request_id, job.metadata.as_ref().unwrap().name);
        // That of the namespace.
        assert_eq!(request.on_behalf_of, "research");
        let mut store = self.store();
        if let Some(made) = store.jobs.get(&request.request_id) {
            let answer = is_hold(made).then(|| Response::new(made.clone()));
            return answer.ok_or_else(|| Status::already_exists("a job of this name is there"));
        }
        job.metadata.get_or_insert_default().tenant = request.on_behalf_of;
        let free = store.free();
        place(&mut job, free);
        Ok(Response::new(store.put(job)))
    }

    async fn get_job(&self, request: Request<v1::GetJobRequest>) -> Result<Response<v1::Job>, Status> {
        let found = self.store().jobs.get(&request.into_inner().name).cloned();
        found.map(Response::new).ok_or_else(|| Status::not_found("no such job"))
    }

    async fn watch_jobs(
        &self,
        request: Request<v1::WatchJobsRequest>,
    ) -> Result<Response<Self::WatchJobsStream>, Status> {
        let tenant = request.into_inner().tenant;
        let (events, stream) = mpsc::unbounded_channel();
        let mut store = self.store();
        let revision = store.revision;
        let put = |job: &v1::Job| v1::JobEvent {
            r#type: job_event::Type::Put.into(),
            job: Some(job.clone()),
            revision,
        };
        let is_meant = |job: &&v1::Job| tenant.is_empty() || job.metadata.as_ref().unwrap().tenant == tenant;
        for job in store.jobs.values().filter(is_meant) {
            let _ = events.send(Ok(put(job)));
        }
        let synced =
            v1::JobEvent { r#type: job_event::Type::Synced.into(), revision, ..v1::JobEvent::default() };
        let _ = events.send(Ok(synced));
        store.watches.push((tenant, events));
        Ok(Response::new(Box::pin(UnboundedReceiverStream::new(stream))))
    }

    async fn cancel_job(&self, request: Request<v1::CancelJobRequest>) -> Result<Response<v1::Job>, Status> {
        let name = request.into_inner().name;
        let mut store = self.store();
        let found = store.jobs.get(&name).filter(|job| !is_over(job)).cloned();
        let mut job = found.ok_or_else(|| Status::not_found("no such job"))?;
        job.status.get_or_insert_default().cancel_requested = true;
        Ok(Response::new(store.put(job)))
    }

    async fn plan_job(
        &self,
        request: Request<v1::PlanJobRequest>,
    ) -> Result<Response<v1::PlanJobResponse>, Status> {
        let (job, store) = (request.into_inner().job.unwrap(), self.store());
        let mut answer = v1::PlanJobResponse::default();
        if store.free().len() >= wanted(&job) {
            answer.placement = Some(v1::Placement::default());
        } else {
            answer.infeasible = wanted(&job) > store.nodes.len();
            answer.reasons =
                vec![v1::Reason { message: "others hold the servers".into(), ..v1::Reason::default() }];
        }
        Ok(Response::new(answer))
    }

    async fn stream_logs(
        &self,
        _: Request<v1::StreamLogsRequest>,
    ) -> Result<Response<Self::StreamLogsStream>, Status> {
        none()
    }

    async fn list_jobs(
        &self,
        _: Request<v1::ListJobsRequest>,
    ) -> Result<Response<v1::ListJobsResponse>, Status> {
        none()
    }

    async fn delete_job(
        &self,
        _: Request<v1::DeleteJobRequest>,
    ) -> Result<Response<v1::DeleteJobResponse>, Status> {
        none()
    }

    async fn hold_job(&self, _: Request<v1::HoldJobRequest>) -> Result<Response<v1::Job>, Status> {
        none()
    }

    async fn release_job(&self, _: Request<v1::ReleaseJobRequest>) -> Result<Response<v1::Job>, Status> {
        none()
    }

    async fn suspend_job(&self, _: Request<v1::SuspendJobRequest>) -> Result<Response<v1::Job>, Status> {
        none()
    }

    async fn resume_job(&self, _: Request<v1::ResumeJobRequest>) -> Result<Response<v1::Job>, Status> {
        none()
    }

    async fn requeue_job(&self, _: Request<v1::RequeueJobRequest>) -> Result<Response<v1::Job>, Status> {
        none()
    }

    async fn update_job(&self, _: Request<v1::UpdateJobRequest>) -> Result<Response<v1::Job>, Status> {
        none()
    }

    async fn explain_job(
        &self,
        _: Request<v1::ExplainJobRequest>,
    ) -> Result<Response<v1::ExplainJobResponse>, Status> {
        none()
    }

    async fn list_job_usage(
        &self,
        _: Request<v1::ListJobUsageRequest>,
    ) -> Result<Response<v1::ListJobUsageResponse>, Status> {
        none()
    }
}
