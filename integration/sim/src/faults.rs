//! What goes wrong, and how the world is furnished before and calmed down after.

use std::collections::VecDeque;

use controller_core::{Event as Core, NodeChange, State};
use node_agent_core::Key;
use proto_model::{Fabric, JobId, JobName, Leaf, Link, NodeName, Quota, Rail, TenantName};

use crate::{
    agent::Node,
    client::Client,
    network::ToController,
    world::{Event, START_MS, World},
};

/// A fault, or the end of one.
#[derive(Debug, Clone)]
pub enum Fault {
    /// An engine's process ends.
    EngineEnds {
        /// Where.
        node: usize,
        /// Whose.
        key: Key,
        /// Which process.
        number: u64,
        /// As it was asked to.
        clean: bool,
    },
    /// A server gets its power back.
    PowerOn(usize),
    /// A NIC comes up again.
    NicUp(usize, u32),
    /// A node takes jobs again.
    Schedulable(usize),
    /// What a lost supervisor had left is killed.
    Reap(usize, Key),
    /// An administrator gives up on a server that has no power.
    GiveUp(usize),
}

fn name(node: usize) -> Option<NodeName> {
    NodeName::new(format!("n{node}")).ok()
}

impl World {
    /// Tenants, fabric, servers, clients; all that a first controller is told before anything can fail.
    pub fn furnish(&mut self) {
        self.controller_start();
        let count = self.rng.range(2..self.config.nodes.max(2) + 1);
        let gpus = 4;
        let rails = u32::try_from(self.rng.range(1..5)).unwrap_or(1);
        let mut tenants = Vec::new();
        for text in ["red", "blue"] {
            let Ok(tenant) = TenantName::new(text) else { continue };
            let quota = u32::try_from(self.rng.range(count * 2..count * 4 + 1)).unwrap_or(4);
            self.checks.quotas.insert(tenant.clone(), u64::from(quota));
            let quota = Quota::new(quota, 0);
            self.tell_first(Core::ApplyTenant {
                name: tenant.clone(),
                description: String::new(),
                quota,
                dry_run: false,
            });
            tenants.push(tenant);
        }
        for node in 0..usize::try_from(count).unwrap_or(2) {
            let Some(name) = name(node) else { continue };
            self.join_events(node, &name).into_iter().for_each(|event| self.tell_first(event));
            self.nodes.push(Node::new(name, gpus, rails));
            self.after(5, Event::AgentStart(node));
        }
        if self.rng.chance(500) {
            let fabric = self.fabric(rails);
            self.tell_first(Core::ApplyFabric { fabric: Box::new(fabric), dry_run: false });
        }
        let jobs = self.rng.range(self.config.jobs.max(2) / 3..self.config.jobs.max(2) + 1);
        for at in 0..jobs {
            let Ok(job) = JobName::new(format!("j{at}")) else { continue };
            let tenant = tenants[self.rng.below(tenants.len())].clone();
            let client = self.make_client(at, &tenant, job, (count, gpus, rails));
            self.clients.push(client);
            let begin = self.rng.range(500..self.config.chaos_ms * 2 / 3);
            self.after(begin, Event::Client(self.clients.len() - 1));
        }
        let (Some(tenant), Ok(job)) = (tenants.first().cloned(), JobName::new("administrator")) else {
            return;
        };
        let id = JobId { tenant, name: job };
        self.clients.push(Client::administrator(id, VecDeque::new()));
        self.after(2000, Event::DrawFault);
    }

    /// A step and its transaction at once.
    fn tell_first(&mut self, event: Core) {
        let now = self.time();
        let Some(mut state) = self.controllers[0].state.take() else { return };
        let rng = &mut self.rng;
        let out = controller_core::step(&mut state, event, now, &mut |buffer| rng.fill(buffer));
        let writes = out.writes.iter().map(|write| (write.key(), write.clone())).collect();
        match self.store.commit(self.controllers[0].epoch, true, self.now, &writes) {
            Ok(revision) => state.commit(revision),
            Err(refused) => self.violated(format!("furnishing: {refused:?}")),
        }
        if let Some(Err(error)) = out.reply {
            self.violated(format!("furnishing: {error}"));
        }
        self.controllers[0].state = Some(state);
    }

