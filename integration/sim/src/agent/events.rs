//! What a server's agent does in the world.

use node_agent_core::{self as core, Action, Key, Record, Recovered, Report};

use crate::{
    network::{Connection, ToController},
    plant::Bug,
    world::{Event, World},
};

/// How often an agent speaks.
const HEARTBEAT_MS: u64 = 30_000;

impl World {
    /// An agent's process starts and reads its disk.
    pub fn agent_start(&mut self, node: usize) {
        let bug = self.config.bug;
        let server = &mut self.nodes[node];
        if !server.powered || server.agent.is_some() {
            return;
        }
        let records: Vec<Recovered> = server
            .records
            .values()
            .map(|record| {
                let supervised = server.supervised.get(&record.key);
                let mut record = record.clone();
                if let Some(supervised) = supervised {
                    record.seen.merge(supervised.durable.clone());
                }
                let alive = supervised.is_some_and(|s| s.alive) && bug != Some(Bug::ReapLiving);
                Recovered { record, alive, ran: supervised.is_some() && bug != Some(Bug::StartAgain) }
            })
            .collect();
        let reports: Vec<(Key, Report)> = server
            .supervised
            .iter()
            .filter(|(key, supervised)| supervised.alive && server.records.contains_key(key))
            .map(|(key, supervised)| (*key, Report::State(supervised.durable.clone())))
            .collect();
        let epoch = server.epoch;
        server.agent = Some(core::State::default());
        let life = self.number();
        self.nodes[node].life = life;
        self.notify(|| format!("n{node}: agent starts with epoch {epoch}, {} records", records.len()));
        self.agent_event(node, core::Event::Recovered { epoch, records });
        for (key, report) in reports {
            self.after(2, Event::FromSupervisor(node, key, Box::new(report)));
        }
        let wait = self.rng.range(5..300);
        self.after(wait, Event::AgentConnect(node, life));
        self.after(HEARTBEAT_MS, Event::AgentTick(node, life));
    }

    /// An agent's process is gone; supervisors live on.
    pub fn agent_dies(&mut self, node: usize, restart: Option<u64>) {
        if self.nodes[node].agent.take().is_none() {
            return;
        }
        self.notify(|| format!("n{node}: agent dies"));
        self.nodes[node].life = 0;
        if let Some(connection) = self.nodes[node].connection.take() {
            if let Some(stream) = self.connections.get_mut(&connection) {
                stream.agent_open = false;
            }
            let wait = self.rng.range(1..4000);
            self.after(wait, Event::Lost(connection, false));
        }
        if let Some(wait) = restart {
            self.after(wait, Event::AgentStart(node));
        }
    }

    pub(crate) fn lives(&self, node: usize, life: u64) -> bool {
        self.nodes[node].agent.is_some() && self.nodes[node].life == life
    }

    /// An agent looks for a controller.
    pub fn agent_connect(&mut self, node: usize, life: u64) {
        if !self.lives(node, life) || self.nodes[node].connection.is_some() {
            return;
        }
        let wait = self.rng.range(100..1500);
        let mut controller = self.leader();
        if self.rng.chance(200) {
            // A replaced controller that does not know it yet still answers.
            controller = self.controllers.iter().position(|old| old.state.is_some());
        }
        let away = self.now < self.nodes[node].cut_until || !self.nodes[node].joined;
        let Some(controller) = controller.filter(|_| !away) else {
            self.after(wait, Event::AgentConnect(node, life));
            return;
        };
        let connection = self.number();
        self.connections.insert(connection, Connection::new(node, life, controller));
        self.nodes[node].connection = Some(connection);
        self.notify(|| format!("n{node}: connects to controller {controller} as {connection}"));
        self.agent_event(node, core::Event::Connected);
    }

    /// Steps an agent's core by time, if this life of the agent has not ended.
    pub fn agent_tick(&mut self, node: usize, life: u64) {
        if !self.lives(node, life) {
            return;
        }
        if let Some(connection) = self.nodes[node].connection {
            self.send_to_controller(connection, ToController::Heartbeat);
        }
        self.agent_event(node, core::Event::Tick);
        self.after(HEARTBEAT_MS, Event::AgentTick(node, life));
    }

    /// A supervisor's word reaches the agent, if it lives.
    pub fn from_supervisor(&mut self, node: usize, key: Key, report: Report) {
        self.agent_event(node, core::Event::Supervisor { key, report: Box::new(report) });
    }

