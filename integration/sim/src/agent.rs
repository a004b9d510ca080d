//! A server: what is on its disk, its agent's process around the agent's real core.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use node_agent_core::{self as core, Action, Key, Record, Recovered, Report};
use proto_model::{Gpu, Inventory, Nic, NodeName};

use crate::{
    config::Bug,
    network::{Connection, ToController},
    process::Supervised,
    world::{Event, World},
};

/// How often an agent speaks.
const HEARTBEAT_MS: u64 = 5000;

/// A server.
pub struct Node {
    /// Its name.
    pub name: NodeName,
    /// Its GPUs.
    pub gpus: u32,
    /// Its rails.
    pub rails: u32,
    /// Rails whose NIC is down, as a bitmap.
    pub down: u64,
    /// It has power.
    pub powered: bool,
    /// Its agent's process.
    pub agent: Option<core::State>,
    /// Numbers the lives of its agent.
    pub life: u64,
    /// The agent's stream.
    pub connection: Option<u64>,
    /// No stream before this time.
    pub cut_until: u64,
    /// Its agent's process is stopped until this time.
    pub frozen_until: u64,
    /// On disk: the epoch.
    pub epoch: u64,
    /// On disk: the records.
    pub records: BTreeMap<Key, Record>,
    /// Supervisors, living or dead, with what they have on disk and their processes.
    pub supervised: BTreeMap<Key, Supervised>,
    /// Tries for which a supervisor was ever started.
    pub spawned: BTreeSet<Key>,
    /// It has a certificate that the controller takes.
    pub joined: bool,
}

impl Node {
    /// A server that has joined and is switched on.
    #[must_use]
    pub fn new(name: NodeName, gpus: u32, rails: u32) -> Self {
        Self {
            name,
            gpus,
            rails,
            down: 0,
            powered: true,
            agent: None,
            life: 0,
            connection: None,
            cut_until: 0,
            frozen_until: 0,
            epoch: 0,
            records: BTreeMap::new(),
            supervised: BTreeMap::new(),
            spawned: BTreeSet::new(),
            joined: true,
        }
    }

    /// What its agent finds.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let gpu = |index| Gpu {
            index,
            uuid: String::new(),
            model: String::new(),
            pci_address: String::new(),
            numa_node: Some(index / 2),
            memory_bytes: 0,
        };
        let nic = |rail: u32| Nic {
            device: format!("mlx5_{rail}"),
            netdev: format!("eth{rail}"),
            pci_address: String::new(),
            numa_node: Some(rail / 2),
            rail,
            address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            mtu: 0,
            speed_mbps: 0,
            up: self.down >> rail & 1 == 0,
            gid_index: None,
        };
        Inventory {
            gpus: (0..self.gpus).map(gpu).collect(),
            nics: (0..self.rails).map(nic).collect(),
            ..Inventory::default()
        }
    }
}

impl World {
    /// An agent's process starts and reads its disk.
    pub fn agent_start(&mut self, node: usize) {
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
                Recovered { record, alive: supervised.is_some_and(|s| s.alive), ran: supervised.is_some() }
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
        self.tell(|| format!("n{node}: agent starts with epoch {epoch}, {} records", records.len()));
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
        self.tell(|| format!("n{node}: agent dies"));
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

    fn lives(&self, node: usize, life: u64) -> bool {
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
            let older = self.controllers.iter().rposition(|old| old.state.is_some());
            controller = self.controllers.iter().position(|old| old.state.is_some()).or(older);
        }
        let away = self.now < self.nodes[node].cut_until || !self.nodes[node].joined;
        let Some(controller) = controller.filter(|_| !away) else {
            self.after(wait, Event::AgentConnect(node, life));
            return;
        };
        let connection = self.number();
        self.connections.insert(connection, Connection::new(node, life, controller));
        self.nodes[node].connection = Some(connection);
        self.tell(|| format!("n{node}: connects to controller {controller} as {connection}"));
        self.agent_event(node, core::Event::Connected);
    }

    /// An agent's timer.
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
        let Some(agent) = &mut self.nodes[node].agent else { return };
        let actions = core::step(agent, event, now);
        for action in actions {
            if !self.calm && self.rng.below(4000) == 0 {
                let restart = self.rng.range(100..8000);
                self.agent_dies(node, Some(restart));
            }
            if self.nodes[node].agent.is_none() {
                return;
            }
            self.agent_acts(node, action);
        }
    }

    fn agent_acts(&mut self, node: usize, action: Action) {
        match action {
            Action::PersistEpoch(epoch) => self.nodes[node].epoch = epoch,
            Action::PersistRecord(record) => {
                if self.config.bug != Some(Bug::ForgetRecords) {
                    self.nodes[node].records.insert(record.key, *record);
                }
            }
            Action::SpawnSupervisor(assignment) => self.spawn_supervisor(node, *assignment),
            Action::TellSupervisor { key, order } => {
                if matches!(order, core::Order::Stop { .. }) {
                    self.check_stop(node, key);
                }
                let wait = self.rng.range(1..8);
                self.after(wait, Event::Supervisor(node, key, core::supervisor::Event::Order(order)));
            }
            Action::Reap(key) => self.reap(node, key),
            Action::Send(message) => self.agent_says(node, message),
            Action::RemoveRecord(key) => {
                let server = &mut self.nodes[node];
                server.records.remove(&key);
                if server.supervised.remove(&key).is_some_and(|supervised| supervised.lives()) {
                    self.violated(format!("n{node} forgets {key} while its processes live"));
                }
            }
        }
    }
}
