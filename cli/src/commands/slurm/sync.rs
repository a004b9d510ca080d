//! Keeps Slurm and Railyard of one mind.

use std::collections::{BTreeMap, BTreeSet};

use proto_wire::v1;

use super::{
    decide::{Action, SlurmNode, actions, leftovers},
    hold::allocations,
    tools,
};
use crate::{args::SlurmNames, client::Api, commands::allocation::release, error::Error};

/// What a round has seen.
pub struct Synced {
    /// Servers that Railyard has.
    pub ours: BTreeSet<String>,
    /// Nodes as Slurm had them before.
    pub theirs: BTreeMap<String, SlurmNode>,
    /// The first change of a node that failed; the others were made all the same.
    pub failed: Option<Error>,
}

/// `slurm sync`: gives back what is held for nobody, and makes both agree about nodes, once.
///
/// # Errors
/// As [`super::run`].
pub async fn once(names: &SlurmNames, dry_run: bool, api: &Api) -> Result<Synced, Error> {
    tools::sees_all().await?;
    // In this order: whatever is held was held for a job that Slurm had before it is asked.
    let held = allocations(api, &api.tenant, &names.prefix).await?;
    let jobs = tools::jobs().await?;
    for name in leftovers(&held, &jobs) {
        eprintln!("allocation {name} is held for a job that Slurm no longer has");
        if !dry_run {
            release(api, &name).await;
        }
    }
    let ours = api.list_nodes().await?.nodes;
    let mut first = None;
    let theirs = tools::nodes().await?;
    for action in actions(&ours, &theirs) {
        match &action {
            Action::Drain { node, reason } => eprintln!("node {node} is drained in Slurm: {reason}"),
            Action::Resume { node } => eprintln!("node {node} is resumed in Slurm"),
        }
        if !dry_run && let Err(error) = tools::act(&action).await {
            // The others are changed all the same.
            first.get_or_insert(error);
        }
    }
    let name = |node: v1::Node| node.metadata.map(|metadata| metadata.name);
    Ok(Synced { ours: ours.into_iter().filter_map(name).collect(), theirs, failed: first })
}