    /// Something happens to an agent: its core decides, the shell does it, and may die at any point of that.
    pub fn agent_event(&mut self, node: usize, event: core::Event) {
        let now = self.time();
        let full = self.now < self.nodes[node].disk_full_until;
        let Some(agent) = &mut self.nodes[node].agent else { return };
        let raises = matches!(&event, core::Event::Command { epoch, .. } if *epoch > agent.epoch());
        let before = (full && raises).then(|| agent.clone());
        let actions = core::step(agent, event, now);
        if let (Some(before), Some(Action::PersistEpoch(_))) = (before, actions.first()) {
            // An epoch that cannot be kept cannot be obeyed.
            self.nodes[node].agent = Some(before);
            if let Some(connection) = self.nodes[node].connection {
                self.cut(connection);
            }
            return;
        }
        let mut actions = actions.into_iter();
        while let Some(action) = actions.next() {
            if self.config.noise && !self.calm && self.rng.below(2000) == 0 {
                let restart = self.rng.range(100..8000);
                self.agent_dies(node, Some(restart));
            }
            if self.nodes[node].agent.is_none() {
                return;
            }
            if full && matches!(action, Action::PersistRecord(_)) {
                return self.cannot_persist(node, actions);
            }
            self.agent_acts(node, action);
        }
    }

    /// What would have been started fails; what stops still stops.
    fn cannot_persist(&mut self, node: usize, rest: impl Iterator<Item = Action>) {
        self.notify(|| format!("n{node}: a record cannot be kept"));
        for action in rest {
            match action {
                Action::SpawnSupervisor(assignment) => {
                    let report = Report::SpawnFailed { message: "no space left".to_owned() };
                    self.after(1, Event::FromSupervisor(node, Key::of(&assignment), Box::new(report)));
                }
                Action::TellSupervisor { order: core::Order::Stop { .. }, .. } | Action::Reap(_) => {
                    self.agent_acts(node, action);
                }
                _ => {}
            }
        }
    }

    fn agent_acts(&mut self, node: usize, action: Action) {
        match action {
            Action::PersistEpoch(epoch) => {
                if !self.bug(Bug::ForgetEpoch) {
                    self.nodes[node].epoch = epoch;
                }
            }
            Action::PersistRecord(record) => {
                if self.bug(Bug::PersistLate) {
                    self.after(400, Event::PersistLate(node, self.nodes[node].life, record));
                } else if !self.bug(Bug::ForgetRecords) {
                    self.nodes[node].records.insert(record.key, *record);
                }
            }
            Action::SpawnSupervisor(assignment) => self.spawn_supervisor(node, *assignment),
            Action::TellSupervisor { key, order } => {
                if matches!(order, core::Order::Stop { .. }) {
                    self.check_stop(node, key);
                    if self.bug(Bug::EndedWhenTold) {
                        let snapshot =
                            core::Snapshot { state: proto_model::Observed::Ended, ..Default::default() };
                        self.after(2, Event::FromSupervisor(node, key, Box::new(Report::State(snapshot))));
                    }
                }
                let wait = self.rng.range(1..8);
                self.after(wait, Event::Supervisor(node, key, core::supervisor::Event::Order(order)));
            }
            Action::Reap(key) => {
                if self.nodes[node].supervised.get(&key).is_some_and(|supervised| supervised.alive) {
                    self.violated(format!("n{node} reaps {key}, whose supervisor lives"));
                }
                self.reap(node, key);
            }
            Action::Send(message) => self.agent_says(node, message),
            // Its servers have no class of service.
            Action::KeepQos(_) => {}
            Action::Prove(proofs) => self.take_part(node, proofs),
            Action::RemoveRecord(_) if self.bug(Bug::KeepRecords) => {}
            Action::RemoveRecord(key) => {
                let server = &mut self.nodes[node];
                server.records.remove(&key);
                if server.supervised.remove(&key).is_some_and(|supervised| supervised.lives()) {
                    self.violated(format!("n{node} forgets {key} while its processes live"));
                }
            }
        }
    }

    /// A planted bug: a record is persisted long after what it is of has begun.
    pub fn persist_late(&mut self, node: usize, life: u64, record: Record) {
        if self.lives(node, life) && !self.nodes[node].spawned.is_empty() {
            self.nodes[node].records.insert(record.key, record);
        }
    }
}
