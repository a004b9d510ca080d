//! `alloc`: servers that are held while a command runs here.

use std::{
    env,
    io::IsTerminal as _,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use proto_wire::v1;
use tokio::{process::Child, signal::unix::SignalKind};

use super::{
    allocation::{self, Ending, RunningAllocation, code_of, nodes_of},
    wait,
};
use crate::{
    args::{Alloc, Global},
    client::Api,
    error::Error,
    output::print,
};

/// A command that was asked to end has ended after this long, or is killed.
const END_LIMIT: Duration = Duration::from_secs(5);

/// `alloc`: holds servers while a command runs here, or until they are released.
///
/// # Errors
/// [`Error::Usage`] if the command or the file cannot be used; [`Error::Rpc`] if the controller refuses or does not answer;
/// [`Error::Interrupted`] if the wait is given up; [`Error::Exited`] with the command's exit code if that is not 0.
pub async fn run(args: &Alloc, global: &Global, api: impl Fn() -> Result<Api, Error>) -> Result<(), Error> {
    // Before anything is held.
    let command = if args.no_shell { Vec::new() } else { command(&args.command)? };
    let job = allocation::job_of(&args.sizing, args.nodes)?;
    let api = api()?;
    let mut ending = Ending::listen()?;
    let held = allocation::hold(&api, job, &mut ending).await?;
    if args.no_shell {
        return print(&format!("job/{}\n", held.name));
    }
    let done = attend(&api, &held, global, &command, &mut ending).await;
    allocation::release(&api, &held.name).await;
    match done? {
        0 => Ok(()),
        code => Err(Error::Exited(code)),
    }
}

/// What is to run: what was said, else the user's shell where somebody is there to use it.
fn command(said: &[String]) -> Result<Vec<String>, Error> {
    if !said.is_empty() {
        return Ok(said.to_vec());
    }
    if !std::io::stdin().is_terminal() {
        let text = "standard input is no terminal, so no shell is started: say what is to run (-- COMMAND), or --no-shell";
        return Err(Error::Usage(text.to_owned()));
    }
    Ok(vec![env::var("SHELL").ok().filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".to_owned())])
}

/// What the command finds beside the caller's environment.
fn environment(held: &RunningAllocation, global: &Global) -> Vec<(&'static str, String)> {
    let nodes = nodes_of(&held.job);
    let metadata = held.job.metadata.clone().unwrap_or_default();
    let attempt = held.job.status.as_ref().map_or(0, |status| status.attempt);
    let mut set = vec![
        ("RAIL_JOB", held.name.to_string()),
        ("RAIL_JOB_UID", metadata.uid),
        ("RAIL_TENANT", held.name.tenant.clone()),
        ("RAIL_ATTEMPT", attempt.to_string()),
        ("RAIL_NODES", nodes.join(",")),
        ("RAIL_NNODES", nodes.len().to_string()),
    ];
    // So that a railctl in there speaks to the same cluster as the same caller.
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let flags = [
        ("RAIL_CONTEXT", global.context.clone()),
        ("RAIL_CONTROLLER", Some(global.controller.join(",")).filter(|text| !text.is_empty())),
        ("RAIL_CA", path(&global.ca)),
        ("RAIL_CERT", path(&global.cert)),
        ("RAIL_KEY", path(&global.key)),
        ("RAIL_TOKEN", global.token.clone()),
    ];
    set.extend(flags.into_iter().filter_map(|(name, value)| Some((name, value?))));
    set
}

/// Runs the command until it ends; gives its exit code. It is asked to end where the allocation ends before.
async fn attend(
    api: &Api,
    held: &RunningAllocation,
    global: &Global,
    command: &[String],
    ending: &mut Ending,
) -> Result<u8, Error> {
    let Some((program, arguments)) = command.split_first() else { return Ok(0) };
    let mut child = tokio::process::Command::new(program)
        .args(arguments)
        .envs(environment(held, global))
        .stdin(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Error::Usage(format!("cannot run `{program}`: {error}")))?;
    let uid = held.job.metadata.clone().unwrap_or_default().uid;
    let over = wait::until_over(api, &held.name, &uid);
    tokio::pin!(over);
    let mut lost = false;
    loop {
        tokio::select! {
            status = child.wait() => return ended(status),
            last = &mut over, if !lost => {
                lost = true;
                gone(held, &last);
                signal(&child, SignalKind::hangup());
            }
            kind = ending.next() => {
                if kind != SignalKind::interrupt() {
                    return stop(&mut child, kind).await;
                }
                // A terminal has sent it to the command as well.
                if !std::io::stdin().is_terminal() {
                    signal(&child, kind);
                }
            }
        }
    }
}

fn gone(held: &RunningAllocation, last: &Result<v1::Job, Error>) {
    let why = match last.as_ref().map(wait::verdict) {
        Ok(Ok(())) => "it has completed".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    eprintln!("allocation {} holds its servers no more: {why}", held.name);
}

fn signal(child: &Child, kind: SignalKind) {
    let pid = child.id().and_then(|pid| rustix::process::Pid::from_raw(pid.cast_signed()));
    let signal = rustix::process::Signal::from_named_raw(kind.as_raw_value());
    if let (Some(pid), Some(signal)) = (pid, signal) {
        // It is not waited for yet, so nobody else has its number.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Railctl is to end: so is the command.
async fn stop(child: &mut Child, kind: SignalKind) -> Result<u8, Error> {
    signal(child, kind);
    if tokio::time::timeout(END_LIMIT, child.wait()).await.is_err() {
        // It has ended in between.
        let _ = child.kill().await;
    }
    Ok(code_of(kind))
}

fn ended(status: std::io::Result<ExitStatus>) -> Result<u8, Error> {
    let status = status.map_err(|error| Error::Config(format!("cannot wait for the command: {error}")))?;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status).map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(1);
    Ok(u8::try_from(code).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::JobRef;

    #[test]
    fn a_command_finds_its_allocation_and_the_way_to_the_cluster() {
        let place = |node: &str| v1::NodePlace { node: node.into(), ..Default::default() };
        let placement = v1::Placement { nodes: vec![place("a"), place("b")], ..Default::default() };
        let status = v1::JobStatus { placement: Some(placement), attempt: 1, ..Default::default() };
        let held = RunningAllocation {
            name: JobRef { tenant: "t".into(), name: "x".into() },
            job: v1::Job { status: Some(status), ..Default::default() },
        };
        let global = Global { token: Some("secret".into()), ..Global::default() };
        let found: std::collections::BTreeMap<_, _> = environment(&held, &global).into_iter().collect();
        assert_eq!((found["RAIL_JOB"].as_str(), found["RAIL_TENANT"].as_str()), ("t/x", "t"));
        assert_eq!((found["RAIL_NODES"].as_str(), found["RAIL_NNODES"].as_str()), ("a,b", "2"));
        assert_eq!(found["RAIL_TOKEN"], "secret");
        assert!(!found.contains_key("RAIL_CONTROLLER"));
    }

    #[test]
    fn exit_codes_are_those_of_shells() {
        use std::os::unix::process::ExitStatusExt as _;
        assert_eq!(ended(Ok(ExitStatus::from_raw(3 << 8))).unwrap(), 3);
        assert_eq!(ended(Ok(ExitStatus::from_raw(15))).unwrap(), 143);
        assert_eq!(code_of(SignalKind::hangup()), 129);
    }
}
