//! Steps: carried between their caller and the agents of the job, and ended with either.

use proto_rpc::{Client, ErrorClass, RpcError};
use proto_wire::v1::{
    self, audit_record::Content, audit_service_client::AuditServiceClient,
    job_service_client::JobServiceClient, run_step_request::Body, step_event::What, step_input,
    step_service_client::StepServiceClient,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    agent::{Behaviour, FakeAgent},
    jobs::{create, job, until_it},
    world::World,
};

struct Step {
    say: mpsc::Sender<v1::RunStepRequest>,
    events: tonic::Streaming<v1::StepEvent>,
}

fn start(job: &str) -> v1::StepStart {
    let argv = vec!["psql".to_owned(), "secret".to_owned()];
    v1::StepStart { job: job.into(), argv, stdin: true, ..Default::default() }
}

impl Step {
    async fn begin(client: &Client, start: v1::StepStart) -> Result<Self, RpcError> {
        let (say, receiver) = mpsc::channel(8);
        say.send(v1::RunStepRequest { body: Some(Body::Start(start)) }).await.unwrap();
        let answer = StepServiceClient::new(client.clone()).run_step(ReceiverStream::new(receiver)).await;
        let events = answer.map_err(|status| RpcError::from_status(&status))?.into_inner();
        Ok(Self { say, events })
    }

    async fn give(&self, what: step_input::What) {
        let input = v1::StepInput { what: Some(what) };
        self.say.send(v1::RunStepRequest { body: Some(Body::Input(input)) }).await.unwrap();
    }

    async fn next(&mut self) -> Option<(String, What)> {
        let event = self.events.message().await.unwrap()?;
        Some((event.node, event.what.unwrap()))
    }

    /// The next of each of two servers, by their names.
    async fn both(&mut self) -> [(String, What); 2] {
        let mut both = [self.next().await.unwrap(), self.next().await.unwrap()];
        both.sort_by(|a, b| a.0.cmp(&b.0));
        both
    }
}

async fn refused(client: &Client, start: v1::StepStart) -> RpcError {
    Step::begin(client, start).await.err().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_carried_to_all_its_servers_and_back() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(dir.path()).await;
    let _a = FakeAgent::connect(world.node("n0").await, "n0", Behaviour::Linger).await;
    let b = FakeAgent::connect(world.node("n1").await, "n1", Behaviour::Linger).await;
    let client = world.user("default");
    let mut jobs = JobServiceClient::new(client.clone());
    jobs.create_job(create(job("runs", 2))).await.unwrap();
    until_it(&client, "runs", |job| job.status.as_ref().unwrap().start_time.is_some()).await;
    jobs.create_job(create(job("waits", 2))).await.unwrap();
    let error = refused(&client, start("waits")).await;
    assert_eq!(error.reason, "NOT_RUNNING", "{error:?}");
    let elsewhere = v1::StepStart { nodes: vec!["n9".into()], ..start("runs") };
    let error = refused(&client, elsewhere).await;
    assert!(error.message.contains("n0, n1"), "{error:?}");
    let empty = v1::StepStart { argv: Vec::new(), ..start("runs") };
    assert_eq!(refused(&client, empty).await.class, ErrorClass::Invalid);

    let mut step = Step::begin(&client, start("runs")).await.unwrap();
    let began = v1::StepStarted { ranks: 1 };
    let exit = |signal| What::Exit(v1::StepExit { code: 0, signal });
    let mut seen: Vec<(String, What)> = Vec::new();
    for _ in 0..4 {
        seen.push(step.next().await.unwrap());
    }
    for node in ["n0", "n1"] {
        let of: Vec<What> =
            seen.iter().filter(|(from, _)| from == node).map(|(_, what)| what.clone()).collect();
        assert_eq!(of, [What::Started(began), What::Stdout(format!("hello from {node}").into_bytes())]);
    }
    step.give(step_input::What::Data(b"input".to_vec())).await;
    let first = step.next().await.unwrap();
    assert_eq!(first, ("n0".to_owned(), What::Stderr(b"input".to_vec())), "of the first alone");
    step.give(step_input::What::Signal(2)).await;
    assert_eq!(step.both().await, ["n0", "n1"].map(|node| (node.to_owned(), exit(2))));
    assert_eq!(step.next().await, None);

    // A caller that says nothing more ends its step.
    let one = v1::StepStart { one: true, ..start("runs") };
    let mut step = Step::begin(&client, one.clone()).await.unwrap();
    step.next().await.unwrap();
    let Step { say, mut events } = step;
    drop(say);
    let mut last = None;
    while let Some(event) = events.message().await.unwrap() {
        last = event.what;
    }
    assert_eq!(last, Some(exit(15)));

    // An agent that breaks off.
    let mut step = Step::begin(&client, one.clone()).await.unwrap();
    step.give(step_input::What::Data(b"break".to_vec())).await;
    let mut all = Vec::new();
    while let Some((_, what)) = step.next().await {
        all.push(what);
    }
    assert!(matches!(all.last(), Some(What::Failure(_))), "{all:?}");

    // What breaks the rules ends it.
    let mut step = Step::begin(&client, one).await.unwrap();
    step.give(step_input::What::Signal(99)).await;
    let error = loop {
        match step.events.message().await {
            Ok(Some(_)) => {}
            Ok(None) => panic!("it ended without a reason"),
            Err(status) => break RpcError::from_status(&status),
        }
    };
    assert_eq!(error.class, ErrorClass::Invalid);

    drop(b);
    let gone = tokio::time::timeout(crate::jobs::PATIENCE, async {
        while world.handle.sessions().is_connected(&"n1".parse().unwrap()) {
            tokio::task::yield_now().await;
        }
    });
    gone.await.unwrap();
    assert_eq!(refused(&client, start("runs")).await.reason, "AGENT_NOT_CONNECTED");
    records(&world).await;
}

/// Who ran what where, and none of its arguments; what was refused has left nothing.
async fn records(world: &World) {
    let request = v1::ListAuditRecordsRequest { page_size: 500, ..Default::default() };
    let listed =
        AuditServiceClient::new(world.admin()).list_audit_records(request).await.unwrap().into_inner();
    let steps: Vec<String> = listed
        .records
        .into_iter()
        .filter_map(|record| match record.content {
            Some(Content::Change(change)) => Some(change),
            _ => None,
        })
        .filter(|change| change.kind == "step")
        .map(|change| format!("{}/{}", change.tenant, change.name))
        .collect();
    assert_eq!(steps, ["default/runs: psql"; 4]);
}
