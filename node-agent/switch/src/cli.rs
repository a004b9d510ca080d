//! Command lines: which there are, and what each does.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::{
    arguments::{RunArguments, SwitchArguments},
    run,
};

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

#[derive(Debug, Parser)]
#[command(
    name = "rail-switch-agent",
    version,
    about = "Keeps the configuration of one switch as the controller says"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Join the cluster if need be, then serve the controller until told to end
    #[command(after_help = proto_rpc::otlp::HELP)]
    Run(Box<RunArguments>),
    /// Print what would be reported of this switch as JSON; no controller is needed
    Read(SwitchArguments),
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Read(arguments) => run::read(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rail-switch-agent: {error}");
            ExitCode::from(if error.is_usage() { USAGE } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_secrets_stay_hidden() {
        let mut command = Arguments::command();
        command.clone().debug_assert();
        let help = command.find_subcommand_mut("run").unwrap().render_long_help().to_string();
        for option in ["RAIL_JOIN_TOKEN_FILE", "--ca-pin", "--state", "--nos", "RAIL_SWITCH"] {
            assert!(help.contains(option), "{help}");
        }
        let parsed = |line: &[&str]| Arguments::try_parse_from(line);
        assert!(parsed(&["rail-switch-agent", "read", "--nos", "linux"]).is_ok());
        assert!(parsed(&["rail-switch-agent", "read", "--nos", "eos"]).is_err());
        assert!(parsed(&["rail-switch-agent", "run"]).is_err());
    }
}
