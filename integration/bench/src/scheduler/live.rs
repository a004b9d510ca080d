//! J7: a real cluster of eight agents, to which random jobs come that use everything a job can ask for, while rails are drained, servers
//! closed and jobs held, changed and cancelled. A checker that knows only what the API says looks at every state: nothing is held
//! twice, each gang has what it asked for, quotas and limits hold, and whoever waits has reasons and a forecast.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use integration_harness::{Access, Cluster, Shape};
use proto_model::ReasonCode;
use proto_rpc::Client;
use proto_wire::v1::{
    self, job_service_client::JobServiceClient, job_status::Phase, node_service_client::NodeServiceClient,
    placement_request::Within, queue_service_client::QueueServiceClient,
    rail_service_client::RailServiceClient, reservation_service_client::ReservationServiceClient,
    service_class_service_client::ServiceClassServiceClient, tenant_service_client::TenantServiceClient,
};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Bench, site::Dice};
use crate::report::{Cpu, Goal, Line, Row, Sample};

const NODES: u32 = 8;
const PODS: u32 = 2;
const RAILS: u32 = 4;
const GPUS: u32 = 8;
/// GPUs that each tenant may hold.
const TENANTS: [(&str, u32); 3] = [("ja", 40), ("jb", 24), ("jc", 64)];
/// Jobs of a user of this class that hold a place at once.
const CLASS: (&str, u32) = ("few", 4);
/// After the last submit all is over within this.
const PATIENCE: Duration = Duration::from_secs(240);
/// The time between two looks at the cluster.
const PAUSE: Duration = Duration::from_millis(150);
/// A job may be without a reason for so long after it came: the pass that looks at it follows.
const SOON: Duration = Duration::from_secs(3);

type Fault = String;

fn text(error: impl ToString) -> Fault {
    error.to_string()
}

/// What the checker has counted and found so far.
#[derive(Default)]
struct Found {
    checks: u64,
    states: u64,
    waiting: u64,
    violations: Vec<String>,
    without_reason: BTreeSet<String>,
    /// By job and attempt: at how many looks, and what was said at the first.
    without_eta: BTreeMap<String, (usize, String)>,
    most_waiting: usize,
    started: BTreeSet<String>,
    /// Jobs that started on a drained rail and said so.
    on_drained: BTreeSet<String>,
}

impl Found {
    fn violated(&mut self, what: String) {
        if !self.violations.contains(&what) {
            self.violations.push(what);
        }
    }
}

/// Measures row J7 on a cluster of real processes.
///
/// # Errors
/// What kept the row from being measured, as text.
pub fn live(row: &Row, bench: &Bench) -> Result<(), String> {
    let count = if bench.quick { 100 } else { 500 };
    let cluster =
        Cluster::up(&Shape { nodes: NODES, rails: RAILS, gpus: GPUS, pods: PODS, ..Shape::default() })?;
    let access = Access::of(&cluster)?;
    let (cpu, begin, seed) = (Cpu::start(), Instant::now(), 20_251);
    let runtime = Runtime::new().map_err(text)?;
    let (mut found, sent) = runtime.block_on(all(&access, count, seed))?;
    // What people get by `-o json` is the same.
    if let Err(error) = cluster.json(&["get", "jobs", "--all-tenants"]) {
        found.violated(format!("railctl get jobs -o json: {error}"));
    }
    let peers = json!({
        "seed": seed, "submits": sent.submits, "refused": sent.refused, "changes": sent.changes, "looks": found.checks,
        "states_of_jobs": found.states, "waiting_states": found.waiting, "most_waiting_at_once": found.most_waiting,
        "started": found.started.len(), "on_drained_rails": found.on_drained.len(), "left_unended": sent.unended,
        "seconds": begin.elapsed().as_secs_f64(), "asked_for": sent.asked,
    });
    let cores = cpu.cores();
    let line = |case: &str, value: usize, of: Value| {
        let sample = Sample::new(vec![value as f64]);
        let mut peers = peers.clone();
        peers["first"] = of;
        let goal = Goal::AtMost(0.0);
        row.line(&Line {
            case,
            value: value as f64,
            unit: "count",
            goal,
            sample: &sample,
            cpu: cores,
            peers,
        });
    };
    let first = |all: &mut dyn Iterator<Item = &String>| json!(all.take(8).collect::<Vec<_>>());
    line(
        &format!("violations that an independent checker finds, {count} random submits, {NODES} agents"),
        found.violations.len(),
        first(&mut found.violations.iter()),
    );
    line(
        "jobs that wait without a reason",
        found.without_reason.len(),
        first(&mut found.without_reason.iter()),
    );
    let without_eta: Vec<String> = (found.without_eta.iter())
        .map(|(job, (looks, said))| format!("{job}, looks {looks}: {said}"))
        .collect();
    line(
        "jobs that wait without an expected start and without a reason why there is none",
        found.without_eta.len(),
        first(&mut without_eta.iter()),
    );
    Ok(())
}

