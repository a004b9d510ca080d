//! An agent as far as the controller can see: registers, beats, obeys.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use proto_rpc::Client;
use proto_wire::v1::{
    self, agent_message::Body, agent_service_client::AgentServiceClient, assignment::DesiredState,
    controller_message::Body as Order, observation::State,
};
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::ReceiverStream;

/// What the agent's jobs do once they run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// End at once, well.
    Complete,
    /// Run until they are stopped.
    Linger,
}

/// A connected agent; dropping it ends its stream.
pub struct FakeAgent {
    task: JoinHandle<()>,
    say: mpsc::Sender<v1::AgentMessage>,
    /// Every wish that came: job uid, attempt, wish.
    pub desired: Arc<Mutex<Vec<(String, u32, i32)>>>,
    pub epoch: Arc<Mutex<u64>>,
    /// Rails that it was told are drained.
    pub drained: Arc<Mutex<Vec<u32>>>,
}

impl Drop for FakeAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn inventory(rails: u32, gpus: u32) -> v1::Inventory {
    let nic = |rail: u32| v1::Nic {
        device: format!("rail{rail}"),
        netdev: format!("rail{rail}"),
        rail,
        address: format!("127.0.{rail}.1"),
        mtu: 9000,
        speed_mbps: 10_000,
        up: true,
        gid_index: -1,
        ..v1::Nic::default()
    };
    let gpu = |index: u32| v1::Gpu { index, model: "test GPU".into(), ..v1::Gpu::default() };
    v1::Inventory {
        gpus: (0..gpus).map(gpu).collect(),
        nics: (0..rails).map(nic).collect(),
        numa_nodes: 1,
        cpus: 8,
        memory_bytes: 1 << 30,
        ..v1::Inventory::default()
    }
}

impl FakeAgent {
    /// Connects, registers, and has got its Welcome when this returns.
    pub async fn connect(client: Client, node: &str, behaviour: Behaviour) -> Self {
        Self::connect_with(client, node, behaviour, Vec::new()).await
    }

    pub async fn connect_with(
        client: Client,
        node: &str,
        behaviour: Behaviour,
        observations: Vec<v1::Observation>,
    ) -> Self {
        let (say, said) = mpsc::channel(256);
        let register = v1::Register {
            node: node.to_owned(),
            agent_version: "test".to_owned(),
            inventory: Some(inventory(4, 4)),
            observations,
            epoch: 0,
        };
        say.send(message(Body::Register(register))).await.unwrap();
        let mut agents = AgentServiceClient::new(client.without_timeout());
        let mut orders = agents.connect(ReceiverStream::new(said)).await.unwrap().into_inner();
        let first = orders.message().await.unwrap().unwrap();
        let desired = Arc::default();
        let epoch = Arc::new(Mutex::new(first.epoch));
        let Some(Order::Welcome(welcome)) = first.body else { panic!("no Welcome: {first:?}") };
        let drained = Arc::new(Mutex::new(welcome.drained.clone().unwrap_or_default().rails));
        let mut body = AgentBody {
            drained: Arc::clone(&drained),
            running: Vec::new(),
            node: node.to_owned(),
            behaviour,
            say: say.clone(),
            desired: Arc::clone(&desired),
            agents,
        };
        let task = tokio::spawn(async move {
            for assignment in welcome.assignments {
                body.apply_command(assignment).await;
            }
            let mut beat = tokio::time::interval(Duration::from_millis(200));
            loop {
                tokio::select! {
                    _ = beat.tick() => body.observe(Body::Heartbeat(v1::Heartbeat::default())).await,
                    order = orders.message() => match order {
                        Ok(Some(v1::ControllerMessage { body: Some(order), .. })) => body.order(order).await,
                        _ => return,
                    }
                }
            }
        });
        Self { task, say, desired, epoch, drained }
    }

    pub async fn say(&self, body: Body) {
        self.say.send(message(body)).await.unwrap();
    }
}

fn message(body: Body) -> v1::AgentMessage {
    v1::AgentMessage { body: Some(body) }
}

/// A step whose one process says hello, repeats what it is given, and ends by a signal.
async fn step(mut agents: AgentServiceClient<Client>, node: String, ask: v1::OpenStep) {
    use v1::{attach_step_response::Body as Down, step_event::What, step_input::What as Input};
    let (say, receiver) = mpsc::channel(4);
    let first = v1::AttachStepRequest { stream_id: ask.stream_id, event: None };
    say.send(first).await.unwrap();
    let Ok(answer) = agents.attach_step(ReceiverStream::new(receiver)).await else { return };
    let mut down = answer.into_inner();
    let Ok(Some(v1::AttachStepResponse { body: Some(Down::Order(order)) })) = down.message().await else {
        return;
    };
    let rank = order.first_rank;
    let notify = |what: What| {
        // The controller is to put the right name there.
        let event = v1::StepEvent { node: "somebody".into(), rank, what: Some(what) };
        let (say, message) =
            (say.clone(), v1::AttachStepRequest { stream_id: String::new(), event: Some(event) });
        async move { say.send(message).await }
    };
    let _ = notify(What::Started(v1::StepStarted { ranks: order.ranks_here })).await;
    let _ = notify(What::Stdout(format!("hello from {node}").into_bytes())).await;
    let exit = loop {
        let Ok(Some(v1::AttachStepResponse { body: Some(Down::Input(input)) })) = down.message().await else {
            return;
        };
        match input.what {
            Some(Input::Data(data)) if data == b"break" => return,
            Some(Input::Data(data)) => drop(notify(What::Stderr(data)).await),
            Some(Input::Signal(signal)) => {
                break v1::StepExit { signal: i32::try_from(signal).unwrap(), ..Default::default() };
            }
            Some(Input::End(_)) => break v1::StepExit { signal: 15, ..Default::default() },
            _ => {}
        }
    };
    let _ = notify(What::Exit(exit)).await;
    drop(say);
    while let Ok(Some(_)) = down.message().await {}
}

