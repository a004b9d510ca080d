//! The world: its parts, its queue of events, its end.

use std::{collections::BTreeMap, sync::Arc};

use node_agent_core::{Key, Report as SupervisorReport, supervisor};
use proto_model::Timestamp;

use crate::{
    agent::Node,
    calls::{Outcome, Sent},
    check::Checks,
    client::{Client, Request},
    config::Config,
    controller::{Controller, Stepped},
    etcd::{Body, Etcd},
    faults::{Fault, Planned},
    network::{Connection, ToAgent, ToController},
    queue::Queue,
    report::{Report, Violation},
    rng::Rng,
};

/// Midnight of the simulated world, so that no time is zero.
pub const START_MS: u64 = 1_700_000_000_000;

/// What can happen. Numbers are indices into the world's lists.
#[derive(Debug)]
pub enum Event {
    /// A controller's process starts in a place.
    ControllerStart(usize),
    /// A controller takes what is in its inbox.
    Batch(usize),
    /// A call reaches etcd.
    Etcd(Box<Sent>),
    /// An answer of etcd reaches a controller.
    Reported(usize, u64, Box<Outcome>),
    /// A controller asks again what could not be asked.
    AskAgain(usize),
    /// A standby's watch delivers.
    Watch(usize),
    /// A controller's timer for its lease, and for looking who leads.
    LeaderCheck(usize),
    /// The lease of a controller may have ended.
    LeaseEnds(usize),
    /// A controller gets evidence that the leader of an epoch is gone.
    Evidence(usize, u64),
    /// A planted bug writes something late.
    Apart(usize, Arc<Body>),
    /// A planted bug persists something late.
    PersistLate(usize, u64, Box<node_agent_core::Record>),
    /// A timer of a controller's process, by its place.
    ControllerTick(usize),
    /// A message reaches a controller.
    ToController(u64, Box<ToController>),
    /// A message reaches an agent.
    ToAgent(u64, ToAgent),
    /// One end of a connection notices that it is gone; true: the agent's.
    Lost(u64, bool),
    /// An agent's process starts.
    AgentStart(usize),
    /// An agent tries to connect; its life, so that a dead one does not.
    AgentConnect(usize, u64),
    /// A timer of an agent's process: its server, and its life.
    AgentTick(usize, u64),
    /// A supervisor's word reaches the agent.
    FromSupervisor(usize, Key, Box<SupervisorReport>),
    /// Something happens to a supervisor.
    Supervisor(usize, Key, supervisor::Event),
    /// A rank's own end, with its status; the number of its process, so that it ends once.
    RankEnds(usize, Key, u32, i32),
    /// An engine notices what became of its peers.
    EngineLooks(usize, Key),
    /// A client acts, or acts again.
    Client(usize),
    /// A request reaches a controller.
    Request(usize, u64),
    /// An answer reaches a client.
    Answer(usize, u64, Box<crate::client::Answer>),
    /// A fault, or the end of one.
    Fault(Fault),
    /// A fault of the plan.
    Planned(usize),
}

/// Everything that a run consists of.
pub struct World {
    /// The size of the run.
    pub config: Config,
    /// The simulated time in milliseconds since the start.
    pub now: u64,
    /// The one source of chance.
    pub rng: Rng,
    queue: Queue<Event>,
    /// What is durable for controllers.
    pub etcd: Etcd,
    /// All lives of controllers.
    pub controllers: Vec<Controller>,
    /// Places for controllers' processes.
    pub slots: usize,
    /// Controllers' clocks may be an hour off and a tenth too fast or slow.
    pub skewed: bool,
    /// The servers, by number.
    pub nodes: Vec<Node>,
    /// The clients, one per job, and the administrator last.
    pub clients: Vec<Client>,
    /// Requests that are not answered yet, by number.
    pub requests: BTreeMap<u64, Request>,
    /// Open streams between agents and controllers, by number.
    pub connections: BTreeMap<u64, Connection>,
    /// Numbers connections, requests, lives of processes and ports.
    pub numbers: u64,
    /// What was checked so far.
    pub checks: Checks,
    /// No more faults, delays are short.
    pub calm: bool,
    /// The faults that come.
    pub plan: Vec<Planned>,
    /// Until when messages are lost, late and doubled.
    pub storm_until: u64,
    /// What the run has found so far.
    pub report: Report,
    /// Used again by each batch.
    pub(crate) spare_steps: Vec<Stepped>,
}

impl World {
    /// Puts an event into the queue.
    pub fn after(&mut self, delay: u64, event: Event) {
        self.at(self.now + delay, event);
    }

    /// Puts an event into the queue.
    pub fn at(&mut self, time: u64, event: Event) {
        self.queue.push(time, event);
    }