/// What was asked of the controller.
#[derive(Default)]
struct Sent {
    submits: usize,
    refused: BTreeMap<String, usize>,
    changes: BTreeMap<&'static str, usize>,
    asked: BTreeMap<&'static str, usize>,
    unended: usize,
}

struct Clients {
    jobs: JobServiceClient<Client>,
    nodes: NodeServiceClient<Client>,
    rails: RailServiceClient<Client>,
}

async fn all(access: &Access, count: usize, seed: u64) -> Result<(Found, Sent), String> {
    let client = access.client()?;
    documents(&client).await?;
    let mut clients = Clients {
        jobs: JobServiceClient::new(client.clone()),
        nodes: NodeServiceClient::new(client.clone()),
        rails: RailServiceClient::new(client.clone()),
    };
    let (mut dice, mut sent, mut found) = (Dice::new(seed), Sent::default(), Found::default());
    let mut names: Vec<(String, String)> = Vec::new();
    let mut seen: BTreeMap<String, Instant> = BTreeMap::new();
    while sent.submits < count {
        for _ in 0..1 + dice.below(6) {
            if sent.submits < count {
                submit(&mut clients, &mut dice, &mut sent, &mut names).await?;
            }
        }
        if dice.below(3) == 0 {
            change(&mut clients, &mut dice, &mut sent, &names).await;
        }
        inspect(&mut clients, &mut found, &mut seen).await?;
        tokio::time::sleep(PAUSE).await;
    }
    open_all(&mut clients).await;
    let begin = Instant::now();
    loop {
        let left = inspect(&mut clients, &mut found, &mut seen).await?;
        sent.unended = left;
        if left == 0 || begin.elapsed() > PATIENCE {
            return Ok((found, sent));
        }
        release_all(&mut clients, &names).await;
        tokio::time::sleep(PAUSE * 4).await;
    }
}

fn named(name: &str) -> Option<v1::Metadata> {
    Some(v1::Metadata { name: name.to_owned(), ..v1::Metadata::default() })
}

