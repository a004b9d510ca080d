//! Network namespaces by `ip`, `tc` and `bridge`, in batches.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use rustix::process::Signal;

use super::{network_plan::NetworkPlan, process};
use crate::error::Error;

/// Who is killed in a namespace is gone by then.
const KILLED_LIMIT: Duration = Duration::from_secs(5);

/// Refuses early, with what to do, where namespaces cannot be made, or a tool of iproute2 (`ip`, `tc`, `bridge`) is missing.
///
/// # Errors
/// [`Error::Usage`] with what to do if the caller is not root; [`Error::Dev`] if a tool is missing.
pub fn check(tools: &[&str]) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        let text = "--netns needs root: network namespaces cannot be made otherwise. Run it as root, or leave --netns \
                    away: the rails are then loopback addresses, without namespaces and shaping";
        return Err(Error::Usage(text.to_owned()));
    }
    for tool in tools {
        let found = Command::new(tool).arg("-V").stdin(Stdio::null()).output();
        if found.is_err() {
            return Err(Error::Dev(format!(
                "--netns needs the program `{tool}`: install the package iproute2"
            )));
        }
    }
    Ok(())
}

/// True if there is a namespace of this name.
#[must_use]
pub fn exists(namespace: &str) -> bool {
    ["/run/netns", "/var/run/netns"].iter().any(|folder| Path::new(folder).join(namespace).exists())
}

/// Makes all of it. The namespaces must not exist.
///
/// # Errors
/// [`Error::Dev`] with what the tool said if a command fails.
pub fn build(plan: &NetworkPlan) -> Result<(), Error> {
    let names: Vec<String> = plan.namespaces.iter().map(|name| format!("netns add {name}")).collect();
    batch("ip", None, &names)?;
    batch("ip", None, &plan.links)?;
    for (namespace, ip, tc) in &plan.inside {
        batch("ip", Some(namespace), ip)?;
        batch("tc", Some(namespace), tc)?;
    }
    for (namespace, bridge) in &plan.floods {
        batch("bridge", Some(namespace), bridge)?;
    }
    Ok(())
}

/// Removes the namespaces that exist, with all that is in them; all are tried.
///
/// # Errors
/// [`Error::Dev`] with what `ip` said if one could not be removed.
pub fn remove(namespaces: &[String]) -> Result<(), Error> {
    let lines: Vec<String> =
        namespaces.iter().filter(|name| exists(name)).map(|name| format!("netns del {name}")).collect();
    if lines.is_empty() {
        return Ok(());
    }
    run("ip", &["-force", "-batch", "-"], &lines).map(drop)
}

/// Everybody who is in one of the namespaces.
#[must_use]
pub fn inhabitants(namespaces: &[String]) -> BTreeSet<process::Identity> {
    let mut found = BTreeSet::new();
    for namespace in namespaces.iter().filter(|name| exists(name)) {
        let Ok(output) = Command::new("ip").args(["netns", "pids", namespace]).stdin(Stdio::null()).output()
        else {
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
        found.extend(pids.filter_map(process::stat).map(|stat| stat.identity));
    }
    found
}

/// Ends everybody who is in one of the namespaces, and these besides.
///
/// # Errors
/// [`Error::Dev`] if one of them does not end.
pub fn clear(namespaces: &[String], besides: BTreeSet<process::Identity>) -> Result<(), Error> {
    let mut left = inhabitants(namespaces);
    left.extend(besides);
    left.iter().for_each(|one| one.signal(Signal::KILL));
    if process::wait_gone(&left, KILLED_LIMIT) {
        return Ok(());
    }
    let pids: Vec<String> = left.iter().filter(|one| one.alive()).map(|one| one.pid.to_string()).collect();
    Err(Error::Dev(format!(
        "processes {} in network namespaces of the cluster do not end although they were killed; `railctl dev up` may be repeated",
        pids.join(", ")
    )))
}

fn batch(tool: &str, namespace: Option<&str>, lines: &[String]) -> Result<(), Error> {
    if lines.is_empty() {
        return Ok(());
    }
    let mut args = Vec::new();
    if let Some(namespace) = namespace {
        args.extend(["-n", namespace]);
    }
    args.extend(["-batch", "-"]);
    run(tool, &args, lines).map(drop)
}

fn run(tool: &str, args: &[&str], lines: &[String]) -> Result<Output, Error> {
    let what = format!("{tool} {}", args.join(" "));
    let failed = |text: String| Error::Dev(format!("`{what}` failed: {text}"));
    let mut child = Command::new(tool)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let text = lines.join("\n") + "\n";
    if let Some(mut stdin) = child.stdin.take() {
        // A tool that stops reading has failed and says why itself.
        let _ = stdin.write_all(text.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let mut text = said.trim().replace('\n', "; ");
    if text.contains("Operation not permitted") {
        text.push_str(" (root alone is not enough here: CAP_NET_ADMIN and CAP_SYS_ADMIN are needed; leave --netns away)");
    }
    Err(failed(text))
}
