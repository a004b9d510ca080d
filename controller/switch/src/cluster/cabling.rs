//! What switches see at the other ends of their cables, by LLDP, beside what the document plans there.

use crate::{
    cluster::{Cluster, Finding, Problem},
    model::Peer,
};

/// What a switch sees on one of its ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen<'a> {
    /// The port.
    pub port: &'a str,
    /// The name of the device at the other end; empty where it says none.
    pub device: &'a str,
    /// The port there, as the device calls it; may be empty.
    pub device_port: &'a str,
}

impl Cluster<'_> {
    /// Ports of a switch at whose other end another device is than is planned. A port on which nobody says a name is not judged, nor is one that the
    /// plan has not. Of a server the name alone is compared: NICs have other names in LLDP than in the document.
    #[must_use]
    pub fn miscabled(&self, name: &str, seen: &[Seen<'_>]) -> Vec<Finding> {
        let mut said = seen.iter().filter(|one| is_host_name(one.device)).peekable();
        if said.peek().is_none() {
            return Vec::new();
        }
        let ports = self.ports(name);
        let wrong = |one: &Seen<'_>| {
            let port = ports.iter().find(|port| port.name.as_str() == one.port)?;
            let (device, of) = match &port.peer {
                Peer::Nic { server, nic, .. } => (server, format!("server {server} ({nic})")),
                Peer::Switch { switch, .. } => (switch, format!("switch {switch}")),
            };
            if is_same(one.device, device.as_str()) {
                return None;
            }
            let at = if one.device_port.is_empty() { "" } else { " " };
            let found = format!("{}{at}{}", one.device, one.device_port);
            Some(Finding::of_port(name, one.port, Problem::Miscabled { planned: of, found }))
        };
        said.filter_map(wrong).collect()
    }
}

/// A device without a name says the address of its chassis instead.
fn is_host_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// Devices say their names with the domain or without it.
fn is_same(said: &str, planned: &str) -> bool {
    let (said, planned) = (said.to_ascii_lowercase(), planned.to_ascii_lowercase());
    let has_domain =
        |long: &str, short: &str| long.strip_prefix(short).is_some_and(|rest| rest.starts_with('.'));
    said == planned || has_domain(&said, &planned) || has_domain(&planned, &said)
}
