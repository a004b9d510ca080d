//! Intel. Its drivers count frames of pause, not their duration: storms show by what else they do.

use super::{Row, ethtool, hardware};
use crate::counter_kind::CounterKind;

pub(super) const ROWS: &[Row] = &[
    hardware(&["cnpHandled"], CounterKind::CnpGot, 64),
    hardware(&["cnpIgnored"], CounterKind::CnpIgnored, 64),
    hardware(&["cnpSent"], CounterKind::CnpSent, 64),
    hardware(&["RxECNMrkd"], CounterKind::EcnSeen, 64),
    hardware(&["ip4InDiscards"], CounterKind::RxDrop, 64),
    hardware(&["ip6InDiscards"], CounterKind::RxDrop, 64),
    hardware(&["rxVlanErrors"], CounterKind::RxDrop, 64),
    hardware(&["ip4OutNoRoutes"], CounterKind::TxDrop, 64),
    hardware(&["ip6OutNoRoutes"], CounterKind::TxDrop, 64),
    hardware(&["RNR sent"], CounterKind::Rnr, 64),
    hardware(&["RNR received"], CounterKind::Rnr, 64),
    ethtool(&["rx_crc_errors.nic"], CounterKind::Corrupt),
    ethtool(&["rx_dropped.nic"], CounterKind::RxDrop),
    ethtool(&["tx_dropped_link_down.nic"], CounterKind::TxDrop),
    ethtool(&["tx_errors.nic"], CounterKind::TxDrop),
];