    /// What makes a server join.
    fn join_events(&mut self, node: usize, name: &NodeName) -> Vec<Core> {
        let mut hash = [0; 32];
        self.rng.fill(&mut hash);
        let csr = [u8::try_from(node).unwrap_or(0); 32];
        vec![
            Core::CreateToken { node: name.clone(), hash, lifetime: None },
            Core::Join { node: name.clone(), hash, csr },
        ]
    }

    /// One or two pods, one leaf per pod and rail.
    fn fabric(&mut self, rails: u32) -> Fabric {
        let pods = 1 + self.rng.below(2);
        let mut fabric = Fabric { name: "sim".to_owned(), ..Fabric::default() };
        for rail in 0..rails {
            fabric.rails.push(Rail { index: rail, name: format!("rail{rail}") });
            for pod in 0..pods {
                fabric.leaves.push(Leaf {
                    name: format!("leaf{pod}-{rail}"),
                    rail,
                    pod: format!("pod{pod}"),
                    ..Leaf::default()
                });
            }
            for (at, node) in self.nodes.iter().enumerate() {
                fabric.links.push(Link {
                    node: node.name.clone(),
                    nic: format!("mlx5_{rail}"),
                    leaf: format!("leaf{}-{rail}", at % pods),
                    port: format!("p{at}"),
                    speed_mbps: 0,
                    down: false,
                });
            }
        }
        fabric
    }

    /// Draws a fault and the time of the next.
    pub fn draw_fault(&mut self) {
        if self.calm {
            return;
        }
        let mean = self.config.fault_every_ms;
        let next = self.rng.range(mean / 10..mean * 19 / 10);
        self.after(next, Event::DrawFault);
        self.report.faults += 1;
        let node = self.rng.below(self.nodes.len());
        match self.rng.below(100) {
            0..12 => self.leader_fails(),
            12..22 => self.leader_fails_in_a_transaction(),
            22..28 => self.leader_is_replaced(),
            28..32 => {
                let pause = self.rng.range(200..30_000);
                self.nodes[node].frozen_until = self.now + pause;
                self.tell(|| format!("n{node}: agent is stopped for {pause} ms"));
            }
            32..43 => {
                let long = self.rng.chance(300);
                let wait = if long { self.rng.range(5_000..60_000) } else { self.rng.range(100..5000) };
                self.agent_dies(node, Some(wait));
            }
            43..55 => {
                if let Some(connection) = self.nodes[node].connection {
                    self.tell(|| format!("n{node}: stream {connection} is cut"));
                    self.cut(connection);
                    let away = self.rng.chance(400);
                    self.nodes[node].cut_until =
                        self.now + if away { self.rng.range(1000..40_000) } else { 0 };
                }
            }
            55..67 => self.kill_something(node, true),
            67..73 => self.kill_something(node, false),
            73..80 => self.power_fails(node),
            80..87 => {
                self.store.full_until = self.now + self.rng.range(500..12_000);
                self.tell(|| "the store's disk is full".to_owned());
            }
            87..92 => self.slow_until = self.now + self.rng.range(1000..10_000),
            92..95 => self.nic_fails(node),
            95..98 => self.drain(node),
            _ => {
                let Some(name) = name(node) else { return };
                self.administrator(Core::UpdateNode {
                    name,
                    change: NodeChange::unschedulable(true, "repair"),
                    if_version: 0,
                });
                let wait = self.rng.range(1000..30_000);
                self.after(wait, Event::Fault(Fault::Schedulable(node)));
            }
        }
    }

    fn leader_fails(&mut self) {
        if let Some(leader) = self.leader() {
            let wait = self.rng.range(100..6000);
            self.controller_dies(leader, Some(wait));
        }
    }

    fn leader_fails_in_a_transaction(&mut self) {
        let after = self.rng.chance(500);
        if let Some(leader) = self.leader() {
            self.controllers[leader].crash_at_commit = Some(after);
        }
    }

