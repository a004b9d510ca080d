//! A cluster of real processes of which each may be of another release: controllers on etcd, agents, and what is asked of all of them.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use integration_harness::{Agents, Controllers, Etcd, Invitation, Servers, eventually};
use proto_rpc::{Client, ClientOptions, Jitter, RetryPolicy, retry};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
    node_service_client::NodeServiceClient,
};
use serde_json::Value;
use tokio::runtime::Runtime;
use tonic::{Response, Status};

use crate::{command_job::text, survival};

/// Longest wait for anything to become so. Other load on this machine may be heavy.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// A busy machine is not a silent leader; leaders that are told to end say so anyway.
const FLAGS: [&str; 4] = ["--heartbeat-limit", "60s", "--leader-silence", "5s"];

/// The folders of the programs of both releases.
#[derive(Debug, Clone)]
pub struct Releases {
    /// Of the release before.
    pub old: PathBuf,
    /// What is built here.
    pub new: PathBuf,
}

/// The cluster.
pub struct World {
    /// First, so that jobs' agents end before what they ask.
    pub agents: Agents,
    /// The controllers.
    pub controllers: Controllers,
    /// What they store into.
    _etcd: Etcd,
    /// What calls run on.
    pub runtime: Runtime,
    /// The administrator's.
    pub client: Client,
}

impl World {
    /// So many controllers of one release on an etcd of their own, and an agent for each of these folders of programs.
    ///
    /// # Errors
    /// One does not start, or a server does not get ready.
    pub fn start(bin: &Path, controllers: usize, agents: &[&Path], has: Servers) -> Result<Self, String> {
        let etcd = Etcd::start(1, &[])?;
        let endpoints = etcd.endpoints();
        let flags = [&["--store", "etcd", "--etcd-endpoints", &endpoints], &FLAGS[..]].concat();
        let controllers = Controllers::start_from(bin, controllers, &flags)?;
        let runtime = Runtime::new().map_err(text)?;
        let client = client(&runtime, &controllers)?;
        let agents_of = Agents::of(&controllers.addresses(), &["--no-rank-namespaces"])?;
        let mut world = Self { agents: agents_of, controllers, _etcd: etcd, runtime, client };
        for (n, bin) in agents.iter().enumerate() {
            let invitation = world.invite(&Agents::name(n))?;
            world.agents.join(bin, has, &invitation)?;
        }
        world.ready()?;
        Ok(world)
    }

    /// Another client of all controllers.
    ///
    /// # Errors
    /// What is wrong with a file.
    pub fn another_client(&self) -> Result<Client, String> {
        client(&self.runtime, &self.controllers)
    }

    fn invite(&self, node: &str) -> Result<Invitation, String> {
        let request = v1::CreateJoinTokenRequest { node: node.to_owned(), lifetime: None };
        let answer = self.ask(|client| {
            let request = request.clone();
            async move { NodeServiceClient::new(client).create_join_token(request).await }
        })?;
        Ok(Invitation { token: answer.token, pin: answer.ca_pin })
    }

    /// A call, tried again as railctl does.
    ///
    /// # Errors
    /// What the controller says.
    pub fn ask<T, F, Fut>(&self, mut call: F) -> Result<T, String>
    where
        F: FnMut(Client) -> Fut,
        Fut: Future<Output = Result<Response<T>, Status>>,
    {
        let call = |_| call(self.client.clone());
        let answer = self.runtime.block_on(retry(&RetryPolicy::default(), &mut Jitter::from_os(), call));
        answer.map(Response::into_inner).map_err(text)
    }

    /// Waits until every server is ready.
    ///
    /// # Errors
    /// One is not, in time.
    pub fn ready(&self) -> Result<(), String> {
        let ready = || (self.health().ok()?.nodes_ready as usize == self.agents.count()).then_some(());
        eventually("every server to be ready", PATIENCE, ready)
    }

    /// How the cluster is.
    ///
    /// # Errors
    /// What the controller says.
    pub fn health(&self) -> Result<v1::ClusterHealth, String> {
        self.ask(|client| async move {
            HealthServiceClient::new(client).get_health(v1::GetHealthRequest {}).await
        })
    }

    /// Which controller leads.
    ///
    /// # Errors
    /// None says so.
    pub fn leader(&self) -> Result<usize, String> {
        eventually("a controller that leads", PATIENCE, || {
            self.runtime.block_on(survival::leader(&self.controllers, &self.client)).ok()
        })
    }

    /// A job as it is.
    ///
    /// # Errors
    /// What the controller says.
    pub fn job(&self, name: &str) -> Result<v1::JobStatus, String> {
        let request = v1::GetJobRequest { tenant: "default".to_owned(), name: name.to_owned() };
        let job = self.ask(|client| {
            let request = request.clone();
            async move { JobServiceClient::new(client).get_job(request).await }
        });
        Ok(job?.status.unwrap_or_default())
    }

    /// Waits until a job is so.
    ///
    /// # Errors
    /// It is not, in time; as it was last, and what agents have logged.
    pub fn wait_job(&self, name: &str, is: impl Fn(&v1::JobStatus) -> bool) -> Result<v1::JobStatus, String> {
        let found =
            eventually(&format!("job {name}"), PATIENCE, || self.job(name).ok().filter(|status| is(status)));
        found.map_err(|error| format!("{error}; it is {:?}", self.job(name)))
    }

    /// Runs `railctl` of the release in this folder, and gives what it prints.
    ///
    /// # Errors
    /// What it says where it fails.
    pub fn railctl(&self, bin: &Path, arguments: &[&str]) -> Result<String, String> {
        let output = self.controllers.users().railctl(bin, arguments).output().map_err(text)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("railctl {} ended with {}: {}", arguments.join(" "), output.status, said.trim()))
    }

    /// The same, of JSON.
    ///
    /// # Errors
    /// What it says where it fails, or why it is none.
    pub fn railctl_json(&self, bin: &Path, arguments: &[&str]) -> Result<Value, String> {
        let said = self.railctl(bin, &[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&said).map_err(|error| format!("railctl {}: {error}", arguments.join(" ")))
    }
}

fn client(runtime: &Runtime, controllers: &Controllers) -> Result<Client, String> {
    let _inside = runtime.enter();
    let all: Vec<usize> = (0..controllers.count()).collect();
    controllers.client(&all, &ClientOptions::default())
}