/// Tenants, queues, a class with limits, a reservation, labels.
async fn documents(client: &Client) -> Result<(), String> {
    for (name, gpus) in TENANTS {
        let quota = v1::Quota { gpus, ..v1::Quota::default() };
        let spec = v1::TenantSpec { quota: Some(quota), ..v1::TenantSpec::default() };
        let tenant = v1::Tenant { metadata: named(name), spec: Some(spec), ..v1::Tenant::default() };
        let request = v1::ApplyTenantRequest { tenant: Some(tenant), ..v1::ApplyTenantRequest::default() };
        TenantServiceClient::new(client.clone()).apply_tenant(request).await.map_err(text)?;
        let spec = v1::QueueSpec {
            limit: Some(gpus / 2),
            objective: v1::queue_spec::Objective::MeanWait.into(),
            ..v1::QueueSpec::default()
        };
        let metadata =
            v1::Metadata { name: "half".to_owned(), tenant: name.to_owned(), ..v1::Metadata::default() };
        let queue = v1::Queue { metadata: Some(metadata), spec: Some(spec), ..v1::Queue::default() };
        let request = v1::ApplyQueueRequest { queue: Some(queue), ..v1::ApplyQueueRequest::default() };
        QueueServiceClient::new(client.clone()).apply_queue(request).await.map_err(text)?;
    }
    let user = v1::UserLimits { jobs_running: Some(CLASS.1), ..v1::UserLimits::default() };
    let job = v1::JobLimits { priority_max: Some(50), ..v1::JobLimits::default() };
    let spec = v1::ServiceClassSpec { user: Some(user), job: Some(job), ..v1::ServiceClassSpec::default() };
    let class =
        v1::ServiceClass { metadata: named(CLASS.0), spec: Some(spec), ..v1::ServiceClass::default() };
    let request = v1::ApplyServiceClassRequest {
        service_class: Some(class),
        ..v1::ApplyServiceClassRequest::default()
    };
    ServiceClassServiceClient::new(client.clone()).apply_service_class(request).await.map_err(text)?;
    let start = std::time::SystemTime::now() + Duration::from_secs(20);
    let spec = v1::ReservationSpec {
        nodes: vec!["n7".to_owned()],
        start: Some(start.into()),
        duration: Some(prost_types::Duration { seconds: 30, nanos: 0 }),
        tenants: vec!["ja".to_owned()],
        ..v1::ReservationSpec::default()
    };
    let reservation =
        v1::Reservation { metadata: named("window"), spec: Some(spec), ..v1::Reservation::default() };
    let request = v1::ApplyReservationRequest {
        reservation: Some(reservation),
        ..v1::ApplyReservationRequest::default()
    };
    ReservationServiceClient::new(client.clone()).apply_reservation(request).await.map_err(text)?;
    for number in 0..NODES {
        let labels = [("half".to_owned(), ["even", "odd"][number as usize % 2].to_owned())].into();
        let request = v1::UpdateNodeRequest {
            name: format!("n{number}"),
            spec: Some(v1::NodeSpec { labels, ..v1::NodeSpec::default() }),
            parts: vec![v1::update_node_request::Part::Labels.into()],
            ..v1::UpdateNodeRequest::default()
        };
        NodeServiceClient::new(client.clone()).update_node(request).await.map_err(text)?;
    }
    Ok(())
}

/// Draws what a job asks for, and counts it.
struct Drawn<'a> {
    dice: &'a mut Dice,
    asked: &'a mut BTreeMap<&'static str, usize>,
    gang: v1::Gang,
    place: v1::PlacementRequest,
    spec: v1::JobSpec,
}

fn seconds(seconds: u32) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: i64::from(seconds), nanos: 0 })
}

fn later(seconds: u32) -> Option<prost_types::Timestamp> {
    Some((std::time::SystemTime::now() + Duration::from_secs(u64::from(seconds))).into())
}