    /// The leader is taken for dead and replaced; it lives and does not know it.
    fn leader_is_replaced(&mut self) {
        if self.leader().is_some() && !self.replacing {
            self.tell(|| "the leader is taken for dead".to_owned());
            self.replacing = true;
            if let Some(leader) = self.leader() {
                // Often it is only slow: what it was doing comes later.
                let pause = if self.rng.chance(500) { self.rng.range(100..15_000) } else { 0 };
                self.controllers[leader].frozen_until = self.now + pause;
            }
            let wait = self.rng.range(10..500);
            self.after(wait, Event::ControllerStart);
        }
    }

    fn kill_something(&mut self, node: usize, engine: bool) {
        let living: Vec<Key> =
            self.nodes[node].supervised.iter().filter(|(_, s)| s.alive).map(|(key, _)| *key).collect();
        let Some(key) = living.get(self.rng.below(living.len())).copied() else { return };
        if engine {
            let fault = Fault::EngineEnds { node, key, number: 0, clean: false };
            self.after(0, Event::Fault(fault));
        } else {
            self.kill_supervisor(node, key);
        }
    }

    fn power_fails(&mut self, node: usize) {
        if !self.nodes[node].powered {
            return;
        }
        self.tell(|| format!("n{node}: power fails"));
        self.power_off(node);
        let down = self.rng.range(2000..40_000);
        if self.rng.chance(150) {
            // Its disk is gone too.
            let server = &mut self.nodes[node];
            server.records.clear();
            server.supervised.clear();
            server.spawned.clear();
            server.epoch = 0;
        }
        if self.rng.chance(250) {
            let wait = self.rng.range(500..down);
            self.after(wait, Event::Fault(Fault::GiveUp(node)));
        }
        self.after(down, Event::Fault(Fault::PowerOn(node)));
    }

    fn nic_fails(&mut self, node: usize) {
        let rail = u32::try_from(self.rng.below(self.nodes[node].rails as usize)).unwrap_or(0);
        self.nodes[node].down |= 1 << rail;
        self.tell_inventory(node);
        let wait = self.rng.range(2000..30_000);
        self.after(wait, Event::Fault(Fault::NicUp(node, rail)));
    }

    /// No fault: a rail or a server's port leaves service, or comes back.
    fn drain(&mut self, node: usize) {
        let rail = self.rng.below(self.nodes[node].rails as usize);
        let target = if self.rng.chance(500) { format!("{rail}") } else { format!("n{node}:{rail}") };
        let on = self.rng.chance(600);
        self.administrator(match on {
            true => {
                let (reason, by) = ("upgrade".to_owned(), "simulator".to_owned());
                Core::DrainRail { target, reason, by, force: true }
            }
            false => Core::UndrainRail { target },
        });
    }

    /// Whether an agent knows which rails of its server are drained.
    fn knows_drains(&self, node: &Node) -> bool {
        let leader = self.leader().and_then(|leader| self.controllers[leader].state.as_ref());
        match (&node.agent, leader) {
            (Some(agent), Some(leader)) => {
                agent.drained() == leader.drained_rails(&node.name).iter().collect()
            }
            _ => true,
        }
    }

    fn tell_inventory(&mut self, node: usize) {
        if let Some(connection) = self.nodes[node].connection {
            self.send_to_controller(connection, ToController::Inventory);
        }
    }

