//! The fabric document: applied, removed, and what either would cost, which nobody should find out afterwards.

use std::sync::Arc;

use controller_state::{CoreError, DeletedContent, DeletedKey, Key, error::impact::FabricImpact};
use proto_model::Fabric;

use crate::{context::Step, event::Reply};

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
        let mut is_new = true;
        if let Some(old) = old {
            let same = *old == Fabric { generation: old.generation, ..(*fabric).clone() };
            if same {
                (fabric, is_new) = (old, false);
            } else if !allow_shrink {
                let impact = FabricImpact::of(self.state, Some(&fabric));
                if impact.is_much() {
                    return Err(CoreError::FabricShrinks { fabric: old.name.clone(), impact });
                }
            }
        }
        let before = self.state.journal.undo.len();
        self.state.set_fabric(Some(Arc::clone(&fabric)));
        if is_new {
            self.switch_plans_changed();
        }
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