impl Drawn<'_> {
    fn does(&mut self, what: &'static str, one_in: u32) -> bool {
        let yes = self.dice.below(one_in) == 0;
        *self.asked.entry(what).or_default() += usize::from(yes);
        yes
    }

    fn shape(&mut self) {
        let nodes = [1, 1, 1, 2, 2, 3, 4, 6][self.dice.below(8) as usize];
        let gpus = [1, 2, 4, 8][self.dice.below(4) as usize];
        self.gang = v1::Gang { nodes, gpus_per_node: gpus, ranks_per_node: 1, ..v1::Gang::default() };
        let required = 1 + self.dice.below(RAILS);
        let mut rails = match self.dice.below(4) {
            0 if nodes == 1 => v1::RailRequest { none: true, ..v1::RailRequest::default() },
            1 => v1::RailRequest { required, ..v1::RailRequest::default() },
            2 => v1::RailRequest { required, allow_partial: true, ..v1::RailRequest::default() },
            _ => v1::RailRequest::default(),
        };
        if self.does("avoid drained rails", 3) {
            rails.avoid_drained = v1::rail_request::AvoidDrained::Required.into();
        }
        self.spec.rails = Some(rails);
    }

    fn place(&mut self) {
        if self.does("one pod", 4) {
            self.place.within = Within::Pod.into();
            self.gang.nodes = self.gang.nodes.min(NODES / PODS);
        }
        if self.does("label", 8) {
            self.gang.nodes = self.gang.nodes.min(2);
            let values = vec![["even", "odd"][self.dice.below(2) as usize].to_owned()];
            self.place.selector.push(v1::SelectorTerm {
                key: "half".to_owned(),
                values,
                ..Default::default()
            });
        }
        if self.gang.nodes.is_multiple_of(2) && self.does("groups", 3) {
            let (within, required) = (Within::Pod.into(), self.dice.below(2) == 0);
            self.place.groups.push(v1::placement_request::Group { size: 2, within, required });
        } else if self.gang.nodes > 1 && self.does("elastic", 4) {
            self.gang.min_nodes = 1;
        }
        self.place.exclusive = self.does("alone on its nodes", 12);
        if self.gang.min_nodes == 0 && self.gang.nodes <= 2 && self.does("a spare", 10) {
            self.place.spares = 1;
        }
        if self.does("nodes excluded", 10) {
            self.place.exclude.push(format!("n{}", self.dice.below(NODES)));
        }
    }

    /// In place of nodes that are all alike one or two of them with other GPUs.
    fn components(&mut self) {
        let alike = !self.place.groups.is_empty() || self.gang.min_nodes > 0 || self.place.spares > 0;
        let none = self.spec.rails.is_some_and(|rails| rails.none);
        if alike || none || self.gang.nodes > 4 || !self.does("components", 4) {
            return;
        }
        let v1::Gang { nodes, gpus_per_node, .. } = std::mem::take(&mut self.gang);
        let component = |name: &str, nodes, gpus_per_node| v1::Component {
            name: name.to_owned(),
            nodes,
            gpus_per_node,
            ranks_per_node: 1,
            ..v1::Component::default()
        };
        let (others, gpus) = (1 + self.dice.below(2), [0, 1, 4][self.dice.below(3) as usize]);
        self.spec.components = vec![component("a", nodes, gpus_per_node), component("b", others, gpus)];
    }

    fn turn(&mut self) {
        if self.does("priority", 5) {
            self.spec.priority = [-20, -5, 5, 30][self.dice.below(4) as usize];
        }
        if self.does("preemptible", 5) {
            self.spec.preemption =
                Some(v1::Preemption { preemptible: Some(true), ..v1::Preemption::default() });
        }
        if self.does("queue", 4) {
            "half".clone_into(&mut self.spec.queue);
        }
        if self.does("service class", 6) {
            CLASS.0.clone_into(&mut self.spec.service_class);
        }
    }

    fn times(&mut self, earlier: Option<&str>) {
        if !self.does("no limit", 6) {
            self.spec.time_limit = seconds(5 + self.dice.below(55));
        }
        if self.does("begin time", 12) {
            self.spec.begin_time = later(1 + self.dice.below(6));
        }
        if self.does("start before", 12) {
            self.spec.start_before = later(5 + self.dice.below(30));
        }
        if self.spec.time_limit.is_some() && self.does("deadline", 12) {
            self.spec.deadline = later(70 + self.dice.below(120));
        }
        if self.does("array", 16) {
            self.spec.array = format!("0-{}%2", 1 + self.dice.below(3));
        } else if let Some(earlier) = earlier
            && self.does("dependency", 8)
        {
            let when = v1::dependency::When::Ended.into();
            self.spec.after.push(v1::Dependency { job: earlier.to_owned(), when });
        }
    }
}

