//! Tasks of Slurm's jobs in the places of an allocation's ranks: what slurmd calls as Prolog, TaskProlog and Epilog. `seats` is what the
//! prolog leaves on this server for tasks, `place` who may read it and where it lies, `task` what one task is given of it.

mod error;
mod place;
mod seats;
mod task;

use std::{env, path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use proto_model::TenantName;

pub use self::error::SlurmError;
use self::{place::Places, seats::Seats, task::SlurmTask};

/// `rail-node-agent slurm`.
#[derive(Debug, Args)]
pub struct SlurmArguments {
    #[command(subcommand)]
    command: SlurmCommand,
    /// The folder of this server's agent
    #[arg(long, env = "RAIL_DATA_DIR", default_value = "/var/lib/rail-node-agent", global = true)]
    data_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
enum SlurmCommand {
    /// As Prolog of slurmd, run by root: what tasks of the job need to know of the allocation that is held for it here
    ///
    /// A job without an allocation is let be: exit code 0. Any other code makes Slurm drain the server.
    Prolog(PrologArguments),
    /// As TaskProlog: print Slurm's `export` lines for one task; what the task's user has set stays
    Task,
    /// As Epilog of slurmd, run by root: take away what the prolog left
    Epilog,
}

#[derive(Debug, Args)]
struct PrologArguments {
    /// What allocations are called by, as of `railctl slurm prolog`
    #[arg(long, value_name = "PREFIX", default_value = "slurm-")]
    prefix: String,
    /// The tenant that the allocations are of
    #[arg(long, value_name = "TENANT", env = "RAIL_TENANT", required_unless_present = "account_is_tenant")]
    tenant: Option<TenantName>,
    /// The tenant is called as Slurm's account of the job
    #[arg(long, conflicts_with = "tenant")]
    account_is_tenant: bool,
}

/// Does what slurmd has asked for.
#[must_use]
pub fn main(arguments: &SlurmArguments) -> ExitCode {
    let places = Places::of(&arguments.data_dir);
    let done = match &arguments.command {
        SlurmCommand::Prolog(prolog) => prepare(prolog, &places),
        SlurmCommand::Task => {
            print!("{}", lines(&places));
            // A task without the variables is better than none.
            return ExitCode::SUCCESS;
        }
        SlurmCommand::Epilog => number("SLURM_JOB_ID").and_then(|job| places.remove(job)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rail-node-agent slurm: {error}");
            ExitCode::FAILURE
        }
    }
}

fn variable(name: &str) -> Option<String> {
    // What Slurm does not know is written so.
    env::var(name).ok().filter(|value| !value.is_empty() && value != "(null)")
}

fn number<N: std::str::FromStr>(name: &'static str) -> Result<N, SlurmError> {
    let problem = |problem: String| SlurmError::Variable { name, problem };
    let text = variable(name).ok_or_else(|| problem("is not set".to_owned()))?;
    text.parse().map_err(|_| problem(format!("is {text:?}, which is no number")))
}

fn prepare(arguments: &PrologArguments, places: &Places) -> Result<(), SlurmError> {
    let (job, uid) = (number("SLURM_JOB_ID")?, number("SLURM_JOB_UID")?);
    // Not every slurmd says which start of the job it is.
    let start = variable("SLURM_JOB_RESTART_COUNT").and_then(|text| text.parse().ok());
    places.remove_left()?;
    let account = || TenantName::new(&variable("SLURM_JOB_ACCOUNT")?).ok();
    // An account that is no tenant has no allocations.
    let tenant = arguments.tenant.clone().or_else(account);
    let held = match &tenant {
        Some(tenant) => places.attempt(tenant, &arguments.prefix, job, start)?,
        None => None,
    };
    let given = match held {
        Some((dir, task)) => places.write(job, uid, &dir, &Seats::of(&places.tasks(job), &task))?,
        None => false,
    };
    if !given {
        places.remove(job)?;
        eprintln!("nothing is held here for job {job}: its tasks find no rails of Railyard's");
    }
    Ok(())
}

/// What Slurm takes of a TaskProlog's output: `export NAME=VALUE`, `unset NAME` and `print TEXT`, a line each.
fn lines(places: &Places) -> String {
    let Ok(job) = number("SLURM_JOB_ID") else { return String::new() };
    match places.read(job) {
        Ok(None) => String::new(),
        Ok(Some(seats)) => {
            let given = task::given(&seats, &SlurmTask::of(variable), variable);
            let unset = given.unset.iter().map(|name| format!("unset {name}\n"));
            let set = given.set.iter().map(|(name, value)| format!("export {name}={value}\n"));
            unset.chain(set).collect()
        }
        Err(error) => format!("print railyard: {}\n", error.to_string().replace('\n', " ")),
    }
}