    /// The time as the cores see it.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        Timestamp(self.now)
    }

    /// A number that nothing else has.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A line of the story, made only if somebody reads it.
    pub fn notify(&mut self, line: impl FnOnce() -> String) {
        if self.config.story {
            let at = self.now - START_MS;
            self.report.story.push(format!("{at:>8} ms  {}", line()));
        }
    }

    /// An invariant does not hold; the first one counts.
    pub fn violated(&mut self, what: impl Into<String>) {
        if self.report.violation.is_none() {
            let violation = Violation { at_ms: self.now - START_MS, what: what.into() };
            self.report.violation = Some(violation);
        }
    }

    fn digest(&mut self, value: u64) {
        self.report.digest = (self.report.digest ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }

    /// Until when the process that the event is for is stopped.
    fn frozen(&self, event: &Event) -> u64 {
        match event {
            Event::Batch(controller)
            | Event::Reported(controller, ..)
            | Event::AskAgain(controller)
            | Event::Watch(controller)
            | Event::LeaderCheck(controller)
            | Event::Evidence(controller, _)
            | Event::ControllerTick(controller) => self.controllers[*controller].frozen_until,
            Event::AgentTick(node, _) | Event::AgentConnect(node, _) | Event::FromSupervisor(node, ..) => {
                self.nodes[*node].frozen_until
            }
            Event::ToAgent(connection, _) | Event::Lost(connection, true) => {
                let node = self.connections.get(connection).map(|stream| stream.node);
                node.map_or(0, |node| self.nodes[node].frozen_until)
            }
            _ => 0,
        }
    }

    fn handle(&mut self, event: Event) {
        let frozen = self.frozen(&event);
        if frozen > self.now {
            self.at(frozen, event);
            return;
        }
        match event {
            Event::ControllerStart(slot) => self.controller_start(slot),
            Event::Batch(controller) => self.batch(controller),
            Event::Etcd(sent) => self.etcd_hears(sent),
            Event::Reported(controller, number, outcome) => self.reported(controller, number, *outcome),
            Event::AskAgain(controller) => self.ask_again(controller),
            Event::Watch(controller) => self.watch_delivers(controller),
            Event::LeaderCheck(controller) => self.check(controller),
            Event::LeaseEnds(controller) => self.lease_ends(controller),
            Event::Evidence(controller, epoch) => self.evidence(controller, epoch),
            Event::Apart(controller, body) => self.write_apart(controller, body),
            Event::PersistLate(node, life, record) => self.persist_late(node, life, *record),
            Event::ControllerTick(controller) => self.controller_tick(controller),
            Event::ToController(connection, message) => self.controller_hears(connection, *message),
            Event::ToAgent(connection, message) => self.agent_hears(connection, message),
            Event::Lost(connection, agent) => self.connection_lost(connection, agent),
            Event::AgentStart(node) => self.agent_start(node),
            Event::AgentConnect(node, life) => self.agent_connect(node, life),
            Event::AgentTick(node, life) => self.agent_tick(node, life),
            Event::FromSupervisor(node, key, report) => self.from_supervisor(node, key, *report),
            Event::Supervisor(node, key, event) => self.supervisor(node, key, event),
            Event::RankEnds(node, key, rank, code) => self.rank_ends(node, key, rank, code),
            Event::EngineLooks(node, key) => self.engine_checks(node, key),
            Event::Client(client) => self.client_acts(client),
            Event::Request(client, number) => self.request_arrives(client, number),
            Event::Answer(client, number, answer) => self.answer_arrives(client, number, *answer),
            Event::Fault(fault) => self.fault(fault),
            Event::Planned(at) => self.strike(at),
        }
    }

    fn kind(event: &Event) -> u64 {
        match event {
            Event::ControllerStart(_) => 1,
            Event::Batch(_) => 2,
            Event::Etcd(_) => 3,
            Event::ControllerTick(_) => 4,
            Event::ToController(..) => 5,
            Event::ToAgent(..) => 6,
            Event::Lost(..) => 7,
            Event::AgentStart(_) => 8,
            Event::AgentConnect(..) => 9,
            Event::AgentTick(..) => 10,
            Event::FromSupervisor(..) => 11,
            Event::Supervisor(..) => 12,
            Event::RankEnds(..) => 13,
            Event::EngineLooks(..) => 14,
            Event::Client(_) => 15,
            Event::Request(..) => 16,
            Event::Answer(..) => 17,
            Event::Fault(_) => 18,
            Event::Planned(_) => 19,
            Event::Reported(..) => 20,
            Event::AskAgain(_) => 21,
            Event::Watch(_) => 22,
            Event::LeaderCheck(_) => 23,
            Event::LeaseEnds(_) => 24,
            Event::Evidence(..) => 25,
            Event::Apart(..) => 26,
            Event::PersistLate(..) => 27,
        }
    }

    /// Runs until `until`, or until everything has settled if asked for.
    fn run_until(&mut self, until: u64, settled: bool) -> bool {
        let mut checked = self.now;
        while self.report.violation.is_none() {
            let Some((time, event)) = self.queue.pop(until) else { break };
            self.now = self.now.max(time);
            self.report.events += 1;
            self.digest(time << 8 | Self::kind(&event));
            self.handle(event);
            if settled && self.now > checked + 1000 {
                checked = self.now;
                if self.is_settled() {
                    return true;
                }
            }
        }
        false
    }
}

/// Runs one seed to its end and reports what was found.
#[must_use]
pub fn run(seed: u64, config: &Config) -> Report {
    let mut world = World {
        config: config.clone(),
        now: START_MS,
        rng: Rng::new(seed),
        queue: Queue::default(),
        etcd: Etcd::default(),
        controllers: Vec::new(),
        slots: 1,
        skewed: false,
        nodes: Vec::new(),
        clients: Vec::new(),
        requests: BTreeMap::new(),
        connections: BTreeMap::new(),
        numbers: 0,
        checks: Checks::default(),
        calm: false,
        plan: Vec::new(),
        storm_until: 0,
        report: Report { seed, digest: seed, ..Report::default() },
        spare_steps: Vec::new(),
    };
    world.furnish();
    let end = START_MS + config.chaos_ms;
    world.run_until(end, false);
    world.calm_down(end);
    let settled = world.run_until(end + config.settle_ms, true);
    if !settled {
        let left = world.unsettled();
        world.violated(format!(
            "nothing fails any more, and after {} s not all has settled: {left}",
            config.settle_ms / 1000
        ));
    }
    world.run_until(START_MS + config.run_ms, false);
    world.finish_report();
    world.report
}
