//! Secrets and configs: named values of a tenant that its jobs can have in their environment. `apply` makes, changes and removes them,
//! `resolve` makes a job's environment of them.
//!
//! Jobs only refer to them. Values are looked up when an attempt gets its place and go to agents with the desired state to prepare it, never into the
//! job. So that all ranks of a gang see the same, an attempt whose ranks have not started begins anew where what it refers to is changed. A job
//! that refers to what is not there any more is held when its turn comes, and goes on by itself once it is there again.

mod apply;
mod resolve;

pub use resolve::{EnvFlaw, ValuesError};

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{TenantName, Values, ValuesId, ValuesKind, ValuesName};

use crate::{
    event::{Key, Write},
    state::{State, journal::Undo, load::Stored},
};

/// Secrets and configs of one tenant at most; their bytes have a limit too.
pub const MAX_OF_TENANT: usize = 1024;
/// Secrets and configs at most.
pub const MAX_VALUES: usize = 65_536;

impl State {
    pub(crate) fn set_values(&mut self, id: ValuesId, new: Option<Arc<Values>>) {
        let old = self.swap_values(id.clone(), new);
        self.journal.undo.push(Undo::Values(id, old));
    }

    pub(crate) fn swap_values(&mut self, id: ValuesId, new: Option<Arc<Values>>) -> Option<Arc<Values>> {
        match new {
            Some(new) => self.base.values.insert(id, new),
            None => self.base.values.remove(&id),
        }
    }

    /// What the changes since `mark` mean for their rows; each key once.
    pub(crate) fn values_writes(&self, mark: usize, writes: &mut Vec<Write>) {
        let mut seen = BTreeSet::new();
        for undo in &self.journal.undo[mark..] {
            let Undo::Values(id, old) = undo else { continue };
            if seen.insert(id) {
                let deleted = || old.is_some().then(|| Write::DeleteValues(id.clone()));
                writes.extend(self.base.values.get(id).cloned().map(Write::PutValues).or_else(deleted));
            }
        }
    }

    /// Takes in what is stored.
    pub(crate) fn load_values(&mut self, stored: &mut Stored) {
        for (values, version) in std::mem::take(&mut stored.values) {
            self.versions.insert(Key::Values(values.id.clone()), version);
            self.swap_values(values.id.clone(), Some(values));
        }
    }

    /// Some values.
    #[must_use]
    pub fn values(&self, id: &ValuesId) -> Option<&Arc<Values>> {
        self.base.values.get(id)
    }

    /// All of a tenant, secrets first, in name order.
    pub fn values_of<'a>(&'a self, tenant: &'a TenantName) -> impl Iterator<Item = &'a Arc<Values>> {
        // Every name is behind "0", the first that there can be.
        let first = ValuesName::new("0").ok();
        let first = first.map(|name| ValuesId { tenant: tenant.clone(), kind: ValuesKind::Secret, name });
        let all = first.into_iter().flat_map(|first| self.base.values.range(first..));
        all.take_while(move |(id, _)| id.tenant == *tenant).map(|(_, values)| values)
    }
}
