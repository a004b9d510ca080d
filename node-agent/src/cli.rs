//! Command lines: which there are, and what each does.

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};
use node_agent_attempt::layout::JobDir;
use node_agent_qos_apply::command::{self, QosArguments};
use node_agent_rank::{exec, isolation, probe};
use node_agent_supervisor as supervisor;

use crate::{
    agent,
    arguments::{InventoryArguments, RunArguments},
    rank_arguments::RankArguments,
    slurm::{self, SlurmArguments},
};

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

#[derive(Debug, Parser)]
#[command(name = "rail-node-agent", version, about = "Starts and watches Railyard's jobs on one server")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Join the cluster if need be, then serve the controller until told to end (jobs go on)
    #[command(after_help = proto_rpc::otlp::HELP)]
    Run(Box<RunArguments>),
    /// Print this server's inventory as it would be registered, and what is odd about it
    Inventory(InventoryArguments),
    /// Try how jobs are kept apart on this server, and print each feature: active or not, why, what mends it
    Isolation(RankArguments),
    /// Class of service of this server's NICs: plan, apply, diff, rollback, status
    Qos(QosArguments),
    /// Beside Slurm: what slurmd calls, so that tasks find the rails and the engine of their job
    Slurm(SlurmArguments),
    /// Hold one attempt of one job (started by `run`)
    #[command(hide = true)]
    Supervise {
        #[arg(long)]
        dir: PathBuf,
    },
    /// Hold an attempt's namespaces (started by `supervise`)
    #[command(hide = true)]
    RankInit,
    /// Try how ranks can be kept apart here (started by `run`)
    #[command(hide = true)]
    RankTrial,
    /// Become one rank of a job (started by `supervise`; standard input says how and what)
    #[command(hide = true)]
    RankExec,
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Run(arguments) => report(agent::run(*arguments)),
        Command::Inventory(arguments) => report(agent::inventory::print(&arguments)),
        Command::Isolation(arguments) => report(agent::ranks::print(&arguments)),
        Command::Qos(arguments) => command::main(&arguments),
        Command::Slurm(arguments) => slurm::main(&arguments),
        Command::Supervise { dir } => match supervisor::run(&JobDir::at(dir)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("rail-node-agent supervise: {error}");
                ExitCode::FAILURE
            }
        },
        Command::RankInit => isolation::init::run(),
        Command::RankTrial => probe::main(),
        Command::RankExec => exec::run(),
    }
}

fn report(result: Result<(), agent::AgentError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rail-node-agent: {error}");
            ExitCode::from(if error.is_usage() { USAGE } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use node_agent_rank::orders;

    #[test]
    fn the_command_line_is_consistent_and_secrets_stay_hidden() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        assert!(help.contains("RAIL_JOIN_TOKEN") && help.contains("--ca-pin"));
        for order in [orders::EXEC, orders::INIT] {
            assert!(
                command.find_subcommand(order).is_some(),
                "the agent's own program must understand {order} too"
            );
        }
        assert!(help.contains("RAIL_RANK_USER") && help.contains("UID:GID"));
    }
}
