//! Names that every driver shares: standard port counters, statistics of the network device, its carrier.

use super::{Row, Source, row};
use crate::word::Word;

const fn port(name: &'static [&'static str], word: Word, bits: u8) -> Row {
    row(Source::Port, name, word, bits)
}

/// Widths are those of the InfiniBand specification's PortCounters attribute, which saturates; drivers for Ethernet count
/// in 32 or 64 bits and wrap. The wider one is assumed: a counter that goes back before its end was reset.
pub(super) const ROWS: &[Row] = &[
    port(&["symbol_error"], Word::Corrupt, 32),
    port(&["link_error_recovery"], Word::Flap, 32),
    port(&["link_downed"], Word::Flap, 32),
    port(&["port_rcv_errors"], Word::Corrupt, 32),
    port(&["port_rcv_remote_physical_errors"], Word::Corrupt, 32),
    port(&["port_xmit_discards"], Word::TxDrop, 32),
    port(&["local_link_integrity_errors"], Word::Corrupt, 32),
    port(&["excessive_buffer_overrun_errors"], Word::RxDrop, 32),
    Row { scale: 4, ..port(&["port_xmit_data"], Word::TxBytes, 64) },
    Row { scale: 4, ..port(&["port_rcv_data"], Word::RxBytes, 64) },
    row(Source::Netdev, &["tx_bytes"], Word::TxBytes, 64),
    row(Source::Netdev, &["rx_bytes"], Word::RxBytes, 64),
    row(Source::Netdev, &["rx_crc_errors"], Word::Corrupt, 64),
    row(Source::Netdev, &["rx_missed_errors"], Word::RxDrop, 64),
    row(Source::Netdev, &["tx_dropped"], Word::TxDrop, 64),
    row(Source::Link, &["carrier_changes"], Word::Flap, 32),
];