/// A job that asks for this and that.
fn job(
    dice: &mut Dice,
    name: &str,
    asked: &mut BTreeMap<&'static str, usize>,
    earlier: Option<&str>,
) -> v1::Job {
    let mut drawn =
        Drawn { dice, asked, gang: Default::default(), place: Default::default(), spec: Default::default() };
    drawn.shape();
    drawn.place();
    drawn.components();
    drawn.turn();
    drawn.times(earlier);
    let sleep = format!("{}.{}", drawn.dice.below(3), drawn.dice.below(10));
    let Drawn { gang, place, mut spec, .. } = drawn;
    let argv = ["/bin/sleep", &sleep].map(str::to_owned).to_vec();
    spec.work = Some(v1::job_spec::Work::Command(v1::Command { argv, ..v1::Command::default() }));
    spec.grace_period = seconds(1);
    spec.gang = spec.components.is_empty().then_some(gang);
    spec.placement = Some(place);
    v1::Job { metadata: named(name), spec: Some(spec), ..v1::Job::default() }
}

async fn submit(
    clients: &mut Clients,
    dice: &mut Dice,
    sent: &mut Sent,
    names: &mut Vec<(String, String)>,
) -> Result<(), String> {
    let tenant = TENANTS[dice.below(3) as usize].0;
    let name = format!("j{}", sent.submits);
    let earlier = names.iter().rev().find(|(of, _)| of == tenant).map(|(_, name)| name.clone());
    let job = job(dice, &name, &mut sent.asked, earlier.as_deref());
    sent.submits += 1;
    let request = v1::CreateJobRequest {
        job: Some(job),
        request_id: format!("j7-{name}"),
        on_behalf_of: tenant.to_owned(),
        ..v1::CreateJobRequest::default()
    };
    match clients.jobs.create_job(request).await {
        Ok(_) => names.push((tenant.to_owned(), name)),
        // What can never be on this cluster, and limits of classes, are refused in words.
        Err(status)
            if matches!(
                status.code(),
                tonic::Code::FailedPrecondition
                    | tonic::Code::InvalidArgument
                    | tonic::Code::ResourceExhausted
                    | tonic::Code::NotFound
            ) =>
        {
            let words: String = status.message().chars().take(60).collect();
            *sent.refused.entry(format!("{:?}: {words}", status.code())).or_default() += 1;
        }
        Err(status) => return Err(format!("submit of {name}: {status}")),
    }
    Ok(())
}

/// Something else happens; that it is refused is as good.
async fn change(clients: &mut Clients, dice: &mut Dice, sent: &mut Sent, names: &[(String, String)]) {
    let recent = names.len().saturating_sub(40);
    let pick = |dice: &mut Dice| {
        let at = recent + dice.below(u32::try_from(names.len() - recent).unwrap_or(1)) as usize;
        names.get(at).cloned().unwrap_or_default()
    };
    let port = format!("n{}:{}", dice.below(NODES), dice.below(RAILS));
    let node = format!("n{}", dice.below(NODES));
    let request_id = format!("j7-change-{}", sent.changes.values().sum::<usize>());
    let what = match dice.below(8) {
        0 => {
            let request = v1::DrainRailRequest { target: port, reason: "J7".to_owned(), force: false };
            clients.rails.drain_rail(request).await.is_ok().then_some("drain of a rail")
        }
        1 => {
            let request = v1::UndrainRailRequest { target: port };
            clients.rails.undrain_rail(request).await.is_ok().then_some("undrain of a rail")
        }
        2 => close(clients, node, dice.below(3) == 0).await.is_ok().then_some("a server closed or opened"),
        3 => {
            let (tenant, name) = pick(dice);
            let request = v1::HoldJobRequest { name, tenant, request_id, ..Default::default() };
            clients.jobs.hold_job(request).await.is_ok().then_some("hold")
        }
        4 => {
            let (tenant, name) = pick(dice);
            let request = v1::ReleaseJobRequest { name, tenant, request_id, ..Default::default() };
            clients.jobs.release_job(request).await.is_ok().then_some("release")
        }
        5 | 6 => {
            let ((tenant, name), priority) = (pick(dice), Some(20 - dice.below(40) as i32));
            let request = v1::UpdateJobRequest { name, tenant, request_id, priority, ..Default::default() };
            clients.jobs.update_job(request).await.is_ok().then_some("update")
        }
        _ => {
            let (tenant, name) = pick(dice);
            let request = v1::CancelJobRequest { name, tenant, ..Default::default() };
            clients.jobs.cancel_job(request).await.is_ok().then_some("cancel")
        }
    };
    if let Some(what) = what {
        *sent.changes.entry(what).or_default() += 1;
    }
}

