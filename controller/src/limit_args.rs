//! What callers may use: connections in all, and calls and streams of each tenant.

use controller_api::fair::FairLimits;
use proto_rpc::Limits;

/// Limits of `run`. What is not here is fixed: see `proto_rpc::Limits` and `controller_api::fair::FairLimits`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct LimitArgs {
    /// Connections in all; more are refused. The process needs as many file descriptors.
    #[arg(long, env = "RAIL_CONTROLLER_MAX_CONNECTIONS", default_value_t = Limits::default().connections)]
    pub max_connections: usize,
    /// Connections of one address (IPv4, or IPv6 /64).
    #[arg(long, env = "RAIL_CONTROLLER_MAX_CONNECTIONS_PER_ADDRESS",
          default_value_t = Limits::default().connections_per_ip)]
    pub max_connections_per_address: usize,
    /// Calls at work at a time, of all tenants; one tenant may hold three quarters of them. Agents and probes do not count.
    #[arg(long, env = "RAIL_CONTROLLER_CALLS_AT_WORK", default_value_t = FairLimits::default().seats,
          value_parser = at_least_two)]
    pub calls_at_work: usize,
    /// Calls that one tenant may begin per second in the long run; more wait their turn. 0: any number.
    #[arg(long, env = "RAIL_CONTROLLER_TENANT_RATE", default_value_t = FairLimits::default().rate)]
    pub tenant_rate: u32,
    /// Calls of one tenant that wait their turn, for 5 s at most; more are told when to try again.
    #[arg(long, env = "RAIL_CONTROLLER_TENANT_QUEUE", default_value_t = FairLimits::default().flow_queue)]
    pub tenant_queue: usize,
    /// Watches and logs of one tenant that are open at a time.
    #[arg(long, env = "RAIL_CONTROLLER_TENANT_STREAMS", default_value_t = FairLimits::default().flow_streams)]
    pub tenant_streams: usize,
}

fn at_least_two(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(seats) if seats >= 2 => Ok(seats),
        _ => Err("expected a number of at least 2".to_owned()),
    }
}

impl LimitArgs {
    /// Of connections.
    #[must_use]
    pub fn connections(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            connections_per_ip: self.max_connections_per_address,
            ..Limits::default()
        }
    }

    /// Between tenants.
    #[must_use]
    pub fn fair(&self) -> FairLimits {
        FairLimits {
            seats: self.calls_at_work,
            flow_seats: (self.calls_at_work * 3 / 4).max(1),
            rate: self.tenant_rate,
            burst: self.tenant_rate,
            flow_queue: self.tenant_queue,
            flow_streams: self.tenant_streams,
            ..FairLimits::default()
        }
    }
}
