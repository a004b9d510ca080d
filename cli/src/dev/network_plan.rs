//! What a network of namespaces is made of, as values: names, cables, bridges, and what shapes a port.

use super::spec::Spec;

/// Namespaces, and the lines for `ip -batch`, `tc -batch` and `bridge -batch`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NetworkPlan {
    /// All namespaces, servers first.
    pub namespaces: Vec<String>,
    /// `ip` commands outside of any namespace: the links between them.
    pub links: Vec<String>,
    /// Per namespace: `ip` commands, then `tc` commands.
    pub inside: Vec<(String, Vec<String>, Vec<String>)>,
    /// Per namespace, `bridge` commands that come last: where tunnels send what they know no other end for.
    pub floods: Vec<(String, Vec<String>)>,
}

/// The least burst of a shaped rail: one offloaded 64 KiB packet with its headers must pass at once.
const LEAST_BURST: u64 = 66_000;
/// What a shaped rail queues beside its burst, in bytes, before it drops.
const QUEUE: u64 = 400_000;

/// The name of the leaf of a pod and rail.
#[must_use]
pub fn leaf_name(pod: u32, rail: u32) -> String {
    format!("p{pod}-rail{rail}")
}

/// The name of the namespace of something of this cluster.
#[must_use]
pub fn namespace(spec: &Spec, of: &str) -> String {
    format!("rail-{}-{of}", spec.name)
}

/// The ports of a pod's leaves to its servers, with what shapes them.
#[must_use]
pub fn server_ports(spec: &Spec, pod: u32) -> (Vec<String>, Vec<String>) {
    let nodes = (0..spec.nodes).filter(|node| spec.pod_of(*node) == pod);
    let ports: Vec<String> = nodes.map(|node| format!("swp{node}")).collect();
    let tc = ports.iter().filter_map(|port| shape(spec, port)).collect();
    (ports, tc)
}

/// A cable between two namespaces; each end is a name and a namespace.
#[must_use]
pub fn veth(mtu: u32, a: (&str, &str), b: (&str, &str)) -> String {
    format!("link add {} mtu {mtu} netns {} type veth peer name {} mtu {mtu} netns {}", a.0, a.1, b.0, b.1)
}

/// A bridge of these ports.
#[must_use]
pub fn bridge(spec: &Spec, ports: &[String]) -> Vec<String> {
    let mut ip = vec!["link add br0 type bridge".to_owned()];
    ip.extend(ports.iter().map(|port| format!("link set {port} master br0 up")));
    ip.push(format!("link set br0 mtu {} up", spec.mtu));
    ip
}

/// The token bucket of one end of a link: 2 ms at the rate, so that timers keep up.
#[must_use]
pub fn shape(spec: &Spec, device: &str) -> Option<String> {
    let rate = spec.rail_rate_bps?;
    let burst = (rate / 8 / 500).max(LEAST_BURST);
    let limit = burst + QUEUE;
    Some(format!("qdisc add dev {device} root tbf rate {rate}bit burst {burst} limit {limit}"))
}
