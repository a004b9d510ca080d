//! `cargo xtask`: the project's commands. Each is a file; this one only chooses.

mod attack;
mod bench;
mod chaos;
mod debian;
mod demo;
mod disk;
mod dist;
mod docs;
mod examples;
mod fuzz;
mod kube;
mod lab;
mod map;
mod peers;
mod process;
mod release;
mod released;
mod sonic;
mod sound;
mod stack;
mod test;
mod tools;
mod torch;
mod upstream;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The project's commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Start a small cluster of real processes, run a verified all-reduce on all its rails, show what it did.
    Demo(demo::Args),
    /// Everything that must hold: format, lints, licences, all tests, the simulator's seeds.
    Test(test::Args),
    /// Measure; one JSON object a line with --json.
    Bench(bench::Args),
    /// Real controllers, agents and etcd under faults from a seed, and a judge of what happened; needs root.
    Chaos(chaos::Args),
    /// The attack suite: some hundred attempts by whoever is not to be trusted, on a cluster of real processes. Its table is docs/SECURITY.md's.
    Attack(attack::Args),
    /// Feed every decoder hostile bytes; needs a nightly compiler.
    Fuzz(fuzz::Args),
    /// Real RDMA verbs in a virtual machine under emulation: two hosts, four Soft-RoCE rails; or `lab sonic`, SONiC's own configuration code;
    /// or `lab kube`, a real Kubernetes; or `lab upgrade`, the release before and this one in one cluster.
    Lab(lab::Args),
    /// Tests of the code that shares memory, speaks C or calls the kernel by itself, under memcheck, an interpreter and the
    /// compiler's sanitizers.
    Sound,
    /// Replay seeds of the control-plane simulator: `sim --seed 17`; or of the engine's, rows B9 and B11 of the benchmark: `sim
    /// engine [--row b9|b11] [--seeds N] [--seed S] [--json]`
    Sim(SimArgs),
    /// Replay seeds of the simulator of the whole stack, real gRPC and HTTP/2 included: `stack --seed 17 --story`
    Stack(stack::Args),
    /// Build the Python package with librail.so in it.
    Wheel(wheel::Args),
    /// PyTorch's own distributed tests, as they are installed, with backend rail and with Gloo, side by side.
    Torch(upstream::Args),
    /// Write ARCHITECTURE.md's map from what cargo sees.
    Map(map::Args),
    /// Build what is shipped: stripped programs and libraries, their debug information beside them, checksums.
    Dist(dist::Args),
    /// The book in docs/, its generated pages and man pages; links are checked, and with --run commands are run.
    Docs(docs::Args),
}

#[derive(clap::Args)]
struct SimArgs {
    /// Passed on to the simulator; see `cargo xtask sim -- --help`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn main() -> ExitCode {
    let result = match Args::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Chaos(args) => chaos::run(&args),
        Command::Attack(args) => attack::run(&args),
        Command::Fuzz(args) => fuzz::run(&args),
        Command::Sound => sound::alone(),
        Command::Lab(args) => lab::run(&args),
        Command::Sim(args) => sim(&args),
        Command::Stack(args) => stack::run(&args),
        Command::Wheel(args) => wheel::run(&args),
        Command::Torch(args) => upstream::run(&args),
        Command::Map(args) => map::run(&args),
        Command::Dist(args) => dist::run(&args),
        Command::Docs(args) => docs::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn sim(args: &SimArgs) -> process::Result<ExitCode> {
    let (package, program, rest) = match args.args.split_first() {
        Some((first, rest)) if first == "engine" => ("integration-engine-sim", "rail-engine-sim", rest),
        _ => ("integration-sim", "rail-sim", &args.args[..]),
    };
    let mut cargo = process::cargo(["run", "--quiet", "--release", "-p", package, "--bin", program, "--"]);
    cargo.args(rest);
    process::exit_code(cargo)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Args;

    /// Options of one command stand in files of their own: names and groups that meet are found here, and not by who calls the command.
    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }
}
