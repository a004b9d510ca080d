//! What the agent counts.

use std::{net::SocketAddr, path::Path};

use proto_rpc::{
    Limits, Metrics, Server,
    metrics::{CounterBy, GaugeBy},
    server::ServerMetrics,
};
use tokio_util::sync::CancellationToken;

use crate::files::{self, Durability};

/// The agent's own series.
#[derive(Debug, Clone)]
pub struct AgentMetrics {
    /// `rail_agent_connected`: 1 while a stream to the controller stands.
    pub connected: GaugeBy<0>,
    /// `rail_agent_connects_total`.
    pub connects: CounterBy<0>,
    /// `rail_agent_commands_total{command}`.
    pub commands: CounterBy<1>,
    /// `rail_agent_stale_commands_total`: refused for a low epoch.
    pub stale: CounterBy<0>,
    /// `rail_agent_attempts{state}`.
    pub attempts: GaugeBy<1>,
    /// `rail_agent_rank_exits_total{outcome}`.
    pub exits: CounterBy<1>,
    /// `rail_agent_log_bytes_total`: sent to readers of logs.
    pub log_bytes: CounterBy<0>,
    /// `rail_nic_score{device,rail}`: 0 to 100.
    pub nic_score: GaugeBy<2>,
    /// `rail_nic_unfit{device,rail}`: 1 while no new job should use it.
    pub nic_unfit: GaugeBy<2>,
    /// `rail_nic_condition{device,rail,condition}`: 1 note, 2 degraded, 3 drain; absent where it does not hold.
    pub nic_condition: GaugeBy<3>,
    /// `rail_nic_events_total{device,rail,event}`: by the words of node-agent-health; they never go back.
    pub nic_events: CounterBy<3>,
    /// `rail_nic_probes_total{device,outcome}`: of rails that were out of use; passed, failed or unable.
    pub nic_probes: CounterBy<2>,
    /// `rail_inventory_changes_total{change}`: by the codes of node-agent-host's changes.
    pub changes: CounterBy<1>,
}

impl AgentMetrics {
    /// Registers them.
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

/// Serves `/metrics` and `/healthz` for as long as the process lives, and leaves their address in the file `told`.
pub async fn serve(metrics: &Metrics, address: SocketAddr, told: &Path) -> Result<(), String> {
    let server = Server::bind_plain(address, Limits::default(), ServerMetrics::new(metrics));
    let server = server.await.map_err(|error| error.to_string())?;
    let bound = server.addresses().map_err(|error| error.to_string())?;
    for listen in bound {
        let url = format!("http://{listen}/metrics");
        files::write_atomic(told, format!("{url}\n").as_bytes(), Durability::Process)
            .map_err(|error| error.to_string())?;
        tracing::info!(url, "metrics");
    }
    tokio::spawn(server.serve(metrics.router(), CancellationToken::new()));
    Ok(())
}
