//! What clients do, and what they make of answers.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use controller_core::{Asked, CoreError, Event as Core, JobChange, JobOrder, JobUpdate, Reply, Submit};
use proto_model::{
    Authority, CommandSpec, Component, ComponentName, Dependency, DependencyWhen, FailurePolicy, Gang, JobId,
    JobName, JobSpec, PlacementRequest, RailLoss, RailRequest, Replace, RequestId, Requeue, Role,
    ServiceClassName, TenantName, Timestamp, Work,
};

use crate::{
    controller::{From, Inbound},
    rng::Rng,
    world::{Event, World},
};

use super::{Answer, Client, Request, Want, submit};

/// A client asks again after this long without an answer.
const PATIENCE_MS: u64 = 3000;

/// The job of another client, and how far it must have come.
fn after(other: u64, when: usize) -> Vec<Dependency> {
    let when = DependencyWhen::ALL[when];
    JobName::new(format!("j{other}")).map(|job| vec![Dependency { job, when }]).unwrap_or_default()
}

/// By when a job may start and must have ended; some are of a service class. A time of the day means little to clocks that are an hour off.
fn when(rng: &mut Rng, now: u64, skewed: bool, spec: &mut JobSpec) {
    spec.begin = (rng.chance(100) && !skewed).then(|| Timestamp(now + rng.range(0..300_000)));
    spec.start_before = (rng.chance(50) && !skewed).then(|| Timestamp(now + rng.range(300_000..900_000)));
    spec.deadline = (rng.chance(50) && !skewed).then(|| Timestamp(now + rng.range(400_000..900_000)));
    spec.service_class = if rng.chance(200) { ServiceClassName::new("few").ok() } else { None };
}

/// What a client asks of its job meanwhile: what it holds or suspends it releases.
fn changes(rng: &mut Rng, at: u64, id: &JobId) -> Vec<Core> {
    let order = |number: usize| {
        let request = RequestId::new(&format!("change-{at}-{number}"));
        let digest = [u8::try_from(number).unwrap_or(0); 32];
        let asked = request.map(|request| Asked { request, digest });
        let by = Authority { role: Role::TenantAdmin, user: "someone".to_owned() };
        JobOrder { id: id.clone(), indices: Vec::new(), by, asked }
    };
    let mut asked = Vec::new();
    let (held, suspends) = (rng.chance(400), rng.chance(600));
    let (first, reason) = (Box::new(order(0)), String::new());
    match (held, suspends) {
        (true, true) => asked.push(Core::SuspendJob { order: first, reason }),
        (true, false) => asked.push(Core::HoldJob { order: first, reason }),
        (false, _) => {}
    }
    if rng.chance(300) {
        let change = JobChange {
            priority: rng.chance(500).then(|| -i32::try_from(rng.range(0..3)).unwrap_or(0)),
            time_limit: Some(rng.chance(800).then(|| Duration::from_millis(rng.range(1000..20_000)))),
            ..JobChange::default()
        };
        asked.push(Core::UpdateJob(Box::new(JobUpdate { order: order(1), change, if_version: 0 })));
    }
    if held {
        asked.push(Core::ReleaseJob(Box::new(order(2))));
    }
    if rng.chance(150) {
        asked.push(Core::RequeueJob { order: Box::new(order(3)), reason: String::new() });
    }
    asked
}

/// Of one client in five the last node of a gang without spares becomes another component, with fewer GPUs and one rank.
fn of_components(at: u64, spec: &mut JobSpec) {
    let Gang { nodes, gpus_per_node, ranks_per_node, .. } = spec.gang;
    if at % 5 != 2 || nodes < 2 || spec.placement.spares > 0 {
        return;
    }
    let component = |name: &str, nodes, gpus_per_node, ranks_per_node| {
        let name = ComponentName::new(name).ok()?;
        let (cpus_per_node, memory_per_node, gpu_models) = (0, 0, BTreeSet::new());
        Some(Component {
            name,
            nodes,
            gpus_per_node,
            ranks_per_node,
            cpus_per_node,
            memory_per_node,
            gpu_models,
        })
    };
    let last = component("last", 1, gpus_per_node / 2, 1);
    let parts = component("first", nodes - 1, gpus_per_node, ranks_per_node).zip(last);
    if let Some((first, last)) = parts {
        spec.components = vec![first, last];
        spec.gang = Component::gang(&spec.components);
    }
}

