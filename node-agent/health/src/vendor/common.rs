//! Names that every driver shares: standard port counters, statistics of the network device, its carrier.

use super::{Row, Source, row};
use crate::counter_kind::CounterKind;

const fn port(name: &'static [&'static str], word: CounterKind, bits: u8) -> Row {
    row(Source::Port, name, word, bits)
}

/// Widths are those of the InfiniBand specification's PortCounters attribute, which saturates; drivers for Ethernet count
/// in 32 or 64 bits and wrap. The wider one is assumed: a counter that goes back before its end was reset.
pub(super) const ROWS: &[Row] = &[
    port(&["symbol_error"], CounterKind::Corrupt, 32),
    port(&["link_error_recovery"], CounterKind::Flap, 32),
    port(&["link_downed"], CounterKind::Flap, 32),
    port(&["port_rcv_errors"], CounterKind::Corrupt, 32),
    port(&["port_rcv_remote_physical_errors"], CounterKind::Corrupt, 32),
    port(&["port_xmit_discards"], CounterKind::TxDrop, 32),
    port(&["local_link_integrity_errors"], CounterKind::Corrupt, 32),
    port(&["excessive_buffer_overrun_errors"], CounterKind::RxDrop, 32),
    Row { scale: 4, ..port(&["port_xmit_data"], CounterKind::TxBytes, 64) },
    Row { scale: 4, ..port(&["port_rcv_data"], CounterKind::RxBytes, 64) },
    row(Source::Netdev, &["tx_bytes"], CounterKind::TxBytes, 64),
    row(Source::Netdev, &["rx_bytes"], CounterKind::RxBytes, 64),
    row(Source::Netdev, &["rx_crc_errors"], CounterKind::Corrupt, 64),
    row(Source::Netdev, &["rx_missed_errors"], CounterKind::RxDrop, 64),
    row(Source::Netdev, &["tx_dropped"], CounterKind::TxDrop, 64),
    row(Source::Link, &["carrier_changes"], CounterKind::Flap, 32),
];
