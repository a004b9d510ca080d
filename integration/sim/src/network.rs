//! Streams between agents and controllers: in order, late, cut; now and then a report arrives twice or out of order.

mod events;

use controller_core::Push;
use proto_model::Observation;

/// What an agent says.
#[derive(Debug, Clone)]
pub enum ToController {
    /// First on every stream.
    Register(u64, Vec<Observation>),
    /// A sign that the agent is alive.
    Heartbeat,
    /// A NIC went down or came up.
    Inventory,
    /// It sees a job.
    Observation(Box<Observation>),
    /// It follows this newer epoch.
    StaleEpoch(u64),
}

/// What a controller says; true: a copy that something has held back for a while.
#[derive(Debug, Clone)]
pub struct ToAgent(pub Box<Push>, pub bool);

/// A stream between an agent and a controller.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The agent's server, by number.
    pub node: usize,
    /// The life of its agent.
    pub life: u64,
    /// The controller's process, by its place.
    pub controller: usize,
    /// The agent holds it open.
    pub agent_open: bool,
    /// The controller holds it open.
    pub controller_open: bool,
    last_to_agent: u64,
    last_to_controller: u64,
}

impl Connection {
    /// A stream that both have just opened.
    #[must_use]
    pub fn new(node: usize, life: u64, controller: usize) -> Self {
        Self {
            node,
            life,
            controller,
            agent_open: true,
            controller_open: true,
            last_to_agent: 0,
            last_to_controller: 0,
        }
    }
}
