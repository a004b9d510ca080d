//! A small world around the core: two tenants, four nodes, a store in memory; and the tests by subject.

mod agents;
mod arrays;
mod audit;
mod blame;
mod certify;
mod claims;
mod classes;
mod components;
mod deadlines;
mod documents;
mod drains;
mod dry_run;
mod elastic;
mod explained;
mod fabric;
mod figures;
mod floor_plan;
mod foreign;
mod holds;
mod hosts;
mod isolation;
mod jobs;
mod kept;
mod licenses;
mod map;
mod owners;
mod priorities;
mod prove;
mod qos;
mod random;
mod refusals;
mod renamed;
mod repair;
mod schedules;
mod standing;
mod suspensions;
mod switch_rollout;
mod switches;
mod tenants;
mod undelete;
mod usage;
mod values;
mod webhooks;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use proto_model::{
    Authority, CommandSpec, DesiredState, FailurePolicy, Gang, Gpu, Inventory, Job, JobId, JobName, JobSpec,
    JobUid, Nic, NodeName, Observation, Observed, Phase, Quota, RailEndpoint, RailRequest, RankExit,
    RequestId, Requeue, Role, TenantName, Timestamp, Work,
};

use crate::{
    Config, CoreError, Event, Naming, Output, Register, Reply, State, Stored, Submit, ToNode, Write,
    event::Key, step,
};

pub(crate) fn name(n: usize) -> NodeName {
    NodeName::new(format!("n{n}")).unwrap()
}

pub(crate) fn tenant(text: &str) -> TenantName {
    TenantName::new(text).unwrap()
}

pub(crate) fn id(text: &str) -> JobId {
    JobId { tenant: tenant("red"), name: JobName::new(text).unwrap() }
}

pub(crate) fn inventory(gpus: u32, rails: u32) -> Inventory {
    let gpu = |index| Gpu {
        index,
        uuid: String::new(),
        model: String::new(),
        pci_address: String::new(),
        numa_node: None,
        memory_bytes: 0,
        facts: None,
    };
    let nic = |rail| Nic {
        device: format!("rail{rail}"),
        netdev: format!("rail{rail}"),
        pci_address: String::new(),
        numa_node: None,
        rail,
        address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        mtu: 0,
        speed_mbps: 0,
        up: true,
        gid_index: None,
        facts: None,
    };
    Inventory {
        gpus: (0..gpus).map(gpu).collect(),
        nics: (0..rails).map(nic).collect(),
        isolation: proto_model::Isolation::with(proto_model::IsolationSet::ALL),
        ..Inventory::default()
    }
}

pub(crate) fn spec(nodes: u32, gpus: u32) -> JobSpec {
    let work = Work::Command(CommandSpec {
        argv: vec!["x".into()],
        env: BTreeMap::new(),
        env_from: Vec::new(),
        working_dir: String::new(),
    });
    JobSpec::new(Gang::new(nodes, gpus, 1), work)
}

pub(crate) fn requeue(spec: JobSpec, requeue: Requeue, max_restarts: u32) -> JobSpec {
    JobSpec { failure: FailurePolicy::new(requeue, max_restarts), ..spec }
}

/// The core, its store, and what each node was told last.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) now: Timestamp,
    pub(crate) stored: BTreeMap<Key, Write>,
    pub(crate) desired: BTreeMap<(NodeName, JobUid), (u32, DesiredState)>,
    pub(crate) forgotten: BTreeSet<(NodeName, JobUid, u32)>,
    pub(crate) drained: BTreeMap<NodeName, BTreeSet<u32>>,
    pub(crate) qos: BTreeMap<NodeName, Option<Arc<proto_model::DesiredQos>>>,
    pub(crate) proofs: BTreeMap<NodeName, Vec<proto_model::RailProof>>,
    pub(crate) session: u64,
    revision: u64,
    random: u64,
}

/// What is audited is asked for by somebody.
pub(crate) fn attributed(state: &State, event: Event) -> Event {
    let actor =
        Arc::new(proto_audit::Actor { who: "admin/root".to_owned(), ..proto_audit::Actor::default() });
    let named = matches!(event, Event::Attributed(_));
    if !named && crate::audit::concerned(state, &event).is_some() { event.by(&actor) } else { event }
}

/// A weak but seeded stream of bytes.
pub(crate) fn fill(random: &mut u64, buffer: &mut [u8]) {
    for byte in buffer {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (*random >> 56) as u8;
    }
}

