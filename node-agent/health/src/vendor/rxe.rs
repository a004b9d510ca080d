//! The kernel's RoCE in software.

use super::{Row, hardware};
use crate::word::Word;

pub(super) const ROWS: &[Row] = &[
    hardware(&["duplicate_request"], Word::LossBack, 64),
    hardware(&["out_of_seq_request", "out_of_sequence"], Word::Reorder, 64),
    hardware(&["rcvd_seq_err"], Word::LossOut, 64),
    hardware(&["completer_retry_err"], Word::Timeout, 64),
    hardware(&["retry_exceeded_err"], Word::DeadQp, 64),
    hardware(&["retry_rnr_exceeded_err"], Word::DeadQp, 64),
    hardware(&["rcvd_rnr_err"], Word::Rnr, 64),
    hardware(&["send_rnr_err"], Word::Rnr, 64),
    hardware(&["send_err"], Word::TxDrop, 64),
    hardware(&["link_downed"], Word::Flap, 64),
];
