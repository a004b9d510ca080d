//! AMD Pollara. (`outouf` is how its driver spells it.)

use super::{Row, hardware};
use crate::word::Word;

pub(super) const ROWS: &[Row] = &[
    hardware(&["rx_rdma_cnp_pkts"], Word::CnpGot, 64),
    hardware(&["tx_rdma_cnp_pkts"], Word::CnpSent, 64),
    hardware(&["rx_rdma_ecn_pkts"], Word::EcnSeen, 64),
    hardware(&["tx_rdma_retx_pkts"], Word::LossOut, 64),
    hardware(&["tx_rdma_ack_timeout"], Word::Timeout, 64),
    hardware(&["rx_rdma_mtu_discard_pkts"], Word::RxDrop, 64),
    hardware(&["req_rx_cqe_err"], Word::AppFault, 64),
    hardware(&["req_tx_retry_excd_err"], Word::DeadQp, 64),
    hardware(&["req_rx_rnr_retry_err"], Word::Rnr, 64),
    hardware(&["req_rx_pkt_seq_err"], Word::LossOut, 64),
    hardware(&["resp_rx_dup_request"], Word::LossBack, 64),
    hardware(&["resp_rx_outouf_seq", "resp_rx_outof_seq"], Word::Reorder, 64),
    hardware(&["resp_rx_outof_buf"], Word::Rnr, 64),
    hardware(&["req_rx_impl_nak_seq_err"], Word::LossBack, 64),
    hardware(&["req_rx_rmt_acc_err"], Word::AppFault, 64),
    hardware(&["resp_rx_loc_len_err"], Word::AppFault, 64),
];
