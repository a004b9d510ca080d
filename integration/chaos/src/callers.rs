//! Those who use the cluster all the time: they submit, send again what was not answered, cancel, read; others watch. Each
//! call and each answer is in the history.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use integration_sim::rng::Rng;
use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
    node_service_client::NodeServiceClient,
};
use tonic::{Code, Status};

use crate::{
    history::{History, What},
    proxy::Door,
};

/// The tenant that all jobs are of.
pub const TENANT: &str = "default";
/// The label by which a job names its request.
pub const LABEL: &str = "request";
/// A caller gives a submit up then.
const PATIENCE: Duration = Duration::from_secs(60);

/// How all of them reach the controllers.
#[derive(Clone)]
pub struct Callers {
    /// One door to each controller.
    pub doors: Vec<Door>,
    /// Where the administrator's files are.
    pub admin: PathBuf,
    /// The history that every call and answer is added to.
    pub history: Arc<History>,
    /// This program, which is what jobs run.
    pub me: PathBuf,
    /// The folder in which ranks write what they hold.
    pub ranks: PathBuf,
    /// Set when no caller is to submit any more.
    pub over: Arc<AtomicBool>,
    /// Submits whose end their callers wait for.
    pub at_work: Arc<AtomicU64>,
}

/// What a caller waits for.
pub fn options() -> ClientOptions {
    ClientOptions {
        connect_timeout: Duration::from_secs(1),
        timeout: Some(Duration::from_secs(3)),
        keepalive_interval: Duration::from_secs(1),
        keepalive_timeout: Duration::from_secs(1),
        ..ClientOptions::default()
    }
}

