//! What a server allows, by whom, and the sum of what anonymous peers can make it hold.

use crate::metrics::{CounterBy, GaugeBy, Metrics};
use std::time::Duration;

/// What a server allows of connections. Every field is set explicitly: the libraries' defaults are partly "no limit".
///
/// Beside them: a message has at most [`crate::MAX_MESSAGE_BYTES`], a call the deadlines of
/// [`crate::deadline::DeadlinePolicy`], and a connection ends with the certificate of its peer. What tenants may use of
/// calls and streams is the API's.
///
/// # What anonymous peers can make the server hold
///
/// an anonymous peer is whoever has not proved an identity: by a client certificate, or by a call with a good API token. With the
/// defaults:
///
/// | what | how many | each | in all |
/// |---|---|---|---|
/// | handshakes (TLS, then HTTP/2 preface and SETTINGS, or the first HTTP/1 head): TLS state 8 KiB, input at most 12 KiB | 512 | 20 KiB | 10 MiB |
/// | connections: TLS 24 KiB, input record 18 KiB, output that waits 64 KiB, HTTP/2 frame 16 KiB and flow-control window 64 KiB, task 6 KiB | 128 | 192 KiB | 24 MiB |
/// | calls, 16 of each connection: their streams; of one that is refused nothing else is kept while its answer waits | 2048 | 2 KiB | 4 MiB |
/// | of these at work: header list 8 KiB, what was read of the body 16 KiB, answer that waits 8 KiB | 256 | 32 KiB | 8 MiB |
/// | budgets of addresses | 4096 | 128 B | 0.5 MiB |
/// | denials that wait for their record | 256 | 2 KiB | 0.5 MiB |
///
/// Together 47 MiB: less than 64 MiB, whatever anonymous peers send and from however many addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all; each needs a file descriptor. Room for 10,000 servers, their users, and who holds some open.
    pub connections: usize,
    /// Connections of peers with an identity from one IPv4 address or IPv6 /64. Those of anonymous peers are counted apart, so
    /// that a rank cannot shut out the agent whose address it shares.
    pub connections_per_ip: usize,
    /// From accept to the end of the first thing that was said: TLS handshake, then HTTP/2 preface and SETTINGS, or an HTTP/1 head.
    pub handshake: Duration,
    /// Connections on the way there. When there are as many, none is accepted until one is through or the oldest has had a second;
    /// that one is cut.
    pub handshakes: usize,
    /// Of these from one address; the oldest is cut for one more.
    pub handshakes_per_ip: usize,
    /// Bytes that a peer may send before its TLS handshake is over.
    pub handshake_bytes: usize,
    /// What anonymous peers may use.
    pub anonymous: AnonymousLimits,
    /// Connections kept free for administrators, whatever others hold; at most a sixteenth of all.
    pub reserved_admins: usize,
    /// The same for agents; at most half of all.
    pub reserved_agents: usize,
    /// The same for controllers; at most a thirty-second of all.
    pub reserved_controllers: usize,
    /// Connections of one tenant's users together; at most a quarter of all.
    pub connections_per_tenant: usize,
    /// Connections of one node's certificate.
    pub connections_per_node: usize,
    /// Calls at a time on one connection.
    pub streams: u32,
    /// The same where another controller is at the other end: it hands on the calls and streams of all that it serves.
    pub controller_streams: u32,
    /// Header bytes of one request.
    pub header_bytes: u32,
    /// A ping is sent after so long a silence.
    pub keepalive_interval: Duration,
    /// The connection ends if the ping is not answered in this time.
    pub keepalive_timeout: Duration,
    /// Streams that a client reset before they were accepted (rapid reset).
    pub pending_resets: usize,
    /// Streams that we reset because the client broke the protocol.
    pub local_resets: usize,
    /// HTTP/1: from the connection's start, or the last answer, to the end of the next request's head.
    pub header_read: Duration,
    /// Bytes that wait for one slow reader.
    pub send_buffer: usize,
    /// Time for calls to end when the server stops.
    pub drain: Duration,
}

/// What peers without an identity may use, all together, of one address, and each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnonymousLimits {
    /// Connections in all, at most a quarter of all connections. For one more, the one that is idle for the longest ends.
    pub connections: usize,
    /// Of these from one address, likewise.
    pub connections_per_ip: usize,
    /// A connection ends after so long without a call.
    pub idle: Duration,
    /// It ends after so long, whatever it does.
    pub age: Duration,
    /// A connection whose peer has proved an API token ends after so long without a call.
    pub proved_idle: Duration,
    /// Calls at a time on one connection.
    pub streams: u32,
    /// Header bytes of one request.
    pub header_bytes: u32,
    /// Bytes that wait for one slow reader.
    pub send_buffer: usize,
    /// Calls and streams at work in all.
    pub calls: usize,
    /// Anonymous calls from one address.
    pub calls_per_ip: usize,
    /// Bytes of the body of a call that shows no token; one that shows a wrong token is refused before its body is read.
    pub body_bytes: usize,
    /// Calls that may begin per second in all, in the long run.
    pub rate: u32,
    /// The same of one address; a second's worth of four may begin at once.
    pub rate_per_ip: u32,
    /// A call beyond that is refused after such a pause, which its connection has one call less meanwhile.
    pub pause: Duration,
    /// So many such calls, and the connection ends.
    pub strikes: u32,
}

