//! AMD Pollara. (`outouf` is how its driver spells it.)

use super::{Row, hardware};
use crate::counter_kind::CounterKind;

pub(super) const ROWS: &[Row] = &[
    hardware(&["rx_rdma_cnp_pkts"], CounterKind::CnpGot, 64),
    hardware(&["tx_rdma_cnp_pkts"], CounterKind::CnpSent, 64),
    hardware(&["rx_rdma_ecn_pkts"], CounterKind::EcnSeen, 64),
    hardware(&["tx_rdma_retx_pkts"], CounterKind::LossOut, 64),
    hardware(&["tx_rdma_ack_timeout"], CounterKind::Timeout, 64),
    hardware(&["rx_rdma_mtu_discard_pkts"], CounterKind::RxDrop, 64),
    hardware(&["req_rx_cqe_err"], CounterKind::AppFault, 64),
    hardware(&["req_tx_retry_excd_err"], CounterKind::DeadQp, 64),
    hardware(&["req_rx_rnr_retry_err"], CounterKind::Rnr, 64),
    hardware(&["req_rx_pkt_seq_err"], CounterKind::LossOut, 64),
    hardware(&["resp_rx_dup_request"], CounterKind::LossBack, 64),
    hardware(&["resp_rx_outouf_seq", "resp_rx_outof_seq"], CounterKind::Reorder, 64),
    hardware(&["resp_rx_outof_buf"], CounterKind::Rnr, 64),
    hardware(&["req_rx_impl_nak_seq_err"], CounterKind::LossBack, 64),
    hardware(&["req_rx_rmt_acc_err"], CounterKind::AppFault, 64),
    hardware(&["resp_rx_loc_len_err"], CounterKind::AppFault, 64),
];
