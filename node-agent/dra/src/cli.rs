//! Command lines: which there are, and what each does.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    arguments::{RunArguments, ServerArguments},
    run,
};

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

#[derive(Debug, Parser)]
#[command(
    name = "rail-dra-driver",
    version,
    about = "Publishes a server's rails to Kubernetes, and prepares claims of them"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve kubelet and keep the server's ResourceSlice until asked to end; what is prepared stays
    #[command(after_help = proto_rpc::otlp::HELP)]
    Run(Box<RunArguments>),
    /// Print the ResourceSlice as it would be published, as JSON; Kubernetes is not asked
    Devices(Box<ServerArguments>),
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Devices(arguments) => run::print(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rail-dra-driver: {error}");
            ExitCode::from(if error.is_usage() { USAGE } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for option in ["NODE_NAME", "--controller", "RAIL_TOKEN_FILE", "--registry", "--api-server"] {
            assert!(help.contains(option), "{help}");
        }
        let parsed = |line: &[&str]| Arguments::try_parse_from(line);
        let node = ["rail-dra-driver", "devices", "--kubernetes-node", "n0"];
        assert!(parsed(&node).is_ok());
        let controller = [&node[..], &["--controller", "https://c:7443"]].concat();
        assert!(parsed(&controller).unwrap_err().to_string().contains("--ca"));
        assert!(parsed(&[&node[..], &["--rails", "by-luck"]].concat()).is_err());
    }
}
