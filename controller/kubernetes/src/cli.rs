//! Command lines: which there are, and what each does.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use crate::{arguments::RunArguments, crds, run};

/// Exit status for arguments that are wrong.
const USAGE: u8 = 2;

#[derive(Debug, Parser)]
#[command(
    name = "rail-operator",
    version,
    about = "Keeps Railyard as custom resources of Kubernetes say, and Nodes as their rails are"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Act as the custom resources say until asked to end; of several operators one acts, and the others stand by
    #[command(after_help = proto_rpc::otlp::HELP)]
    Run(Box<RunArguments>),
    /// Print the CustomResourceDefinitions as YAML; Kubernetes is not asked
    Crds,
}

/// Reads the command line and does what it says.
#[must_use]
pub fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Crds => io::stdout().write_all(crds::yaml().as_bytes()).map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rail-operator: {error}");
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
        for option in ["POD_NAME", "--controller", "RAIL_TOKEN_FILE", "--lease-namespace", "--api-server"] {
            assert!(help.contains(option), "{help}");
        }
        let (at, of_kueue) = (help.find("--log-format").unwrap(), help.find("Kueue:").unwrap());
        assert!(at < of_kueue, "{help}");
        let parsed = |line: &[&str]| Arguments::try_parse_from(line);
        let run = ["rail-operator", "run", "--controller", "https://c:7443", "--ca", "ca.pem", "--name", "a"];
        assert!(parsed(&run).unwrap_err().to_string().contains("--token-file"));
        assert!(parsed(&[&run[..], &["--token-file", "t"]].concat()).is_ok());
        assert!(parsed(&[&run[..], &["--cert", "c"]].concat()).unwrap_err().to_string().contains("--key"));
    }
}
