//! railctl: parse, one or few calls, render.
//!
//! `args` is what can be said, `config` who and where, `client` the way there, `commands` what is done, `render`
//! how answers look, `error` what can go wrong and its exit code, `dev` local clusters.

mod args;
mod client;
mod commands;
mod config;
mod dev;
mod documents;
mod error;
mod output;
mod render;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
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