async fn close(clients: &mut Clients, name: String, closed: bool) -> Result<(), tonic::Status> {
    let request = v1::UpdateNodeRequest {
        name,
        spec: Some(v1::NodeSpec {
            unschedulable: closed,
            reason: if closed { "J7".to_owned() } else { String::new() },
            ..v1::NodeSpec::default()
        }),
        parts: vec![v1::update_node_request::Part::Scheduling.into()],
        ..v1::UpdateNodeRequest::default()
    };
    clients.nodes.update_node(request).await.map(drop)
}

async fn open_all(clients: &mut Clients) {
    for number in 0..NODES {
        let _ = close(clients, format!("n{number}"), false).await;
        for rail in 0..RAILS {
            let request = v1::UndrainRailRequest { target: format!("n{number}:{rail}") };
            let _ = clients.rails.undrain_rail(request).await;
        }
    }
}

/// What is held shall go on; each once.
async fn release_all(clients: &mut Clients, names: &[(String, String)]) {
    let request = v1::ListJobsRequest {
        phases: vec![Phase::Pending.into()],
        page_size: 1000,
        ..v1::ListJobsRequest::default()
    };
    let Ok(list) = clients.jobs.list_jobs(request).await else { return };
    for job in list.into_inner().jobs {
        let held = job.status.as_ref().is_some_and(|status| !status.holds.is_empty());
        let metadata = job.metadata.unwrap_or_default();
        if held && !names.is_empty() {
            let request = v1::ReleaseJobRequest {
                request_id: format!("j7-last-{}", metadata.name),
                name: metadata.name,
                tenant: metadata.tenant,
                ..Default::default()
            };
            let _ = clients.jobs.release_job(request).await;
        }
    }
}

