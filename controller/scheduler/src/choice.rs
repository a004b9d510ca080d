//! A gang's nodes with what they give, as it was chosen, and the time that it was chosen for.

use controller_topology::RailSet;

use crate::{capacity_index::Pick, host::Host};

/// The nodes, GPUs and rails that were chosen for a gang.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Choice {
    /// The rails in use.
    pub rails: RailSet,
    /// The nodes in rank order, so that neighbours in rank are neighbours in the fabric.
    pub nodes: Vec<Pick>,
    /// Nodes that are held idle for it.
    pub spares: Vec<Pick>,
    /// CPUs and memory that it holds of each; of a gang of components that is what `hosts` says.
    pub host: Host,
    /// Of a gang of components, in rank order: so many nodes, and what it holds of each of them.
    pub hosts: Vec<(u32, Host)>,
    /// Nobody else is let onto its nodes.
    pub exclusive: bool,
    /// The number of pods that the gang is spread over.
    pub pods: u32,
    /// The weighted cut of its traffic, see [`ACROSS_LEAVES`] and [`ACROSS_PODS`].
    pub cut: u64,
}

impl Choice {
    /// Its nodes in rank order, with the CPUs and memory that it holds of each.
    pub fn parts(&self) -> impl Iterator<Item = (&[Pick], Host)> {
        let alike = if self.hosts.is_empty() { Some((&self.nodes[..], self.host)) } else { None };
        let mut rest = &self.nodes[..];
        let parts = self.hosts.iter().map(move |(nodes, host)| {
            let (part, behind) = rest.split_at((*nodes as usize).min(rest.len()));
            rest = behind;
            (part, *host)
        });
        alike.into_iter().chain(parts)
    }
}

/// As of when nodes count as free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// As of now: what jobs hold is not free.
    Now,
    /// When all jobs have ended, of nodes that take jobs.
    Ended,
    /// When besides all nodes take jobs and every NIC is up.
    Healed,
}
