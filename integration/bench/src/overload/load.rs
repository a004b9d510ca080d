//! The bad company of row D9, in a process of its own: idle connections, slow readers, resets, one greedy tenant.

use std::{
    io::Read as _,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use http_body_util::BodyExt as _;
use proto_rpc::{Client, ClientOptions, CredentialFiles, Credentials, Endpoint};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
};
use tokio::{task::JoinSet, time};
use tonic::codegen::{Service as _, http::Request};

/// Handshakes under way at a time.
const DIALS: usize = 16;
/// Connections of the reset flood.
const FLOODS: usize = 4;
/// Calls of the greedy tenant under way at a time.
const GREEDY: usize = 100;

/// What a load process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Connections that do nothing.
    Idle,
    /// Watches that read a message a second.
    Slow,
    /// Calls that are taken back as soon as they are made, so many per second.
    Reset,
    /// Lists of jobs, so many per second.
    Greedy,
    /// Streams of pages that read all that comes.
    Pages,
}

/// One load process: says `ready` when its load is there, and ends when its standard input does.
#[derive(Debug, clap::Args)]
pub struct Load {
    /// What it does.
    #[arg(value_enum)]
    pub kind: Kind,
    /// How many, or how many per second.
    #[arg(long)]
    pub count: usize,
    /// Where.
    #[arg(long)]
    pub controller: String,
    /// The folder of `ca.pem`.
    #[arg(long)]
    pub ca: PathBuf,
    /// The caller's certificate and key, without their endings.
    #[arg(long)]
    pub identity: PathBuf,
}

/// Whoever calls: where, and as whom.
pub struct Caller {
    endpoint: Endpoint,
    credentials: Credentials,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Caller {
    /// A caller with the identity of two files: `identity` with the endings `.pem` and `.key`.
    ///
    /// # Errors
    /// A file cannot be read, or the address is none.
    pub fn new(controller: &str, ca: &std::path::Path, identity: &std::path::Path) -> Result<Self, String> {
        let files = CredentialFiles {
            ca: Some(ca.to_owned()),
            certificate: Some(identity.with_extension("pem")),
            key: Some(identity.with_extension("key")),
            ..CredentialFiles::default()
        };
        let credentials = Credentials::load(&files).map_err(text)?;
        Ok(Self { endpoint: controller.parse().map_err(text)?, credentials })
    }

    /// Of credentials at hand.
    ///
    /// # Errors
    /// The address is none.
    pub fn of(controller: &str, credentials: Credentials) -> Result<Self, String> {
        Ok(Self { endpoint: controller.parse().map_err(text)?, credentials })
    }

    /// A connection of its own. It answers pings and sends none, as most do that are idle.
    ///
    /// # Errors
    /// The credentials cannot be used.
    pub fn client(&self) -> Result<Client, String> {
        let options = ClientOptions {
            connect_timeout: Duration::from_secs(30),
            keepalive_while_idle: false,
            ..ClientOptions::default()
        };
        Client::new(std::slice::from_ref(&self.endpoint), &self.credentials, &options).map_err(text)
    }
}

impl Load {
    /// Makes the load until standard input ends.
    ///
    /// # Errors
    /// A file cannot be read, or the load cannot be started.
    pub fn run(&self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(text)?;
        let caller = Arc::new(Caller::new(&self.controller, &self.ca, &self.identity)?);
        let done = runtime.block_on(async {
            let load = self.begin(caller).await?;
            println!("ready");
            tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()))
                .await
                .map_err(text)?
                .map_err(text)?;
            drop(load);
            Ok(())
        });
        runtime.shutdown_background();
        done
    }

    async fn begin(&self, caller: Arc<Caller>) -> Result<JoinSet<()>, String> {
        let mut load = JoinSet::new();
        match self.kind {
            Kind::Idle | Kind::Slow | Kind::Pages => {
                let kind = self.kind;
                let mut dials = JoinSet::new();
                for number in 0..self.count {
                    let caller = Arc::clone(&caller);
                    dials.spawn(async move { OpenConnections::open(kind, &caller).await });
                    if dials.len() >= DIALS || number + 1 == self.count {
                        while dials.len() >= DIALS || (number + 1 == self.count && !dials.is_empty()) {
                            let held = dials.join_next().await.ok_or("no dial")?.map_err(text)??;
                            load.spawn(held.hold());
                        }
                    }
                }
            }
            Kind::Reset => {
                for _ in 0..FLOODS {
                    load.spawn(resets(Arc::clone(&caller), self.count / FLOODS));
                }
            }
            Kind::Greedy => {
                let client = caller.client()?;
                for part in 0..GREEDY {
                    load.spawn(lists(client.clone(), part, self.count));
                }
            }
        }
        Ok(load)
    }
}

