//! Lies of one node to a controller whose nodes are all made up: n0 is honest, each lie has a rogue of its own.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use integration_harness::Controllers;
use proto_rpc::Client;
use proto_wire::v1::{
    self, agent_message::Body, agent_service_client::AgentServiceClient, assignment::DesiredState,
    controller_message::Body as Order, observation::State,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{
    call::{self, must},
    people::{Person, Target},
    probes::ENDED,
    wire::SERVED,
};
use crate::{
    verdict::{Verdict, gave, held_if},
    world::{Part, World},
};

/// What a node says that is not so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Lie {
    NodeLostElsewhere,
    AttemptLostElsewhere,
    NodeLostHere,
    ScopeRail,
    ScopeLeaf,
    ScopeOfNobody,
    ForeignJobEnds,
    ForeignJobRuns,
    ForeignRanksExit,
    ForeignResult,
    LaterAttempt,
    RegisterAsOther,
    RegisterTwice,
    StaleFlood,
    StaleHighest,
    EpochHighest,
    BigInventory,
    InventoryStorm,
    RailAddressOfOther,
    RailAddressOdd,
    GidOfOther,
    EndpointOfOther,
    EndpointElsewhere,
    EndpointOtherRail,
    LogsUnknown,
    LogsOfOther,
    RenewAsOther,
    UnknownJobs,
    HeartbeatFlood,
    EscapesInReason,
    LongReason,
    StrangeCode,
    FirstIsHeartbeat,
    SilentStream,
}

/// How many rogues there are.
const ROGUES: u8 = Lie::SilentStream as u8 + 1;
/// The name of the node that reports the truth.
pub const HONEST: &str = "n0";
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest wait for a job to run that nothing keeps from it.
const RUNS: Duration = Duration::from_secs(60);

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn rogue(lie: Lie) -> String {
    format!("r{}", lie as u8)
}

/// A controller, its fabric, and the honest node.
pub struct Stage {
    _controllers: Controllers,
    /// How it is reached.
    pub place: Target,
    /// The administrator of its cluster.
    pub admin: Person,
    honest: Agent,
    honest_job: String,
}

impl Stage {
    /// Starts it with a job that runs on the honest node.
    ///
    /// # Errors
    /// The controller does not start, or the honest node's job does not come to run.
    pub async fn start() -> Result<Self, String> {
        // Attempts to learn of another tenant's job need one that goes ahead of it.
        let args = ["--log-level", "warn", "--user-priority", "100"];
        let controllers = tokio::task::spawn_blocking(move || Controllers::start(1, &args));
        let controllers = controllers.await.map_err(text)??;
        let folder = controllers.folder(0);
        let ca = std::fs::read_to_string(folder.join("ca.pem")).map_err(text)?;
        let place = Target { endpoint: controllers.addresses().parse().map_err(text)?, ca };
        let admin = place.of_files(&folder.join("admin"), "admin/admin")?;
        let honest = stand_in(&place, &admin.client).await?;
        let mut stage = Self { _controllers: controllers, place, admin, honest, honest_job: String::new() };
        stage.honest_job = stage.job("honest", &[HONEST]).await?;
        stage.runs("honest", RUNS).await?;
        Ok(stage)
    }

    fn client(&self) -> &Client {
        &self.admin.client
    }

    /// All nodes but these.
    pub fn all_but(&self, nodes: &[&str]) -> Vec<String> {
        let names = (0..ROGUES).map(|n| format!("r{n}")).chain([HONEST.to_owned()]);
        names.filter(|name| !nodes.contains(&name.as_str())).collect()
    }

    /// What the honest node was sent of why jobs stop; that is written into their logs.
    pub fn stop_reasons(&self) -> String {
        let orders = self.honest.orders();
        let reasons = orders.iter().filter_map(|order| match &order.body {
            Some(Order::Assignment(assignment)) if !assignment.stop_reason.is_empty() => {
                Some(assignment.stop_reason.clone())
            }
            _ => None,
        });
        reasons.collect::<Vec<_>>().join("\n")
    }