/// All jobs that have not ended, of one revision; how many.
async fn inspect(
    clients: &mut Clients,
    found: &mut Found,
    seen: &mut BTreeMap<String, Instant>,
) -> Result<usize, String> {
    let phases = [Phase::Pending, Phase::Reserved, Phase::Preparing, Phase::Running, Phase::Recovering];
    let mut request = v1::ListJobsRequest {
        phases: phases.into_iter().map(i32::from).collect(),
        page_size: 1000,
        ..v1::ListJobsRequest::default()
    };
    let mut jobs = Vec::new();
    loop {
        let page = clients.jobs.list_jobs(request.clone()).await.map_err(text)?.into_inner();
        jobs.extend(page.jobs);
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    found.checks += 1;
    check(&jobs, found, seen);
    Ok(jobs.len())
}

/// What all jobs of one moment hold together.
#[derive(Default)]
struct TotalAllocated {
    gpus: BTreeMap<(String, u32), String>,
    nics: BTreeMap<(String, u32), String>,
    alone: BTreeMap<String, String>,
    on: BTreeMap<String, BTreeSet<String>>,
    of_tenant: BTreeMap<String, u32>,
    of_queue: BTreeMap<String, u32>,
    of_class: BTreeMap<String, u32>,
}

/// What the jobs of one moment are, each by itself and all together.
fn check(jobs: &[v1::Job], found: &mut Found, seen: &mut BTreeMap<String, Instant>) {
    let (mut held, mut waiting) = (TotalAllocated::default(), 0);
    for job in jobs {
        let (Some(metadata), Some(spec), Some(status)) = (&job.metadata, &job.spec, &job.status) else {
            found.violated("a job without metadata, spec or status".to_owned());
            continue;
        };
        let id = format!("{}/{}", metadata.tenant, metadata.name);
        found.states += 1;
        if status.phase() == Phase::Pending {
            waiting += 1;
            reported(&id, status, found, seen);
            continue;
        }
        let Some(placement) = &status.placement else {
            found.violated(format!("{id} is {:?} without a place", status.phase()));
            continue;
        };
        found.started.insert(id.clone());
        gang(&id, spec, placement, found);
        held.take(&id, (&metadata.tenant, spec), placement, found);
        let drained = |reason: &v1::Reason| ReasonCode::from_text(&reason.code) == ReasonCode::DrainedRails;
        if placement.reasons.iter().any(drained) {
            found.on_drained.insert(id.clone());
            if spec.rails.unwrap_or_default().avoid_drained() == v1::rail_request::AvoidDrained::Required {
                found.violated(format!("{id} does not want drained rails and has one"));
            }
        }
    }
    found.waiting += waiting as u64;
    found.most_waiting = found.most_waiting.max(waiting);
    held.limits(found);
}

impl TotalAllocated {
    fn take(
        &mut self,
        id: &str,
        (tenant, spec): (&str, &v1::JobSpec),
        placement: &v1::Placement,
        found: &mut Found,
    ) {
        let mut mine = 0;
        for place in placement.nodes.iter().chain(&placement.spares) {
            for gpu in &place.gpus {
                mine += 1;
                if let Some(other) = self.gpus.insert((place.node.clone(), *gpu), id.to_owned()) {
                    found.violated(format!("GPU {gpu} of {} is held by {other} and {id}", place.node));
                }
            }
            for nic in &place.nics {
                if let Some(other) = self.nics.insert((place.node.clone(), nic.rail), id.to_owned()) {
                    found
                        .violated(format!("rail {} of {} is held by {other} and {id}", nic.rail, place.node));
                }
            }
            self.on.entry(place.node.clone()).or_default().insert(id.to_owned());
            if placement.exclusive {
                self.alone.insert(place.node.clone(), id.to_owned());
            }
        }
        *self.of_tenant.entry(tenant.to_owned()).or_default() += mine;
        if spec.queue == "half" {
            *self.of_queue.entry(tenant.to_owned()).or_default() += mine;
        }
        if spec.service_class == CLASS.0 {
            *self.of_class.entry(tenant.to_owned()).or_default() += 1;
        }
    }

    fn limits(&self, found: &mut Found) {
        for (node, id) in &self.alone {
            let all = self.on.get(node).filter(|all| all.len() > 1);
            if let Some(all) = all {
                found.violated(format!("{id} wants nobody beside it on {node}: {all:?}"));
            }
        }
        for (tenant, quota) in TENANTS {
            let (all, half) = (self.of_tenant.get(tenant), self.of_queue.get(tenant));
            if all.is_some_and(|all| *all > quota) {
                found.violated(format!("{tenant} holds {all:?} of {quota} GPUs"));
            }
            if half.is_some_and(|half| *half > quota / 2) {
                found.violated(format!("queue {tenant}/half holds {half:?} of {} GPUs", quota / 2));
            }
        }
        // All submits are one administrator's, on behalf of a tenant.
        if self.of_class.values().any(|jobs| *jobs > CLASS.1) {
            found.violated(format!("jobs of class {} that hold a place: {:?}", CLASS.0, self.of_class));
        }
    }
}

/// Whether a gang has what it asked for.
fn gang(id: &str, spec: &v1::JobSpec, placement: &v1::Placement, found: &mut Found) {
    let (asked, rails) = (spec.gang.unwrap_or_default(), spec.rails.unwrap_or_default());
    let place = spec.placement.clone().unwrap_or_default();
    let nodes = u32::try_from(placement.nodes.len()).unwrap_or(u32::MAX);
    let least = if asked.min_nodes == 0 { asked.nodes } else { asked.min_nodes };
    if !(least..=asked.nodes).contains(&nodes) {
        found.violated(format!("{id} has {nodes} nodes of {least} to {}", asked.nodes));
    }
    let names: BTreeSet<&str> = placement.nodes.iter().map(|place| place.node.as_str()).collect();
    if names.len() != placement.nodes.len() {
        found.violated(format!("{id} has a node twice"));
    }
    let wanted = match (rails.none, rails.required) {
        (true, _) => 0,
        (_, 0) => RAILS,
        (_, count) => count,
    };
    let has = u32::try_from(placement.rails.len()).unwrap_or(u32::MAX);
    if has != wanted {
        found.violated(format!("{id} has {has} rails, it asked for {wanted}"));
    }
    if !rails.allow_partial && !placement.rails.iter().copied().eq(0..has) {
        found.violated(format!("{id} has rails {:?}, it asked for the first {has}", placement.rails));
    }
    let parts = spec.components.iter();
    let mut gpus = parts.flat_map(|part| std::iter::repeat_n(part.gpus_per_node, part.nodes as usize));
    for one in &placement.nodes {
        if one.gpus.len() != gpus.next().unwrap_or(asked.gpus_per_node) as usize {
            found.violated(format!("{id} has GPUs {:?} of {}", one.gpus, one.node));
        }
        if !one.nics.iter().map(|nic| nic.rail).eq(placement.rails.iter().copied()) {
            found.violated(format!("{id} is not on its rails on {}", one.node));
        }
        if place.exclude.contains(&one.node) {
            found.violated(format!("{id} is on {}, which it excludes", one.node));
        }
        let number: u32 = one.node.trim_start_matches('n').parse().unwrap_or(0);
        let half = ["even", "odd"][number as usize % 2];
        if place.selector.iter().any(|term| !term.values.iter().any(|value| value == half)) {
            found.violated(format!("{id} is on {}, whose label is {half}", one.node));
        }
    }
    let pods: BTreeSet<&str> = placement.nodes.iter().map(|place| place.pod.as_str()).collect();
    if place.within() == Within::Pod && pods.len() > 1 {
        found.violated(format!("{id} lies in {pods:?}, it asked for one pod"));
    }
    let mut by_pod: BTreeMap<&str, usize> = BTreeMap::new();
    placement.nodes.iter().for_each(|place| *by_pod.entry(place.pod.as_str()).or_default() += 1);
    for group in place.groups.iter().filter(|group| group.required) {
        if by_pod.values().any(|nodes| !nodes.is_multiple_of(group.size as usize)) {
            found.violated(format!("{id} splits groups of {}: {by_pod:?}", group.size));
        }
    }
}

/// Whether a job that waits has reasons and a forecast; but for those of which nobody can say it.
fn reported(id: &str, status: &v1::JobStatus, found: &mut Found, seen: &mut BTreeMap<String, Instant>) {
    let since = *seen.entry(format!("{id}.{}", status.attempt)).or_insert_with(Instant::now);
    if since.elapsed() < SOON {
        return;
    }
    if status.reasons.is_empty() {
        found.without_reason.insert(format!(
            "{id}, attempt {}, held: {}",
            status.attempt,
            !status.holds.is_empty()
        ));
    }
    // It waits for another job or for its turn in an array, is held, or has no place on what there is at the moment, or by its limits.
    let open_ended = |reason: &v1::Reason| {
        matches!(
            ReasonCode::from_text(&reason.code),
            ReasonCode::Dependency
                | ReasonCode::DependencyNeverMet
                | ReasonCode::ArrayTurn
                | ReasonCode::LeftQueue
                | ReasonCode::GangShape
                | ReasonCode::NodeShape
                | ReasonCode::NodeNotReady
                | ReasonCode::QuotaTooSmall
                | ReasonCode::NodeUnschedulable
                | ReasonCode::RailDrained
        )
    };
    if status.eta.is_none() && status.holds.is_empty() && !status.reasons.iter().any(open_ended) {
        let reported: Vec<String> =
            status.reasons.iter().map(|reason| format!("{}: {}", reason.code, reason.message)).collect();
        let (attempt, preempted, restarts) = (status.attempt, status.preempted, status.restarts);
        let key = format!("{id}, attempt {attempt}, preempted {preempted}, restarts {restarts}");
        found.without_eta.entry(key).or_insert_with(|| (0, format!("{reported:?}"))).0 += 1;
    }
}
