//! Switches that the cluster knows.

use proto_wire::v1::{self, switch_spec::Nos, switch_status::Configuration};

use super::{Table, words};

/// `NX_OS` where it is known.
fn nos(spec: &v1::SwitchSpec) -> &'static str {
    match spec.nos() {
        Nos::Unspecified => "",
        named => named.as_str_name(),
    }
}

fn configuration(status: &v1::SwitchStatus) -> &'static str {
    match status.configuration() {
        Configuration::Unspecified => "",
        named => named.as_str_name(),
    }
}

fn rails(status: &v1::SwitchStatus) -> String {
    status.rails.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn yes(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

/// A list of switches.
#[must_use]
pub fn switches(list: &[v1::Switch], now: f64) -> Table {
    let mut table = Table::new(["NAME", "ROLE", "RAIL", "POD", "NOS", "ASIC", "CONNECTED", "CONFIG", "AGE"]);
    for switch in list {
        let metadata = switch.metadata.clone().unwrap_or_default();
        let (spec, status) =
            (switch.spec.clone().unwrap_or_default(), switch.status.clone().unwrap_or_default());
        table.row([
            metadata.name,
            status.role.clone(),
            rails(&status),
            status.pod.clone(),
            nos(&spec).to_owned(),
            spec.asic.clone(),
            yes(status.connected),
            configuration(&status).to_owned(),
            words::age(metadata.create_time.as_ref(), None, now),
        ]);
    }
    table
}

fn number(value: u32) -> String {
    if value == 0 { String::new() } else { value.to_string() }
}

fn metres(value: u32) -> String {
    if value == 0 { String::new() } else { format!("{value} m") }
}

/// Facts about a switch.
#[must_use]
pub fn switch_facts(switch: &v1::Switch, now: f64) -> Vec<(&'static str, String)> {
    let (spec, status) = (switch.spec.clone().unwrap_or_default(), switch.status.clone().unwrap_or_default());
    let management = spec.management.clone().unwrap_or_default();
    let heard = words::age(status.last_seen.as_ref(), None, now);
    vec![
        ("Role", status.role.clone()),
        ("Rails", rails(&status)),
        ("Pod", status.pod.clone()),
        ("Plane", number(status.plane)),
        ("Operating system", format!("{} {}", nos(&spec), spec.version).trim().to_owned()),
        ("ASIC", spec.asic.clone()),
        ("Loopback", spec.loopback.clone()),
        ("AS number", number(spec.asn)),
        ("Cables", metres(spec.cable_m)),
        ("Endpoint", management.endpoint),
        ("Credential", management.credential),
        ("Repairs drift", yes(spec.repair_drift)),
        ("Connected", yes(status.connected)),
        ("Heard", if heard.is_empty() { heard } else { format!("{heard} ago") }),
        ("Runs", status.nos_version.clone()),
        ("Agent", status.agent_version.clone()),
        ("Configuration", configuration(&status).to_owned()),
    ]
}

/// What is said of ports; empty where nothing is.
#[must_use]
pub fn switch_ports(switch: &v1::Switch) -> Option<Table> {
    let ports = switch.spec.as_ref().map(|spec| spec.ports.as_slice()).unwrap_or_default();
    let mut table = Table::new(["PORT", "CABLE", "OPTICS"]);
    for port in ports {
        table.row([port.name.clone(), metres(port.cable_m), port.optics.clone()]);
    }
    (!ports.is_empty()).then_some(table)
}

/// What its ports say now; empty where they say nothing.
#[must_use]
pub fn switch_counters(switch: &v1::Switch) -> Option<Table> {
    let ports = switch.status.as_ref().map(|status| status.ports.as_slice()).unwrap_or_default();
    let mut table = Table::new([
        "PORT", "LINK", "GBIT/S", "NEIGHBOR", "DAMAGED", "DROPPED", "FLAPS", "PAUSED", "PAUSES", "MARKED",
    ]);
    for port in ports {
        // Whatever a switch says has a sum.
        let sum = |of: fn(&v1::SwitchPriorityCounters) -> u64| {
            port.priorities.iter().map(of).fold(0, u64::saturating_add)
        };
        let millis = |us: u64| format!("{} ms", us / 1000);
        let speed = if port.speed_mbps == 0 { String::new() } else { (port.speed_mbps / 1000).to_string() };
        table.row([
            port.name.clone(),
            if port.up { "up" } else { "down" }.to_owned(),
            speed,
            format!("{} {}", port.neighbor, port.neighbor_port).trim().to_owned(),
            port.rx_errors.saturating_add(port.fec_uncorrectable).to_string(),
            port.tx_drops.saturating_add(sum(|one| one.drops)).to_string(),
            port.link_changes.to_string(),
            millis(sum(|one| one.paused_rx_us)),
            millis(sum(|one| one.paused_tx_us)),
            sum(|one| one.ecn_marked).to_string(),
        ]);
    }
    (!ports.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch() -> v1::Switch {
        let create_time = Some(prost_types::Timestamp { seconds: 1000, nanos: 0 });
        v1::Switch {
            metadata: Some(v1::Metadata { name: "leaf0".into(), create_time, ..Default::default() }),
            spec: Some(v1::SwitchSpec {
                nos: Nos::NxOs.into(),
                asic: "tomahawk-5".into(),
                asn: 65_001,
                cable_m: 7,
                ports: vec![v1::SwitchPort { name: "Ethernet1/1".into(), cable_m: 3, optics: "DR4".into() }],
                ..Default::default()
            }),
            status: Some(v1::SwitchStatus {
                role: "leaf".into(),
                rails: vec![0, 1],
                pod: "p0".into(),
                connected: true,
                configuration: Configuration::InSync.into(),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn what_a_switch_is_is_in_its_row_and_in_its_facts() {
        let switch = switch();
        let text = switches(std::slice::from_ref(&switch), 1060.0).render("");
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            row,
            ["leaf0", "leaf", "0,1", "p0", "NX_OS", "tomahawk-5", "yes", "IN_SYNC", "1m"],
            "{text}"
        );
        let facts = switch_facts(&switch, 1060.0);
        for fact in [("AS number", "65001"), ("Cables", "7 m"), ("Operating system", "NX_OS"), ("Heard", "")]
        {
            assert!(facts.contains(&(fact.0, fact.1.to_owned())), "{facts:?}");
        }
        assert!(switch_ports(&switch).unwrap().render("").contains("Ethernet1/1"));
        assert!(switch_ports(&v1::Switch::default()).is_none());
        assert!(switch_counters(&switch).is_none());
        let lossless = v1::SwitchPriorityCounters { paused_rx_us: 12_345, drops: 4, ..Default::default() };
        let port = v1::SwitchPortStatus {
            name: "Ethernet1/1".into(),
            up: true,
            speed_mbps: 400_000,
            neighbor: "n3".into(),
            rx_errors: 2,
            tx_drops: 1,
            priorities: vec![lossless],
            ..Default::default()
        };
        let status = v1::SwitchStatus { ports: vec![port], ..Default::default() };
        let text =
            switch_counters(&v1::Switch { status: Some(status), ..Default::default() }).unwrap().render("");
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            row,
            ["Ethernet1/1", "up", "400", "n3", "2", "5", "0", "12", "ms", "0", "ms", "0"],
            "{text}"
        );
    }
}