    /// A fault happens, or one ends.
    pub fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::EngineEnds { node, key, number, clean } => {
                let present = self.nodes[node].supervised.get(&key).map_or(0, |s| s.engine.number());
                self.engine_ends(node, key, if number == 0 { present } else { number }, clean);
            }
            Fault::PowerOn(node) => {
                self.nodes[node].powered = true;
                self.agent_start(node);
            }
            Fault::Reap(node, key) => self.reaped(node, key),
            Fault::NicUp(node, rail) => {
                self.nodes[node].down &= !(1 << rail);
                self.tell_inventory(node);
            }
            Fault::Schedulable(node) => {
                let Some(name) = name(node) else { return };
                self.administrator(Core::UpdateNode {
                    name,
                    change: NodeChange::unschedulable(false, ""),
                    if_version: 0,
                });
                if let Some(name) = self::name(node) {
                    self.administrator(Core::ReturnNode { name });
                }
            }
            Fault::GiveUp(node) => {
                let Some(name) = name(node).filter(|_| !self.nodes[node].powered && self.nodes[node].joined)
                else {
                    return;
                };
                self.nodes[node].joined = false;
                self.administrator(Core::DeleteNode { name: name.clone(), force: true, uid: None });
                self.join_events(node, &name).into_iter().for_each(|event| self.administrator(event));
            }
        }
    }

    /// The faults end: everything that was taken away is given back.
    pub fn calm_down(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.tell(|| "all faults end".to_owned());
        self.calm = true;
        self.checks.calm_since = self.now;
        (self.store.full_until, self.slow_until) = (0, 0);
        let leader = self.leader();
        for controller in 0..self.controllers.len() {
            self.controllers[controller].crash_at_commit = None;
            self.controllers[controller].frozen_until = 0;
            if Some(controller) != leader {
                self.controller_dies(controller, None);
            }
        }
        if leader.is_none() {
            self.after(10, Event::ControllerStart);
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].cut_until = 0;
            self.nodes[node].frozen_until = 0;
            self.nodes[node].down = 0;
            self.nodes[node].powered = true;
            self.agent_start(node);
            self.tell_inventory(node);
            // Again later: what the last faults did is found out only then.
            for wait in [100, 100_000, 200_000] {
                self.after(wait, Event::Fault(Fault::Schedulable(node)));
            }
        }
    }

    /// Whether nothing is left to be done.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let leader = self.leader().map(|leader| &self.controllers[leader]);
        self.clients_done()
            && self.store.jobs().all(|job| job.status.phase.is_terminal())
            && leader
                .is_some_and(|leader| leader.is_idle() && !leader.state.as_ref().is_none_or(State::is_dirty))
            && self.nodes.iter().all(|node| {
                let empty = node.records.is_empty() && node.supervised.is_empty();
                empty && node.connection.is_some() && self.knows_drains(node)
            })
    }

    /// What keeps the world from being settled, in words.
    #[must_use]
    pub fn unsettled(&self) -> String {
        let mut left = Vec::new();
        for job in self.store.jobs().filter(|job| !job.status.phase.is_terminal()) {
            let reasons: Vec<String> = job.status.reasons.iter().map(ToString::to_string).collect();
            left.push(format!(
                "job {} ({}) is {}: {}",
                job.id,
                job.uid,
                job.status.phase,
                reasons.join("; ")
            ));
        }
        for node in &self.nodes {
            for (key, record) in &node.records {
                left.push(format!(
                    "{} keeps a record of {key}: {:?} {:?}",
                    node.name, record.goal, record.seen.state
                ));
            }
            for (key, supervised) in &node.supervised {
                left.push(format!("{} keeps {key}, alive {}", node.name, supervised.alive));
            }
            if node.connection.is_none() {
                left.push(format!("{} is not connected (joined {})", node.name, node.joined));
            }
            if !self.knows_drains(node) {
                left.push(format!("{} does not know what is drained", node.name));
            }
        }
        for client in self.clients.iter().filter(|client| !client.wants.is_empty()) {
            left.push(format!("the client of {} wants {:?}", client.id, client.wants.front()));
        }
        if self.leader().is_none() {
            left.push("no controller".to_owned());
        }
        left.join(" | ")
    }

    /// The last figures of the report.
    pub fn finish_report(&mut self) {
        self.report.simulated_ms = self.now - START_MS;
        let mut digest = 0xcbf2_9ce4_8422_2325_u64;
        for (key, row) in &self.store.rows {
            for byte in format!("{key:?}{row:?}").bytes() {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
            }
        }
        self.report.digest ^= digest;
        for job in self.store.jobs() {
            let at = match job.status.phase {
                proto_model::Phase::Completed => 0,
                proto_model::Phase::Failed => 1,
                proto_model::Phase::Cancelled => 2,
                _ => continue,
            };
            self.report.ended[at] += 1;
        }
    }
}