impl Default for AnonymousLimits {
    fn default() -> Self {
        AnonymousLimits {
            connections: 128,
            connections_per_ip: 32,
            idle: Duration::from_secs(10),
            age: Duration::from_secs(60),
            proved_idle: Duration::from_secs(600),
            streams: 16,
            header_bytes: 8 * 1024,
            send_buffer: 8 * 1024,
            calls: 256,
            calls_per_ip: 64,
            body_bytes: 16 * 1024,
            rate: 1000,
            rate_per_ip: 200,
            pause: Duration::from_secs(1),
            strikes: 256,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 32_768,
            connections_per_ip: 2048,
            handshake: Duration::from_secs(5),
            handshakes: 512,
            handshakes_per_ip: 128,
            handshake_bytes: 12 * 1024,
            anonymous: AnonymousLimits::default(),
            reserved_admins: 256,
            reserved_agents: 12_288,
            reserved_controllers: 64,
            connections_per_tenant: 4096,
            connections_per_node: 64,
            streams: 256,
            controller_streams: 65_536,
            header_bytes: 16 * 1024,
            keepalive_interval: Duration::from_secs(20),
            keepalive_timeout: Duration::from_secs(10),
            pending_resets: 20,
            local_resets: 128,
            header_read: Duration::from_secs(10),
            send_buffer: 256 * 1024,
            drain: Duration::from_secs(10),
        }
    }
}

impl Limits {
    /// The limits with every share of `connections` as large as it may be, and none so small that nobody gets in.
    #[must_use]
    pub(crate) fn consistent(mut self) -> Self {
        let part = |of: usize| self.connections / of;
        self.reserved_admins = self.reserved_admins.min(part(16));
        self.reserved_agents = self.reserved_agents.min(part(2));
        self.reserved_controllers = self.reserved_controllers.min(part(32));
        self.connections_per_tenant = self.connections_per_tenant.min(part(4).max(4));
        self.handshakes = self.handshakes.min(part(4).max(8));
        self.handshakes_per_ip = self.handshakes_per_ip.min(self.handshakes);
        self.anonymous.connections = self.anonymous.connections.min(part(4).max(1));
        self
    }
}

/// Counts of connections; one per process, shared by its servers.
#[derive(Debug, Clone)]
pub struct ServerMetrics {
    pub(crate) accepted: CounterBy<1>,
    pub(crate) refused: CounterBy<1>,
    pub(crate) open: GaugeBy<1>,
    pub(crate) held: GaugeBy<1>,
    pub(crate) anonymous: CounterBy<1>,
    pub(crate) at_work: GaugeBy<1>,
}

impl ServerMetrics {
    /// Registers `rail_connections{listener}`, `rail_connections_held{by}`, `rail_connections_accepted_total{listener}`,
    /// `rail_connections_refused_total{cause}` `rail_anonymous_calls_total{outcome}` and
    /// `rail_anonymous_calls_at_work{of}`.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        let held = "Connections open now by who is at the other end, of TLS listeners";
        let calls = "Calls on connections without an identity: begun, or refused by which budget";
        let at_work = "Calls and streams at work on connections without an identity";
        ServerMetrics {
            accepted: metrics.counter_by("connections_accepted", "Connections accepted", ["listener"]),
            refused: metrics.counter_by("connections_refused", "Connections refused or ended", ["cause"]),
            open: metrics.gauge_by("connections", "Connections open now", ["listener"]),
            held: metrics.gauge_by("connections_held", held, ["by"]),
            at_work: metrics.gauge_by("anonymous_calls_at_work", at_work, ["of"]),
            anonymous: metrics.counter_by("anonymous_calls", calls, ["outcome"]),
        }
    }

    /// Refusals so far for a cause: `total`, `per-ip`, `tenant`, `node`, `anonymous` and `anonymous-per-ip` for want of room; `shed`,
    /// `idle`, `age` and `strikes` of anonymous peers; `handshake-timeout`, `handshake`, `handshake-shed`, `silent`, `opening`,
    /// `accept`, `revoked`, `expired`.
    #[must_use]
    pub fn refused(&self, cause: &str) -> u64 {
        self.refused.get([cause])
    }

    /// Calls of anonymous peers so far: `begun`, or refused by `rate`, `rate-per-ip`, `calls` or `calls-per-ip`.
    #[must_use]
    pub fn anonymous_calls(&self, outcome: &str) -> u64 {
        self.anonymous.get([outcome])
    }
}
