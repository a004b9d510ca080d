//! What ports of switches count, as metrics: in the words that NICs' counters have.

use std::sync::{Arc, Mutex, PoisonError};

use proto_rpc::{Metrics, Scrape, Series};
use proto_wire::v1;

use super::board::{Board, WeakBoard};

/// Ports that one scrape tells at most: some twenty series each.
const PORTS_MAX: usize = 16_384;

/// The series of the board that is in use; none while this process does not lead.
#[derive(Clone, Debug, Default)]
pub(crate) struct SwitchSeries(Arc<Mutex<WeakBoard>>);

impl SwitchSeries {
    /// Registers them.
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let series = Self::default();
        metrics.scrape(series.clone());
        series
    }

    /// From now on those of this board.
    pub(crate) fn follow(&self, board: &Board) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = board.weak();
    }
}

/// What is counted of a port whatever its priority.
fn events(port: &v1::SwitchPortStatus) -> [(&'static str, u64); 3] {
    [
        ("corrupt", port.rx_errors.saturating_add(port.fec_uncorrectable)),
        ("flap", port.link_changes),
        ("tx_drop", port.tx_drops),
    ]
}

/// What is counted of a priority.
fn of_priority(one: &v1::SwitchPriorityCounters) -> [(&'static str, u64); 8] {
    [
        ("pause_rx", one.pause_rx),
        ("pause_tx", one.pause_tx),
        ("pause_rx_us", one.paused_rx_us),
        ("pause_tx_us", one.paused_tx_us),
        ("ecn_marked", one.ecn_marked),
        ("tx_drop", one.drops),
        ("storm", one.storms),
        ("tx_bytes", one.tx_bytes),
    ]
}

type PortsBySwitch = [(String, Arc<[v1::SwitchPortStatus]>)];

fn ports(by_switch: &PortsBySwitch) -> impl Iterator<Item = (&str, &v1::SwitchPortStatus)> {
    by_switch
        .iter()
        .flat_map(|(switch, ports)| ports.iter().map(move |port| (switch.as_str(), port)))
        .take(PORTS_MAX)
}

fn of_ports(by_switch: &PortsBySwitch, series: &mut Series<'_>) -> std::fmt::Result {
    let up = ports(by_switch).map(|(switch, port)| ([switch, &port.name], u64::from(port.up)));
    series.gauges_by(
        "switch_port_up",
        "1 while the link of a switch's port is up",
        ["switch", "port"],
        up,
    )?;
    let bytes = ports(by_switch).flat_map(|(switch, port)| {
        [("rx", port.rx_bytes), ("tx", port.tx_bytes)].map(|(way, bytes)| ([switch, &port.name, way], bytes))
    });
    let labels = ["switch", "port", "direction"];
    series.counters_by("switch_port_bytes", "Bytes of a switch's port", labels, bytes)?;
    let counted = ports(by_switch)
        .flat_map(|(switch, port)| events(port).map(|(event, count)| ([switch, &port.name, event], count)));
    let help = "What a switch's port counts, in the words of NICs' counters";
    series.counters_by("switch_port_events", help, ["switch", "port", "event"], counted)
}

fn of_priorities(by_switch: &PortsBySwitch, series: &mut Series<'_>) -> std::fmt::Result {
    const NUMBERS: [&str; 8] = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let all = || {
        ports(by_switch).flat_map(|(switch, port)| {
            let named = |one: &v1::SwitchPriorityCounters| NUMBERS.get(one.priority as usize).copied();
            let own = port.priorities.iter().filter_map(move |one| Some((named(one)?, one)));
            own.map(move |(priority, one)| (switch, port.name.as_str(), priority, one))
        })
    };
    let counted = all().flat_map(|(switch, port, priority, one)| {
        of_priority(one).map(|(event, count)| ([switch, port, priority, event], count))
    });
    let help = "What a switch's port counts of one priority; pauses that it got (rx) and gave (tx), also in microseconds";
    let labels = ["switch", "port", "priority", "event"];
    series.counters_by("switch_priority_events", help, labels, counted)?;
    let used = all().map(|(switch, port, priority, one)| ([switch, port, priority], one.watermark_bytes));
    let help = "Highest use of the buffer of a priority's queue since the reading before, in bytes";
    series.gauges_by("switch_priority_watermark_bytes", help, ["switch", "port", "priority"], used)
}

impl Scrape for SwitchSeries {
    fn scrape(&self, series: &mut Series<'_>) -> std::fmt::Result {
        let board = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let by_switch = board.ports();
        let all: usize = by_switch.iter().map(|(_, ports)| ports.len()).sum();
        let left_out = u64::try_from(all.saturating_sub(PORTS_MAX)).unwrap_or(u64::MAX);
        let help = "Ports of switches that these metrics have no room for";
        series.gauge("switch_ports_left_out", help, left_out)?;
        of_ports(&by_switch, series)?;
        of_priorities(&by_switch, series)
    }
}

#[cfg(test)]
mod tests {
    use proto_model::{SwitchConfig, SwitchName};
    use proto_rpc::exposition::Exposition;

    use super::*;
    use crate::switch::board::Inputs;

    /// Those of a cluster with this switch alone.
    fn inputs(name: &str) -> Inputs {
        let metadata = v1::Metadata { name: name.into(), ..Default::default() };
        let spec = v1::SwitchSpec {
            nos: v1::switch_spec::Nos::Sonic.into(),
            asic: "spectrum-4".into(),
            ..Default::default()
        };
        let switch = v1::Switch { metadata: Some(metadata), spec: Some(spec), ..Default::default() };
        Inputs { switches: vec![Arc::new(SwitchConfig::try_from(switch).unwrap())], ..Inputs::default() }
    }

    #[test]
    fn counters_of_ports_are_told_while_their_board_lives() {
        let metrics = Metrics::new("test", "0", std::time::SystemTime::UNIX_EPOCH);
        let series = SwitchSeries::new(&metrics);
        let board = Board::default();
        series.follow(&board);
        let lossless = v1::SwitchPriorityCounters { priority: 3, paused_rx_us: 7, ..Default::default() };
        let port = v1::SwitchPortStatus {
            name: "Ethernet0".into(),
            up: true,
            rx_bytes: 11,
            rx_errors: 2,
            fec_uncorrectable: 3,
            priorities: vec![lossless],
            ..Default::default()
        };
        board.say(&inputs("leaf0"), &SwitchName::new("leaf0").unwrap(), vec![port]);
        let text = metrics.encode(Exposition::Text);
        for line in [
            "rail_switch_port_up{switch=\"leaf0\",port=\"Ethernet0\"} 1",
            "rail_switch_port_bytes_total{switch=\"leaf0\",port=\"Ethernet0\",direction=\"rx\"} 11",
            "rail_switch_port_events_total{switch=\"leaf0\",port=\"Ethernet0\",event=\"corrupt\"} 5",
            "rail_switch_priority_events_total{switch=\"leaf0\",port=\"Ethernet0\",priority=\"3\",event=\"pause_rx_us\"} 7",
            "rail_switch_ports_left_out 0",
        ] {
            assert!(text.lines().any(|own| own == line), "{line}\n{text}");
        }
        drop(board);
        assert!(!metrics.encode(Exposition::Text).contains("leaf0"));
    }
}
