//! railctl: parse, one or few calls, render.
//!
//! `args` is what can be said, `config` who and where, `client` the way there, `commands` what is done, `render`
//! how answers look, `error` what can go wrong and its exit code, `dev` local clusters, `validate` the whole fabric tried out.

mod args;
mod client;
mod commands;
mod config;
mod confirm;
mod dev;
mod documents;
mod error;
mod output;
mod render;
mod validate;

use std::process::ExitCode;

use clap::Parser as _;

/// Set by scripts and demos that may be killed: this railctl then ends with the process that started it, instead of
/// waiting for a job of a cluster that is no more.
const DIE_WITH_PARENT: &str = "RAIL_DIE_WITH_PARENT";

fn main() -> ExitCode {
    if std::env::var_os(DIE_WITH_PARENT).is_some() {
        // Where the kernel cannot, the wait ends by its own bound.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
    let cli = args::Cli::parse();
    match commands::run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for line in error.lines() {
                eprintln!("{line}");
            }
            ExitCode::from(error.exit_code())
        }
    }
}
