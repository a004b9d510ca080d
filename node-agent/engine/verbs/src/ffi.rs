//! The part of libibverbs' interface that is used here: types, constants and signatures as in `infiniband/verbs.h` of rdma-core.
//! The layouts are part of its ABI (symbol versions IBVERBS_1.0 to IBVERBS_1.11) and never change.
#![allow(missing_docs, reason = "the names are those of infiniband/verbs.h, which documents them")]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// `struct ibv_device` of libibverbs (`infiniband/verbs.h`): an RDMA device, opaque here.
#[repr(C)]
pub struct Device {
    _opaque: [u8; 0],
}

/// `struct ibv_context`, as far as it is read here; the library makes it.
#[repr(C)]
pub struct Context {
    pub device: *mut Device,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
}

/// A function that is not called here.
pub type Unused = *const c_void;

/// `struct ibv_context_ops`: the calls of the data path, which the device's own library provides.
#[repr(C)]
pub struct ContextOps {
    pub before_windows: [Unused; 7],
    pub alloc_mw: Option<unsafe extern "C" fn(*mut Pd, c_uint) -> *mut Mw>,
    pub bind_mw: Unused,
    pub dealloc_mw: Option<unsafe extern "C" fn(*mut Mw) -> c_int>,
    pub before_poll: Unused,
    pub poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    pub before_post: [Unused; 12],
    pub post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub after_post: [Unused; 5],
}

/// `struct ibv_pd`: a protection domain; only what is in the same one can be used together.
#[repr(C)]
pub struct Pd {
    pub context: *mut Context,
    pub handle: u32,
}

/// `struct ibv_mr`: a registered memory region with its keys.
#[repr(C)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// `struct ibv_mw`: a memory window, a part of a region that is opened to one queue pair.
#[repr(C)]
pub struct Mw {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub rkey: u32,
    pub handle: u32,
    pub kind: c_uint,
}

/// `struct ibv_mw_bind_info`: the part of a region that a memory window is bound to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MwBindInfo {
    pub mr: *mut Mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

/// `struct ibv_comp_channel`: a file descriptor on which events of completion queues arrive.
#[repr(C)]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}

/// `struct ibv_cq`, as far as it is read here; the library makes it.
#[repr(C)]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
}

/// `struct ibv_qp`, as far as it is read here; the library makes it.
#[repr(C)]
pub struct Qp {
    pub context: *mut Context,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub handle: u32,
    pub qp_num: u32,
    pub state: c_uint,
    pub qp_type: c_uint,
}

/// `struct ibv_qp_cap`: how many requests and elements the queues of a queue pair have room for.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`: what a queue pair is made with.
#[repr(C)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub cap: QpCap,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

/// `struct ibv_global_route`: the IP part of an address (GID, hop limit, traffic class).
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct GlobalRoute {
    /// `union ibv_gid`, which is aligned as a number of 64 bits.
    pub dgid: Gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// `union ibv_gid`: an address of a port; with RoCEv2 an IPv6 or an IPv4-mapped address, in network byte order.
#[repr(C, align(8))]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gid(pub [u8; 16]);

/// `struct ibv_ah_attr`: the address to which a queue pair sends.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// `struct ibv_qp_attr`: attributes of a queue pair; a mask of `QP_...` says which ones are meant.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct QpAttr {
    pub qp_state: c_uint,
    pub cur_qp_state: c_uint,
    pub path_mtu: c_uint,
    pub path_mig_state: c_uint,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

/// `struct ibv_sge`: one range of registered memory of a request.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// `struct ibv_send_wr`: of its unions only the arms for RDMA and for memory windows, and room for the others.
#[repr(C)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    /// In network byte order.
    pub imm_data: u32,
    pub remote_addr: u64,
    pub rkey: u32,
    pub rest: [u64; 3],
    pub bind_mw: *mut Mw,
    pub bind_rkey: u32,
    pub bind_info: MwBindInfo,
}

/// `struct ibv_recv_wr`: a receive request.
#[repr(C)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

/// `struct ibv_wc`: the completion of a request.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Wc {
    pub wr_id: u64,
    pub status: c_uint,
    pub opcode: c_uint,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// In network byte order.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

/// `struct ibv_port_attr`. `ibv_query_port`, called as a symbol, fills it up to `flags`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PortAttr {
    pub state: c_uint,
    pub max_mtu: c_uint,
    pub active_mtu: c_uint,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

/// `struct ibv_gid_entry`: one entry of a port's table of GIDs.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct GidEntry {
    pub gid: Gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

/// `struct ibv_async_event`: an event of a device, a port, a queue pair or a completion queue.
#[repr(C)]
pub struct AsyncEvent {
    /// A pointer, or the number of a port in its first bytes.
    pub element: u64,
    pub event_type: c_uint,
}