impl World {
    /// Makes one client and its job.
    pub fn make_client(
        &mut self,
        at: u64,
        tenant: &TenantName,
        name: JobName,
        sizes: (u64, u32, u32),
    ) -> Client {
        let (nodes, gpus, rails) = sizes;
        let (now, skewed) = (self.now, self.skewed);
        let rng = &mut self.rng;
        let small = |value: u64| u32::try_from(value).unwrap_or(0);
        let long = rng.chance(400);
        let run_ms = if long { rng.range(8000..60_000) } else { rng.range(200..8000) };
        let wanted = 1 + small(rng.range(0..nodes));
        let gpus_per_node = small(rng.range(0..u64::from(gpus) + 1));
        let mut gang = Gang::new(wanted, gpus_per_node, 1 + small(rng.range(0..2)));
        if rng.chance(300) {
            gang.min_nodes = 1 + small(rng.range(0..u64::from(wanted)));
        }
        let mut argv = vec!["run".to_owned(), run_ms.to_string()];
        if rng.chance(150) {
            let rank = rng.range(0..u64::from(gang.nodes * gang.ranks_per_node));
            argv.extend([rank.to_string(), "3".to_owned()]);
        }
        let required = if rng.chance(500) { 0 } else { small(rng.range(1..u64::from(rails) + 1)) };
        let (env, env_from, working_dir) = (BTreeMap::new(), Vec::new(), String::new());
        let work = Work::Command(CommandSpec { argv, env, env_from, working_dir });
        let spares = small(rng.range(0..10) / 8);
        let replace = match (rng.below(3), spares) {
            (0, 0) => Replace::Any,
            (0 | 1, 1..) => [Replace::Spares, Replace::Any][rng.below(2)],
            _ => Replace::Never,
        };
        let mut spec = JobSpec {
            rails: RailRequest { required, allow_partial: rng.chance(500), ..RailRequest::default() },
            priority: i32::try_from(rng.range(0..3)).unwrap_or(0),
            time_limit: rng.chance(150).then(|| Duration::from_millis(rng.range(1000..6000))),
            grace_period: Duration::from_millis(rng.range(500..5000)),
            failure: FailurePolicy {
                replace,
                max_replacements: if replace == Replace::Never { 0 } else { 1 + small(rng.range(0..3)) },
                on_rail_loss: RailLoss::ALL[rng.below(3)],
                ..FailurePolicy::new(
                    [Requeue::Never, Requeue::OnInfrastructure, Requeue::OnAny][rng.below(3)],
                    small(rng.range(0..4)),
                )
            },
            placement: PlacementRequest { spares, exclusive: rng.chance(100), ..PlacementRequest::default() },
            // Perhaps on one that there is not (yet): then it is refused.
            after: if rng.chance(200) { after(rng.range(0..at + 1), rng.below(4)) } else { Vec::new() },
            ..JobSpec::new(gang, work)
        };
        when(rng, now, skewed, &mut spec);
        of_components(at, &mut spec);
        let submit = submit(at, tenant, &name, spec);
        let mut wants = VecDeque::from([Want::Submit(Box::new(submit.clone()))]);
        // Later, and perhaps to another controller, the same again: the same answer.
        if rng.chance(300) {
            wants.push_back(Want::Submit(Box::new(submit.clone())));
        }
        let id = JobId { tenant: tenant.clone(), name: name.clone() };
        wants.extend(changes(rng, at, &id).into_iter().map(|event| Want::Change(Box::new(event))));
        if rng.chance(150) {
            wants.push_back(Want::Reuse(Box::new(Submit { digest: [252; 32], ..submit })));
        }
        wants.extend(rng.chance(250).then_some(Want::Cancel));
        wants.extend(rng.chance(250).then_some(Want::Delete));
        wants.extend((at % 4 == 1).then_some(Want::Denied));
        let pause = rng.range(50..15_000);
        Client { id, wants, uid: None, waiting: None, pause }
    }

    /// The administrator is asked for something.
    pub fn administrator(&mut self, event: Core) {
        let last = self.clients.len() - 1;
        let idle = self.clients[last].wants.is_empty();
        self.clients[last].wants.push_back(Want::Admin(Box::new(event)));
        if idle {
            self.after(1, Event::Client(last));
        }
    }

    /// A client sends what it wants, or sends it again.
    pub fn client_acts(&mut self, client: usize) {
        let number = self.number();
        let this = &mut self.clients[client];
        let Some(want) = this.wants.front().cloned() else { return };
        this.waiting = Some(number);
        let event = match &want {
            Want::Submit(submit) | Want::Reuse(submit) => Core::Submit(submit.clone()),
            Want::Change(event) => (**event).clone(),
            Want::Cancel => Core::Cancel { by: None, indices: Vec::new(), id: this.id.clone(), grace: None },
            Want::Delete => Core::DeleteJob { by: None, indices: Vec::new(), id: this.id.clone() },
            Want::Denied => crate::audit::denied(),
            Want::Admin(event) => (**event).clone(),
        };
        if want == Want::Delete {
            self.checks.deleting.insert(self.clients[client].id.clone());
        }
        self.requests.insert(number, Request { want, event });
        let copies = if self.stormy() && self.rng.chance(300) { self.rng.range(0..3) } else { 1 };
        for _ in 0..copies {
            let wait = self.latency();
            self.after(wait, Event::Request(client, number));
        }
        self.after(PATIENCE_MS, Event::Client(client));
    }

