//! Real controllers on a real etcd with real agents: leaders die and hand over under jobs that run, and no rank notices.

use std::{fs, process::Command, time::Duration};

use integration_harness::{Agents, Controllers, Etcd, Invitation, Servers, binaries, eventually};
use proto_rpc::{Client, ClientOptions, Jitter, RetryPolicy, retry};
use proto_wire::v1::{
    self, health_service_client::HealthServiceClient, job_service_client::JobServiceClient,
    job_status::Phase, node_service_client::NodeServiceClient,
};
use tokio::runtime::Runtime;

const SOON: Duration = Duration::from_secs(60);

struct World {
    _etcd: Etcd,
    controllers: Controllers,
    client: Client,
    runtime: Runtime,
    _agents: Agents,
}

/// Agents of nodes with one GPU each, which know the addresses of all controllers.
fn agents(controllers: &Controllers, client: &Client, runtime: &Runtime, count: usize) -> Agents {
    let mut agents = Agents::of(&controllers.addresses(), &[]).unwrap();
    for n in 0..count {
        let token = v1::CreateJoinTokenRequest { node: Agents::name(n), lifetime: None };
        let token = runtime.block_on(NodeServiceClient::new(client.clone()).create_join_token(token));
        let token = token.unwrap().into_inner();
        let invitation = Invitation { token: token.token, pin: token.ca_pin };
        let has = Servers { gpus: 1, rails: 1, first: 18 };
        agents.join(binaries::directory().unwrap(), has, &invitation).unwrap();
    }
    agents
}

impl World {
    /// `None`, and a line that says so, where there is no etcd.
    fn start(controllers: usize, nodes: usize) -> Option<Self> {
        if Etcd::program().is_none() {
            println!("skipped: there is no etcd (cargo xtask test fetches Debian's where it is reached)");
            return None;
        }
        let etcd = Etcd::start(1, &[]).unwrap();
        let flags = ["--store", "etcd", "--etcd-endpoints", &etcd.endpoints(), "--heartbeat-limit", "60s"];
        let controllers = Controllers::start(controllers, &flags).unwrap();
        let runtime = Runtime::new().unwrap();
        let all: Vec<usize> = (0..controllers.count()).collect();
        let client = {
            let _inside = runtime.enter();
            controllers.client(&all, &ClientOptions::default()).unwrap()
        };
        let agents = agents(&controllers, &client, &runtime, nodes);
        let world = Self { _etcd: etcd, controllers, client, runtime, _agents: agents };
        eventually("nodes to be ready", SOON, || {
            (world.health().nodes_ready as usize == nodes).then_some(())
        })
        .unwrap();
        Some(world)
    }

    fn health(&self) -> v1::ClusterHealth {
        let call = |_| {
            let mut health = HealthServiceClient::new(self.client.clone());
            async move { health.get_health(v1::GetHealthRequest {}).await }
        };
        self.runtime
            .block_on(retry(&RetryPolicy::default(), &mut Jitter::seeded(1), call))
            .unwrap()
            .into_inner()
    }

    fn leader(&self) -> usize {
        let health = self.health();
        let pid = health.leader.rsplit(':').next().unwrap().parse().unwrap();
        self.controllers.with_pid(pid).unwrap()
    }

    fn submit(&self, name: &str, nodes: u32, argv: &[&str]) {
        let job = v1::Job {
            metadata: Some(v1::Metadata { name: name.to_owned(), ..Default::default() }),
            spec: Some(v1::JobSpec {
                gang: Some(v1::Gang { nodes, gpus_per_node: 1, ranks_per_node: 1, ..v1::Gang::default() }),
                work: Some(v1::job_spec::Work::Command(v1::Command {
                    argv: argv.iter().map(|word| (*word).to_owned()).collect(),
                    ..Default::default()
                })),
                ..Default::default()
            }),
            ..Default::default()
        };
        let request = v1::CreateJobRequest {
            job: Some(job),
            request_id: uuid::Uuid::new_v4().to_string(),
            on_behalf_of: "default".to_owned(),
            ..v1::CreateJobRequest::default()
        };
        let call = |_| {
            let (mut jobs, request) = (JobServiceClient::new(self.client.clone()), request.clone());
            async move { jobs.create_job(request).await }
        };
        self.runtime.block_on(retry(&RetryPolicy::default(), &mut Jitter::seeded(1), call)).unwrap();
    }

    fn job(&self, name: &str) -> v1::JobStatus {
        let request = v1::GetJobRequest { tenant: "default".to_owned(), name: name.to_owned() };
        let call = |_| {
            let (mut jobs, request) = (JobServiceClient::new(self.client.clone()), request.clone());
            async move { jobs.get_job(request).await }
        };
        let job =
            self.runtime.block_on(retry(&RetryPolicy::default(), &mut Jitter::seeded(1), call)).unwrap();
        job.into_inner().status.unwrap()
    }

    fn wait(&self, name: &str, phase: Phase) -> v1::JobStatus {
        let found = eventually(&format!("{name} to be {phase:?}"), SOON, || {
            Some(self.job(name)).filter(|status| status.phase() == phase)
        });
        found.unwrap_or_else(|error| {
            let logs: Vec<_> = (0..self.controllers.count()).map(|n| self.controllers.log(n)).collect();
            panic!("{error}; it is {:?}\n{}", self.job(name), logs.join("\n---\n"))
        })
    }

    fn ready_again(&self, nodes: u32) {
        eventually("agents to find the next leader", SOON, || {
            (self.health().nodes_ready == nodes).then_some(())
        })
        .unwrap();
    }
}

#[test]
fn jobs_outlive_leaders_that_die_and_leaders_that_hand_over() {
    let Some(mut world) = World::start(3, 2) else { return };
    // Ranks have a /tmp of their own where isolation can be had.
    let marks =
        tempfile::Builder::new().prefix("rail-marks-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let gate = marks.path().join("go");
    // Each rank says that it began, and ends when it is told to: one that is started twice begins twice.
    let script = format!(
        "echo $RANK >> {}/began; while [ ! -e {} ]; do sleep 0.05; done",
        marks.path().display(),
        gate.display()
    );
    world.submit("outlives", 2, &["/bin/sh", "-c", &script]);
    let before = world.wait("outlives", Phase::Running);
    let first = world.health().epoch;
    // One dies.
    let dead = world.leader();
    world.controllers.kill(dead);
    world.ready_again(2);
    assert!(world.health().epoch > first);
    assert_eq!(world.job("outlives").phase(), Phase::Running);
    world.controllers.restart(dead).unwrap();
    // The next one is told to end.
    let leaves = world.leader();
    let pid = world.controllers.pid(leaves).unwrap().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    eventually("another leader", SOON, || {
        (world.health().leader.rsplit(':').next() != Some(&pid)).then_some(())
    })
    .unwrap();
    world.ready_again(2);
    world.submit("next", 1, &["/bin/true"]);
    fs::write(&gate, "").unwrap();
    let after = world.wait("outlives", Phase::Completed);
    assert_eq!((before.attempt, after.attempt), (1, 1), "{after:?}");
    let mut began: Vec<_> =
        fs::read_to_string(marks.path().join("began")).unwrap().lines().map(str::to_owned).collect();
    began.sort();
    assert_eq!(began, ["0", "1"], "each rank once");
    world.wait("next", Phase::Completed);
}