struct AgentBody {
    node: String,
    behaviour: Behaviour,
    say: mpsc::Sender<v1::AgentMessage>,
    desired: Arc<Mutex<Vec<(String, u32, i32)>>>,
    drained: Arc<Mutex<Vec<u32>>>,
    running: Vec<v1::Observation>,
    agents: AgentServiceClient<Client>,
}

impl AgentBody {
    async fn observe(&self, body: Body) {
        let _ = self.say.send(message(body)).await;
    }

    /// Four rails, each as it is desired.
    fn reports(&self) -> Vec<v1::RailReport> {
        use v1::rail_report::State::{Drained, Up};
        let drained = self.drained.lock().unwrap().clone();
        let state = |rail| if drained.contains(&rail) { Drained } else { Up };
        let report = |rail| v1::RailReport {
            rail,
            state: state(rail).into(),
            peers: 1,
            peers_up: 1,
            ..Default::default()
        };
        (0..4).map(report).collect()
    }

    async fn order(&mut self, order: Order) {
        match order {
            Order::Assignment(assignment) => self.apply_command(assignment).await,
            Order::OpenLogs(ask) => {
                let chunk = |rank: u32, text: &str| v1::LogChunk {
                    rank,
                    stream: v1::log_chunk::Stream::Stdout.into(),
                    data: text.as_bytes().to_vec(),
                    time: None,
                };
                let line = format!("hello from {}\n", self.node);
                let ranks: Vec<u32> = if ask.ranks.is_empty() { vec![0] } else { ask.ranks.clone() };
                let uploads: Vec<_> = ranks
                    .into_iter()
                    .map(|rank| v1::UploadLogsRequest {
                        stream_id: ask.stream_id.clone(),
                        chunk: Some(chunk(rank, &line)),
                    })
                    .collect();
                let _ = self.agents.upload_logs(tokio_stream::iter(uploads)).await;
            }
            Order::OpenStep(ask) => drop(tokio::spawn(step(self.agents.clone(), self.node.clone(), ask))),
            Order::Drained(drained) => {
                *self.drained.lock().unwrap() = drained.rails;
                for base in self.running.clone() {
                    let seen = v1::Observation { rail_reports: self.reports(), ..base };
                    self.observe(Body::Observation(seen)).await;
                }
            }
            Order::Welcome(_) | Order::Forget(_) | Order::Authority(_) => {}
        }
    }

    async fn apply_command(&mut self, assignment: v1::Assignment) {
        let entry = (assignment.job_uid.clone(), assignment.attempt, assignment.desired);
        self.desired.lock().unwrap().push(entry);
        let base = v1::Observation {
            job_uid: assignment.job_uid.clone(),
            attempt: assignment.attempt,
            ..v1::Observation::default()
        };
        let mine = |assignment: &v1::Assignment| -> BTreeMap<u32, ()> {
            let placement = assignment.placement.clone().unwrap_or_default();
            placement.ranks.iter().filter(|rank| rank.node == self.node).map(|rank| (rank.rank, ())).collect()
        };
        match assignment.desired() {
            DesiredState::Prepared => {
                let rails = assignment.placement.clone().unwrap_or_default().rails;
                let endpoint =
                    |rail| v1::RailEndpoint { rail, address: format!("127.0.0.1:{}", 40_000 + rail) };
                let endpoints = rails.into_iter().map(endpoint).collect();
                let state = State::Prepared.into();
                self.observe(Body::Observation(v1::Observation { state, endpoints, ..base })).await;
            }
            DesiredState::Running => {
                let running = v1::Observation { state: State::Running.into(), ..base.clone() };
                let seen = v1::Observation { rail_reports: self.reports(), ..running.clone() };
                self.observe(Body::Observation(seen)).await;
                self.running.push(running);
                if self.behaviour == Behaviour::Complete {
                    let exit = |rank| v1::RankExit {
                        rank,
                        time: Some(prost_types::Timestamp::default()),
                        ..v1::RankExit::default()
                    };
                    let exits = mine(&assignment).into_keys().map(exit).collect();
                    let state = State::Ended.into();
                    self.observe(Body::Observation(v1::Observation { state, exits, ..base })).await;
                }
            }
            DesiredState::Stopped => {
                let state = State::Ended.into();
                self.observe(Body::Observation(v1::Observation { state, ..base })).await;
            }
            DesiredState::Unspecified => panic!("desired state without kind"),
        }
    }
}
