//! Messages on their way.

use controller_core::{Event as Core, Push, Register};
use node_agent_core::{Command, Key, Message};

use crate::{
    controller::{From, Inbound},
    plant::Bug,
    world::{Event, World},
};

use super::{ToAgent, ToController};

impl World {
    /// Whether messages are lost, late and doubled at the moment.
    #[must_use]
    pub fn stormy(&self) -> bool {
        self.now < self.storm_until
    }

    /// How long a message takes.
    pub fn latency(&mut self) -> u64 {
        if self.stormy() && self.rng.chance(150) { self.rng.range(50..3000) } else { self.rng.range(1..6) }
    }

    /// Sends a message of an agent on its stream, late, and now and then twice.
    pub fn send_to_controller(&mut self, connection: u64, message: ToController) {
        let (latency, stormy) = (self.latency(), self.stormy());
        let now = self.now;
        let Some(stream) = self.connections.get_mut(&connection).filter(|stream| stream.agent_open) else {
            return;
        };
        let at = (now + latency).max(stream.last_to_controller + 1);
        stream.last_to_controller = at;
        let message = Box::new(message);
        if stormy && matches!(*message, ToController::Observation(_)) && self.rng.chance(150) {
            let late = at + self.rng.range(1..4000);
            self.at(late, Event::ToController(connection, message.clone()));
            if self.rng.chance(300) {
                return;
            }
        }
        self.at(at, Event::ToController(connection, message));
    }

    /// Sends a message of a controller to the agent of a node.
    pub fn send_to_agent(&mut self, controller: usize, mut push: Push) {
        if self.leader() == Some(controller) {
            self.check_push(&push);
        }
        self.spoil_push(&mut push);
        let (latency, stormy) = (self.latency(), self.stormy());
        let (now, session) = (self.now, push.session);
        let Some(stream) = self.connections.get_mut(&session).filter(|stream| stream.controller_open) else {
            return;
        };
        let at = (now + latency).max(stream.last_to_agent + 1);
        stream.last_to_agent = at;
        // Something on the way may keep a copy for long.
        if !self.calm && self.rng.chance(if stormy { 300 } else { 30 }) {
            let late = self.rng.range(500..20_000);
            self.after(late, Event::ToAgent(session, ToAgent(Box::new(push.clone()), true)));
        }
        self.at(at, Event::ToAgent(session, ToAgent(Box::new(push), false)));
    }

    /// The stream breaks; each end notices in its own time.
    pub fn cut(&mut self, connection: u64) {
        let (agent, controller) = (self.rng.range(1..500), self.rng.range(1..4000));
        self.after(agent, Event::Lost(connection, true));
        self.after(controller, Event::Lost(connection, false));
    }

    /// One end notices that the stream is gone.
    pub fn connection_lost(&mut self, connection: u64, agent: bool) {
        let Some(stream) = self.connections.get_mut(&connection) else { return };
        let (node, life, controller) = (stream.node, stream.life, stream.controller);
        if agent {
            if std::mem::take(&mut stream.agent_open) && self.nodes[node].life == life {
                self.nodes[node].connection = None;
                self.agent_event(node, node_agent_core::Event::Disconnected);
                let wait = self.rng.range(50..1500);
                self.after(wait, Event::AgentConnect(node, life));
            }
        } else if std::mem::take(&mut stream.controller_open) {
            let event = Core::AgentDisconnected { node: self.nodes[node].name.clone(), session: connection };
            self.deliver(controller, Inbound { event, from: From::Agent(connection) });
        }
    }

    /// A message reaches a controller.
    pub fn controller_hears(&mut self, connection: u64, message: ToController) {
        let Some(stream) = self.connections.get(&connection).filter(|stream| stream.controller_open) else {
            return;
        };
        let (controller, session) = (stream.controller, connection);
        let server = &mut self.nodes[stream.node];
        let node = server.name.clone();
        let event = match message {
            ToController::Register(epoch, observations) => Core::AgentConnected(Box::new(Register {
                node,
                session,
                agent_version: "sim".to_owned(),
                inventory: server.inventory(),
                observations,
                epoch,
            })),
            ToController::Heartbeat => Core::AgentHeartbeat { node, session },
            ToController::Inventory => Core::AgentInventory { node, session, inventory: server.inventory() },
            ToController::Observation(observation) => Core::AgentObserved { node, session, observation },
            ToController::StaleEpoch(current) => Core::AgentRefusedEpoch { node, current },
        };
        self.deliver(controller, Inbound { event, from: From::Agent(connection) });
    }

