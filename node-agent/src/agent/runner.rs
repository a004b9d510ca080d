//! The one task that owns the agent's state: events in, actions carried out in their order.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use node_agent_attempt::{
    layout::JobDir,
    saved::state_word,
    state_files::encode_record,
    supervisor_config::{GpuSummary, SupervisorConfig},
};
use node_agent_core::{Action, Event, Goal, Key, Message, Order, Record, Report, State, step};
use node_agent_health::JobUse;
use node_agent_host::{
    Discovery,
    changes::{Recent, diff},
    nccl_environment, nccl_topology,
};
use node_agent_os::files::{self, Durability};
use node_agent_qos::DataClass;
use node_agent_qos_apply::data_class::DataClasses;
use node_agent_rank::{cgroup::limits::Limits, isolation::devices};
use proto_model::{
    Assignment, DesiredState, Gpu, NicHealth, NodePlace, Observed, QosPort, RailProof, Timestamp,
};
use proto_rpc::{Client, ClientOptions, Credentials, trace};
use proto_wire::v1::{self, agent_message};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::MissedTickBehavior,
};
use tracing::{Instrument, Span};

use crate::{
    agent::{
        Limiting, Setup,
        check::{Found, Looking, Watch, notice},
        health::{CounterPaths, Note, Watcher},
        identity,
        link::{self, LinkEvent, Outgoing},
        prove::Provers,
        ranks::{GivenCpus, GivenUids},
        recover,
        watch::{self, About},
    },
    kept,
};

/// Events that wait for the agent.
const EVENTS: usize = 1024;
/// How often the core gets an event that time passes.
const TICK: Duration = Duration::from_secs(1);

struct Runner {
    setup: Arc<Setup>,
    discovery: Discovery,
    state: State,
    events: mpsc::Sender<Event>,
    orders: BTreeMap<Key, mpsc::Sender<Order>>,
    controller: Option<Outgoing>,
    /// `prepare` until the engine listens, then `start` until the ranks run.
    spans: BTreeMap<Key, Span>,
    exits_reported: BTreeMap<Key, BTreeSet<u32>>,
    health: Option<Watcher>,
    /// The jobs that the health thread knows of.
    noted: Option<Vec<JobUse>>,
    /// Changes of the inventory that are reported, the latest ones.
    recent: Recent,
    /// Probes of rails that are out of use.
    provers: Provers,
    /// In which data class data is on each rail now.
    data_classes: DataClasses,
    /// Users that attempts have of their own.
    uids: GivenUids,
    cpus: GivenCpus,
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(setup: Arc<Setup>, watch: Watch, discovery: Discovery, credentials: Credentials) {
    let (events, mut received) = mpsc::channel(EVENTS);
    let (link_events, mut linked) = mpsc::channel(EVENTS);
    let mut runner = Runner::new(Arc::clone(&setup), discovery, events);
    runner.discovery.inventory.isolation.clone_from(&setup.isolation);
    let mut looking = Looking::default();
    let Watch { host, mut notices, every } = watch;
    runner.health = watch_health(&setup, &runner.discovery);
    let mut qos = setup.qos.ports.clone();
    runner.discovery.inventory.qos.clone_from(&qos.borrow_and_update());
    let mut reported = runner.health.as_ref().map(|health| health.reported.clone());
    if let Some(reported) = &mut reported {
        runner.discovery.inventory.health.clone_from(&reported.borrow_and_update());
    }
    runner.say_findings();
    runner.recover().await;
    let client = match Client::new(&setup.controller, &credentials, &ClientOptions::default()) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "no client of the controller can be made");
            return;
        }
    };
    if let Some(kept) = identity::RenewedIdentity::of(&credentials) {
        tokio::spawn(identity::keep(Arc::clone(&setup), kept, client.clone()));
    }
    let notifications = runner.health.as_ref().map(|health| health.notifications.clone());
    tokio::spawn(link::keep(setup, client, notifications, link_events));
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be handled");
        return;
    };
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut check = tokio::time::interval(every);
    check.set_missed_tick_behavior(MissedTickBehavior::Skip);
    check.reset();
    loop {
        tokio::select! {
            Some(event) = received.recv() => runner.handle(event).await,
            Some(event) = linked.recv() => runner.on_report(event).await,
            _ = tick.tick() => runner.handle(Event::Tick).await,
            _ = check.tick() => looking.begin(&host),
            Some(()) = notice(&mut notices) => looking.begin(&host),
            Some(found) = looking.done(&host) => runner.see(found),
            Some(sick) = changed(&mut reported) => runner.on_health(sick),
            Ok(()) = qos.changed() => runner.on_qos(qos.borrow_and_update().clone()),
            _ = terminate.recv() => break,
            _ = interrupt.recv() => break,
        }
    }
    let jobs = runner.state.records().filter(|record| !record.ended()).count();
    tracing::info!(jobs, "ending; jobs go on under their supervisors");
}

