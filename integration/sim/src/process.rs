//! Supervisors with their real core, and models of the engines and ranks that they start.

mod events;

use std::{collections::BTreeMap, sync::Arc};

use node_agent_core::{Snapshot, supervisor};
use proto_model::{JobSpec, Measured, NodeEndpoints, NodePlace, Placement, Work};

/// The process of a job's engine on one server.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// Whether the process lives.
    pub up: bool,
    /// It ended otherwise than by being asked to.
    pub broke: bool,
    number: u64,
    peers: Vec<NodeEndpoints>,
    connecting_since: Option<u64>,
    connected: bool,
}

impl Engine {
    /// Which process it is.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A supervisor, what it has on disk, and its processes.
#[derive(Debug, Clone)]
pub struct Supervised {
    /// Whether the supervisor's process lives.
    pub alive: bool,
    /// On disk: what it has published.
    pub durable: Snapshot,
    /// What it may use here.
    pub place: NodePlace,
    /// The engine that it has started.
    pub engine: Engine,
    /// Its ranks' processes: living or ended.
    pub ranks: BTreeMap<u32, bool>,
    state: supervisor::State,
    placement: Arc<Placement>,
    run_ms: u64,
    failing: Option<(u32, i32)>,
    ticking: bool,
}

impl Supervised {
    /// Whether any process of it lives.
    #[must_use]
    pub fn lives(&self) -> bool {
        self.alive || self.uses()
    }

    /// Where the attempt runs.
    #[must_use]
    pub fn gang(&self) -> &[NodePlace] {
        &self.placement.nodes
    }

    /// What its engine has measured.
    #[must_use]
    pub fn measured(&self) -> Option<&Measured> {
        self.state.snapshot().measured.as_ref()
    }

    /// Whether something uses its GPUs or NICs.
    #[must_use]
    pub fn uses(&self) -> bool {
        self.engine.up || self.ranks.values().any(|alive| *alive)
    }
}

/// What a simulated job does: so long it runs, and which rank fails with which status.
#[must_use]
pub fn plan_of(spec: &JobSpec) -> (u64, Option<(u32, i32)>) {
    let Work::Command(command) = &spec.work else { return (1000, None) };
    let number = |at: usize| command.argv.get(at).and_then(|text| text.parse::<u32>().ok());
    let failing =
        number(2).map(|rank| (rank, number(3).and_then(|code| i32::try_from(code).ok()).unwrap_or(1)));
    (u64::from(number(1).unwrap_or(1000)), failing)
}
