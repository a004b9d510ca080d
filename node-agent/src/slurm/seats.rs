//! What tasks of one job are given on one server: for each of the allocation's ranks here, its variables.

use std::collections::BTreeMap;

use node_agent_attempt::{layout::JobDir, supervisor_config::Task};
use node_agent_supervisor::environment;
use serde::{Deserialize, Serialize};

/// Variables by their names.
pub type Variables = BTreeMap<String, String>;

/// The places that tasks may take here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seats {
    /// Ranks of the whole allocation.
    pub world: usize,
    /// The variables of each rank on this server, by the local rank.
    pub ranks: Vec<Variables>,
}

impl Seats {
    /// Those of an attempt, whose files tasks find in `folder`.
    #[must_use]
    pub fn of(folder: &JobDir, task: &Task) -> Self {
        let one = |rank| {
            let mut variables = environment::of_guest(folder, task, rank);
            // The attempt's own folder is closed to tasks of others.
            variables.remove("RAIL_JOB_DIR");
            if let Some(path) = variables.get_mut("NCCL_TOPO_FILE") {
                *path = folder.topology().display().to_string();
            }
            // A line of Slurm's ends there.
            variables.retain(|_, value| !value.contains('\n'));
            variables
        };
        Self { world: task.placement.ranks.len(), ranks: task.ranks.iter().map(one).collect() }
    }
}
