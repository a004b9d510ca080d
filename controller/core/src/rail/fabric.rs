//! The fabric document: applied, removed, and what either would cost, which nobody should find out afterwards.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{Fabric, JobId, NodeName, TenantName};

use crate::{
    error::{CoreError, count},
    event::{Key, Reply},
    state::State,
    step::Step,
    tenant::deleted::{DeletedContent, DeletedKey},
};

/// A document may leave out one server of so many that the present one cables, and always one; one that leaves out more must say
/// that this is meant.
const SHARE: usize = 10;

/// What a change of the fabric document takes away.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FabricImpact {
    /// Servers that the present document cables.
    pub servers: usize,
    /// Those of them that would not be cabled any more, in the order of their names.
    pub left_out: Vec<String>,
    /// Jobs that hold something on those: they go on, and no other one gets rails there.
    pub jobs: BTreeSet<JobId>,
}

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

    /// The tenants of those jobs.
    #[must_use]
    pub fn tenants(&self) -> BTreeSet<&TenantName> {
        self.jobs.iter().map(|job| &job.tenant).collect()
    }

    /// Why the document that would leave out so much is refused.
    pub(crate) fn in_words(&self, fabric: &str) -> String {
        let Self { servers, left_out, jobs } = self;
        let what = match left_out.as_slice() {
            all if all.len() == *servers => {
                format!("no server of the {servers} that fabric '{fabric}' cables")
            }
            some => {
                format!(
                    "only {} of the {servers} servers that fabric '{fabric}' cables",
                    servers - some.len()
                )
            }
        };
        let shown: Vec<&str> = left_out.iter().take(3).map(String::as_str).collect();
        let more = if left_out.len() > shown.len() { ", ..." } else { "" };
        let jobs = match jobs.len() {
            0 => "no job runs there".to_owned(),
            running => {
                format!("{} of {} there", count(running, "job"), count(self.tenants().len(), "tenant"))
            }
        };
        format!(
            "the document cables {what} (without {}{more}; {jobs}); nothing is changed. If that is meant, say so (`railctl apply --allow-shrink`, `allowShrink`)",
            shown.join(", ")
        )
    }

    /// Whether so much is left out that it may be a mistake.
    fn is_much(&self) -> bool {
        let left_out = self.left_out.len();
        left_out > 0 && (left_out == self.servers || left_out > 1 && left_out * SHARE > self.servers)
    }
}

impl Step<'_> {
    pub(crate) fn apply_fabric(
        &mut self,
        fabric: Fabric,
        allow_shrink: bool,
        dry_run: bool,
    ) -> Result<Reply, CoreError> {
        let findings = controller_topology::check(&fabric);
        if !findings.is_empty() {
            return Err(CoreError::FabricInvalid { findings });
        }
        let old = self.state.base.fabric.clone();
        let generation = old.as_ref().map_or(1, |old| old.generation + 1);
        let mut fabric = Arc::new(Fabric { generation, ..fabric });
        if let Some(old) = old {
            let same = *old == Fabric { generation: old.generation, ..(*fabric).clone() };
            if same {
                fabric = old;
            } else if !allow_shrink {
                let impact = FabricImpact::of(self.state, Some(&fabric));
                if impact.is_much() {
                    return Err(CoreError::FabricShrinks { fabric: old.name.clone(), impact });
                }
            }
        }
        let before = self.state.journal.undo.len();
        self.state.set_fabric(Some(Arc::clone(&fabric)));
        let findings = self.state.index.snapshot.topology().findings();
        if dry_run {
            self.state.undo_to(before);
        } else {
            self.request_scheduling_pass();
            self.refresh_drained();
        }
        Ok(Reply::Fabric { fabric, findings })
    }

    /// Its name must be given, so that nobody removes another one than the one that is meant.
    pub(crate) fn delete_fabric(
        &mut self,
        name: &str,
        if_version: u64,
        dry_run: bool,
    ) -> Result<Reply, CoreError> {
        let Some(fabric) = self.state.base.fabric.clone() else {
            return Err(CoreError::FabricNotFound);
        };
        if fabric.name != name {
            return Err(CoreError::FabricOther { asked: name.to_owned(), fabric: fabric.name.clone() });
        }
        let current = self.state.version(&Key::Fabric).unwrap_or(0);
        if if_version != 0 && if_version != current {
            let what = format!("fabric '{name}'");
            return Err(CoreError::Conflict { what, asked: if_version, current });
        }
        let impact = FabricImpact::of(self.state, None);
        if !dry_run {
            self.state.set_fabric(None);
            self.keep_deleted(DeletedKey::Fabric(fabric.name.clone()), DeletedContent::Fabric(fabric));
            self.request_scheduling_pass();
            self.refresh_drained();
        }
        Ok(Reply::FabricDeleted(impact))
    }
}
