//! What callers may use: connections of each role and of peers without an identity, and calls and streams of each tenant.

use std::time::Duration;

use controller_api::fair::FairLimits;
use proto_rpc::{AnonymousLimits, Limits};

use crate::arg_values::duration;

/// Limits of `run`. What is not here is fixed: see `proto_rpc::Limits` and `controller_api::fair::FairLimits`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct LimitArgs {
    /// Connections in all; the process needs as many file descriptors. Anonymous ones make room for others.
    #[arg(long, env = "RAIL_CONTROLLER_MAX_CONNECTIONS", default_value_t = Limits::default().connections)]
    pub max_connections: usize,
    /// Connections with an identity from one address (IPv4, or IPv6 /64); anonymous ones are counted apart.
    #[arg(long, env = "RAIL_CONTROLLER_MAX_CONNECTIONS_PER_ADDRESS",
          default_value_t = Limits::default().connections_per_ip)]
    pub max_connections_per_address: usize,
    /// Connections of all users of one tenant; at most a quarter of all.
    #[arg(long, env = "RAIL_CONTROLLER_MAX_CONNECTIONS_PER_TENANT",
          default_value_t = Limits::default().connections_per_tenant, value_parser = at_least_one)]
    pub max_connections_per_tenant: usize,
    /// Connections that only administrators may take; at most a sixteenth of all.
    #[arg(long, env = "RAIL_CONTROLLER_RESERVED_ADMINS", default_value_t = Limits::default().reserved_admins)]
    pub reserved_admins: usize,
    /// Connections that only agents may take; at most half of all.
    #[arg(long, env = "RAIL_CONTROLLER_RESERVED_AGENTS", default_value_t = Limits::default().reserved_agents)]
    pub reserved_agents: usize,
    /// Connections that only other controllers may take; at most a thirty-second of all.
    #[arg(long, env = "RAIL_CONTROLLER_RESERVED_CONTROLLERS",
          default_value_t = Limits::default().reserved_controllers)]
    pub reserved_controllers: usize,
    /// Connections that have not shown a certificate, nor a good token, yet; at most a quarter of all. For one more, that which
    /// is idle for the longest is closed. Each may cost up to 384 KiB of memory.
    #[arg(long, env = "RAIL_CONTROLLER_MAX_ANONYMOUS_CONNECTIONS",
          default_value_t = AnonymousLimits::default().connections, value_parser = at_least_one)]
    pub max_anonymous_connections: usize,
    /// Of these, from one address.
    #[arg(long, env = "RAIL_CONTROLLER_MAX_ANONYMOUS_CONNECTIONS_PER_ADDRESS",
          default_value_t = AnonymousLimits::default().connections_per_ip, value_parser = at_least_one)]
    pub max_anonymous_connections_per_address: usize,
    /// An anonymous connection without a call is closed after this time; after 60 s in any case.
    #[arg(long, env = "RAIL_CONTROLLER_ANONYMOUS_IDLE", default_value = "10s", value_parser = duration)]
    pub anonymous_idle: Duration,
    /// Anonymous calls that may begin per second, in all; of one address a fifth of that.
    #[arg(long, env = "RAIL_CONTROLLER_ANONYMOUS_RATE", default_value_t = AnonymousLimits::default().rate,
          value_parser = clap::value_parser!(u32).range(5..=1_000_000))]
    pub anonymous_rate: u32,
    /// TLS handshakes at a time; those of one address a quarter of that.
    #[arg(long, env = "RAIL_CONTROLLER_MAX_HANDSHAKES", default_value_t = Limits::default().handshakes,
          value_parser = at_least_one)]
    pub max_handshakes: usize,
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

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count >= 1 => Ok(count),
        _ => Err("expected a number of at least 1".to_owned()),
    }
}

fn at_least_two(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(seats) if seats >= 2 => Ok(seats),
        _ => Err("expected a number of at least 2".to_owned()),
    }
}

impl LimitArgs {
    /// The limits on connections and their handshakes.
    #[must_use]
    pub fn connections(&self) -> Limits {
        Limits {
            connections: self.max_connections,
            connections_per_ip: self.max_connections_per_address,
            connections_per_tenant: self.max_connections_per_tenant,
            reserved_admins: self.reserved_admins,
            reserved_agents: self.reserved_agents,
            reserved_controllers: self.reserved_controllers,
            handshakes: self.max_handshakes,
            handshakes_per_ip: (self.max_handshakes / 4).max(1),
            anonymous: AnonymousLimits {
                connections: self.max_anonymous_connections,
                connections_per_ip: self.max_anonymous_connections_per_address,
                idle: self.anonymous_idle,
                rate: self.anonymous_rate,
                rate_per_ip: (self.anonymous_rate / 5).max(1),
                ..AnonymousLimits::default()
            },
            ..Limits::default()
        }
    }

    /// The limits on calls that share the controller fairly between tenants.
    #[must_use]
    pub fn fair(&self) -> FairLimits {
        FairLimits {
            seats: self.calls_at_work,
            flow_seats: (self.calls_at_work * 3 / 4).max(1),
            rate: self.tenant_rate,
            burst: self.tenant_rate,
            flow_queue: self.tenant_queue,
            flow_streams: self.tenant_streams,
            anonymous_seats: (self.calls_at_work / 8).max(1),
            ..FairLimits::default()
        }
    }
}