impl World {
    /// Tenants `red` (quota 16) and `blue` (quota 4), four nodes of four GPUs and two rails, connected.
    pub(crate) fn new() -> Self {
        let config = Config::default();
        let state = State::load(config, 7, Timestamp(1_000_000), Stored::default()).unwrap();
        let mut world = Self {
            state,
            now: Timestamp(1_000_000),
            stored: BTreeMap::new(),
            desired: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            drained: BTreeMap::new(),
            proofs: BTreeMap::new(),
            qos: BTreeMap::new(),
            session: 0,
            revision: 0,
            random: 1,
        };
        for (text, gpus) in [("red", 16), ("blue", 4)] {
            let quota = Quota::new(gpus, 0);
            world.ok(Event::ApplyTenant {
                name: tenant(text),
                description: String::new(),
                quota,
                isolation: proto_model::IsolationPolicy::BestEffort,
                dry_run: false,
            });
        }
        for n in 0..4 {
            let hash = [n as u8; 32];
            world.ok(Event::CreateToken { node: name(n), hash, lifetime: None });
            world.ok(Event::Join { node: name(n), hash, csr: [9; 32] });
            world.connect(n, Vec::new());
        }
        world
    }

    pub(crate) fn step(&mut self, event: Event) -> Output {
        let event = attributed(&self.state, event);
        let random = &mut self.random;
        let out = step(&mut self.state, event, self.now, &mut |buffer| fill(random, buffer));
        self.revision += 1;
        for write in &out.writes {
            if write.is_delete() {
                self.stored.remove(&write.key());
            } else {
                self.stored.insert(write.key(), write.clone());
            }
        }
        let keys: BTreeSet<Key> = out.writes.iter().map(Write::key).collect();
        assert_eq!(keys.len(), out.writes.len(), "a key twice in one step");
        self.state.commit(self.revision);
        for push in &out.pushes {
            // A connection may be closed in the step that has used it.
            let close = out
                .pushes
                .iter()
                .any(|other| other.session == push.session && matches!(other.message, ToNode::Close { .. }));
            assert!(push.epoch == 7 && (close || Some(push.session) == self.state.session(&push.node)));
            let mut take = |assignment: &proto_model::Assignment| {
                let desired = (assignment.attempt, assignment.desired.clone());
                self.desired.insert((push.node.clone(), assignment.uid), desired);
            };
            match &push.message {
                ToNode::Welcome { assignments, drained, qos, proofs, .. } => {
                    assignments.iter().for_each(take);
                    self.drained.insert(push.node.clone(), drained.clone());
                    self.proofs.insert(push.node.clone(), proofs.clone());
                    self.qos.insert(push.node.clone(), qos.clone());
                }
                ToNode::Drained { rails, qos, proofs } => {
                    self.drained.insert(push.node.clone(), rails.clone());
                    self.proofs.insert(push.node.clone(), proofs.clone());
                    self.qos.insert(push.node.clone(), qos.clone());
                }
                ToNode::Assignment(assignment) => take(assignment),
                ToNode::Forget { uid, attempt } => {
                    self.forgotten.insert((push.node.clone(), *uid, *attempt));
                    self.desired.remove(&(push.node.clone(), *uid));
                }
                ToNode::Close { .. } => {}
            }
        }
        out
    }

    pub(crate) fn ok(&mut self, event: Event) -> Reply {
        self.step(event).reply.unwrap().unwrap()
    }

    pub(crate) fn refused(&mut self, event: Event) -> CoreError {
        let out = self.step(event);
        assert!(out.writes.is_empty() && out.pushes.is_empty() && out.transitions.is_empty());
        out.reply.unwrap().unwrap_err()
    }

    pub(crate) fn connect(&mut self, n: usize, observations: Vec<Observation>) {
        self.session += 1;
        let register = Register {
            node: name(n),
            session: self.session,
            agent_version: "1".into(),
            inventory: Arc::new(inventory(4, 2)),
            observations,
            epoch: 7,
        };
        self.ok(Event::AgentConnected(Box::new(register)));
    }

    pub(crate) fn disconnect(&mut self, n: usize) {
        let session = self.state.session(&name(n)).unwrap();
        self.step(Event::AgentDisconnected { node: name(n), session });
    }