/// Starts the thread that reads counters; without it nothing is known of the rails' health, and jobs go on.
fn watch_health(setup: &Setup, discovery: &Discovery) -> Option<Watcher> {
    let (kept, faults) = (setup.data.health(), setup.qos_faults.clone());
    let place = CounterPaths { root: setup.counters.clone()?, kept, faults, flaps: setup.qos.flaps.clone() };
    let started = Watcher::start(place, &discovery.inventory.nics, setup.metrics.clone());
    started.inspect_err(|error| tracing::error!(%error, "no thread for the health of rails")).ok()
}

/// What is wrong with NICs, when that changes; never where nobody watches.
async fn changed(
    reported: &mut Option<tokio::sync::watch::Receiver<Vec<NicHealth>>>,
) -> Option<Vec<NicHealth>> {
    if let Some(receiver) = reported
        && receiver.changed().await.is_ok()
    {
        return Some(receiver.borrow_and_update().clone());
    }
    std::future::pending().await
}

impl Runner {
    fn new(setup: Arc<Setup>, discovery: Discovery, events: mpsc::Sender<Event>) -> Self {
        Self {
            discovery,
            state: State::default(),
            events,
            orders: BTreeMap::new(),
            controller: None,
            spans: BTreeMap::new(),
            exits_reported: BTreeMap::new(),
            health: None,
            noted: None,
            recent: Recent::default(),
            provers: Provers::default(),
            data_classes: setup.data_classes.clone(),
            uids: GivenUids::read(&setup.data),
            cpus: GivenCpus::read(&setup.data),
            setup,
        }
    }

    fn note_nics(&mut self) {
        if let Some(health) = &mut self.health {
            health.nics(&self.discovery.inventory.nics);
        }
    }

    /// Tells the health thread which jobs use which rails, if that has changed.
    fn note_jobs(&mut self) {
        let Some(health) = &self.health else { return };
        // As NICs are kept now: a job that began before a profile changed sends in what is no data class any more.
        let uses = |record: &Record| {
            let endpoints = record.seen.endpoints.iter().filter(|_| !record.ended());
            let (job, split) =
                (record.key.uid, self.data_classes.split(endpoints.map(|endpoint| endpoint.rail)));
            split.into_iter().map(move |(data_class, rails)| JobUse {
                job,
                rails,
                lossless: data_class.lossless.get(),
                cnp: data_class.cnp.get(),
            })
        };
        let jobs: Vec<JobUse> = self.state.records().flat_map(uses).collect();
        if self.noted.as_ref() != Some(&jobs) && health.note(Note::Jobs(jobs.clone())) {
            self.noted = Some(jobs);
        }
    }

    /// Takes part in probes; what becomes of those that this server begins, the health thread takes.
    fn prove(&mut self, proofs: Vec<RailProof>) {
        let health = self.health.as_ref().map(Watcher::notes);
        self.provers.take(proofs, &self.discovery.inventory.nics, &self.data_classes, health.as_ref());
    }

    /// What is wrong with NICs has changed: it is part of the inventory.
    fn on_health(&mut self, sick: Vec<NicHealth>) {
        self.discovery.inventory.health = sick;
        let wire = (&self.discovery.inventory).into();
        self.send_body(agent_message::Body::Inventory(wire));
    }

    /// How NICs stand to their desired state has changed: it is part of the inventory.
    fn on_qos(&mut self, ports: Vec<QosPort>) {
        self.discovery.inventory.qos = ports;
        let wire = (&self.discovery.inventory).into();
        self.send_body(agent_message::Body::Inventory(wire));
    }

    fn say_findings(&self) {
        for finding in &self.discovery.findings {
            tracing::warn!(
                kind = finding.kind.code().as_str(),
                subject = finding.subject,
                "{}",
                finding.message
            );
        }
        let inventory = &self.discovery.inventory;
        tracing::info!(
            gpus = inventory.gpus.len(),
            nics = inventory.nics.len(),
            cpus = inventory.cpus,
            "inventory"
        );
    }