    /// A message reaches an agent. What a replaced controller had still sent may come late, after its stream: the
    /// epoch is what guards against it.
    pub fn agent_hears(&mut self, connection: u64, ToAgent(push, late): ToAgent) {
        let Some(stream) = self.connections.get(&connection) else { return };
        let (node, life, open) = (stream.node, stream.life, stream.agent_open);
        let server = &self.nodes[node];
        let Some(agent) = &server.agent else { return };
        let present = open && server.life == life && !late;
        // One life of a controller numbers its streams: a copy for another stream of its own is dropped by the transport.
        if !present && (push.epoch >= server.applied || self.calm) {
            return;
        }
        let epoch = if self.bug(Bug::IgnoreEpoch) { agent.epoch().max(push.epoch) } else { push.epoch };
        self.check_reported(&push);
        let mut proofs = Vec::new();
        let command = match push.message {
            controller_core::ToNode::Welcome { assignments, drained, proofs: reported, .. } => {
                proofs = reported;
                // One message, two commands: what begins now begins with the right rails.
                let command = Command::Drained(drained);
                self.agent_event(node, node_agent_core::Event::Command { epoch, command });
                Command::Welcome(assignments)
            }
            controller_core::ToNode::Drained { rails, proofs: reported, .. } => {
                proofs = reported;
                Command::Drained(rails)
            }
            controller_core::ToNode::Assignment(assignment) => Command::Assignment(assignment),
            controller_core::ToNode::Forget { uid, attempt } => Command::Forget(Key { uid, attempt }),
            controller_core::ToNode::Close { .. } => return,
        };
        self.notify(|| format!("n{node} hears {}", describe(epoch, &command)));
        self.agent_event(node, node_agent_core::Event::Command { epoch, command });
        if !proofs.is_empty() {
            let command = Command::Prove(proofs);
            self.agent_event(node, node_agent_core::Event::Command { epoch, command });
        }
        if self.nodes[node].agent.as_ref().is_some_and(|agent| agent.epoch() == epoch) {
            self.check_applied(node, push.epoch);
        }
    }

    /// The agent's own words, on its present stream.
    pub fn agent_says(&mut self, node: usize, message: Message) {
        let Some(connection) = self.nodes[node].connection else { return };
        let message = match message {
            Message::Register { epoch, observations } => ToController::Register(epoch, observations),
            Message::Observation(observation) => ToController::Observation(observation),
            Message::StaleEpoch { current, .. } => ToController::StaleEpoch(current),
        };
        self.send_to_controller(connection, message);
    }
}

fn describe(epoch: u64, command: &Command) -> String {
    let desired = |assignment: &proto_model::Assignment| {
        let desired = match &assignment.desired {
            proto_model::DesiredState::Prepared { .. } => "prepared",
            proto_model::DesiredState::Running { .. } => "running",
            proto_model::DesiredState::Stopped { .. } => "stopped",
        };
        format!("{}.{} {desired}", assignment.id.name, assignment.attempt)
    };
    match command {
        Command::Welcome(all) => format!("welcome@{epoch} {:?}", all.iter().map(desired).collect::<Vec<_>>()),
        Command::Assignment(one) => format!("desired@{epoch} {}", desired(one)),
        Command::Drained(rails) => format!("drained@{epoch} {rails:?}"),
        Command::Forget(key) => format!("forget@{epoch} {key}"),
        Command::Qos(desired) => format!("qos@{epoch} {}", desired.generation),
        Command::Prove(proofs) => {
            format!("prove@{epoch} {:?}", proofs.iter().map(|one| one.id).collect::<Vec<_>>())
        }
    }
}
