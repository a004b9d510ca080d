//! Webhooks: a tenant's receivers that get the events of its jobs over HTTP.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use thiserror::Error;

use crate::{QueueName, TenantName, Timestamp, WebhookName};

word!(
    /// An event that a receiver can get.
    WebhookEvent {
        /// All ranks of an attempt have started.
        Started = "STARTED",
        /// It ended, in whichever way.
        Ended = "ENDED",
        /// The job has completed: all ranks ended well.
        Succeeded = "SUCCEEDED",
        /// The job has failed, and is not queued again.
        Failed = "FAILED",
        /// The job was ended on request.
        Cancelled = "CANCELLED",
        /// An attempt is over, and the job is queued again.
        QueuedAgain = "QUEUED_AGAIN",
        /// It is held or suspended.
        Held = "HELD",
    }
);

/// A webhook of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The tenant that the webhook belongs to.
    pub tenant: TenantName,
    /// Its name, unique within the tenant.
    pub name: WebhookName,
    /// Identifier of this very webhook; a later one of the same name has another.
    pub uid: String,
    /// Counts changes of what was asked for.
    pub generation: u64,
    /// When it was made.
    pub created: Timestamp,
    /// What was asked for.
    pub spec: WebhookSpec,
    /// What was delivered so far, and what was not.
    pub progress: WebhookProgress,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSpec {
    /// The receiver's URL, which deliveries are posted to.
    pub url: WebhookUrl,
    /// The events that are delivered; never empty.
    pub events: BTreeSet<WebhookEvent>,
    /// The jobs whose events are delivered.
    pub jobs: JobFilter,
    /// What deliveries are signed with; `None` only in a document that nobody has applied yet.
    pub secret: Option<WebhookSecret>,
    /// The receiver may be called over plain HTTP as well.
    pub allow_insecure: bool,
    /// Nothing is sent or kept meanwhile.
    pub suspended: bool,
    /// A text for people; may be empty.
    pub description: String,
}

/// Which jobs a webhook is for; without any condition all of its tenant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JobFilter {
    /// Jobs of this name; `*` at its end stands for any further text. Empty: any.
    pub name: String,
    /// Only jobs of this queue; `None`: of any.
    pub queue: Option<QueueName>,
    /// Jobs with all of these labels.
    pub labels: BTreeMap<String, String>,
}

impl JobFilter {
    /// Whether a job of this name, queue and labels is meant.
    #[must_use]
    pub fn admits(&self, name: &str, queue: Option<&QueueName>, labels: &BTreeMap<String, String>) -> bool {
        let named = match self.name.strip_suffix('*') {
            Some(begin) => name.starts_with(begin),
            None => self.name.is_empty() || self.name == name,
        };
        named
            && (self.queue.is_none() || self.queue.as_ref() == queue)
            && self.labels.iter().all(|(key, value)| labels.get(key) == Some(value))
    }
}

/// How a webhook's deliveries ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookProgress {
    /// Deliveries that the receiver answered with a 2xx status.
    pub delivered: u64,
    /// Deliveries that failed and were given up.
    pub failed: u64,
    /// Deliveries that were dropped without being delivered.
    pub dropped: u64,
    /// The last attempt that failed, and when.
    pub last_error: Option<(Timestamp, String)>,
    /// The last one that was delivered.
    pub last_success: Option<Timestamp>,
    /// The receiver is gone for good, since then.
    pub disabled: Option<Timestamp>,
}

impl Webhook {
    /// Bytes of a text about an error at most.
    pub const MAX_ERROR: usize = 256;

    /// Whether something is sent by it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        !self.spec.suspended && self.progress.disabled.is_none()
    }

    /// Whether it gets this event.
    #[must_use]
    pub fn wants(&self, event: WebhookEvent) -> bool {
        use WebhookEvent::{Cancelled, Ended, Failed, Succeeded};
        let events = &self.spec.events;
        let end = matches!(event, Succeeded | Failed | Cancelled);
        self.is_in_use() && (events.contains(&event) || (end && events.contains(&Ended)))
    }
}