    /// A request reaches a controller, now and then one that was replaced and does not know it.
    pub fn request_arrives(&mut self, client: usize, number: u64) {
        let mut controller = self.leader();
        if self.rng.chance(200) {
            controller = self.controllers.iter().position(|old| old.state.is_some());
        }
        let Some(request) = self.requests.get(&number) else { return };
        let event = request.event.clone();
        if matches!(request.want, Want::Admin(_)) && self.clients[client].waiting != Some(number) {
            // A late copy: the administrator has gone on, and the transport drops what nobody waits for.
            return;
        }
        if let Core::DeleteNode { name, .. } = &event
            && self.nodes.iter().any(|server| server.name == *name && server.joined)
        {
            // A late copy. The administrator meant the server that was dead, not the one that has joined since.
            return;
        }
        if let Some(controller) = controller {
            self.deliver(controller, Inbound { event, from: From::Client(client, number) });
        }
    }

    /// A controller answers; the answer may be lost.
    pub fn send_answer(&mut self, controller: usize, client: usize, number: u64, answer: Answer) {
        if let Answer::Done(reply) = &answer
            && let Some(request) = self.requests.get(&number)
        {
            let want = request.want.clone();
            self.check_answer(controller, client, &want, reply);
        }
        if self.stormy() && self.rng.chance(200) {
            return;
        }
        let wait = self.latency();
        self.after(wait, Event::Answer(client, number, Box::new(answer)));
    }

    /// An answer reaches a client.
    pub fn answer_arrives(&mut self, client: usize, number: u64, answer: Answer) {
        let Some(request) = self.requests.get(&number) else { return };
        let want = request.want.clone();
        let present = self.clients[client].wants.front() == Some(&want);
        let Answer::Done(reply) = answer else { return };
        let done = match (&want, *reply) {
            (Want::Submit(_), Ok(Reply::Job { job, .. })) => {
                self.acknowledged(client, job.uid);
                true
            }
            (Want::Submit(_), Err(error)) => self.submit_refused(client, &error),
            (Want::Reuse(_), reply) => self.reused(client, &reply),
            (Want::Cancel, Err(CoreError::JobNotFound { .. })) => {
                self.check_gone(client);
                true
            }
            (Want::Delete, Err(CoreError::JobActive { .. })) => false,
            (Want::Delete, Ok(_) | Err(CoreError::JobNotFound { .. })) => {
                self.check_gone(client);
                true
            }
            (Want::Admin(event), reply) => {
                self.administered(event, &reply);
                true
            }
            _ => true,
        };
        if present && done {
            let this = &mut self.clients[client];
            this.wants.pop_front();
            this.waiting = None;
            let pause = this.pause;
            if !this.wants.is_empty() {
                self.after(pause, Event::Client(client));
            }
        }
    }

    /// A refused submit. True if the client gives up.
    fn submit_refused(&mut self, client: usize, error: &CoreError) -> bool {
        match error {
            CoreError::NameTaken { .. } | CoreError::RequestIdReused { .. } => {
                let id = self.clients[client].id.clone();
                self.violated(format!("a repeated submit of {id} was not taken for the same: {error}"));
                true
            }
            CoreError::JobGone { .. } => {
                self.check_gone(client);
                true
            }
            CoreError::Full { .. } => false,
            _ => {
                // Acknowledged: this was refused before, when it could not start, and comes late.
                let this = &mut self.clients[client];
                if this.uid.is_none() {
                    this.wants.truncate(1);
                }
                true
            }
        }
    }

    /// A request id was used for another body. True: it is never asked again.
    fn reused(&mut self, client: usize, reply: &Result<Reply, CoreError>) -> bool {
        let known = self.clients[client].uid.is_some();
        if known && !matches!(reply, Err(CoreError::RequestIdReused { .. })) {
            let id = self.clients[client].id.clone();
            self.violated(format!(
                "another body with the request id of {id} is not refused as that: {reply:?}"
            ));
        }
        true
    }

    fn administered(&mut self, event: &Core, reply: &Result<Reply, CoreError>) {
        let Core::Join { node: name, .. } = event else { return };
        let Some(node) = self.nodes.iter().position(|server| server.name == *name) else { return };
        match reply {
            Ok(_) => self.nodes[node].joined = true,
            // Another leader's clock is further on: a new one is made, as it says.
            Err(CoreError::TokenInvalid { .. }) if !self.nodes[node].joined => {
                self.join_events(node, name).into_iter().for_each(|event| self.administrator(event));
            }
            Err(_) => {}
        }
    }

    /// Whether every client has what it wanted.
    #[must_use]
    pub fn clients_done(&self) -> bool {
        self.clients.iter().all(|client| client.wants.is_empty())
    }
}
