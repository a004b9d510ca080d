//! Ports while their rows are read. Rows come in the order of their keys, so the next one is most often of the port of the last one, or of
//! the one behind it.

use std::collections::BTreeMap;

use crate::{model::Name, state::PortState};

/// Ports in the order of their names, and which of them was asked for last.
#[derive(Default)]
pub(super) struct Ports {
    all: Vec<(Name, PortState)>,
    last: usize,
}

impl Ports {
    /// Adds a port; one of that name is replaced.
    pub(super) fn insert(&mut self, name: Name, port: PortState) {
        match self.find(name.as_str()) {
            Ok(at) => self.all[at].1 = port,
            Err(at) => self.all.insert(at, (name, port)),
        }
    }

    /// The port of that name.
    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut PortState> {
        self.last = self.find(name).ok()?;
        Some(&mut self.all[self.last].1)
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        let near = [self.last, self.last + 1];
        let is = |at: &usize| self.all.get(*at).is_some_and(|(known, _)| known.as_str() == name);
        if let Some(at) = near.into_iter().find(is) {
            return Ok(at);
        }
        match self.all.last() {
            Some((last, _)) if last.as_str() >= name => {
                self.all.binary_search_by(|(known, _)| known.as_str().cmp(name))
            }
            _ => Err(self.all.len()),
        }
    }

    /// Them by name.
    pub(super) fn done(self) -> BTreeMap<Name, PortState> {
        self.all.into_iter().collect()
    }
}