/// `enum ibv_gid_type`, as tables of GIDs have it.
pub const GID_TYPE_ROCE_V2: u32 = 2;
/// `IBV_PORT_ACTIVE` of `enum ibv_port_state`: the port is up.
pub const PORT_ACTIVE: c_uint = 4;
/// `IBV_QPT_RC` of `enum ibv_qp_type`: reliable connection.
pub const QPT_RC: c_uint = 2;
/// `enum ibv_qp_state`: the states through which a queue pair goes.
pub const QPS_INIT: c_uint = 1;
pub const QPS_RTR: c_uint = 2;
pub const QPS_RTS: c_uint = 3;
pub const QPS_ERR: c_uint = 6;
/// `enum ibv_access_flags`: what a registered region or a queue pair permits.
pub const ACCESS_LOCAL_WRITE: c_uint = 1;
pub const ACCESS_REMOTE_WRITE: c_uint = 1 << 1;
pub const ACCESS_MW_BIND: c_uint = 1 << 4;
/// `IBV_MW_TYPE_2` of `enum ibv_mw_type`: a window that is bound by a request to a queue pair.
pub const MW_TYPE_2: c_uint = 2;
/// `enum ibv_wr_opcode`: what a send request does.
pub const WR_RDMA_WRITE_WITH_IMM: c_uint = 1;
pub const WR_BIND_MW: c_uint = 8;
/// `enum ibv_send_flags`: options of a send request.
pub const SEND_SIGNALED: c_uint = 1 << 1;
pub const SEND_INLINE: c_uint = 1 << 3;
/// `IBV_WC_RECV_RDMA_WITH_IMM` of `enum ibv_wc_opcode`: a remote write with immediate data used up a receive request.
pub const WC_RECV_RDMA_WITH_IMM: c_uint = (1 << 7) + 1;
/// `enum ibv_wc_status`: how a request ended.
pub const WC_SUCCESS: c_uint = 0;
pub const WC_WR_FLUSH_ERR: c_uint = 5;
pub const WC_RETRY_EXC_ERR: c_uint = 12;
/// `enum ibv_qp_attr_mask`: which attributes of a [`QpAttr`] a call sets.
pub const QP_STATE: c_int = 1;
pub const QP_ACCESS_FLAGS: c_int = 1 << 3;
pub const QP_PKEY_INDEX: c_int = 1 << 4;
pub const QP_PORT: c_int = 1 << 5;
pub const QP_AV: c_int = 1 << 7;
pub const QP_PATH_MTU: c_int = 1 << 8;
pub const QP_TIMEOUT: c_int = 1 << 9;
pub const QP_RETRY_CNT: c_int = 1 << 10;
pub const QP_RNR_RETRY: c_int = 1 << 11;
pub const QP_RQ_PSN: c_int = 1 << 12;
pub const QP_MAX_QP_RD_ATOMIC: c_int = 1 << 13;
pub const QP_MIN_RNR_TIMER: c_int = 1 << 15;
pub const QP_SQ_PSN: c_int = 1 << 16;
pub const QP_MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
pub const QP_DEST_QPN: c_int = 1 << 20;
/// `enum ibv_event_type`: what an [`AsyncEvent`] says.
pub const EVENT_CQ_ERR: c_uint = 0;
pub const EVENT_DEVICE_FATAL: c_uint = 8;
pub const EVENT_PORT_ACTIVE: c_uint = 9;
pub const EVENT_PORT_ERR: c_uint = 10;
pub const EVENT_GID_CHANGE: c_uint = 18;

/// The functions that are called by name.
pub type GetDeviceList = unsafe extern "C" fn(*mut c_int) -> *mut *mut Device;
pub type FreeDeviceList = unsafe extern "C" fn(*mut *mut Device);
pub type GetDeviceName = unsafe extern "C" fn(*mut Device) -> *const c_char;
pub type OpenDevice = unsafe extern "C" fn(*mut Device) -> *mut Context;
pub type CloseDevice = unsafe extern "C" fn(*mut Context) -> c_int;
pub type QueryPort = unsafe extern "C" fn(*mut Context, u8, *mut PortAttr) -> c_int;
pub type QueryGidTable = unsafe extern "C" fn(*mut Context, *mut GidEntry, usize, u32, usize) -> isize;
pub type AllocPd = unsafe extern "C" fn(*mut Context) -> *mut Pd;
pub type DeallocPd = unsafe extern "C" fn(*mut Pd) -> c_int;
pub type RegMr = unsafe extern "C" fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
/// Of a range of a dma-buf: offset in it, length, address that work requests name it by, descriptor, access (rdma-core 34).
pub type RegDmabufMr = unsafe extern "C" fn(*mut Pd, u64, usize, u64, c_int, c_int) -> *mut Mr;
pub type DeregMr = unsafe extern "C" fn(*mut Mr) -> c_int;
pub type CreateCompChannel = unsafe extern "C" fn(*mut Context) -> *mut CompChannel;
pub type DestroyCompChannel = unsafe extern "C" fn(*mut CompChannel) -> c_int;
pub type CreateCq =
    unsafe extern "C" fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
pub type DestroyCq = unsafe extern "C" fn(*mut Cq) -> c_int;
pub type GetCqEvent = unsafe extern "C" fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
pub type AckCqEvents = unsafe extern "C" fn(*mut Cq, c_uint);
pub type CreateQp = unsafe extern "C" fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
pub type ModifyQp = unsafe extern "C" fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
pub type DestroyQp = unsafe extern "C" fn(*mut Qp) -> c_int;
pub type GetAsyncEvent = unsafe extern "C" fn(*mut Context, *mut AsyncEvent) -> c_int;
pub type AckAsyncEvent = unsafe extern "C" fn(*mut AsyncEvent);