/// What is held open.
enum OpenConnections {
    Idle(Client),
    Watch(tonic::Streaming<v1::JobEvent>),
    Page(tonic::body::Body),
}

impl OpenConnections {
    async fn open(kind: Kind, caller: &Caller) -> Result<Self, String> {
        match kind {
            Kind::Slow => watch(caller).await,
            Kind::Pages => Ok(Self::Page(page(&caller.client()?).await?)),
            Kind::Idle | Kind::Reset | Kind::Greedy => idle(caller).await,
        }
    }

    async fn hold(self) {
        match self {
            OpenConnections::Idle(client) => {
                let _client = client;
                std::future::pending::<()>().await;
            }
            OpenConnections::Watch(mut events) => {
                while let Ok(Some(_)) = events.message().await {
                    time::sleep(Duration::from_secs(1)).await;
                }
                std::future::pending::<()>().await;
            }
            OpenConnections::Page(mut body) => {
                while let Some(Ok(_)) = body.frame().await {}
                // A page that ended is none that is open.
                eprintln!("the stream of a page has ended");
                std::process::exit(1);
            }
        }
    }
}

/// The stream of a page that follows everything an administrator may.
///
/// # Errors
/// It is refused, or the controller is out of reach.
pub async fn page(client: &Client) -> Result<tonic::body::Body, String> {
    let mut client = client.without_timeout();
    let request =
        Request::builder().uri("/ui/events?kinds=jobs,nodes,rails,rollouts,tenants,queues,reservations");
    std::future::poll_fn(|context| client.poll_ready(context)).await.map_err(text)?;
    let answer = client.call(request.body(tonic::body::Body::empty()).map_err(text)?).await.map_err(text)?;
    if answer.status().is_success() { Ok(answer.into_body()) } else { Err(answer.status().to_string()) }
}

/// One call, so that the connection is there.
async fn idle(caller: &Caller) -> Result<OpenConnections, String> {
    let client = caller.client()?;
    let mut health = HealthServiceClient::new(client.clone());
    health.get_health(v1::GetHealthRequest {}).await.map_err(text)?;
    Ok(OpenConnections::Idle(client))
}

async fn watch(caller: &Caller) -> Result<OpenConnections, String> {
    let mut jobs = JobServiceClient::new(caller.client()?.without_timeout());
    let events = jobs.watch_jobs(v1::WatchJobsRequest::default()).await.map_err(text)?;
    Ok(OpenConnections::Watch(events.into_inner()))
}

/// Calls that are dropped after their head went out. The server ends such connections; then comes the next one.
async fn resets(caller: Arc<Caller>, per_second: usize) {
    const BURST: usize = 50;
    let mut pace = time::interval(Duration::from_secs_f64(BURST as f64 / per_second.max(1) as f64));
    let Ok(client) = caller.client() else { return };
    loop {
        pace.tick().await;
        let mut calls = Vec::with_capacity(BURST);
        for _ in 0..BURST {
            let mut jobs = JobServiceClient::new(client.clone());
            let mut call = Box::pin(async move { jobs.list_jobs(v1::ListJobsRequest::default()).await });
            // Polled until its head is handed to the connection.
            for _ in 0..3 {
                let mut once = std::pin::pin!(time::timeout(Duration::ZERO, call.as_mut()));
                if once.as_mut().await.is_ok() {
                    break;
                }
                tokio::task::yield_now().await;
            }
            calls.push(call);
        }
        drop(calls);
    }
}

/// One of many that together ask for so many lists per second, whether the last ones were answered or not, within what
/// they may have under way.
async fn lists(client: Client, part: usize, per_second: usize) {
    let each = Duration::from_secs_f64(GREEDY as f64 / per_second.max(1) as f64);
    let first = Instant::now() + each.mul_f64(part as f64 / GREEDY as f64);
    let mut pace = time::interval_at(first.into(), each);
    let mut jobs = JobServiceClient::new(client);
    loop {
        pace.tick().await;
        // Refused or not: it asks again.
        let _ = jobs.list_jobs(v1::ListJobsRequest::default()).await;
    }
}