/// The secret that deliveries are signed with. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookSecret(Arc<[u8]>);

impl WebhookSecret {
    /// Bytes at least and at most, as the Standard Webhooks specification has them.
    pub const BYTES: std::ops::RangeInclusive<usize> = 24..=64;

    /// `None` unless there are 24 to 64 bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        Self::BYTES.contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// The secret itself, for the signature and the store only.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(..)")
    }
}

/// Why a text is not the URL of a receiver.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum WebhookUrlError {
    /// More than [`WebhookUrl::MAX`] bytes; the number is the text's length.
    #[error("has {0} bytes; at most {max} are allowed", max = WebhookUrl::MAX)]
    TooLong(usize),
    /// The scheme is not `https` or `http`.
    #[error("must begin with https:// (or http://, with allowInsecure)")]
    Scheme,
    /// The URL holds a user or a password.
    #[error("holds a user or a password, or an '@' before the path; receivers check the signature instead")]
    Credentials,
    /// The host is missing or not valid.
    #[error(
        "its host is missing or no host; write a DNS name, an IPv4 address, or an IPv6 address in brackets"
    )]
    Host,
    /// The port is not valid.
    #[error("its port is not a number from 1 to 65535")]
    Port,
    /// A fragment, which is never sent.
    #[error("has a fragment (#), which no receiver would see")]
    Fragment,
    /// Spaces, controls, backslashes, or what is not ASCII.
    #[error("holds a space, a backslash, a control character or one that is not ASCII; percent-encode it")]
    Character,
}

/// Where deliveries go: `https` or `http`, a host, a port and a path, and nothing else.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    text: Arc<str>,
    tls: bool,
    host: Arc<str>,
    port: u16,
    path: Arc<str>,
}

impl WebhookUrl {
    /// The most bytes that an URL may have.
    pub const MAX: usize = 2048;

    /// Reads an URL strictly: what two readers could understand differently is refused.
    ///
    /// # Errors
    /// [`WebhookUrlError`] says what is wrong.
    pub fn new(text: &str) -> Result<Self, WebhookUrlError> {
        if text.len() > Self::MAX {
            return Err(WebhookUrlError::TooLong(text.len()));
        }
        if text.bytes().any(|byte| !byte.is_ascii_graphic() || byte == b'\\') {
            return Err(WebhookUrlError::Character);
        }
        let (tls, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(WebhookUrlError::Scheme),
        };
        if rest.contains('#') {
            return Err(WebhookUrlError::Fragment);
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(WebhookUrlError::Credentials);
        }
        let (host, port) = split(authority)?;
        let port = match port {
            None if tls => 443,
            None => 80,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|port| *port > 0).ok_or(WebhookUrlError::Port)?
            }
            Some(_) => return Err(WebhookUrlError::Port),
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { text: text.into(), tls, host: host.into(), port, path: path.into() })
    }

    /// As it was written. Its path may be a secret of the receiver.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is `https`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// A DNS name or an address, without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port: that of the URL, or that of its scheme where it names none.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path with the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The host and, where it is not the scheme's own, the port, as the header `host` has them.
    #[must_use]
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.to_string() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// The URL without what may be a secret of the receiver.
    #[must_use]
    pub fn masked(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        let path = if &*self.path == "/" { "/" } else { "/..." };
        format!("{scheme}://{}{path}", self.authority())
    }

    /// Whether it names this machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let address: Option<IpAddr> = self.host.parse().ok();
        &*self.host == "localhost" || address.is_some_and(|address| address.is_loopback())
    }
}

impl fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookUrl({})", self.masked())
    }
}

