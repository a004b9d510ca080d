//! The step between a supervisor and a rank's program: enters the job's control group and namespaces, becomes the ranks' user, gives
//! up all privileges, dies with the supervisor, and only then looks at what the tenant says and becomes the program. A process of its own
//! because these must happen in the new process, before the program.
//!
//! It is started with an empty environment in `/`, and with the launch (`launch.rs`) as its standard input: as long as it has
//! privileges, nothing that a job can choose reaches it.

use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::process::CommandExt},
    path::Path,
    process::{Command, ExitCode, Stdio},
};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use self::launch::{Confinement, Input, Launch, Program, Received};
use crate::{isolation::seccomp, oom, orders, privileges};

pub mod launch;

/// The program was not found; as shells say it.
const NOT_FOUND: u8 = 127;
/// The program could not be run; as shells say it.
const NOT_RUN: u8 = 126;

/// True if a rank that ended with this code may never have begun.
#[must_use]
pub fn may_be_refusal(code: i32) -> bool {
    code == i32::from(NOT_RUN)
}

/// The command that starts a rank by `program`: the agent's own, or the small one (`program.rs`).
///
/// # Errors
/// No descriptor is left.
pub fn command(program: &Path, launch: &Launch) -> io::Result<Command> {
    let mut command = Command::new(program);
    command.arg(orders::EXEC).env_clear().current_dir("/").stdin(launch.stdin()?);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Becomes the program; returns only if that failed.
#[must_use]
pub fn run() -> ExitCode {
    match receive() {
        Ok(received) => {
            let why = match begin(&received) {
                Ok(program) => return become_it(&program),
                Err(why) => why,
            };
            eprintln!("rail: {why}");
            received.refuse(&why);
        }
        Err(why) => eprintln!("rail: {why}"),
    }
    ExitCode::from(NOT_RUN)
}

/// Takes the launch, and leaves nothing of it where the program could find it.
fn receive() -> Result<Received, String> {
    let own = io::stdin().as_fd().try_clone_to_owned();
    let file = own.map(File::from).map_err(|error| format!("cannot take the launch: {error}"))?;
    let received = Received::read(file).map_err(|error| error.to_string())?;
    // What whoever started the agent left open is not the job's. A kernel that does not know this call (before 5.11) leaves what is open
    // with the programs of the agent's own service manager.
    let _ = node_agent_ipc::close_on_exec();
    let null = File::open("/dev/null").map_err(|error| format!("cannot open /dev/null: {error}"))?;
    rustix::stdio::dup2_stdin(&null).map_err(|error| format!("cannot close the launch: {error}"))?;
    Ok(received)
}

/// Everything up to the program itself; the tenant's part is decoded when privileges are gone.
fn begin(received: &Received) -> Result<Program, String> {
    let (confinement, tenants) = launch::divide(received.bytes()).map_err(|error| error.to_string())?;
    confine(&confinement)?;
    let program = Program::decode(tenants).map_err(|error| error.to_string())?;
    let folder = &program.working_dir;
    std::env::set_current_dir(folder).map_err(|error| {
        let folder = folder.display();
        format!(
            "cannot enter the working directory {folder}: {error}; make it on every server of the job, open to the ranks' user, \
             or leave it out"
        )
    })?;
    if confinement.seccomp {
        seccomp::refuse().map_err(|error| error.to_string())?;
    }
    Ok(program)
}

fn confine(confinement: &Confinement) -> Result<(), String> {
    for group in &confinement.cgroups {
        // Its limits are in there: outside of it nothing may run.
        crate::cgroup::enter(group)
            .map_err(|error| format!("cannot enter the control group {}: {error}", group.display()))?;
    }
    // While /proc is this server's own.
    oom::expose(Path::new(oom::OWN)).map_err(|error| {
        format!("cannot give up the agent's protection when memory ends ({}): {error}", oom::OWN)
    })?;
    take_input(confinement.input).map_err(|error| format!("cannot take its standard input: {error}"))?;
    if let Some(join) = confinement.join {
        join.enter().map_err(|error| format!("cannot enter the attempt's namespaces: {error}"))?;
    }
    if let Some(ids) = &confinement.ids {
        ids.take_pipes(confinement.input == Input::Terminal);
    }
    privileges::give_up(confinement.ids.as_ref(), confinement.limits).map_err(|error| error.to_string())?;
    if confinement.input == Input::Terminal {
        take_terminal().map_err(|error| format!("cannot take its terminal: {error}"))?;
    }
    // After the change of user, which undoes it (prctl(2)).
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot be tied to the supervisor: {error}"))?;
    // The supervisor may have gone before the line above.
    if getppid().map(|pid| pid.as_raw_nonzero().get()) != confinement.parent {
        return Err("the supervisor is gone".to_owned());
    }
    Ok(())
}

/// What was inherited is opened again, since a number alone is no descriptor; the one that came is closed with the program's start.
fn take_input(input: Input) -> io::Result<()> {
    match input {
        Input::Nothing => Ok(()),
        Input::Inherited(number) => {
            let inherited = File::open(format!("/proc/self/fd/{number}"))?;
            Ok(rustix::stdio::dup2_stdin(&inherited)?)
        }
        Input::Terminal => Ok(rustix::stdio::dup2_stdin(io::stdout().as_fd())?),
    }
}

/// A session of its own, controlled by the terminal that is its standard input.
fn take_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(rustix::process::ioctl_tiocsctty(io::stdin().as_fd())?)
}

/// Whoever this process is now may say what it likes: it has nothing left that the program should not have.
fn become_it(program: &Program) -> ExitCode {
    let Some((name, arguments)) = program.argv.split_first() else { return ExitCode::from(NOT_RUN) };
    let error = Command::new(name).args(arguments).env_clear().envs(&program.environment).exec();
    eprintln!("rail: cannot run '{name}': {error}; is it installed on this server, and in PATH?");
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN })
}
