//! Keeps Slurm and Railyard of one mind, once or for ever.

use super::{
    decide::{Action, actions, leftovers},
    hold::allocations,
    tools,
};
use crate::{args::SlurmSync, client::Api, commands::allocation::release, error::Error};

/// `slurm sync`.
///
/// # Errors
/// As [`super::run`]; with `--every` an error is said, and it goes on.
pub async fn run(args: &SlurmSync, api: &Api) -> Result<(), Error> {
    let Some(every) = args.every else { return once(args, api).await };
    let mut tick = tokio::time::interval(every);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
        if let Err(error) = once(args, api).await {
            error.lines().iter().for_each(|line| eprintln!("{line}"));
        }
    }
}

async fn once(args: &SlurmSync, api: &Api) -> Result<(), Error> {
    tools::sees_all().await?;
    // In this order: whatever is held was held for a job that Slurm had before it is asked.
    let held = allocations(api, &api.tenant, &args.names.prefix).await?;
    let jobs = tools::jobs().await?;
    for name in leftovers(&held, &jobs) {
        eprintln!("allocation {name} is held for a job that Slurm no longer has");
        if !args.dry_run {
            release(api, &name).await;
        }
    }
    let ours = api.list_nodes().await?.nodes;
    let mut first = None;
    for action in actions(&ours, &tools::nodes().await?) {
        match &action {
            Action::Drain { node, reason } => eprintln!("node {node} is drained in Slurm: {reason}"),
            Action::Resume { node } => eprintln!("node {node} is resumed in Slurm"),
        }
        if !args.dry_run
            && let Err(error) = tools::act(&action).await
        {
            // The others are changed all the same.
            first.get_or_insert(error);
        }
    }
    first.map_or(Ok(()), Err)
}
