//! The kernel's RoCE in software.

use super::{Row, hardware};
use crate::counter_kind::CounterKind;

pub(super) const ROWS: &[Row] = &[
    hardware(&["duplicate_request"], CounterKind::LossBack, 64),
    hardware(&["out_of_seq_request", "out_of_sequence"], CounterKind::Reorder, 64),
    hardware(&["rcvd_seq_err"], CounterKind::LossOut, 64),
    hardware(&["completer_retry_err"], CounterKind::Timeout, 64),
    hardware(&["retry_exceeded_err"], CounterKind::DeadQp, 64),
    hardware(&["retry_rnr_exceeded_err"], CounterKind::DeadQp, 64),
    hardware(&["rcvd_rnr_err"], CounterKind::Rnr, 64),
    hardware(&["send_rnr_err"], CounterKind::Rnr, 64),
    hardware(&["send_err"], CounterKind::TxDrop, 64),
    hardware(&["link_downed"], CounterKind::Flap, 64),
];
