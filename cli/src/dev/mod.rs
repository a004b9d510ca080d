//! Local clusters of real processes.
//!
//! `spec`, `plan`, `network_plan` and `switch_plan` are values; `process`, `launch`, `network`, `frr` and `programs` touch the system; `up` (with `switches`),
//! `down`, `guard` and `status` are the commands. Whatever is started is recorded before it runs, whatever is killed is
//! known by number and start time, and `down` works from any state that a killed `up` can leave.

mod attempts;
mod down;
mod frr;
mod guard;
mod launch;
mod network;
mod network_plan;
mod plan;
mod process;
mod programs;
mod ranks;
mod spec;
mod status;
mod switch_plan;
mod switches;
mod up;

use crate::{
    args::{DevCommand, DevTarget},
    config::Environment,
    error::{Error, human},
};

/// Runs one of the `dev` commands; gives what goes to standard output.
///
/// # Errors
/// The error of the command that is run.
pub async fn run(command: &DevCommand, env: &Environment, now: f64) -> Result<String, Error> {
    match command {
        DevCommand::Up(args) => up::up(args, env).await,
        DevCommand::Down(target) => take_down(target, env),
        DevCommand::Status { target, output } => status::status(target, *output, env, now).await,
        DevCommand::Launch(args) => launch::launch(args).map(|never| match never {}),
        DevCommand::Switch(args) => frr::switch(args).await.map(|()| String::new()),
        DevCommand::Guard(args) => guard::guard(args, env).map(|()| String::new()),
    }
}

fn take_down(target: &DevTarget, env: &Environment) -> Result<String, Error> {
    let begun = std::time::Instant::now();
    let layout = spec::Layout::of(target, env)?;
    let removed = down::down(&layout, env, None)?;
    if removed.folder {
        eprintln!(
            "cluster `{}` is down: {} processes and {} network namespaces removed in {}",
            target.name,
            removed.processes,
            removed.namespaces,
            human(begun.elapsed())
        );
    } else {
        eprintln!("there is no cluster `{}`", target.name);
    }
    Ok(String::new())
}
