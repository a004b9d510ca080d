//! `cargo xtask attack`: the attack suite on a cluster of real processes.

use std::{
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use crate::process::{self, Result};

/// The account without privileges that the suite is made as where this process is root: nobody, of Debian.
const NOBODY: &str = "65534";

/// Options of `cargo xtask attack`.
#[derive(clap::Args)]
pub struct Args {
    /// Only attempts whose id contains this; may be repeated.
    #[arg(long, value_name = "PART")]
    only: Vec<String>,
    /// Only attempts of this caller: anonymous, viewer, user, tenant-admin, deleted-tenant, node, rank, on-path, local-account.
    #[arg(long, value_name = "WHO")]
    from: Option<String>,
    /// Print the attempts and make none.
    #[arg(long)]
    list: bool,
    /// One JSON object a line instead of a table.
    #[arg(long)]
    json: bool,
    /// Show attempts that held too.
    #[arg(long)]
    all: bool,
    /// Attack optimised programs.
    #[arg(long)]
    release: bool,
    /// Write the table of attempts into docs/SECURITY.md, and make none.
    #[arg(long)]
    write_docs: bool,
}

/// Builds the programs and runs the attack suite.
///
/// # Errors
/// Something cannot be built, or the suite cannot be started.
pub fn run(args: &Args) -> Result<ExitCode> {
    let profile = if args.release { "release" } else { "dev" };
    let bin = process::build_with(profile, &["integration-attack"])?;
    let mut attack = Command::new(bin.join("rail-attack"));
    attack.env("RAIL_BIN_DIR", &bin).current_dir(process::root());
    if args.write_docs {
        attack.args(["docs", "--write"]);
        return process::exit_code(attack);
    }
    attack.arg("run");
    for part in &args.only {
        attack.args(["--only", part]);
    }
    if let Some(from) = &args.from {
        attack.args(["--from", from]);
    }
    for (wanted, flag) in [(args.list, "--list"), (args.json, "--json"), (args.all, "--all")] {
        if wanted {
            attack.arg(flag);
        }
    }
    process::exit_code(attack)
}

/// The whole suite, for `cargo xtask test`: as this user and, where that is root, as an unprivileged one. Nothing may run beside it:
/// parts of it are about who is served how fast while a port is flooded. Gives each with its outcome, and reasons why one was
/// left out.
pub fn test(bin: &Path) -> (Vec<(&'static str, Result<()>)>, Vec<String>) {
    let program = bin.join("rail-attack");
    let run = |mut command: Command| {
        command.arg("run").env("RAIL_BIN_DIR", bin).current_dir("/");
        process::run(command)
    };
    let mut outcomes = vec![("cargo xtask attack", run(Command::new(&program)))];
    let mut skipped = Vec::new();
    if rustix::process::geteuid().is_root() {
        let as_nobody = || {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--no-new-privs", "--"])
                .arg(&program);
            command.env("HOME", "/nonexistent").env_remove("XDG_RUNTIME_DIR");
            command
        };
        let mut tried = as_nobody();
        tried.args(["run", "--list"]).stdout(Stdio::null()).stderr(Stdio::null());
        if tried.status().is_ok_and(|status| status.success()) {
            outcomes.push(("cargo xtask attack, as nobody", run(as_nobody())));
        } else {
            skipped.push(format!("cargo xtask attack, as nobody: it cannot run {}", program.display()));
        }
    }
    (outcomes, skipped)
}
