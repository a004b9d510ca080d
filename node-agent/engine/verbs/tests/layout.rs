//! The layouts of `ffi` against the real header, where it is: a C program made of it prints sizes and offsets.

use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;

use node_agent_engine_verbs::ffi::*;

/// Folders that may hold `infiniband/verbs.h`: the system's, or one that was unpacked for this.
fn header() -> Option<PathBuf> {
    let named = std::env::var_os("RAIL_TEST_VERBS_INCLUDE").map(PathBuf::from);
    let folders = named.into_iter().chain(["/usr/include".into()]);
    folders.into_iter().find(|folder| folder.join("infiniband/verbs.h").exists())
}

macro_rules! facts {
    ($($c:literal $rust:ident { $($field:ident),* $(,)? })*) => {
        vec![$(
            $((format!("offsetof({}, {})", $c, c_name($c, stringify!($field))), offset_of!($rust, $field)),)*
        )*]
    };
}

/// Where fields are named otherwise in C.
fn c_name(kind: &str, field: &str) -> String {
    match (kind, field) {
        ("struct ibv_send_wr", "remote_addr" | "rkey") => format!("wr.rdma.{field}"),
        ("struct ibv_send_wr", "bind_mw") => "bind_mw.mw".to_owned(),
        ("struct ibv_send_wr", "bind_rkey") => "bind_mw.rkey".to_owned(),
        ("struct ibv_send_wr", "bind_info") => "bind_mw.bind_info".to_owned(),
        ("struct ibv_mw", "kind") => "type".to_owned(),
        (_, field) => field.to_owned(),
    }
}

#[test]
#[allow(clippy::too_many_lines, reason = "a line for each field")]
fn layouts_are_those_of_the_header() {
    let Some(include) = header() else {
        println!("skipped: no infiniband/verbs.h (Debian: apt install libibverbs-dev)");
        return;
    };
    let mut facts = facts! {
        "struct ibv_context" Context { device, ops, cmd_fd, async_fd, num_comp_vectors }
        "struct ibv_context_ops" ContextOps { alloc_mw, dealloc_mw, poll_cq, req_notify_cq, post_send, post_recv }
        "struct ibv_pd" Pd { context, handle }
        "struct ibv_mr" Mr { context, pd, addr, length, handle, lkey, rkey }
        "struct ibv_mw" Mw { context, pd, rkey, handle, kind }
        "struct ibv_mw_bind_info" MwBindInfo { mr, addr, length, mw_access_flags }
        "struct ibv_comp_channel" CompChannel { context, fd, refcnt }
        "struct ibv_cq" Cq { context, channel, cq_context, handle, cqe }
        "struct ibv_qp" Qp { context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type }
        "struct ibv_qp_init_attr" QpInitAttr { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        "struct ibv_qp_cap" QpCap { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        "struct ibv_global_route" GlobalRoute { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        "struct ibv_ah_attr" AhAttr { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        "struct ibv_qp_attr" QpAttr {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap, ah_attr,
            alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic,
            min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout, rate_limit,
        }
        "struct ibv_sge" Sge { addr, length, lkey }
        "struct ibv_send_wr" SendWr {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, remote_addr, rkey, bind_mw, bind_rkey, bind_info,
        }
        "struct ibv_recv_wr" RecvWr { wr_id, next, sg_list, num_sge }
        "struct ibv_wc" Wc {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid, sl, dlid_path_bits,
        }
        "struct ibv_port_attr" PortAttr { state, max_mtu, active_mtu, gid_tbl_len, phys_state, link_layer, flags }
        "struct ibv_gid_entry" GidEntry { gid, gid_index, port_num, gid_type, ndev_ifindex }
        "struct ibv_async_event" AsyncEvent { element, event_type }
    };
    let sizes: [(&str, usize); 18] = [
        ("struct ibv_context_ops", size_of::<ContextOps>()),
        ("struct ibv_mr", size_of::<Mr>()),
        ("struct ibv_mw", size_of::<Mw>()),
        ("struct ibv_mw_bind_info", size_of::<MwBindInfo>()),
        ("struct ibv_comp_channel", size_of::<CompChannel>()),
        ("struct ibv_qp_init_attr", size_of::<QpInitAttr>()),
        ("struct ibv_ah_attr", size_of::<AhAttr>()),
        ("struct ibv_qp_attr", size_of::<QpAttr>()),
        ("struct ibv_sge", size_of::<Sge>()),
        ("struct ibv_send_wr", size_of::<SendWr>()),
        ("struct ibv_recv_wr", size_of::<RecvWr>()),
        ("struct ibv_wc", size_of::<Wc>()),
        ("struct ibv_port_attr", size_of::<PortAttr>()),
        ("struct ibv_gid_entry", size_of::<GidEntry>()),
        ("struct ibv_async_event", size_of::<AsyncEvent>()),
        ("union ibv_gid", size_of::<Gid>()),
        ("enum ibv_qp_state", size_of::<u32>()),
        ("enum ibv_wc_status", size_of::<u32>()),
    ];
    facts.extend(sizes.map(|(kind, size)| (format!("sizeof({kind})"), size)));
    facts.extend(values().map(|(name, value)| (name.to_owned(), value)));
    let prints: String =
        facts.iter().map(|(fact, _)| format!("printf(\"%ld\\n\", (long)({fact}));\n")).collect();
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("facts.c"), folder.path().join("facts"));
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\nint main(void) {{\n{prints}return 0;\n}}\n"
    );
    std::fs::write(&source, text).unwrap();
    let compiled = Command::new("cc").arg("-I").arg(&include).arg("-o").arg(&program).arg(&source).output();
    let Ok(compiled) = compiled else {
        println!("skipped: no C compiler");
        return;
    };
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), facts.len());
    for ((fact, ours), theirs) in facts.iter().zip(printed.lines()) {
        assert_eq!(ours.to_string(), theirs, "{fact}");
    }
}

