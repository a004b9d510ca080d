//! What a change of the fabric document would take away.

use std::collections::BTreeSet;

use proto_model::{Fabric, NodeName};

use crate::{error::impact::FabricImpact, tables::state::State};

impl FabricImpact {
    /// What comes of `new` in place of the present document; `None`: of no document.
    #[must_use]
    pub fn of(state: &State, new: Option<&Fabric>) -> Self {
        let before = state.base.fabric.as_deref().map(Fabric::node_names).unwrap_or_default();
        let after: BTreeSet<String> = new.map(Fabric::node_names).unwrap_or_default().into_iter().collect();
        let servers = before.len();
        let left_out: Vec<String> = before.into_iter().filter(|name| !after.contains(name)).collect();
        let holds = left_out.iter().filter_map(|name| state.index.holds.get(&NodeName::new(name).ok()?));
        let jobs = holds.flat_map(|held| held.keys()).filter_map(|uid| state.base.jobs.get(uid));
        let jobs = jobs.map(|entry| entry.job.id.clone()).collect();
        Self { servers, left_out, jobs }
    }
}
