//! Where a server is: `https://host:port` or `unix:/path`.

use crate::ca::CONTROLLER_NAME;
use rustls_pki_types::ServerName;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The controller's port where an address names none.
pub const DEFAULT_PORT: u16 = 7443;

/// One address of a server. Both kinds speak TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A TCP address, spoken to over TLS.
    Tcp {
        /// DNS name or IP address (without brackets).
        host: String,
        /// TCP port, from 1.
        port: u16,
    },
    /// A unix socket on this machine, spoken to over TLS.
    Unix {
        /// Path of the socket.
        path: PathBuf,
    },
}

/// Why a text is no endpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// Neither of the two forms.
    #[error("`{text}` is not an endpoint: expected https://host:port or unix:/path")]
    Malformed {
        /// The text that was given.
        text: String,
    },
    /// Plain HTTP is never spoken between processes.
    #[error("`{text}`: there is no unencrypted API; write https://")]
    Plaintext {
        /// The text that was given.
        text: String,
    },
    /// The host is neither a DNS name nor an IP address.
    #[error("`{host}` is neither a DNS name nor an IP address")]
    BadHost {
        /// The host that was given.
        host: String,
    },
    /// The port is not 1 to 65535.
    #[error("`{port}` is not a port")]
    BadPort {
        /// What stood after the colon.
        port: String,
    },
}

impl Endpoint {
    /// The name that the server's certificate must carry.
    ///
    /// # Errors
    /// [`EndpointError::BadHost`] if the host is neither a DNS name nor an IP address.
    pub fn server_name(&self) -> Result<ServerName<'static>, EndpointError> {
        let host = match self {
            Endpoint::Tcp { host, .. } => host.as_str(),
            Endpoint::Unix { .. } => CONTROLLER_NAME,
        };
        ServerName::try_from(host.to_owned()).map_err(|_| EndpointError::BadHost { host: host.to_owned() })
    }

    /// What stands in requests as the authority.
    #[must_use]
    pub fn authority(&self) -> String {
        match self {
            Endpoint::Tcp { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Endpoint::Tcp { host, port } => format!("{host}:{port}"),
            Endpoint::Unix { .. } => CONTROLLER_NAME.to_owned(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp { .. } => write!(f, "https://{}", self.authority()),
            Endpoint::Unix { path } => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || EndpointError::Malformed { text: text.chars().take(256).collect() };
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            if !path.starts_with('/') || path.contains('\0') {
                return Err(malformed());
            }
            // With two slashes the text of this endpoint would be read as `unix://` and a relative path.
            return Ok(Endpoint::Unix { path: format!("/{}", path.trim_start_matches('/')).into() });
        }
        if text.starts_with("http://") {
            return Err(EndpointError::Plaintext { text: text.chars().take(256).collect() });
        }
        let rest = text.strip_prefix("https://").ok_or_else(malformed)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split_host(rest).ok_or_else(malformed)?;
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port
                .parse()
                .ok()
                .filter(|number| *number != 0)
                .ok_or_else(|| EndpointError::BadPort { port: port.chars().take(16).collect() })?,
        };
        let endpoint = Endpoint::Tcp { host: host.to_owned(), port };
        endpoint.server_name()?;
        Ok(endpoint)
    }
}

/// Splits `host`, `host:port`, `[v6]` and `[v6]:port`.
fn split_host(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None if rest.is_empty() => Some((host, None)),
            None => None,
        };
    }
    match text.split_once(':') {
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_survive_their_text() {
        for text in
            ["https://ctl.example:7443", "https://127.0.0.1:1", "https://[::1]:65535", "unix:/run/r.sock"]
        {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("https://ctl".parse::<Endpoint>().unwrap().to_string(), "https://ctl:7443");
        assert_eq!("unix:///a/b".parse::<Endpoint>().unwrap().to_string(), "unix:/a/b");
        assert_eq!("unix:////a/b".parse::<Endpoint>().unwrap().to_string(), "unix:/a/b");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "ctl:7443",
            "http://ctl:7443",
            "https://",
            "https://:1",
            "https://a b:1",
            "https://ctl:0",
            "https://ctl:65536",
            "https://ctl:x",
            "https://[::1",
            "https://[::1]x",
            "https://u@h:1",
            "unix:",
            "unix:relative",
            "unix:/a\0b",
            "https://ctl:1/path",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text:?} was accepted");
        }
    }
}