    pub(crate) fn submit(&mut self, text: &str, spec: JobSpec) -> Arc<Job> {
        match self.ok(submit(text, spec)) {
            Reply::Job { job, .. } => job,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn job(&self, text: &str) -> &Job {
        self.state.job(&id(text)).unwrap()
    }

    pub(crate) fn phase(&self, text: &str) -> Phase {
        self.job(text).status.phase
    }

    pub(crate) fn codes(&self, text: &str) -> Vec<String> {
        self.job(text).status.reasons.iter().map(|reason| reason.code.to_string()).collect()
    }

    pub(crate) fn nodes(&self, text: &str) -> Vec<usize> {
        let placement = self.job(text).status.placement.as_ref().unwrap();
        placement.nodes.iter().map(|place| place.node.as_str()[1..].parse().unwrap()).collect()
    }

    pub(crate) fn seen(&self, text: &str, n: usize, state: Observed) -> Observation {
        let job = self.job(text);
        let address = SocketAddr::from(([127, 0, 0, 1], 4000 + n as u16));
        let endpoints =
            if state >= Observed::Prepared { vec![RailEndpoint { rail: 0, address }] } else { Vec::new() };
        Observation {
            uid: job.uid,
            attempt: job.status.attempt,
            state,
            endpoints,
            exits: Vec::new(),
            cause: None,
            result: None,
            rails: Vec::new(),
            reports: Vec::new(),
            choices: Vec::new(),
            measured: None,
        }
    }

    pub(crate) fn report(&mut self, n: usize, observation: Observation) -> Output {
        let session = self.state.session(&name(n)).unwrap();
        self.step(Event::AgentObserved { node: name(n), session, observation: Box::new(observation) })
    }

    /// All nodes of the job report the state.
    pub(crate) fn all(&mut self, text: &str, state: Observed) {
        for n in self.nodes(text) {
            let observation = self.seen(text, n, state);
            self.report(n, observation);
        }
    }

    pub(crate) fn run(&mut self, text: &str) {
        self.all(text, Observed::Prepared);
        self.all(text, Observed::Running);
    }

    /// The end of one node's only rank, with this status.
    pub(crate) fn exited(&self, text: &str, n: usize, code: i32) -> Observation {
        let rank = self.nodes(text).iter().position(|node| *node == n).unwrap() as u32;
        let exit =
            RankExit { rank, code, signal: 0, time: self.now, usage: proto_model::RankUsage::default() };
        Observation { exits: vec![exit], ..self.seen(text, n, Observed::Ended) }
    }

    pub(crate) fn tick(&mut self, after: Duration) {
        self.now = self.now.plus(after);
        // Nodes speak, so that only what is meant falls silent.
        for n in 0..4 {
            if let Some(session) = self.state.session(&name(n)) {
                self.step(Event::AgentHeartbeat { node: name(n), session });
            }
        }
        for _ in 0..20 {
            if self.state.next_tick().is_some_and(|time| time <= self.now) {
                self.step(Event::Tick);
            }
        }
        assert!(self.state.next_tick().is_none_or(|time| time > self.now), "ticks without end");
    }

    /// What a new controller finds.
    pub(crate) fn reload(&self, epoch: u64) -> State {
        State::load(Config::default(), epoch, self.now, stored(&self.stored)).unwrap()
    }
}

pub(crate) fn stored(rows: &BTreeMap<Key, Write>) -> Stored {
    let mut stored = Stored::default();
    for write in rows.values().cloned() {
        match write {
            Write::PutJob(job) => stored.jobs.push((job, 1)),
            Write::PutAttempt(attempt) => stored.attempts.push(attempt),
            Write::PutNode(node) => stored.nodes.push((node, 1)),
            Write::PutTenant(tenant) => stored.tenants.push((tenant, 1)),
            Write::PutFabric(fabric) => stored.fabric = Some((fabric, 1)),
            Write::PutRestingName(row) => stored.resting.push(row),
            Write::PutTombstone(one) => stored.tombstones.push(one),
            Write::PutQueue(queue) => stored.queues.push((queue, 1)),
            Write::PutServiceClass(class) => stored.classes.push((class, 1)),
            Write::PutLicense(license) => stored.licenses.push((license, 1)),
            Write::PutSwitch(switch) => stored.switches.push((switch, 1)),
            Write::PutSchedule(schedule) => stored.schedules.push((schedule, 1)),
            Write::PutValues(values) => stored.values.push((values, 1)),
            Write::PutWebhook(webhook) => stored.webhooks.push((webhook, 1)),
            Write::PutDelivery(delivery) => stored.deliveries.push(delivery),
            Write::PutReservation(reservation) => stored.reservations.push((reservation, 1)),
            Write::PutRequest(record) => stored.requests.push(record),
            Write::PutDrain(drain) => stored.drains.push(drain),
            Write::PutQos(rollout) => stored.qos = Some(rollout),
            Write::PutSwitchRollout(rollout) => stored.switch_rollout = Some(rollout),
            Write::PutDecisions(row) => stored.decisions.push(row),
            Write::PutUsage(record) => stored.usage.push(record),
            Write::PutToken(record) => stored.tokens.push(record),
            Write::PutAudit(row) => stored.audit.push(Ok(row)),
            other => panic!("{other:?}"),
        }
    }
    stored
}

/// Somebody of a role.
pub(crate) fn by(role: Role) -> Authority {
    Authority { role, user: role.to_string() }
}

pub(crate) fn submit(text: &str, spec: JobSpec) -> Event {
    submit_as("red", text, spec, None)
}

/// By a user, who may change it again, where users may submit such a job; else by an administrator.
pub(crate) fn submit_as(owner: &str, text: &str, spec: JobSpec, request: Option<(&str, u8)>) -> Event {
    Event::Submit(Box::new(Submit {
        tenant: tenant(owner),
        by: by(if spec.priority > 0 { Role::Admin } else { Role::User }),
        name: Naming::Name(JobName::new(text).unwrap()),
        labels: BTreeMap::new(),
        spec: Box::new(spec),
        request: request.map(|(id, _)| RequestId::new(id).unwrap()),
        digest: [request.map_or(0, |(_, body)| body); 32],
        trace_parent: String::new(),
        hold: false,
    }))
}
