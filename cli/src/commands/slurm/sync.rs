//! Keeps Slurm and Railyard of one mind.

use std::collections::BTreeMap;

use super::{
    decide::{Action, SlurmNode, actions, leftovers},
    hold::allocations,
    tools,
};
use crate::{args::SlurmNames, client::Api, commands::allocation::release, error::Error};

/// `slurm sync`: gives back what is held for nobody, and makes both agree about nodes, once. The nodes as Slurm had them before.
///
/// # Errors
/// As [`super::run`].
pub async fn once(
    names: &SlurmNames,
    dry_run: bool,
    api: &Api,
) -> Result<BTreeMap<String, SlurmNode>, Error> {
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
    first.map_or(Ok(theirs), Err)
}
