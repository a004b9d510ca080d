//! What a server allows, and the count of what is open against it.

use crate::listen::PeerAddress;
use crate::metrics::{CounterBy, GaugeBy, Metrics};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What a server allows of connections. Every field is set explicitly: the libraries' defaults are partly "no limit".
///
/// Beside them: a message has at most [`crate::MAX_MESSAGE_BYTES`], a call the deadlines of
/// [`crate::deadline::DeadlinePolicy`], and a connection ends with the certificate of its peer. What tenants may use of
/// calls and streams is the API's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all; each needs a file descriptor. Room for 10,000 servers, their users, and who holds some open.
    pub connections: usize,
    /// Connections of one IPv4 address or IPv6 /64, so that one host cannot take them all.
    pub connections_per_ip: usize,
    /// From accept to the end of the TLS handshake, and from there to the first byte.
    pub handshake: Duration,
    /// Calls at a time on one connection.
    pub streams: u32,
    /// The same where another controller is at the other end: it hands on the calls and streams of all that it serves.
    pub controller_streams: u32,
    /// Header bytes of one request.
    pub header_bytes: u32,
    /// A ping after so much silence.
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

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 32_768,
            connections_per_ip: 2048,
            handshake: Duration::from_secs(5),
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

/// Counts of connections; one per process, shared by its servers.
#[derive(Debug, Clone)]
pub struct ServerMetrics {
    pub(crate) accepted: CounterBy<1>,
    pub(crate) refused: CounterBy<1>,
    open: GaugeBy<1>,
}

impl ServerMetrics {
    /// Registers `rail_connections{listener}`, `rail_connections_accepted_total{listener}` and
    /// `rail_connections_refused_total{cause}`.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        ServerMetrics {
            accepted: metrics.counter_by("connections_accepted", "Connections accepted", ["listener"]),
            refused: metrics.counter_by("connections_refused", "Connections refused", ["cause"]),
            open: metrics.gauge_by("connections", "Connections open now", ["listener"]),
        }
    }

    /// Refusals so far for a cause: `total`, `per-ip`, `handshake-timeout`, `handshake`, `silent`, `accept`, `revoked`,
    /// `expired`.
    #[must_use]
    pub fn refused(&self, cause: &str) -> u64 {
        self.refused.get([cause])
    }
}

/// Open connections, in all and per address.
#[derive(Debug, Default)]
pub(crate) struct Open(Mutex<OpenCounts>);

#[derive(Debug, Default)]
struct OpenCounts {
    total: usize,
    per_listener: BTreeMap<&'static str, i64>,
    per_ip: BTreeMap<IpAddr, usize>,
}

/// One connection's place under the caps; given back when dropped.
pub(crate) struct Place {
    open: Arc<Open>,
    metrics: ServerMetrics,
    listener: &'static str,
    key: Option<IpAddr>,
}

impl Open {
    pub(crate) fn enter(
        self: &Arc<Self>,
        address: &PeerAddress,
        listener: &'static str,
        limits: &Limits,
        metrics: &ServerMetrics,
    ) -> Result<Place, &'static str> {
        let key = address.cap_key();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.total >= limits.connections {
            return Err("total");
        }
        if let Some(key) = key {
            let here = counts.per_ip.entry(key).or_insert(0);
            if *here >= limits.connections_per_ip {
                return Err("per-ip");
            }
            *here += 1;
        }
        counts.total += 1;
        let open = counts.per_listener.entry(listener).or_insert(0);
        *open += 1;
        metrics.open.set([listener], *open);
        Ok(Place { open: Arc::clone(self), metrics: metrics.clone(), listener, key })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.open.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total -= 1;
        let open = counts.per_listener.entry(self.listener).or_insert(0);
        *open -= 1;
        self.metrics.open.set([self.listener], *open);
        if let Some(key) = self.key
            && let Some(here) = counts.per_ip.get_mut(&key)
        {
            *here -= 1;
            if *here == 0 {
                counts.per_ip.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn places_are_counted_and_given_back() {
        let metrics = ServerMetrics::new(&Metrics::new("test", "0", SystemTime::UNIX_EPOCH));
        let limits = Limits { connections: 3, connections_per_ip: 2, ..Limits::default() };
        let open = Arc::new(Open::default());
        let enter =
            |address: &str| open.enter(&PeerAddress::Tcp(address.parse().unwrap()), "tcp", &limits, &metrics);
        let first = enter("10.0.0.1:1").unwrap();
        let second = enter("10.0.0.1:2").unwrap();
        assert_eq!(enter("10.0.0.1:3").err(), Some("per-ip"));
        let third = enter("10.0.0.2:1").unwrap();
        assert_eq!(enter("10.0.0.3:1").err(), Some("total"));
        drop((first, third));
        let fourth = enter("10.0.0.1:4").unwrap();
        assert_eq!(enter("10.0.0.1:5").err(), Some("per-ip"));
        drop((second, fourth));
        let counts = open.0.lock().unwrap();
        assert_eq!((counts.total, counts.per_ip.len(), counts.per_listener["tcp"]), (0, 0, 0));
    }
}