    /// Submits a job that may run on these nodes only; gives its uid.
    async fn job(&self, name: &str, nodes: &[&str]) -> Result<String, String> {
        let exclude = self.all_but(nodes);
        let job = json!({
            "metadata": {"name": name},
            "spec": {
                "gang": {"nodes": nodes.len(), "gpusPerNode": 1, "ranksPerNode": 1},
                "command": {"argv": ["/bin/true"]},
                "placement": {"exclude": exclude}, "rails": {"none": nodes.len() == 1},
            },
        });
        let body = json!({"job": job, "requestId": name});
        let made = must(self.client(), "rail.v1.JobService/CreateJob", body).await?;
        Ok(made["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
    }

    /// Cancels a job: one that no node will ever take must not stay in the queue, ahead of those of other attempts.
    async fn cancel(&self, name: &str) {
        let body = json!({"name": name, "tenant": "default", "gracePeriod": "0s"});
        // It may have ended.
        let _ = call::call(self.client(), "rail.v1.JobService/CancelJob", &body).await;
    }

    /// Ends a gang of the honest node and a liar, which has gone and does not confirm it: as an administrator does then.
    async fn dissolve(&self, gang: &str, liar: &str) {
        self.cancel(gang).await;
        let uid = self.node(liar).await.map(|node| node["metadata"]["uid"].clone()).unwrap_or_default();
        let body = json!({"name": liar, "force": true, "uid": uid});
        // It may have confirmed the end, and then still be connected.
        let _ = call::call(self.client(), "rail.v1.NodeService/DeleteNode", &body).await;
    }

    async fn job_now(&self, name: &str) -> Result<Value, String> {
        must(self.client(), "rail.v1.JobService/GetJob", json!({"name": name, "tenant": "default"})).await
    }

    /// Waits until a job runs.
    async fn runs(&self, name: &str, within: Duration) -> Result<Value, String> {
        let (begin, mut last) = (std::time::Instant::now(), self.job_now(name).await?);
        while last["status"]["phase"] != "RUNNING" {
            if begin.elapsed() > within {
                return Err(format!("job {name} does not run: {}; {}", last["status"], self.beside().await?));
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
            last = self.job_now(name).await?;
        }
        Ok(last)
    }

    /// The jobs that have not ended, with what is known of them.
    async fn beside(&self) -> Result<String, String> {
        let listed = must(self.client(), "rail.v1.JobService/ListJobs", json!({"tenant": "default"})).await?;
        let jobs = listed["jobs"].as_array().cloned().unwrap_or_default();
        let ended = |job: &&Value| ENDED.iter().any(|phase| job["status"]["phase"] == *phase);
        let words = |job: &Value| format!("{}: {}", job["metadata"]["name"], job["status"]);
        let beside: Vec<String> = jobs.iter().filter(|job| !ended(job)).map(words).collect();
        Ok(format!("not over: {}", beside.join("; ")))
    }

    async fn node(&self, name: &str) -> Result<Value, String> {
        must(self.client(), "rail.v1.NodeService/GetNode", json!({"name": name})).await
    }

    /// The honest node is in service, and its job runs.
    async fn unharmed(&self) -> Result<Verdict, String> {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let node = self.node(HONEST).await?;
        if !node["status"]["quarantined"].is_null() || node["status"]["phase"] != "READY" {
            return Ok(gave(format!(
                "the honest node: {} {}",
                node["status"]["phase"], node["status"]["quarantined"]
            )));
        }
        if node["status"]["strikes"].as_array().is_some_and(|strikes| !strikes.is_empty()) {
            return Ok(gave(format!("the honest node has strikes: {}", node["status"]["strikes"])));
        }
        let job = self.job_now("honest").await?;
        let phase = &job["status"]["phase"];
        Ok(held_if(phase == "RUNNING", || {
            format!("the job of the honest node is {phase}: {}", job["status"]["reasons"])
        }))
    }

    async fn rogue(&self, lie: Lie) -> Result<Agent, String> {
        let name = rogue(lie);
        let person = self.place.node(self.client(), &name).await?;
        Agent::connect(&person, register(&name, inventory(address(&name)))).await
    }
}

/// A fabric with the honest node, which joins and follows its desired state for as long as what is given here lives.
///
/// # Errors
/// The controller refused.
pub async fn stand_in(place: &Target, admin: &Client) -> Result<Agent, String> {
    must(admin, "rail.v1.FabricService/ApplyFabric", json!({"fabric": fabric()})).await?;
    let person = place.node(admin, HONEST).await?;
    Agent::connect(&person, register(HONEST, inventory(address(HONEST)))).await
}

/// The stream of a node's agent, of which a test writes every message.
pub struct Agent {
    say: mpsc::Sender<v1::AgentMessage>,
    heard: Arc<Mutex<Vec<v1::ControllerMessage>>>,
    ended: Arc<Mutex<Option<String>>>,
    client: Client,
}

impl Agent {
    /// Opens the stream with a first message, sends heartbeats, and reports that whatever is desired is so.
    async fn connect(person: &Person, first: Body) -> Result<Self, String> {
        let (say, said) = mpsc::channel::<v1::AgentMessage>(64);
        let heard = Arc::<Mutex<Vec<v1::ControllerMessage>>>::default();
        let ended = Arc::<Mutex<Option<String>>>::default();
        let me = person.who.trim_start_matches("node/").to_owned();
        let client = person.client.without_timeout();
        let mut agent = AgentServiceClient::new(client.clone());
        say.send(v1::AgentMessage { body: Some(first) }).await.map_err(text)?;
        let connected = tokio::time::timeout(PATIENCE, agent.connect(ReceiverStream::new(said))).await;
        let mut orders = connected
            .map_err(text)?
            .map_err(|status| proto_rpc::RpcError::from_status(&status).reason)?
            .into_inner();
        tokio::spawn({
            let (say, heard, ended) = (say.downgrade(), Arc::clone(&heard), Arc::clone(&ended));
            async move {
                let mut beat = tokio::time::interval(Duration::from_secs(1));
                loop {
                    tokio::select! {
                        _ = beat.tick() => {
                            let Some(say) = say.upgrade() else { return };
                            let _ = say.send(message(Body::Heartbeat(v1::Heartbeat::default()))).await;
                        }
                        order = orders.message() => match order {
                            Ok(Some(order)) => {
                                for answer in apply_command(&me, &order) {
                                    let Some(say) = say.upgrade() else { return };
                                    let _ = say.send(message(Body::Observation(answer))).await;
                                }
                                heard.lock().unwrap_or_else(PoisonError::into_inner).push(order);
                            }
                            other => {
                                let why = other.err().map(|status| proto_rpc::RpcError::from_status(&status));
                                let why = why.map_or("ended".to_owned(), |error| format!("{}: {}", error.reason, error.message));
                                *ended.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                                return;
                            }
                        },
                    }
                }
            }
        });
        Ok(Self { say, heard, ended, client })
    }

    async fn say(&self, body: Body) {
        // A stream that was ended for an earlier lie gets no more messages.
        let _ = tokio::time::timeout(PATIENCE, self.say.send(message(body))).await;
    }

    /// Why its stream has ended, if it has, some time from now.
    async fn end(&self) -> Option<String> {
        for _ in 0..80 {
            if let Some(why) = self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                return Some(why);
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        None
    }

    fn orders(&self) -> Vec<v1::ControllerMessage> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has a part of a job.
    async fn is_reported_of(&self, uid: &str) -> bool {
        let begin = std::time::Instant::now();
        while begin.elapsed() < PATIENCE * 2 {
            let reported = self.orders().into_iter().any(|order| match order.body {
                Some(Order::Assignment(assignment)) => assignment.job_uid == uid,
                _ => false,
            });
            if reported {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        false
    }

    /// Waits for the upload that it is asked for.
    async fn asked_for_logs(&self) -> Option<String> {
        for _ in 0..200 {
            let found = self.orders().into_iter().find_map(|order| match order.body {
                Some(Order::OpenLogs(open)) => Some(open.stream_id),
                _ => None,
            });
            if found.is_some() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        None
    }
}

fn message(body: Body) -> v1::AgentMessage {
    v1::AgentMessage { body: Some(body) }
}

fn apply_command(me: &str, order: &v1::ControllerMessage) -> Vec<v1::Observation> {
    let one = |assignment: &v1::Assignment| {
        let mut seen = v1::Observation {
            job_uid: assignment.job_uid.clone(),
            attempt: assignment.attempt,
            ..v1::Observation::default()
        };
        let state = match assignment.desired() {
            DesiredState::Prepared => State::Prepared,
            DesiredState::Running => State::Running,
            _ => State::Ended,
        };
        seen.set_state(state);
        let places = assignment.placement.iter().flat_map(|placement| &placement.nodes);
        let nics = places.flat_map(|place| place.nics.iter().map(|nic| nic.rail).collect::<Vec<_>>());
        if state == State::Prepared {
            let rails: std::collections::BTreeSet<u32> = nics.collect();
            seen.endpoints = rails
                .into_iter()
                .map(|rail| v1::RailEndpoint { rail, address: format!("{}:20001", address(me)) })
                .collect();
        }
        seen
    };
    match &order.body {
        Some(Order::Welcome(welcome)) => welcome.assignments.iter().map(one).collect(),
        Some(Order::Assignment(assignment)) => vec![one(assignment)],
        _ => Vec::new(),
    }
}

fn address(node: &str) -> String {
    let number: u8 = node.get(1..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
    let net = u8::from(node.starts_with('r'));
    format!("10.77.{net}.{}", number + 1)
}

fn fabric() -> Value {
    let names: Vec<String> = (0..ROGUES).map(|n| format!("r{n}")).chain([HONEST.to_owned()]).collect();
    let links: Vec<Value> =
        names.iter().map(|node| json!({"node": node, "nic": "rail0", "leaf": "leaf0"})).collect();
    json!({
        "apiVersion": "rail/v1", "kind": "Fabric", "metadata": {"name": "stage"},
        "spec": {"rails": [{"index": 0, "name": "rail0"}],
                 "leaves": [{"name": "leaf0", "rail": 0, "pod": "p0"}], "links": links},
    })
}

fn inventory(address: String) -> v1::Inventory {
    let nic = v1::Nic {
        device: "rail0".to_owned(),
        netdev: "rail0".to_owned(),
        address: address.clone(),
        mtu: 9000,
        speed_mbps: 10_000,
        up: true,
        gid_index: -1,
        ..v1::Nic::default()
    };
    let gpu = |index| v1::Gpu {
        index,
        uuid: format!("GPU-{address}-{index}"),
        model: "none".to_owned(),
        ..v1::Gpu::default()
    };
    let mut apart = v1::IsolationFeature { active: true, ..v1::IsolationFeature::default() };
    apart.set_kind(v1::isolation_feature::Kind::UidPerAttempt);
    v1::Inventory {
        gpus: (0..2).map(gpu).collect(),
        nics: vec![nic],
        numa_nodes: 1,
        cpus: 2,
        memory_bytes: 1 << 30,
        // It keeps tenants apart: else only one of them is ever on it.
        isolation: Some(v1::Isolation { features: vec![apart] }),
        ..v1::Inventory::default()
    }
}

fn register(node: &str, inventory: v1::Inventory) -> Body {
    Body::Register(v1::Register {
        node: node.to_owned(),
        agent_version: "0.1.0".to_owned(),
        inventory: Some(inventory),
        ..v1::Register::default()
    })
}

fn ended(uid: &str, code: &str, scope: &str, words: &str) -> Body {
    let cause = v1::Reason {
        code: code.to_owned(),
        message: words.to_owned(),
        count: 1,
        scope: scope.to_owned(),
        ..v1::Reason::default()
    };
    let mut seen = v1::Observation {
        job_uid: uid.to_owned(),
        attempt: 1,
        cause: Some(cause),
        ..v1::Observation::default()
    };
    seen.set_state(State::Ended);
    Body::Observation(seen)
}

/// Makes one attempt of a rogue node and judges it.
///
/// # Errors
/// What kept the attempt from being made, as text: a part that it needs did not start or did not answer.
pub async fn perform(world: &World, lie: Lie) -> Result<Verdict, String> {
    let stage = world.part(Part::Stage, Stage::start).await?;
    match lie {
        Lie::NodeLostElsewhere => blames(stage, lie, "NodeLost", "node/n0").await,
        Lie::AttemptLostElsewhere => blames(stage, lie, "AttemptLost", "node/n0").await,
        Lie::NodeLostHere => blames(stage, lie, "NodeLost", "").await,
        Lie::ScopeRail => blames(stage, lie, "RailDown", "rail/0").await,
        Lie::ScopeLeaf => blames(stage, lie, "RailDown", "leaf/leaf0").await,
        Lie::ScopeOfNobody => blames(stage, lie, "EngineLost", "node/../../n0").await,
        Lie::StrangeCode => blames(stage, lie, "NodeLost\n\u{202e}", "node/n0").await,
        Lie::ForeignJobEnds | Lie::ForeignJobRuns | Lie::LaterAttempt | Lie::ForeignResult => {
            of_a_foreign_job(stage, lie).await
        }
        Lie::ForeignRanksExit => foreign_ranks(stage, lie).await,
        Lie::EscapesInReason | Lie::LongReason => odd_reasons(stage, lie).await,
        Lie::RegisterAsOther => {
            let person = stage.place.node(stage.client(), &rogue(lie)).await?;
            let reported = Agent::connect(&person, register(HONEST, inventory(address(HONEST)))).await;
            Ok(held_if(reported.as_ref().is_err_and(|reason| reason == "FOREIGN_NODE"), || {
                format!("{:?}", reported.err())
            }))
        }
        Lie::RegisterTwice => {
            let agent = stage.rogue(lie).await?;
            agent.say(register(&rogue(lie), inventory(address("r1")))).await;
            let end = agent.end().await;
            Ok(held_if(end.as_deref().is_some_and(|why| why.contains("REGISTERED_TWICE")), || {
                format!("{end:?}")
            }))
        }
        Lie::FirstIsHeartbeat => {
            let person = stage.place.node(stage.client(), &rogue(lie)).await?;
            let reported = Agent::connect(&person, Body::Heartbeat(v1::Heartbeat::default())).await;
            Ok(held_if(reported.is_err(), || "let in".to_owned()))
        }
        Lie::SilentStream => silent(stage, lie).await,
        Lie::StaleFlood | Lie::StaleHighest | Lie::EpochHighest => epochs(stage, lie).await,
        Lie::BigInventory | Lie::InventoryStorm | Lie::HeartbeatFlood | Lie::UnknownJobs => {
            floods(stage, lie).await
        }
        Lie::RailAddressOfOther | Lie::RailAddressOdd | Lie::GidOfOther => claims(stage, lie).await,
        Lie::EndpointOfOther | Lie::EndpointElsewhere | Lie::EndpointOtherRail => endpoints(stage, lie).await,
        Lie::LogsUnknown | Lie::LogsOfOther => logs(stage, lie).await,
        Lie::RenewAsOther => renewed(stage, lie).await,
    }
}

/// Three jobs of its own fail by a cause that blames another.
async fn blames(stage: &Stage, lie: Lie, code: &str, scope: &str) -> Result<Verdict, String> {
    let agent = stage.rogue(lie).await?;
    for number in 0..3 {
        let name = format!("blame-{}-{number}", lie as u8);
        let Ok(uid) = stage.job(&name, &[&rogue(lie)]).await else { break };
        // Once it is found out nothing is placed there any more.
        if stage.runs(&name, Duration::from_secs(5)).await.is_err() {
            stage.cancel(&name).await;
            break;
        }
        agent.say(ended(&uid, code, scope, "so I say")).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let job = stage.job_now(&name).await?;
        stage.cancel(&name).await;
        if job["status"].to_string().contains(&format!("{HONEST}\""))
            && job["status"]["reasons"].to_string().contains("node/n0")
        {
            return Ok(gave(format!(
                "the job's reason blames the honest node: {}",
                job["status"]["reasons"]
            )));
        }
    }
    stage.unharmed().await
}

async fn of_a_foreign_job(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let agent = stage.rogue(lie).await?;
    let mut seen =
        v1::Observation { job_uid: stage.honest_job.clone(), attempt: 1, ..v1::Observation::default() };
    match lie {
        Lie::ForeignJobRuns => seen.set_state(State::Running),
        Lie::LaterAttempt => {
            seen.attempt = 7;
            seen.set_state(State::Ended);
        }
        Lie::ForeignResult => {
            seen.set_state(State::Running);
            seen.result = Some(v1::CollectiveResult { verified: true, ..v1::CollectiveResult::default() });
        }
        _ => {
            seen.set_state(State::Ended);
            seen.exits = vec![v1::RankExit { rank: 0, code: 9, ..v1::RankExit::default() }];
        }
    }
    agent.say(Body::Observation(seen)).await;
    let verdict = stage.unharmed().await?;
    let job = stage.job_now("honest").await?;
    let untouched =
        job["status"]["result"].is_null() && job["status"]["exits"].as_array().is_none_or(Vec::is_empty);
    Ok(if untouched {
        verdict
    } else {
        gave(format!("the job of the honest node took it: {}", job["status"]))
    })
}

/// In a gang of both, the rogue reports how the other's rank ended.
async fn foreign_ranks(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let agent = stage.rogue(lie).await?;
    let uid = stage.job("gang-ranks", &[HONEST, &rogue(lie)]).await?;
    let job = stage.runs("gang-ranks", RUNS).await;
    if job.is_err() {
        stage.dissolve("gang-ranks", &rogue(lie)).await;
    }
    let job = job?;
    let ranks = job["status"]["placement"]["ranks"].as_array().cloned().unwrap_or_default();
    let other =
        ranks.iter().find(|rank| rank["node"] == HONEST).and_then(|rank| rank["rank"].as_u64()).unwrap_or(0);
    let mut seen = v1::Observation { job_uid: uid, attempt: 1, ..v1::Observation::default() };
    seen.set_state(State::Running);
    let other = u32::try_from(other).unwrap_or(0);
    seen.exits = vec![v1::RankExit { rank: other, code: 66, ..v1::RankExit::default() }];
    agent.say(Body::Observation(seen)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let job = stage.job_now("gang-ranks").await?;
    let reported = job["status"]["exits"].to_string();
    stage.dissolve("gang-ranks", &rogue(lie)).await;
    Ok(held_if(!reported.contains("66"), || format!("it speaks for the other node's rank: {reported}")))
}

async fn odd_reasons(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let agent = stage.rogue(lie).await?;
    let name = format!("odd-{}", lie as u8);
    let uid = stage.job(&name, &[&rogue(lie)]).await?;
    if let Err(error) = stage.runs(&name, RUNS).await {
        stage.cancel(&name).await;
        return Err(error);
    }
    let words = if lie == Lie::LongReason {
        "x".repeat(500_000)
    } else {
        "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m".to_owned()
    };
    agent.say(ended(&uid, "EngineLost", "", &words)).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let job = stage.job_now(&name).await?;
    stage.cancel(&name).await;
    let reported = job["status"].to_string();
    // JSON writes them as escapes.
    let controls = ["\\u001b", "\\u0007", "\u{9b}", "\\u009b"].iter().any(|bad| reported.contains(bad));
    Ok(held_if(!controls && reported.len() < 20_000, || {
        format!("{} bytes of reasons, control characters: {controls}", reported.len())
    }))
}

async fn silent(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let person = stage.place.node(stage.client(), &rogue(lie)).await?;
    let (_say, said) = mpsc::channel::<v1::AgentMessage>(1);
    let mut agent = AgentServiceClient::new(person.client.without_timeout());
    let reported =
        tokio::time::timeout(Duration::from_secs(15), agent.connect(ReceiverStream::new(said))).await;
    Ok(held_if(matches!(reported, Ok(Err(_))), || {
        "a stream that never registers is open after 15 s".to_owned()
    }))
}

async fn epochs(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let name = rogue(lie);
    let agent = if lie == Lie::EpochHighest {
        let person = stage.place.node(stage.client(), &name).await?;
        let mut first = register(&name, inventory(address(&name)));
        if let Body::Register(register) = &mut first {
            register.epoch = u64::MAX;
        }
        match Agent::connect(&person, first).await {
            Ok(agent) => agent,
            Err(_) => return stage.unharmed().await,
        }
    } else {
        stage.rogue(lie).await?
    };
    let (count, current) = if lie == Lie::StaleFlood { (3_000, 2) } else { (3, u64::MAX) };
    for _ in 0..count {
        agent.say(Body::StaleEpoch(v1::StaleEpoch { refused: 1, current })).await;
    }
    let after = format!("after-{}", lie as u8);
    stage.job(&after, &[HONEST]).await?;
    let ran = stage.runs(&after, RUNS).await;
    stage.cancel(&after).await;
    match ran {
        Ok(_) => stage.unharmed().await,
        Err(error) => Ok(gave(format!("the controller does not lead any more: {error}"))),
    }
}

async fn floods(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let name = rogue(lie);
    let agent = stage.rogue(lie).await?;
    let begin = std::time::Instant::now();
    match lie {
        Lie::BigInventory => {
            let mut inventory = inventory(address(&name));
            inventory.findings = (0..2_000)
                .map(|n| v1::Reason {
                    code: format!("Odd{n}"),
                    message: "m".repeat(1_000),
                    ..v1::Reason::default()
                })
                .collect();
            agent.say(Body::Inventory(inventory)).await;
            let end = agent.end().await;
            let stored = stage.node(&name).await?.to_string().len();
            if end.is_none() && stored > 1 << 20 {
                return Ok(gave(format!("an inventory of {stored} bytes was stored")));
            }
        }
        Lie::InventoryStorm => {
            for number in 0..1_000 {
                let mut inventory = inventory(address(&name));
                inventory.memory_bytes = (1 << 30) + number;
                agent.say(Body::Inventory(inventory)).await;
            }
        }
        Lie::HeartbeatFlood => {
            for _ in 0..10_000 {
                agent.say(Body::Heartbeat(v1::Heartbeat::default())).await;
            }
        }
        _ => {
            for _ in 0..2_000 {
                agent.say(ended(&uuid::Uuid::new_v4().to_string(), "EngineLost", "", "of no job")).await;
            }
        }
    }
    let asked = std::time::Instant::now();
    must(stage.client(), "rail.v1.HealthService/GetHealth", json!({})).await?;
    let waited = asked.elapsed();
    if waited > SERVED {
        return Ok(gave(format!("the administrator waited {waited:?}, {:?} into it", begin.elapsed())));
    }
    stage.unharmed().await
}

/// Addresses and GUIDs that are not its own.
async fn claims(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let name = rogue(lie);
    let person = stage.place.node(stage.client(), &name).await?;
    let mut claimed = inventory(address(&name));
    match lie {
        Lie::RailAddressOfOther => claimed.nics[0].address = address(HONEST),
        Lie::RailAddressOdd => claimed.nics[0].address = "224.0.0.1".to_owned(),
        _ => {
            claimed = inventory(address(&name));
            claimed.nics[0].address = format!("::ffff:{}", address(HONEST));
        }
    }
    let wrong = claimed.nics[0].address.clone();
    let Ok(_agent) = Agent::connect(&person, register(&name, claimed)).await else {
        return stage.unharmed().await;
    };
    tokio::time::sleep(Duration::from_millis(200)).await;
    let node = stage.node(&name).await?;
    let used = node["status"]["inventory"]["nics"][0]["address"] == wrong.as_str();
    let quarantined = node["status"]["quarantine"].as_array().is_some_and(|evidence| !evidence.is_empty());
    let out = quarantined || !node["status"]["quarantined"].is_null();
    if used && !out {
        return Ok(gave(format!("node {name} is in service with the address {wrong}")));
    }
    stage.unharmed().await
}

/// Where its engine listens, it says, is somewhere else; the honest node of the gang must not be sent there.
async fn endpoints(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let name = rogue(lie);
    let agent = stage.rogue(lie).await?;
    let (rail, place) = match lie {
        Lie::EndpointOfOther => (0, format!("{}:22", address(HONEST))),
        Lie::EndpointElsewhere => (0, "192.0.2.77:443".to_owned()),
        _ => (5, "10.77.1.99:20001".to_owned()),
    };
    let gang = format!("gang-{}", lie as u8);
    let uid = stage.job(&gang, &[HONEST, &name]).await?;
    if !stage.honest.is_reported_of(&uid).await {
        let job = stage.job_now(&gang).await?;
        stage.dissolve(&gang, &name).await;
        return Err(format!("the gang of both was not placed: {}; {}", job["status"], stage.beside().await?));
    }
    for _ in 0..20 {
        let mut seen = v1::Observation { job_uid: uid.clone(), attempt: 1, ..v1::Observation::default() };
        seen.set_state(State::Prepared);
        seen.endpoints = vec![v1::RailEndpoint { rail, address: place.clone() }];
        agent.say(Body::Observation(seen)).await;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let orders = stage.honest.orders();
    let reported = orders.iter().any(|order| match &order.body {
        Some(Order::Assignment(assignment)) => {
            assignment.peers.iter().flat_map(|peer| &peer.endpoints).any(|endpoint| endpoint.address == place)
        }
        _ => false,
    });
    stage.dissolve(&gang, &name).await;
    Ok(held_if(!reported, || format!("the honest node's engine is sent to {place}, rail {rail}")))
}

async fn logs(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let agent = stage.rogue(lie).await?;
    let client = stage.client().clone();
    let reader = tokio::spawn(async move {
        let body = json!({"name": "honest", "tenant": "default", "follow": true});
        call::call(&client, "rail.v1.JobService/StreamLogs", &body).await
    });
    let id = if lie == Lie::LogsOfOther { stage.honest.asked_for_logs().await } else { None };
    let id = id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
    let chunk = v1::LogChunk { rank: 0, data: b"forged line".to_vec(), ..v1::LogChunk::default() };
    let upload = v1::UploadLogsRequest { stream_id: id, chunk: Some(chunk) };
    let stream = tokio_stream::iter([upload]);
    let reported = AgentServiceClient::new(agent.client.clone()).upload_logs(stream).await;
    let read = reader.await.map_err(text)??;
    if read.text().contains("forged line") {
        return Ok(gave("the reader was shown a line of the rogue"));
    }
    // The head of an upload goes out before its end; who waits for nothing gets that answer there.
    let refused = reported.err().map(|status| proto_rpc::RpcError::from_status(&status).reason);
    Ok(held_if(refused.as_deref() == Some("NO_SUCH_STREAM"), || format!("{refused:?}")))
}

/// A request for another name buys one for its own.
async fn renewed(stage: &Stage, lie: Lie) -> Result<Verdict, String> {
    let name = rogue(lie);
    let person = stage.place.node(stage.client(), &name).await?;
    let agent = Agent::connect(&person, register(&name, inventory(address(&name)))).await?;
    let key = proto_rpc::KeyRequest::generate().map_err(text)?;
    let body = json!({"csrPem": key.csr_pem});
    let given = must(&agent.client, "rail.v1.AgentService/RenewCertificate", body).await?;
    let chain = given["certificatePem"].as_str().unwrap_or_default();
    let renewed = stage.place.with(chain, &key.key_pem, &format!("node/{name}"))?;
    let reported = Agent::connect(&renewed, register(HONEST, inventory(address(HONEST)))).await;
    Ok(held_if(reported.as_ref().is_err_and(|reason| reason == "FOREIGN_NODE"), || {
        format!("{:?}", reported.err())
    }))
}
