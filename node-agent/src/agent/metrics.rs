//! What the agent counts.

use std::{net::SocketAddr, path::Path, sync::Arc};

use node_agent_os::files::{self, Durability};
use proto_rpc::{
    Limits, Metrics, Server,
    metrics::{CounterBy, GaugeBy},
    probes::{Check, Checks},
    server::ServerMetrics,
};
use tokio_util::sync::CancellationToken;

/// The agent's own series.
#[derive(Debug, Clone)]
pub struct AgentMetrics {
    /// `rail_agent_connected`: 1 while a stream to the controller stands.
    pub connected: GaugeBy<0>,
    /// `rail_agent_connects_total`: streams to the controller that were opened.
    pub connects: CounterBy<0>,
    /// `rail_agent_commands_total{command}`: commands that were received, by kind.
    pub commands: CounterBy<1>,
    /// `rail_agent_stale_commands_total`: refused for a low epoch.
    pub stale: CounterBy<0>,
    /// `rail_agent_attempts{state}`: attempts on this server, by state.
    pub attempts: GaugeBy<1>,
    /// `rail_agent_rank_exits_total{outcome}`: ranks that have ended, by outcome.
    pub exits: CounterBy<1>,
    /// `rail_agent_log_bytes_total`: sent to readers of logs.
    pub log_bytes: CounterBy<0>,
    /// `rail_nic_score{device,rail}`: 0 to 100.
    pub nic_score: GaugeBy<2>,
    /// `rail_nic_unfit{device,rail}`: 1 while no new job should use it.
    pub nic_unfit: GaugeBy<2>,
    /// `rail_nic_condition{device,rail,condition}`: 1 note, 2 degraded, 3 drain; absent where it does not hold.
    pub nic_condition: GaugeBy<3>,
    /// `rail_nic_events_total{device,rail,event}`: by the counter kinds of node-agent-health; they never go back.
    pub nic_events: CounterBy<3>,
    /// `rail_nic_probes_total{device,outcome}`: of rails that were out of use; passed, failed or unable.
    pub nic_probes: CounterBy<2>,
    /// `rail_inventory_changes_total{change}`: by the codes of node-agent-host's changes.
    pub changes: CounterBy<1>,
}

impl AgentMetrics {
    /// Registers the agent's series with `metrics`.
    pub fn new(metrics: &Metrics) -> Self {
        Self {
            connected: metrics.gauge_by("agent_connected", "1 while connected to the controller", []),
            connects: metrics.counter_by("agent_connects", "Streams to the controller that were opened", []),
            commands: metrics.counter_by("agent_commands", "Commands from the controller", ["command"]),
            stale: metrics.counter_by("agent_stale_commands", "Commands refused for a low epoch", []),
            attempts: metrics.gauge_by("agent_attempts", "Attempts of jobs known here", ["state"]),
            exits: metrics.counter_by("agent_rank_exits", "Ranks that have ended", ["outcome"]),
            log_bytes: metrics.counter_by("agent_log_bytes", "Bytes of logs sent to readers", []),
            nic_score: metrics.gauge_by(
                "nic_score",
                "How well a NIC's rail is, 0 to 100",
                ["device", "rail"],
            ),
            nic_unfit: metrics.gauge_by(
                "nic_unfit",
                "1 while no new job should use the NIC's rail",
                ["device", "rail"],
            ),
            nic_condition: metrics.gauge_by(
                "nic_condition",
                "What is wrong with a NIC's rail: 1 note, 2 degraded, 3 drain",
                ["device", "rail", "condition"],
            ),
            nic_events: metrics.counter_by(
                "nic_events",
                "What a NIC's counters say, in one vocabulary for all vendors",
                ["device", "rail", "event"],
            ),
            nic_probes: metrics.counter_by(
                "nic_probes",
                "Probes of rails that were out of use until something proves them well",
                ["device", "outcome"],
            ),
            changes: metrics.counter_by("inventory_changes", "Changes of this server's hardware", ["change"]),
        }
    }
}

/// An agent is ready while it is connected to a controller: without one it starts nothing new, and what runs goes on.
fn ready(connected: GaugeBy<0>) -> Checks {
    Arc::new(move || {
        let outcome = match connected.get([]) {
            Some(1) => Ok("it hears this agent".to_owned()),
            _ => Err("none hears this agent; its jobs go on".to_owned()),
        };
        vec![Check { name: "controller", outcome }]
    })
}

/// Serves `/metrics` and what says how the agent is for as long as the process lives, and leaves their address in the file
/// `reported`.
///
/// # Errors
/// The address cannot be listened on, or the file `reported` cannot be written.
pub async fn serve(
    metrics: &Metrics,
    own: &AgentMetrics,
    address: SocketAddr,
    reported: &Path,
) -> Result<(), String> {
    let server = Server::bind_plain(address, Limits::default(), ServerMetrics::new(metrics));
    let server = server.await.map_err(|error| error.to_string())?;
    let bound = server.addresses().map_err(|error| error.to_string())?;
    for listen in bound {
        let url = format!("http://{listen}/metrics");
        files::write_atomic(reported, format!("{url}\n").as_bytes(), Durability::Process)
            .map_err(|error| error.to_string())?;
        tracing::info!(url, "metrics");
    }
    tokio::spawn(server.serve(metrics.router(ready(own.connected.clone())), CancellationToken::new()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{
        io::Write as _,
        process::{Command, Stdio},
        time::SystemTime,
    };

    use proto_rpc::exposition::Exposition;

    use super::*;

    #[test]
    fn prometheus_takes_what_the_agent_tells() {
        let registry = Metrics::new("rail-node-agent", "0", SystemTime::UNIX_EPOCH);
        let _server = ServerMetrics::new(&registry);
        let own = AgentMetrics::new(&registry);
        own.connected.set([], 1);
        own.attempts.set(["running"], 2);
        own.nic_score.set(["mlx5_0", "0"], 100);
        own.nic_unfit.set(["mlx5_0", "0"], 0);
        own.nic_condition.set(["mlx5_0", "0", "Storm"], 3);
        own.connects.inc([]);
        own.stale.inc([]);
        own.log_bytes.inc_by([], 4096);
        own.commands.inc(["assign"]);
        own.exits.inc(["success"]);
        own.nic_events.inc(["mlx5_0", "0", "link_down"]);
        own.nic_probes.inc(["mlx5_0", "passed"]);
        own.changes.inc(["NicGone"]);
        let promtool = std::env::var_os("RAIL_TEST_PROMTOOL").unwrap_or_else(|| "promtool".into());
        if Command::new(&promtool).arg("--version").output().is_err() {
            println!("skipped: promtool is not installed (Debian's package prometheus has it)");
            return;
        }
        let mut child = Command::new(&promtool)
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let text = registry.encode(Exposition::Text);
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.trim().is_empty(), "{said}\n{text}");
    }

    #[test]
    fn an_agent_is_ready_while_a_controller_hears_it() {
        let own = AgentMetrics::new(&Metrics::new("rail-node-agent", "0", SystemTime::UNIX_EPOCH));
        let ready = ready(own.connected.clone());
        let is = || ready().iter().all(|check| check.outcome.is_ok());
        assert!(!is());
        own.connected.set([], 1);
        assert!(is());
        own.connected.set([], 0);
        assert!(!is());
    }
}