fn values() -> [(&'static str, usize); 26] {
    [
        ("IBV_PORT_ACTIVE", PORT_ACTIVE as usize),
        ("IBV_QPT_RC", QPT_RC as usize),
        ("IBV_QPS_INIT", QPS_INIT as usize),
        ("IBV_QPS_RTR", QPS_RTR as usize),
        ("IBV_QPS_RTS", QPS_RTS as usize),
        ("IBV_ACCESS_LOCAL_WRITE", ACCESS_LOCAL_WRITE as usize),
        ("IBV_ACCESS_REMOTE_WRITE", ACCESS_REMOTE_WRITE as usize),
        ("IBV_QPS_ERR", QPS_ERR as usize),
        ("IBV_EVENT_CQ_ERR", EVENT_CQ_ERR as usize),
        ("IBV_ACCESS_MW_BIND", ACCESS_MW_BIND as usize),
        ("IBV_MW_TYPE_2", MW_TYPE_2 as usize),
        ("IBV_WR_BIND_MW", WR_BIND_MW as usize),
        ("IBV_WR_RDMA_WRITE_WITH_IMM", WR_RDMA_WRITE_WITH_IMM as usize),
        ("IBV_SEND_SIGNALED", SEND_SIGNALED as usize),
        ("IBV_SEND_INLINE", SEND_INLINE as usize),
        ("IBV_WC_RECV_RDMA_WITH_IMM", WC_RECV_RDMA_WITH_IMM as usize),
        ("IBV_WC_WR_FLUSH_ERR", WC_WR_FLUSH_ERR as usize),
        ("IBV_WC_RETRY_EXC_ERR", WC_RETRY_EXC_ERR as usize),
        ("IBV_QP_STATE|IBV_QP_ACCESS_FLAGS|IBV_QP_PKEY_INDEX|IBV_QP_PORT|IBV_QP_AV|IBV_QP_PATH_MTU", {
            (QP_STATE | QP_ACCESS_FLAGS | QP_PKEY_INDEX | QP_PORT | QP_AV | QP_PATH_MTU) as usize
        }),
        ("IBV_QP_TIMEOUT|IBV_QP_RETRY_CNT|IBV_QP_RNR_RETRY|IBV_QP_RQ_PSN|IBV_QP_MAX_QP_RD_ATOMIC", {
            (QP_TIMEOUT | QP_RETRY_CNT | QP_RNR_RETRY | QP_RQ_PSN | QP_MAX_QP_RD_ATOMIC) as usize
        }),
        ("IBV_QP_MIN_RNR_TIMER|IBV_QP_SQ_PSN|IBV_QP_MAX_DEST_RD_ATOMIC|IBV_QP_DEST_QPN", {
            (QP_MIN_RNR_TIMER | QP_SQ_PSN | QP_MAX_DEST_RD_ATOMIC | QP_DEST_QPN) as usize
        }),
        ("IBV_EVENT_DEVICE_FATAL", EVENT_DEVICE_FATAL as usize),
        ("IBV_EVENT_PORT_ACTIVE", EVENT_PORT_ACTIVE as usize),
        ("IBV_EVENT_PORT_ERR", EVENT_PORT_ERR as usize),
        ("IBV_EVENT_GID_CHANGE", EVENT_GID_CHANGE as usize),
        ("IBV_GID_TYPE_ROCE_V2", GID_TYPE_ROCE_V2 as usize),
    ]
}
