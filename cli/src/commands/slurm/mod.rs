//! `slurm`: Railyard beside Slurm. `job` is a job as Slurm's prologs tell it, `options` what it asks for by
//! `--rail-*`, `hold` holds and gives back its servers, `decide` says what a
//! difference between both makes necessary, `tools` are Slurm's own commands, `sync` does what `decide` says, `serve` does it again and again and answers
//! `place`: a `question` of what is submitted to Slurm, with the servers that are `candidates`, and what it has proposed to others as `promise`;
//! `topology` is Slurm's. `import` makes documents of what a site of Slurm has.

mod candidates;
mod decide;
mod hold;
mod import;
mod job;
mod options;
mod place;
mod promise;
mod question;
mod serve;
mod sync;
mod tools;
mod topology;

pub use place::run as place;

use std::env;

use crate::{args::SlurmCommand, client::Api, error::Error};

/// `slurm prolog|epilog|sync|serve|place`.
///
/// # Errors
/// [`Error::Usage`] where Slurm's variables are not there or say what cannot be; [`Error::Rpc`], [`Error::Timeout`] or [`Error::JobEnded`]
/// if servers cannot be held or given back; [`Error::Config`] if a command of Slurm cannot be run.
pub async fn run(command: &SlurmCommand, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    match command {
        SlurmCommand::Prolog(args) => {
            let job = job::of(&args.names.prefix, |name| env::var(name).ok())?;
            let options = options::of(|name| env::var(name).ok())?;
            hold::prolog(args, &job.allocation(args, &options), &job, api).await
        }
        SlurmCommand::Epilog(args) => {
            let job = job::of(&args.names.prefix, |name| env::var(name).ok())?;
            hold::epilog(args, &job, &api()?).await
        }
        SlurmCommand::Sync(args) => {
            let synced = sync::once(&args.names, args.dry_run, &api()?).await?;
            synced.failed.map_or(Ok(()), Err)
        }
        SlurmCommand::Serve(args) => serve::run(args, &api()?).await,
        SlurmCommand::Place(args) => place::run(args).await,
        SlurmCommand::Import(args) => import::run(args).await,
    }
}
