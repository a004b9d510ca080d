//! Intel. Its drivers count frames of pause, not their duration: storms show by what else they do.

use super::{Row, ethtool, hardware};
use crate::word::Word;

pub(super) const ROWS: &[Row] = &[
    hardware(&["cnpHandled"], Word::CnpGot, 64),
    hardware(&["cnpIgnored"], Word::CnpIgnored, 64),
    hardware(&["cnpSent"], Word::CnpSent, 64),
    hardware(&["RxECNMrkd"], Word::EcnSeen, 64),
    hardware(&["ip4InDiscards"], Word::RxDrop, 64),
    hardware(&["ip6InDiscards"], Word::RxDrop, 64),
    hardware(&["rxVlanErrors"], Word::RxDrop, 64),
    hardware(&["ip4OutNoRoutes"], Word::TxDrop, 64),
    hardware(&["ip6OutNoRoutes"], Word::TxDrop, 64),
    hardware(&["RNR sent"], Word::Rnr, 64),
    hardware(&["RNR received"], Word::Rnr, 64),
    ethtool(&["rx_crc_errors.nic"], Word::Corrupt),
    ethtool(&["rx_dropped.nic"], Word::RxDrop),
    ethtool(&["tx_dropped_link_down.nic"], Word::TxDrop),
    ethtool(&["tx_errors.nic"], Word::TxDrop),
];
