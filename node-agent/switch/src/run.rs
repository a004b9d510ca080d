//! The process: what it begins with, and what it ends with.

use std::{io, time::Duration};

use proto_rpc::{
    Client, ClientOptions, IdentityFiles, otlp,
    telemetry::{self, TelemetryOptions},
};
use serde_json::{Value, json};
use tokio::{
    runtime::Handle,
    signal::unix::{SignalKind, signal},
    sync::watch,
};

use crate::{
    arguments::{RunArguments, SwitchArguments},
    clock,
    error::AgentError,
    gnmi::GnmiSwitch,
    identity::Identity,
    keeper::{Keeper, Rhythm, Status},
    link::{self, Ends},
    nos::Nos,
    store::Store,
    switch::{self, Switch},
};

/// Longest name of a switch, in bytes.
const NAME_MAX: usize = 63;

/// How often a switch is looked at. SONiC's tools take a second of a small processor each.
const fn rhythm(nos: Nos) -> Rhythm {
    let (read, ports) = match nos {
        Nos::Linux => (5, 1),
        Nos::Sonic => (20, 5),
    };
    Rhythm {
        read: Duration::from_secs(read),
        ports: Duration::from_secs(ports),
        again: Duration::from_secs(5),
    }
}

/// Serves until SIGTERM or SIGINT; a trial that nobody has confirmed is taken back then.
///
/// # Errors
/// Why it could not begin.
pub fn run(arguments: &RunArguments) -> Result<(), AgentError> {
    node_agent_os::process::hide();
    let name = checked(arguments.name())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let _telemetry = telemetry::init(&TelemetryOptions {
            service: "rail-switch-agent",
            version: env!("CARGO_PKG_VERSION"),
            level: arguments.log.clone(),
            format: arguments.log_format,
            collector: otlp::from_env()?,
        })?;
        serve(arguments, name).await
    })
}

async fn serve(arguments: &RunArguments, name: String) -> Result<(), AgentError> {
    let (mut terminate, mut interrupt) = signals()?;
    let store = Store::open(arguments.state())?;
    let files = IdentityFiles::new(store.identity()?, "switch");
    let machine = &arguments.machine;
    let nos = machine.nos();
    let saved = store.load()?;
    // Before the controller is reached: what an earlier agent has left undone cannot wait for that.
    let keeper = if let Some(client) = machine.reach.client()? {
        let switch = GnmiSwitch::new(client, machine.reach.clone(), Handle::current(), saved.trial.is_none());
        Keeper::start(switch, store, saved, clock::real(), rhythm(nos))?
    } else {
        let (shell, switch) = switch::real(nos, &machine.root, &machine.frr, arguments.state());
        let ended = shell.end_leftovers();
        if ended > 0 {
            tracing::warn!(ended, "commands of an agent that was killed were still running, and were ended");
        }
        Keeper::start(switch, store, saved, clock::real(), rhythm(nos))?
    };
    let ends = Ends { heard: keeper.heard.clone(), status: keeper.status.clone() };
    let result = tokio::select! {
        _ = terminate.recv() => Ok(()),
        _ = interrupt.recv() => Ok(()),
        () = gone(ends.status.clone()) => Err(io::Error::other("the thread that keeps the configuration has ended").into()),
        failed = connected(arguments, Identity { name, files }, ends) => failed,
    };
    tokio::task::spawn_blocking(move || keeper.end()).await.map_err(io::Error::other)?;
    result
}

/// Returns when the keeper has ended by itself.
async fn gone(mut status: watch::Receiver<Status>) {
    while status.changed().await.is_ok() {}
}

/// Reports, for ever.
async fn connected(arguments: &RunArguments, identity: Identity, ends: Ends) -> Result<(), AgentError> {
    let credentials = identity.obtain(arguments).await?;
    let client = Client::new(&arguments.controller, &credentials, &ClientOptions::default())?;
    tokio::join!(link::keep(client.clone(), identity.clone(), ends), identity.keep(credentials, client),);
    Ok(())
}

fn signals() -> io::Result<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)> {
    Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

fn checked(name: String) -> Result<String, AgentError> {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = |end: Option<&u8>| end.copied().is_some_and(letter);
    let good = name.len() <= NAME_MAX
        && ends(name.as_bytes().first())
        && ends(name.as_bytes().last())
        && name.bytes().all(|byte| letter(byte) || b"-_.".contains(&byte));
    if good { Ok(name) } else { Err(AgentError::Name(name.chars().take(NAME_MAX).collect())) }
}

/// Prints what would be reported, as JSON.
///
/// # Errors
/// Standard output cannot be written.
pub fn read(arguments: &SwitchArguments) -> Result<(), AgentError> {
    use std::io::Write as _;
    let runtime = tokio::runtime::Runtime::new()?;
    let client = runtime.block_on(async { arguments.reach.client() })?;
    let mut switch: Box<dyn Switch> = if let Some(client) = client {
        Box::new(GnmiSwitch::new(client, arguments.reach.clone(), runtime.handle().clone(), true))
    } else {
        Box::new(switch::real(arguments.nos(), &arguments.root, &arguments.frr, &arguments.state).1)
    };
    let (version, found, ports) = (switch.version(), switch.read(), switch.ports());
    let sessions: Option<Vec<Value>> = switch.sessions().map(|all| all.iter().map(session).collect());
    let files: serde_json::Map<String, Value> =
        found.files.to_wire().into_iter().map(|file| (file.name, file.content.into())).collect();
    let ports: Vec<Value> = ports.iter().map(port).collect();
    let all = json!({
        "agentVersion": env!("CARGO_PKG_VERSION"),
        "nosVersion": version,
        "digest": found.files.digest(),
        "unreadable": found.unreadable,
        "files": files,
        "ports": ports,
        "sessions": sessions,
    });
    writeln!(io::stdout(), "{all:#}")?;
    Ok(())
}

fn session(session: &proto_wire::v1::SwitchSession) -> Value {
    json!({"neighbor": session.neighbor, "state": session.state().as_str_name()})
}

/// In the names of rail.v1, without what is not known.
fn port(port: &proto_wire::v1::SwitchPortStatus) -> Value {
    let priority = |one: &proto_wire::v1::SwitchPriorityCounters| {
        json!({
            "priority": one.priority,
            "pauseRx": one.pause_rx,
            "pauseTx": one.pause_tx,
            "pausedRxUs": one.paused_rx_us,
            "pausedTxUs": one.paused_tx_us,
            "ecnMarked": one.ecn_marked,
            "drops": one.drops,
            "watermarkBytes": one.watermark_bytes,
            "storms": one.storms,
            "txBytes": one.tx_bytes,
        })
    };
    json!({
        "name": port.name,
        "up": port.up,
        "speedMbps": port.speed_mbps,
        "mtu": port.mtu,
        "neighbor": port.neighbor,
        "neighborPort": port.neighbor_port,
        "rxBytes": port.rx_bytes,
        "txBytes": port.tx_bytes,
        "rxErrors": port.rx_errors,
        "txDrops": port.tx_drops,
        "linkChanges": port.link_changes,
        "fecUncorrectable": port.fec_uncorrectable,
        "priorities": port.priorities.iter().map(priority).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_switches() {
        for good in ["r0-leaf1", "a", "s_1.x"] {
            assert!(checked(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "Leaf", "-a", "a-", "a b", "ä", &"x".repeat(64)] {
            assert!(matches!(checked(bad.to_owned()), Err(AgentError::Name(_))), "{bad}");
        }
    }
}