    async fn recover(&mut self) {
        let actions = step(&mut self.state, recover::read(&self.setup.data), now());
        let live: Vec<Key> = (self.state.records())
            .filter(|record| record.life == node_agent_core::Life::Spawned && !record.ended())
            .map(|record| record.key)
            .collect();
        for key in live {
            tracing::info!(%key, "re-attaching");
            self.watch(key);
        }
        for action in actions {
            match action {
                Action::Reap(key) => self.reap(key),
                Action::PersistRecord(record) => {
                    let _ = self.persist(&record).await;
                }
                _ => {}
            }
        }
        self.note_whether_busy();
    }

    /// What harms traffic is done to NICs only while no job is here.
    fn note_whether_busy(&self) {
        self.setup.qos.busy(self.state.records().any(|record| !record.ended()));
    }

    async fn on_report(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Up(stream) => {
                self.controller = Some(stream);
                self.handle(Event::Connected).await;
            }
            LinkEvent::Down => {
                self.controller = None;
                self.handle(Event::Disconnected).await;
            }
            LinkEvent::Core(event) => self.handle(event).await,
        }
    }

    async fn handle(&mut self, event: Event) {
        let about = match &event {
            Event::Supervisor { key, .. } => Some(*key),
            _ => None,
        };
        let raises = matches!(&event, Event::Command { epoch, .. } if *epoch > self.state.epoch());
        let before = raises.then(|| self.state.clone());
        let actions = step(&mut self.state, event, now());
        if let Some(key) = about {
            self.note_progress(key);
        }
        if let (Some(before), Some(Action::PersistEpoch(epoch))) = (before, actions.first())
            && let Err(error) = self.persist_epoch(*epoch).await
        {
            tracing::error!(%error, epoch, "an epoch that cannot be kept cannot be obeyed");
            // As if the command had never come; the controller says it again on the next stream.
            self.state = before;
            self.hang_up();
            return;
        }
        self.carry_out(actions).await;
        if let Some(health) = &mut self.health {
            health.repeat();
        }
        self.note_jobs();
        self.note_whether_busy();
        self.count();
    }

    /// In order; what follows a failed persist is not done.
    async fn carry_out(&mut self, actions: Vec<Action>) {
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            match action {
                // `handle` has done it: it comes first, and all that follows depends on it.
                Action::PersistEpoch(_) => {}
                Action::PersistRecord(record) => {
                    if let Err(error) = self.persist(&record).await {
                        tracing::error!(%error, key = %record.key, "a record cannot be kept");
                        self.fail_spawns(actions, &error.to_string());
                        return;
                    }
                }
                Action::SpawnSupervisor(assignment) => self.spawn(*assignment),
                Action::TellSupervisor { key, order } => self.order(key, order),
                Action::Reap(key) => self.reap(key),
                Action::Send(message) => self.send(message),
                Action::RemoveRecord(key) => self.remove(key),
                Action::KeepQos(desired) => {
                    self.data_classes.desired(&desired);
                    self.setup.qos.desired(desired);
                }
                Action::Prove(proofs) => self.prove(proofs),
            }
        }
    }

    /// When this returns the epoch survives a power cut. Other tasks go on meanwhile; this one waits, as all that follows depends on it.
    async fn persist_epoch(&self, epoch: u64) -> std::io::Result<()> {
        let path = self.setup.data.epoch();
        self.setup.disk.run(move || files::write_json(&path, &epoch, Durability::Power)).await?
    }

    async fn persist(&self, record: &Record) -> std::io::Result<()> {
        let (dir, bytes) = (self.setup.data.job(record.key), encode_record(record));
        let write = move || {
            dir.make()?;
            dir.record().write(&bytes, Durability::Process)
        };
        self.setup.disk.run(write).await?
    }

    /// The disk is full, for example: what would have been started fails with that cause; what stops still stops.
    fn fail_spawns(&mut self, rest: impl Iterator<Item = Action>, why: &str) {
        for action in rest {
            match action {
                Action::SpawnSupervisor(assignment) => {
                    let message = format!("the record of the attempt cannot be written: {why}");
                    self.report(Key::of(&assignment), Report::SpawnFailed { message });
                }
                Action::TellSupervisor { key, order: order @ Order::Stop { .. } } => self.order(key, order),
                Action::Reap(key) => self.reap(key),
                _ => {}
            }
        }
    }

    fn report(&self, key: Key, report: Report) {
        let events = self.events.clone();
        tokio::spawn(async move {
            // Fails only when the agent ends.
            let _ = events.send(Event::Supervisor { key, report: Box::new(report) }).await;
        });
    }

    fn spawn(&mut self, assignment: Assignment) {
        let key = Key::of(&assignment);
        let id = &assignment.id;
        let span = tracing::info_span!(
            "prepare", tenant = %id.tenant, job = %id.name, node = %self.setup.node, attempt = key.attempt
        );
        trace::follow(&span, &assignment.trace_parent);
        span.in_scope(|| tracing::info!("starting a supervisor"));
        let dir = self.setup.data.job(key);
        let uid = match self.uids.give(&self.setup.ranks, key) {
            Ok(uid) => uid,
            Err(message) => return self.report(key, Report::SpawnFailed { message }),
        };
        let supervisor_config = self.supervisor_config(&dir, &assignment, uid);
        self.cpus.give(key, &supervisor_config);
        let (sender, receiver) = mpsc::channel(watch::ORDERS);
        self.orders.insert(key, sender);
        let (setup, events) = (Arc::clone(&self.setup), self.events.clone());
        self.spans.insert(key, span.clone());
        let task = async move {
            // The span is of preparing, so it must not be held for as long as the job runs.
            let spawned = watch::spawn(&setup, &assignment, &supervisor_config).instrument(span).await;
            let about = About { id: assignment.id, trace_parent: assignment.trace_parent };
            match spawned {
                Ok(child) => watch::watch(setup, key, about, Some(child), receiver, events).await,
                Err(message) => {
                    let report = Box::new(Report::SpawnFailed { message });
                    let _ = events.send(Event::Supervisor { key, report }).await;
                }
            }
        };
        tokio::spawn(task);
    }

    fn supervisor_config(&self, dir: &JobDir, assignment: &Assignment, uid: Option<u32>) -> SupervisorConfig {
        let place = match &assignment.desired {
            DesiredState::Prepared { placement, .. } | DesiredState::Running { placement, .. } => {
                placement.nodes.iter().find(|place| place.node == self.setup.node)
            }
            DesiredState::Stopped { .. } => None,
        };
        let rails = place.into_iter().flat_map(|place| &place.nics).map(|nic| nic.rail);
        let gpu_files = place.map(|place| self.gpu_files(place)).unwrap_or_default();
        let limits = place.map(|place| self.limits(place, &gpu_files)).unwrap_or_default();
        let mut supervisor_config = SupervisorConfig {
            node: self.setup.node.to_string(),
            engine: self.setup.programs.engine.clone(),
            starter: self.setup.ranks.starter.clone(),
            library: self.setup.programs.library.clone(),
            environment: BTreeMap::new(),
            log_bytes: self.setup.log_bytes,
            cgroups: self.setup.limiting.cgroups,
            own_cpus: place.is_some_and(|place| limits.gives_cpus(place)),
            limits,
            rank_user: self.setup.ranks.user(uid, &gpu_files),
            own_uid: uid.is_some(),
            rank_limits: self.setup.ranks.limits,
            isolation: self.setup.ranks.isolation.clone(),
            data: self.setup.data.root().to_owned(),
            gpu_files,
            engine_memory: Some(self.setup.ranks.engine_memory(&self.discovery.inventory)),
            gpus: place.map(|place| self.gpus(place)).unwrap_or_default(),
            gpu_names: place.map(|place| self.gpu_names(place)).unwrap_or_default(),
            drained: self.state.drained().into_iter().collect(),
            data_classes: self.data_classes.each(rails),
        };
        supervisor_config.environment =
            place.map(|place| self.nccl(dir, place, supervisor_config.data_class())).unwrap_or_default();
        supervisor_config
    }

    /// What a job's ranks may use of this server, of what can be limited here.
    fn limits(&self, place: &NodePlace, gpu_files: &[PathBuf]) -> Limits {
        let Setup { limiting, isolation, .. } = self.setup.as_ref();
        let Limiting { rank_groups, server, .. } = limiting;
        let given = self.cpus.all();
        rank_groups
            .limits(server, &self.discovery.inventory, place, gpu_files, &given)
            .only(isolation.active())
    }

    /// What was found of the GPUs that a job holds.
    fn gpus(&self, place: &NodePlace) -> Vec<GpuSummary> {
        let here = self.discovery.inventory.gpus.iter();
        here.filter(|gpu| place.gpus.contains(&gpu.index)).filter_map(GpuSummary::of).collect()
    }

    /// By what names CUDA knows the GPUs that a job holds, on a server with MIG instances: those have no numbers there, and the numbers
    /// of whole GPUs beside them are others than ours.
    fn gpu_names(&self, place: &NodePlace) -> BTreeMap<u32, String> {
        let gpus = &self.discovery.inventory.gpus;
        if !gpus.iter().any(Gpu::is_partition) {
            return BTreeMap::new();
        }
        let here = gpus.iter().filter(|gpu| place.gpus.contains(&gpu.index) && !gpu.uuid.is_empty());
        here.map(|gpu| (gpu.index, gpu.uuid.clone())).collect()
    }

    /// Device files of the GPUs that a job holds.
    fn gpu_files(&self, place: &NodePlace) -> Vec<PathBuf> {
        let here = self.discovery.inventory.gpus.iter().filter(|gpu| place.gpus.contains(&gpu.index));
        let device = |gpu: &Gpu| devices::Device {
            pci: gpu.pci_address.clone(),
            mig: gpu.facts.as_deref().and_then(|facts| facts.mig),
        };
        let (known, unknown): (Vec<_>, Vec<_>) = here.map(device).partition(|gpu| !gpu.pci.is_empty());
        if !unknown.is_empty() && devices::any(Path::new("/")) {
            tracing::warn!(
                gpus = unknown.len(),
                "GPUs without a PCI address cannot be shown to their job alone, and are not shown"
            );
        }
        devices::of_gpus(Path::new("/"), &known)
    }

    fn nccl(&self, dir: &JobDir, place: &NodePlace, data_class: DataClass) -> BTreeMap<String, String> {
        let topology = nccl_topology(&self.discovery, place).and_then(|text| {
            let path = dir.topology();
            // A hint for NCCL, no more: without it NCCL looks for itself.
            files::write_atomic(&path, text.as_bytes(), Durability::Process).ok().map(|()| path)
        });
        nccl_environment(&self.discovery, place, data_class, topology.as_deref())
    }

    fn watch(&mut self, key: Key) {
        let (sender, receiver) = mpsc::channel(watch::ORDERS);
        self.orders.insert(key, sender);
        let Some(record) = self.state.record(key) else { return };
        let about = About { id: record.id.clone(), trace_parent: record.trace_parent.clone() };
        let (setup, events) = (Arc::clone(&self.setup), self.events.clone());
        tokio::spawn(watch::watch(setup, key, about, None, receiver, events));
    }

    fn order(&mut self, key: Key, order: Order) {
        let is_start = |span: &Span| span.metadata().is_some_and(|meta| meta.name() == "start");
        let begun = self.spans.get(&key).is_some_and(is_start);
        if let (Order::Start { .. }, Some(record), false) = (&order, self.state.record(key), begun) {
            let id = &record.id;
            let span = tracing::info_span!(
                "start", tenant = %id.tenant, job = %id.name, node = %self.setup.node, attempt = key.attempt
            );
            trace::follow(&span, &record.trace_parent);
            self.spans.insert(key, span);
        }
        if let Some(orders) = self.orders.get(&key) {
            // Full: the supervisor's next report brings the order again.
            let _ = orders.try_send(order);
        }
    }

    fn reap(&mut self, key: Key) {
        tracing::warn!(%key, "the supervisor is gone; ending what it had started");
        self.orders.remove(&key);
        let (dir, events) = (self.setup.data.job(key), self.events.clone());
        tokio::spawn(async move {
            let report = Box::new(Report::Reaped(recover::reap(dir).await));
            let _ = events.send(Event::Supervisor { key, report }).await;
        });
    }

    fn remove(&mut self, key: Key) {
        self.orders.remove(&key);
        self.spans.remove(&key);
        self.exits_reported.remove(&key);
        self.uids.take_back(key);
        self.cpus.take_back(key);
        if let Err(error) = kept::keep(&self.setup.data, key) {
            tracing::warn!(%error, %key, "an attempt's directory cannot be put away");
        }
    }

    fn send(&mut self, message: Message) {
        if matches!(message, Message::StaleEpoch { .. }) {
            self.setup.metrics.stale.inc([]);
            tracing::warn!(?message, "a command with a low epoch was refused");
        }
        let body = match message {
            Message::Register { epoch, observations } => agent_message::Body::Register(v1::Register {
                node: self.setup.node.to_string(),
                agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                inventory: Some((&self.discovery.inventory).into()),
                observations: observations.iter().map(Into::into).collect(),
                epoch,
            }),
            Message::Observation(observation) => {
                agent_message::Body::Observation(observation.as_ref().into())
            }
            Message::StaleEpoch { refused, current } => {
                agent_message::Body::StaleEpoch(v1::StaleEpoch { refused, current })
            }
        };
        self.send_body(body);
    }

    fn send_body(&mut self, body: agent_message::Body) {
        let Some(stream) = &self.controller else { return };
        if stream.sender.try_send(v1::AgentMessage { body: Some(body) }).is_err() {
            self.hang_up();
        }
    }

    /// Ends the stream; the registration on the next one reports everything again.
    fn hang_up(&mut self) {
        if let Some(stream) = self.controller.take() {
            stream.hang_up.cancel();
        }
    }

    /// What a check found: what is new is logged, counted, and reported.
    fn see(&mut self, found: Found) {
        let mut discovery = match found {
            Ok(discovery) => discovery,
            Err(error) => {
                tracing::warn!(%error, "the inventory stays as it was");
                return;
            }
        };
        let changes = diff(&self.discovery.inventory, &discovery.inventory);
        for change in &changes {
            tracing::info!(
                kind = change.kind.code().as_str(),
                subject = change.subject,
                "inventory: {change}"
            );
            self.setup.metrics.changes.inc([change.kind.code().as_str()]);
        }
        self.recent.take(&changes, now());
        let reported = discovery.findings != self.discovery.findings;
        discovery.inventory.health.clone_from(&self.discovery.inventory.health);
        discovery.inventory.qos.clone_from(&self.discovery.inventory.qos);
        discovery.inventory.isolation.clone_from(&self.setup.isolation);
        discovery.inventory.changes = self.recent.reasons().to_vec();
        let changed = discovery.inventory != self.discovery.inventory;
        self.discovery = discovery;
        if reported {
            self.say_findings();
        }
        if changed {
            self.note_nics();
            self.setup.qos.nics(&self.discovery.inventory.nics);
            let wire = (&self.discovery.inventory).into();
            self.send_body(agent_message::Body::Inventory(wire));
        }
    }

    /// Spans end and lines are written as an attempt moves on.
    fn note_progress(&mut self, key: Key) {
        let Some(record) = self.state.record(key) else { return };
        let span = self.spans.get(&key).cloned().unwrap_or_else(Span::none);
        let reported = self.exits_reported.entry(key).or_default();
        for exit in record.seen.exits.iter().filter(|exit| !reported.contains(&exit.rank)) {
            let outcome = if exit.is_success() { "ok" } else { "failed" };
            self.setup.metrics.exits.inc([outcome]);
            span.in_scope(|| tracing::info!(job = %record.id, rank = exit.rank, code = exit.code, signal = exit.signal, "rank ended"));
        }
        *reported = record.seen.exits.iter().map(|exit| exit.rank).collect();
        let preparing = matches!(record.goal, Goal::Prepared) && record.seen.state < Observed::Prepared;
        let starting = matches!(record.goal, Goal::Running { .. }) && record.seen.state < Observed::Running;
        if !preparing && !starting {
            self.spans.remove(&key);
        }
        if record.ended() && self.orders.remove(&key).is_some() {
            let cause = record.seen.cause.as_ref().map(ToString::to_string);
            tracing::info!(job = %record.id, attempt = key.attempt, cause, "nothing of the attempt is left here");
        }
    }

    fn count(&self) {
        let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
        for state in [
            Observed::Preparing,
            Observed::Prepared,
            Observed::Starting,
            Observed::Running,
            Observed::Stopping,
            Observed::Ended,
        ] {
            counts.insert(state_word(state), 0);
        }
        for record in self.state.records() {
            *counts.entry(state_word(record.observation().state)).or_default() += 1;
        }
        for (state, count) in counts {
            self.setup.metrics.attempts.set([state], count);
        }
    }
}