/// Host and port of an authority.
fn split(authority: &str) -> Result<(&str, Option<&str>), WebhookUrlError> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, behind) = rest.split_once(']').ok_or(WebhookUrlError::Host)?;
        if host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(WebhookUrlError::Host);
        }
        return match (behind, behind.strip_prefix(':')) {
            ("", _) => Ok((host, None)),
            (_, Some(port)) => Ok((host, Some(port))),
            _ => Err(WebhookUrlError::Host),
        };
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let label = |label: &str| {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(inner)
    };
    if host.len() > 253 || !host.split('.').all(label) {
        return Err(WebhookUrlError::Host);
    }
    Ok((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_strictly() {
        let url = WebhookUrl::new("https://hooks.example:8443/a/b?c=d").unwrap();
        assert_eq!((url.host(), url.port(), url.path()), ("hooks.example", 8443, "/a/b?c=d"));
        assert!(url.is_tls() && !url.is_loopback());
        assert_eq!(
            (url.authority().as_str(), url.masked().as_str()),
            ("hooks.example:8443", "https://hooks.example:8443/...")
        );
        assert_eq!(format!("{url:?}"), "WebhookUrl(https://hooks.example:8443/...)");
        let url = WebhookUrl::new("http://[::1]?x").unwrap();
        assert_eq!((url.host(), url.port(), url.path(), url.is_loopback()), ("::1", 80, "/?x", true));
        assert_eq!(url.authority(), "[::1]");
        for (text, error) in [
            ("ftp://a/", WebhookUrlError::Scheme),
            ("HTTPS://a/", WebhookUrlError::Scheme),
            ("https://user:pw@a/", WebhookUrlError::Credentials),
            ("https://a@b", WebhookUrlError::Credentials),
            ("https:///a", WebhookUrlError::Host),
            ("https://a..b/", WebhookUrlError::Host),
            ("https://[::1/", WebhookUrlError::Host),
            ("https://[a]/", WebhookUrlError::Host),
            ("https://[::1]x/", WebhookUrlError::Host),
            ("https://a:0/", WebhookUrlError::Port),
            ("https://a:65536/", WebhookUrlError::Port),
            ("https://a:+1/", WebhookUrlError::Port),
            ("https://a:/", WebhookUrlError::Port),
            ("https://a/#x", WebhookUrlError::Fragment),
            ("https://a\\@b/", WebhookUrlError::Character),
            ("https://a/ b", WebhookUrlError::Character),
            ("https://a/\r\nx: y", WebhookUrlError::Character),
            ("https://\u{fc}/", WebhookUrlError::Character),
        ] {
            assert_eq!(WebhookUrl::new(text).unwrap_err(), error, "{text}");
        }
        assert!(matches!(WebhookUrl::new(&"x".repeat(2049)), Err(WebhookUrlError::TooLong(2049))));
    }

    #[test]
    fn a_filter_is_all_of_its_conditions() {
        let labels: BTreeMap<String, String> = [("team".to_owned(), "nlp".to_owned())].into();
        let queue = QueueName::new("prod").unwrap();
        let mut filter = JobFilter::default();
        assert!(filter.admits("a", None, &labels));
        filter.name = "train-*".to_owned();
        assert!(filter.admits("train-7", None, &labels) && !filter.admits("eval", None, &labels));
        filter.name = "train".to_owned();
        assert!(filter.admits("train", None, &labels) && !filter.admits("train-7", None, &labels));
        filter.queue = Some(queue.clone());
        assert!(filter.admits("train", Some(&queue), &labels) && !filter.admits("train", None, &labels));
        filter.labels = labels.clone();
        assert!(filter.admits("train", Some(&queue), &labels));
        assert!(!filter.admits("train", Some(&queue), &BTreeMap::new()));
    }

    #[test]
    fn a_secret_is_never_printed() {
        let secret = WebhookSecret::new(&[7; 24]).unwrap();
        assert_eq!(format!("{secret:?}"), "WebhookSecret(..)");
        assert!(WebhookSecret::new(&[7; 23]).is_none() && WebhookSecret::new(&[7; 65]).is_none());
    }
}