impl Callers {
    /// A client that tries the controllers in this order. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn client(&self, order: impl Iterator<Item = usize>) -> Result<Client, String> {
        let file = |name: &str| Some(self.admin.join(name));
        let (ca, certificate, key) = (file("ca.pem"), file("admin.pem"), file("admin.key"));
        let files = CredentialFiles { ca, certificate, key, ..CredentialFiles::default() };
        let credentials = Credentials::load(&files).map_err(|error| error.to_string())?;
        let endpoints: Result<Vec<Endpoint>, _> =
            order.map(|which| format!("https://{}", self.doors[which].address).parse()).collect();
        let endpoints = endpoints.map_err(|error| format!("{error}"))?;
        Client::new(&endpoints, &credentials, &options()).map_err(|error| error.to_string())
    }

    /// A client of all controllers that tries this one first.
    fn from(&self, first: usize) -> Result<Client, String> {
        let count = self.doors.len();
        self.client((0..count).map(|n| (first + n) % count))
    }

    /// A client of one controller alone.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn only(&self, which: usize) -> Result<Client, String> {
        self.client(std::iter::once(which))
    }

    /// Submits, cancels and reads until it is over: `rate` calls a second in the mean.
    ///
    /// # Errors
    /// There is no client.
    pub async fn submit_all(self, number: usize, seed: u64, rate: f64) -> Result<(), String> {
        let mut rng = Rng::new(seed ^ (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let client = self.from(number)?;
        let pause = (2e6 / rate) as u64;
        let mut count = 0;
        while !self.over.load(Ordering::Relaxed) {
            count += 1;
            self.at_work.fetch_add(1, Ordering::Relaxed);
            self.one(&client, &mut rng, &format!("r{number}-{count}")).await;
            self.at_work.fetch_sub(1, Ordering::Relaxed);
            // The rate of the plan, not a wait for anything.
            tokio::time::sleep(Duration::from_micros(rng.range(0..pause))).await;
        }
        Ok(())
    }

    async fn one(&self, client: &Client, rng: &mut Rng, id: &str) {
        let request = v1::CreateJobRequest {
            job: Some(self.job(rng, id)),
            request_id: id.to_owned(),
            on_behalf_of: TENANT.to_owned(),
            ..v1::CreateJobRequest::default()
        };
        let Some(job) = self.submit(client, &request, rng).await else { return };
        let Some(metadata) = job.metadata else { return };
        if rng.chance(100) {
            // As a caller whose answer came too late for him.
            self.submit(client, &request, rng).await;
        }
        if rng.chance(100) {
            let read = v1::GetJobRequest { tenant: TENANT.to_owned(), name: metadata.name.clone() };
            match JobServiceClient::new(client.clone()).get_job(read).await {
                Ok(_) => self.history.add(What::Read { uid: metadata.uid.clone(), found: true }),
                Err(status) if status.code() == Code::NotFound => {
                    self.history.add(What::Read { uid: metadata.uid.clone(), found: false });
                }
                Err(_) => {}
            }
        }
        if rng.chance(60) {
            let cancel = v1::CancelJobRequest {
                tenant: TENANT.to_owned(),
                name: metadata.name,
                ..v1::CancelJobRequest::default()
            };
            if JobServiceClient::new(client.clone()).cancel_job(cancel).await.is_ok() {
                self.history.add(What::Cancelled { uid: metadata.uid });
            }
        }
    }

    /// One request, sent until it is answered.
    async fn submit(
        &self,
        client: &Client,
        request: &v1::CreateJobRequest,
        rng: &mut Rng,
    ) -> Option<v1::Job> {
        let (id, begin) = (request.request_id.clone(), Instant::now());
        let mut attempt = 0;
        loop {
            attempt += 1;
            self.history.add(What::Submit { request: id.clone(), attempt });
            let answer = JobServiceClient::new(client.clone()).create_job(request.clone()).await;
            let status = match answer {
                Ok(job) => {
                    let job = job.into_inner();
                    let metadata = job.metadata.clone().unwrap_or_default();
                    self.history.add(What::Acknowledged {
                        request: id,
                        uid: metadata.uid,
                        name: metadata.name,
                        revision: metadata.resource_version,
                    });
                    return Some(job);
                }
                Err(status) => status,
            };
            let refused = refused(&status);
            let error = format!("{:?}: {}", status.code(), status.message());
            self.history.add(What::Unanswered { request: id.clone(), error, refused });
            if refused || begin.elapsed() > PATIENCE {
                return None;
            }
            let wait = rng.range(20_000..300_000);
            tokio::time::sleep(Duration::from_micros(wait)).await;
        }
    }

    fn job(&self, rng: &mut Rng, id: &str) -> v1::Job {
        let ms = rng.range(100..3000);
        let (nodes, gpus, rails) = match rng.range(0..10) {
            0 => (rng.range(2..5), 1, true),
            1 => (1, 1, true),
            2 | 3 => (1, 2, false),
            4 => (2, 1, false),
            _ => (1, 1, false),
        };
        // Only a job of one node does without a rail.
        let none = !rails && nodes == 1;
        let words = |text: &std::path::Path| text.display().to_string();
        let (me, dir) = (words(&self.me), words(&self.ranks));
        let argv = [&me, "rank", "--dir", &dir, "--ms", &ms.to_string()].map(str::to_owned).to_vec();
        let again = rng.chance(500);
        let requeue = v1::failure_policy::Requeue::OnInfrastructure;
        v1::Job {
            metadata: Some(v1::Metadata {
                generate_name: "chaos-".to_owned(),
                labels: [(LABEL.to_owned(), id.to_owned())].into(),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::JobSpec {
                gang: Some(v1::Gang {
                    nodes: u32::try_from(nodes).unwrap_or(1),
                    gpus_per_node: gpus,
                    ranks_per_node: 1,
                    ..v1::Gang::default()
                }),
                rails: Some(v1::RailRequest { none, ..v1::RailRequest::default() }),
                failure: again.then(|| v1::FailurePolicy {
                    requeue: requeue.into(),
                    max_restarts: 3,
                    ..v1::FailurePolicy::default()
                }),
                work: Some(v1::job_spec::Work::Command(v1::Command { argv, ..v1::Command::default() })),
                ..v1::JobSpec::default()
            }),
            ..v1::Job::default()
        }
    }

    /// Follows all jobs, from where the stream before ended, until the program does.
    ///
    /// # Errors
    /// There is no client.
    pub async fn watch(self, number: usize) -> Result<(), String> {
        let mut after = 0;
        for round in number.. {
            // Another controller first, each time.
            let client = self.from(round)?.without_timeout();
            self.history.add(What::Watching { watch: number, afresh: after == 0 });
            match self.follow(&client, number, &mut after).await {
                // What it has not seen was compacted away: it begins anew.
                Err(status)
                    if matches!(
                        status.code(),
                        Code::OutOfRange | Code::FailedPrecondition | Code::DataLoss
                    ) =>
                {
                    after = 0;
                }
                _ => {}
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Ok(())
    }

    async fn follow(&self, client: &Client, number: usize, after: &mut u64) -> Result<(), Status> {
        let request =
            v1::WatchJobsRequest { tenant: TENANT.to_owned(), after_revision: *after, ..Default::default() };
        let mut events = JobServiceClient::new(client.clone()).watch_jobs(request).await?.into_inner();
        // While the present state is delivered, there is no revision from which to go on.
        let mut synced = *after > 0;
        let mut last = 0;
        while let Some(event) = events.message().await? {
            let revision = event.revision;
            match event.r#type() {
                v1::job_event::Type::Synced => {
                    self.history.add(What::Synced { watch: number, revision });
                    (synced, last) = (true, revision);
                    *after = revision;
                }
                v1::job_event::Type::Put => {
                    if let Some(job) = &event.job {
                        self.history.add(reported(number, revision, job));
                    }
                }
                v1::job_event::Type::Delete => {
                    let uid = event.job.and_then(|job| job.metadata).unwrap_or_default().uid;
                    self.history.add(What::Gone { watch: number, revision, uid });
                }
                v1::job_event::Type::Unspecified => {}
            }
            // The rest of this revision may be still to come: it is delivered again.
            if synced && revision > last {
                *after = (*after).max(last);
                last = revision;
            }
        }
        Ok(())
    }

    /// Looks at all nodes again and again: who holds what. Returns what has been quarantined, as its administrator would.
    ///
    /// # Errors
    /// There is no client.
    pub async fn check(self) -> Result<(), String> {
        for round in 0.. {
            let mut nodes = NodeServiceClient::new(self.from(round)?);
            if let Ok(list) = nodes.list_nodes(v1::ListNodesRequest::default()).await {
                let list = list.into_inner();
                self.history.add(What::Holds { revision: list.revision, held: held(&list.nodes) });
                for node in &list.nodes {
                    let quarantined = node.status.as_ref().is_some_and(|status| status.quarantined.is_some());
                    if let Some(metadata) = node.metadata.as_ref().filter(|_| quarantined) {
                        let request = v1::ReturnNodeRequest { name: metadata.name.clone() };
                        // The next look tries again.
                        let _ = nodes.return_node(request).await;
                    }
                }
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        Ok(())
    }

    /// The cluster's health, as one controller reports it.
    ///
    /// # Errors
    /// What the controller said.
    pub async fn health(&self, client: &Client) -> Result<v1::ClusterHealth, Status> {
        let asked = HealthServiceClient::new(client.clone()).get_health(v1::GetHealthRequest {}).await;
        asked.map(tonic::Response::into_inner)
    }
}

/// The same request would be refused again: it was not carried out. (A controller whose clock is wrong refuses all
/// certificates; another one does not.)
fn refused(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::FailedPrecondition
            | Code::Unimplemented
            | Code::NotFound
    )
}

fn reported(watch: usize, revision: u64, job: &v1::Job) -> What {
    use v1::job_status::Phase;
    let (metadata, status) =
        (job.metadata.clone().unwrap_or_default(), job.status.clone().unwrap_or_default());
    let phase = status.phase();
    let holds = matches!(phase, Phase::Reserved | Phase::Preparing | Phase::Running | Phase::Recovering);
    let places = status
        .placement
        .iter()
        .filter(|_| holds)
        .flat_map(|placement| placement.nodes.iter().chain(&placement.spares));
    let holds = places
        .flat_map(|place| {
            let gpus = place.gpus.iter().map(|gpu| format!("{}/gpu/{gpu}", place.node));
            gpus.chain(place.nics.iter().map(|nic| format!("{}/nic/{}", place.node, nic.device)))
        })
        .collect();
    What::Job {
        watch,
        revision,
        uid: metadata.uid,
        phase: phase.as_str_name().to_owned(),
        attempt: status.attempt,
        ended: matches!(phase, Phase::Completed | Phase::Failed | Phase::Cancelled),
        holds,
    }
}

fn held(nodes: &[v1::Node]) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for node in nodes {
        let name = node.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
        for hold in node.status.iter().flat_map(|status| &status.holds) {
            let gpus = hold.gpus.iter().map(|gpu| format!("{name}/gpu/{gpu}"));
            let nics = hold.nics.iter().map(|nic| format!("{name}/nic/{nic}"));
            all.extend(gpus.chain(nics).map(|thing| (thing, hold.job_uid.clone())));
        }
    }
    all
}
