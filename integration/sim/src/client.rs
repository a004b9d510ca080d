//! Clients: each submits one job, perhaps cancels it, perhaps removes it; with request ids and retries until answered.
//! The last one is the administrator.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use controller_core::{CoreError, Event as Core, Naming, Reply, Submit};
use proto_model::{
    CommandSpec, FailurePolicy, Gang, JobId, JobName, JobSpec, JobUid, RailRequest, RequestId, Requeue,
    TenantName, Work,
};

use crate::{
    controller::{From, Inbound},
    world::{Event, World},
};

/// A client asks again after this long without an answer.
const PATIENCE_MS: u64 = 3000;

/// What a client wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Want {
    /// Its job submitted.
    Submit(Box<Submit>),
    /// Its job cancelled.
    Cancel,
    /// Its job removed.
    Delete,
    /// What an administrator asks for.
    Admin(Box<Core>),
}

/// A client.
#[derive(Debug)]
pub struct Client {
    /// Its job.
    pub id: JobId,
    /// What it wants, in order.
    pub wants: VecDeque<Want>,
    /// The job that was acknowledged.
    pub uid: Option<JobUid>,
    /// The request whose answer it waits for.
    waiting: Option<u64>,
    /// How long it waits between two wants.
    pause: u64,
}

impl Client {
    /// The one that does what administrators do.
    #[must_use]
    pub fn administrator(id: JobId, wants: VecDeque<Want>) -> Self {
        Self { id, wants, uid: None, waiting: None, pause: 1 }
    }
}

/// A request under way.
#[derive(Debug, Clone)]
pub struct Request {
    want: Want,
    event: Core,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// The controller could not write; nothing was done.
    Unavailable,
    /// The core's reply.
    Done(Box<Result<Reply, CoreError>>),
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
        let rng = &mut self.rng;
        let small = |value: u64| u32::try_from(value).unwrap_or(0);
        let run_ms = rng.range(200..8000);
        let gang = Gang {
            nodes: 1 + small(rng.range(0..nodes)),
            gpus_per_node: small(rng.range(0..u64::from(gpus) + 1)),
            ranks_per_node: 1 + small(rng.range(0..2)),
        };
        let mut argv = vec!["run".to_owned(), run_ms.to_string()];
        if rng.chance(150) {
            let rank = rng.range(0..u64::from(gang.nodes * gang.ranks_per_node));
            argv.extend([rank.to_string(), "3".to_owned()]);
        }
        let required = if rng.chance(500) { 0 } else { small(rng.range(1..u64::from(rails) + 1)) };
        let work = Work::Command(CommandSpec { argv, env: BTreeMap::new(), working_dir: String::new() });
        let spec = JobSpec {
            rails: RailRequest { required, allow_partial: rng.chance(500) },
            priority: i32::try_from(rng.range(0..3)).unwrap_or(0),
            time_limit: rng.chance(150).then(|| Duration::from_millis(rng.range(1000..6000))),
            grace_period: Duration::from_millis(rng.range(500..5000)),
            failure: FailurePolicy::new(
                [Requeue::Never, Requeue::OnInfrastructure, Requeue::OnAny][rng.below(3)],
                small(rng.range(0..4)),
            ),
            ..JobSpec::new(gang, work)
        };
        let mut wants = VecDeque::new();
        wants.push_back(Want::Submit(Box::new(Submit {
            tenant: tenant.clone(),
            name: Naming::Name(name.clone()),
            labels: BTreeMap::new(),
            spec: Box::new(spec),
            request: RequestId::new(&format!("request-{at}")),
            digest: [u8::try_from(at % 251).unwrap_or(0); 32],
            trace_parent: String::new(),
        })));
        if rng.chance(250) {
            wants.push_back(Want::Cancel);
        }
        if rng.chance(250) {
            wants.push_back(Want::Delete);
        }
        let pause = rng.range(50..15_000);
        Client { id: JobId { tenant: tenant.clone(), name }, wants, uid: None, waiting: None, pause }
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
            Want::Submit(submit) => Core::Submit(submit.clone()),
            Want::Cancel => Core::Cancel { indices: Vec::new(), id: this.id.clone(), grace: None },
            Want::Delete => Core::DeleteJob { indices: Vec::new(), id: this.id.clone() },
            Want::Admin(event) => (**event).clone(),
        };
        if want == Want::Delete {
            self.checks.deleting.insert(self.clients[client].id.clone());
        }
        self.requests.insert(number, Request { want, event });
        let copies = if !self.calm && self.rng.chance(50) { self.rng.range(0..3) } else { 1 };
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

    /// A controller answers; now and then the answer is lost.
    pub fn send_answer(&mut self, client: usize, number: u64, answer: Answer) {
        if !self.calm && self.rng.chance(30) {
            return;
        }
        let wait = self.latency();
        self.after(wait, Event::Answer(client, number, answer));
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
                let this = &mut self.clients[client];
                if let Some(uid) = this.uid {
                    self.violated(format!("job {uid} was acknowledged, then refused: {error}"));
                } else {
                    this.wants.truncate(1);
                }
                true
            }
        }
    }

    fn administered(&mut self, event: &Core, reply: &Result<Reply, CoreError>) {
        if let (Core::Join { node, .. }, Ok(_)) = (event, reply)
            && let Some(server) = self.nodes.iter_mut().find(|server| server.name == *node)
        {
            server.joined = true;
        }
    }

    /// Whether every client has what it wanted.
    #[must_use]
    pub fn clients_done(&self) -> bool {
        self.clients.iter().all(|client| client.wants.is_empty())
    }
}
