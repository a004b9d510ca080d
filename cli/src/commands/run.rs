//! `run`: a command on the servers of a job; without one, on servers that are allocated for it.

use proto_wire::v1;

use super::{
    allocation::{self, Ending},
    step::{self, Step},
};
use crate::{
    args::{Exec, Run},
    client::{Api, JobRef},
    error::Error,
};

/// `run`: a command on the servers of a job, or on servers that are allocated for it.
///
/// # Errors
/// [`Error::Usage`] if options contradict each other; [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Exited`] with
/// the command's exit code if that is not 0.
pub async fn run(args: &Run, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    let code = match &args.job {
        Some(job) => {
            if let Some(option) = args.sizing.given() {
                let text = format!(
                    "{option} asks for an allocation, but job {job} is given (--job or RAIL_JOB): leave {option} out to run \
                     in that job, or unset RAIL_JOB to allocate servers for this command alone"
                );
                return Err(Error::Usage(text));
            }
            let api = api()?;
            let job = api.job_ref(job);
            step::run(&api, asked(args, &job, named(args))).await?
        }
        None => alone(args, api).await?,
    };
    if code == 0 { Ok(()) } else { Err(Error::Exited(code)) }
}

/// `exec`: one process on one server.
///
/// # Errors
/// [`Error::Rpc`] if the controller refuses or does not answer; [`Error::Exited`] with the process's exit code if that is not 0.
pub async fn exec(args: &Exec, api: &Api) -> Result<(), Error> {
    let job = api.job_ref(&args.job);
    let start = v1::StepStart {
        job: job.name,
        tenant: job.tenant,
        argv: args.command.clone(),
        nodes: args.node.iter().cloned().collect(),
        ranks_per_node: 1,
        stdin: !args.no_stdin,
        terminal: None,
        env: args.variables.iter().cloned().collect(),
        working_dir: args.working_dir.clone().unwrap_or_default(),
        one: true,
        ..v1::StepStart::default()
    };
    match step::run(api, Step { start, label: false, tty: args.tty }).await? {
        0 => Ok(()),
        code => Err(Error::Exited(code)),
    }
}

/// Servers that are held for this step alone.
async fn alone(args: &Run, api: impl Fn() -> Result<Api, Error>) -> Result<u8, Error> {
    if args.node.is_some() {
        let text = "--node names a server of a running job; say which job (--job)";
        return Err(Error::Usage(text.to_owned()));
    }
    let count = |text: &String| {
        let number = text.parse().ok().filter(|count| *count > 0);
        let wrong = || format!("--nodes {text}: without a job (--job) it is a number of servers to allocate");
        number.ok_or_else(|| Error::Usage(wrong()))
    };
    let nodes = args.nodes.as_ref().map(count).transpose()?;
    let job = allocation::job_of(&args.sizing, nodes)?;
    let api = api()?;
    let mut ending = Ending::listen()?;
    let held = allocation::hold(&api, job, &mut ending).await?;
    let done = step::run(&api, asked(args, &held.name, Vec::new())).await;
    allocation::release(&api, &held.name).await;
    done
}

/// The servers that were named.
fn named(args: &Run) -> Vec<String> {
    args.node.iter().chain(&args.nodes).cloned().collect()
}

fn asked(args: &Run, job: &JobRef, nodes: Vec<String>) -> Step {
    let start = v1::StepStart {
        job: job.name.clone(),
        tenant: job.tenant.clone(),
        argv: args.command.clone(),
        nodes,
        ranks_per_node: args.ranks_per_node,
        stdin: !args.no_stdin,
        terminal: None,
        env: args.variables.iter().cloned().collect(),
        working_dir: args.working_dir.clone().unwrap_or_default(),
        one: args.one || args.tty,
        ..v1::StepStart::default()
    };
    Step { start, label: args.label, tty: args.tty }
}
