//! Agents of servers that are not there, in a process of their own: each with its own certificate and its own connection, as
//! the real agent has, saying what it has once and a heartbeat as often as the controller asks for one.

use std::{
    io::{BufRead as _, stdin},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use proto_rpc::{
    CertificateSlot, Client, ClientOptions, CredentialFiles, Credentials, Endpoint, Jitter, KeyRequest,
    RetryPolicy, retry, tls::Trust,
};
use proto_wire::v1::{
    self, agent_message::Body, agent_service_client::AgentServiceClient, assignment::DesiredState,
    controller_message::Body as Order, enroll_service_client::EnrollServiceClient,
    node_service_client::NodeServiceClient, observation::State,
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_stream::wrappers::ReceiverStream;

use crate::{command_job::text, scheduler::site};

/// Servers that join, and agents that dial, at a time.
const AT_ONCE: usize = 32;
/// As the real agent: a stream that is not answered so long is given up.
const OPEN_LIMIT: Duration = Duration::from_secs(10);
/// Until the controller says otherwise.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// So many agents. Says `ready` when all are connected, and for each line of its standard input how many are; ends with it.
#[derive(Debug, clap::Args)]
pub struct Load {
    /// The number of the first server.
    #[arg(long)]
    first: u32,
    /// How many.
    #[arg(long)]
    count: u32,
    /// Where.
    #[arg(long)]
    controller: Endpoint,
    /// The folder with the administrator's files, who vouches for the servers.
    #[arg(long)]
    admin: PathBuf,
    /// Say of every assignment that it is as it should be; otherwise nothing is said of any.
    #[arg(long)]
    comply: bool,
}

/// What one agent dials with.
struct Agent {
    name: String,
    client: Client,
    complies: bool,
}

impl Load {
    /// Runs the agents until standard input ends.
    ///
    /// # Errors
    /// The administrator's files cannot be read, or a server cannot join.
    pub fn run(self) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .map_err(text)?;
        let connected = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let agents = self.join().await?;
            let all = agents.len();
            for (at, agent) in agents.into_iter().enumerate() {
                tokio::spawn(keep(agent, Arc::clone(&connected)));
                while at + 1 > connected.load(Ordering::Relaxed) + AT_ONCE {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            while connected.load(Ordering::Relaxed) < all {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Ok::<(), String>(())
        })?;
        println!("ready");
        for line in stdin().lock().lines() {
            line.map_err(text)?;
            println!("{}", connected.load(Ordering::Relaxed));
        }
        runtime.shutdown_background();
        Ok(())
    }

    /// Joins all servers; what each may dial with, not dialled yet.
    async fn join(&self) -> Result<Vec<Agent>, String> {
        let file = |name: &str| Some(self.admin.join(name));
        let files = CredentialFiles {
            ca: file("ca.pem"),
            certificate: file("admin.pem"),
            key: file("admin.key"),
            ..CredentialFiles::default()
        };
        let credentials = Credentials::load(&files).map_err(text)?;
        let admin = self.client(&credentials)?;
        let (mut joining, mut agents) = (JoinSet::new(), Vec::new());
        for at in self.first..self.first + self.count {
            if joining.len() >= AT_ONCE {
                agents.extend(joining.join_next().await.map(|done| done.map_err(text)).transpose()?);
            }
            joining.spawn(join(admin.clone(), self.controller.clone(), site::node_name(at), self.comply));
        }
        while let Some(done) = joining.join_next().await {
            agents.push(done.map_err(text)?);
        }
        agents.into_iter().collect()
    }

    fn client(&self, credentials: &Credentials) -> Result<Client, String> {
        Client::new(std::slice::from_ref(&self.controller), credentials, &ClientOptions::default())
            .map_err(text)
    }
}

async fn join(admin: Client, controller: Endpoint, name: String, complies: bool) -> Result<Agent, String> {
    let policy = RetryPolicy::default();
    let ask = v1::CreateJoinTokenRequest { node: name.clone(), lifetime: None };
    let made = |_| {
        let (mut nodes, ask) = (NodeServiceClient::new(admin.clone()), ask.clone());
        async move { nodes.create_join_token(ask).await }
    };
    let token = retry(&policy, &mut Jitter::from_os(), made).await.map_err(text)?.into_inner().token;
    let key = KeyRequest::generate().map_err(text)?;
    let request = v1::JoinRequest { token, node: name.clone(), csr_pem: key.csr_pem.clone() };
    let joins = |_| {
        let (mut enroll, request) = (EnrollServiceClient::new(admin.clone()), request.clone());
        async move { enroll.join(request).await }
    };
    let joined = retry(&policy, &mut Jitter::from_os(), joins).await.map_err(text)?.into_inner();
    let slot = CertificateSlot::new(&joined.certificate_pem, &key.key_pem).map_err(text)?;
    let credentials = Credentials::new(Trust::Ca(joined.ca_pem)).with_certificate(slot);
    let client = Client::new(&[controller], &credentials, &ClientOptions::default()).map_err(text)?;
    Ok(Agent { name, client: client.without_timeout(), complies })
}

/// What a server says at once that does as it is told, with an engine that listens where it says so.
fn complied(assignment: &v1::Assignment) -> v1::Observation {
    let rails = assignment.placement.as_ref().map(|placement| placement.rails.clone()).unwrap_or_default();
    let endpoint = |rail: u32| v1::RailEndpoint { rail, address: format!("127.0.0.1:{}", 20_000 + rail) };
    let state = match assignment.desired() {
        DesiredState::Stopped => State::Ended,
        DesiredState::Running => State::Running,
        DesiredState::Prepared | DesiredState::Unspecified => State::Prepared,
    };
    v1::Observation {
        job_uid: assignment.job_uid.clone(),
        attempt: assignment.attempt,
        state: state.into(),
        endpoints: rails.into_iter().map(endpoint).collect(),
        ..v1::Observation::default()
    }
}

/// Keeps its stream open, with the real agent's waits between two.
async fn keep(agent: Agent, connected: Arc<AtomicUsize>) {
    let (policy, mut jitter, mut failures) = (RetryPolicy::default(), Jitter::from_os(), 0_u32);
    loop {
        let begun = Instant::now();
        // Why it ended is for the controller's log.
        let _ = stream(&agent, &connected).await;
        failures = if begun.elapsed() > OPEN_LIMIT { 1 } else { failures.saturating_add(1) };
        let ceiling = policy.backoff_ceiling(failures);
        tokio::time::sleep(ceiling / 2 + jitter.up_to(ceiling / 2)).await;
    }
}

async fn stream(agent: &Agent, connected: &AtomicUsize) -> Result<(), String> {
    let (say, said) = mpsc::channel(4);
    let message = |body| v1::AgentMessage { body: Some(body) };
    let register = v1::Register {
        node: agent.name.clone(),
        inventory: Some((&site::inventory(0)).into()),
        ..Default::default()
    };
    say.send(message(Body::Register(register))).await.map_err(text)?;
    let mut service = AgentServiceClient::new(agent.client.clone());
    let call = tokio::time::timeout(OPEN_LIMIT, service.connect(ReceiverStream::new(said)));
    let mut orders = call.await.map_err(text)?.map_err(text)?.into_inner();
    orders.message().await.map_err(text)?.ok_or("no Welcome")?;
    connected.fetch_add(1, Ordering::Relaxed);
    let mut beat = tokio::time::interval(HEARTBEAT);
    let ended = loop {
        tokio::select! {
            _ = beat.tick() => {
                if say.try_send(message(Body::Heartbeat(v1::Heartbeat::default()))).is_err() {
                    break Err("the controller does not read".to_owned());
                }
            }
            order = orders.message() => match order {
                Ok(Some(v1::ControllerMessage { body: Some(Order::Assignment(assignment)), .. })) if agent.complies => {
                    say.send(message(Body::Observation(complied(&assignment)))).await.map_err(text)?;
                }
                Ok(Some(_)) => {}
                Ok(None) => break Ok(()),
                Err(status) => break Err(status.to_string()),
            },
        }
    };
    connected.fetch_sub(1, Ordering::Relaxed);
    ended
}
