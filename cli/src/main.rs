//! railctl: parse, one or few calls, render.
//!
//! `args` is what can be said, `config` who and where, `client` the way there, `commands` what is done, `render`
//! how answers look, `error` what can go wrong and its exit code, `dev` local clusters, `timeline` pictures of a job's life, `upgrade` the way to another
//! release, `validate` the whole fabric tried out.

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
mod timeline;
mod upgrade;
mod validate;

use std::{ffi::OsString, process::ExitCode};

use clap::Parser as _;

/// Set by scripts and demos that may be killed: this railctl then ends with the process that started it, instead of
/// waiting for a job of a cluster that is no more.
const DIE_WITH_PARENT: &str = "RAIL_DIE_WITH_PARENT";

fn main() -> ExitCode {
    if std::env::var_os(DIE_WITH_PARENT).is_some() {
        // Where the kernel cannot, the wait ends by its own bound.
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    }
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(place) = args::SlurmPlace::read_alone(&words) {
        return finish(commands::place(&place), false);
    }
    let json = output::wants_json(words);
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        // Help and versions are no errors.
        Err(error) if json && error.use_stderr() => {
            let text = error.render().to_string();
            let first = text.lines().next().unwrap_or_default();
            let mut reported = first.trim_start_matches("error: ").to_owned();
            if reported.ends_with("none was supplied") {
                reported.push_str(": it is ''");
            }
            return report(&error::Error::Usage(reported), json);
        }
        Err(error) => error.exit(),
    };
    if json {
        commands::progress::silence();
    }
    finish(commands::run(&cli), json)
}

fn finish(done: Result<(), error::Error>, json: bool) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => report(&error, json),
    }
}

/// Says what went wrong, to programs that asked for JSON as JSON.
fn report(error: &error::Error, json: bool) -> ExitCode {
    let lines = error.lines();
    if json && !lines.is_empty() {
        eprintln!("{}", error.as_json());
    } else {
        lines.iter().for_each(|line| eprintln!("{line}"));
    }
    ExitCode::from(error.exit_code())
}
