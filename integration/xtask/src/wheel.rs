//! `cargo xtask wheel`: the Python package with librail.so in it.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::process::{self, Result};

/// Options of `cargo xtask wheel`.
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the wheel; target/wheels if left out.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Platform tag, such as manylinux_2_34_x86_64; this machine's if left out.
    #[arg(long)]
    platform: Option<String>,
}

/// Builds the library optimised and packs it; prints where the wheel is.
///
/// # Errors
/// The library cannot be built or packed.
pub fn run(args: &Args) -> Result<ExitCode> {
    process::run(process::cargo(["build", "--release", "--quiet", "-p", "node-agent-capi"]))?;
    let target = process::target_dir()?;
    let out = args.out.clone().unwrap_or_else(|| target.join("wheels"));
    let backend = process::root().join("node-agent/capi/python/backend/railyard_build.py");
    let mut python = Command::new("python3");
    python.arg(backend).arg("--library").arg(target.join("release/librail.so")).arg("--out").arg(out);
    if let Some(platform) = &args.platform {
        python.args(["--platform", platform]);
    }
    process::exit_code(python)
}
