//! How to reach an etcd, as whom, and what of it is ours.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use proto_rpc::{Dial, Endpoint};

use crate::source::{Source, SystemSource};
use crate::types::History;

/// etcd's port for clients.
const PORT: u16 = 2379;
/// etcd takes more than one ping in 5 s for an attack, and any while no call is at work.
const PING_EVERY: Duration = Duration::from_secs(6);
const PONG_WITHIN: Duration = Duration::from_secs(4);

/// One member of an etcd cluster: `https://host:2379`, or `http://` for one on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdEndpoint {
    /// The member's host and port.
    pub at: Endpoint,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl EtcdEndpoint {
    /// Whether the address is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let Endpoint::Tcp { host, .. } = &self.at else { return true };
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

impl fmt::Display for EtcdEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.at.authority())
    }
}

impl FromStr for EtcdEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(format!("`{text}` is not an address of etcd; write https://host:{PORT}")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let bare = rest.rsplit_once(']').map_or(rest, |(_, after)| after);
        let with_port = if bare.contains(':') { rest.to_owned() } else { format!("{rest}:{PORT}") };
        let at = format!("https://{with_port}").parse::<Endpoint>().map_err(|error| error.to_string())?;
        Ok(Self { at, tls })
    }
}

/// Files of certificates. They are read again while the store is open, so that a new certificate needs no restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EtcdTls {
    /// The CA that signed etcd's certificates, PEM. Needed for `https://`.
    pub ca: Option<PathBuf>,
    /// The certificate of this client, as PEM; `None`: the client has none.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, as PEM; `None`: the client has no certificate.
    pub key: Option<PathBuf>,
}

/// An etcd user; its password never shows in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdLogin {
    /// The name of the user.
    pub user: String,
    /// The password of the user.
    pub password: String,
}

impl fmt::Debug for EtcdLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdLogin({})", self.user)
    }
}

/// How to open an [`EtcdStore`](crate::EtcdStore).
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// The members, at least one; whichever answers is used.
    pub endpoints: Vec<EtcdEndpoint>,
    /// Everything of ours is under it: two clusters may share an etcd under two prefixes.
    pub prefix: String,
    /// How TLS is spoken with the members whose endpoint is `https://`.
    pub tls: EtcdTls,
    /// The user, where etcd asks for one; a client certificate may name it too.
    pub login: Option<EtcdLogin>,
    /// `http://` to another machine is refused unless this is set: the store holds job keys and hashes of tokens.
    pub plaintext: bool,
    /// Longest wait for the answer to one call.
    pub deadline: Duration,
    /// Longest time that one operation is tried again while no member answers.
    pub patience: Duration,
    /// A ping after so much silence while a call is at work, and the longest wait for its answer.
    pub ping_every: Duration,
    /// The longest wait for the answer to a ping, see `ping_every`.
    pub pong_within: Duration,
    /// History that is older is compacted; `None`: somebody else does that.
    pub keep_history: Option<Duration>,
    /// How often what the watch brought is compared with what etcd holds.
    pub check_every: Duration,
    /// The largest request in bytes that etcd takes, its `--max-request-bytes`.
    pub max_request_bytes: usize,
    /// What is kept of events in memory, for watches.
    pub history: History,
    /// Whether an empty prefix is made ours; otherwise opening one is an error.
    pub create: bool,
    /// Wall time and random bytes.
    pub source: Arc<dyn Source>,
    /// A simulation's network instead of sockets.
    pub dial: Option<Dial>,
}

impl EtcdOptions {
    /// Defaults, for an etcd with its own defaults.
    #[must_use]
    pub fn new(endpoints: Vec<EtcdEndpoint>) -> Self {
        Self {
            endpoints,
            prefix: "/railyard".to_owned(),
            tls: EtcdTls::default(),
            login: None,
            plaintext: false,
            deadline: Duration::from_secs(2),
            patience: Duration::from_secs(6),
            ping_every: PING_EVERY,
            pong_within: PONG_WITHIN,
            keep_history: Some(Duration::from_secs(300)),
            check_every: Duration::from_secs(600),
            max_request_bytes: 1536 * 1024,
            history: History::default(),
            create: true,
            source: Arc::new(SystemSource),
            dial: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_members() {
        for (text, shown, local) in [
            ("http://127.0.0.1:1", "http://127.0.0.1:1", true),
            ("https://etcd-0/", "https://etcd-0:2379", false),
            ("https://[::1]", "https://[::1]:2379", true),
            ("http://localhost", "http://localhost:2379", true),
            ("http://10.0.0.1:2379", "http://10.0.0.1:2379", false),
        ] {
            let endpoint: EtcdEndpoint = text.parse().unwrap();
            assert_eq!((endpoint.to_string().as_str(), endpoint.is_local()), (shown, local));
        }
        for bad in ["", "etcd-0:2379", "https://", "http://h:0", "unix:/x", "https://a b"] {
            assert!(bad.parse::<EtcdEndpoint>().is_err(), "{bad}");
        }
        let login = EtcdLogin { user: "rail".into(), password: "hush".into() };
        assert!(!format!("{login:?}").contains("hush"));
    }
}
