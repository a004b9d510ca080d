//! The calls of one version of NCCL's interface for profilers: descriptors in its layout, states with what they come with.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use rail_nccl_net::abi::{
    CollEvent, CollEventV1, CollEventV2, CollEventV3, EventV1, EventV2, EventV3, EventV4, EventV5,
    OperationProgress, P2pEvent, P2pEventV1, P2pEventV2, Payload, PayloadV1, PayloadV2, PayloadV3,
    ProfilerV1, ProfilerV2, ProfilerV3, ProfilerV4, ProfilerV5, ProxyOpEvent,
};

use crate::plugin::{logged, logger};

/// NCCL's numbers of functions, algorithms and protocols, and their names.
pub const FUNCTIONS: [&CStr; 8] =
    [c"Broadcast", c"Reduce", c"AllGather", c"ReduceScatter", c"AllReduce", c"SendRecv", c"Send", c"Recv"];
pub const ALGORITHMS: [&CStr; 7] =
    [c"TREE", c"RING", c"COLLNET_DIRECT", c"COLLNET_CHAIN", c"NVLS", c"NVLS_TREE", c"PAT"];
pub const PROTOCOLS: [&CStr; 3] = [c"LL", c"LL128", c"SIMPLE"];

/// What begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Group,
    Coll { sequence: u64, function: usize, algorithm: usize, protocol: usize, count: usize },
    P2p { function: usize, peer: i32, count: usize },
    Op { pid: i32, channel: u8, peer: i32, sends: bool },
    Step(i32),
}

impl What {
    fn kind(self) -> u8 {
        match self {
            Self::Group => 1,
            Self::Coll { .. } => 1 << 1,
            Self::P2p { .. } => 1 << 2,
            Self::Op { .. } => 1 << 3,
            Self::Step(_) => 1 << 4,
        }
    }
}

enum Table {
    V1(&'static ProfilerV1),
    V2(&'static ProfilerV2),
    V3(&'static ProfilerV3),
    V4(&'static ProfilerV4),
    V5(&'static ProfilerV5),
}

macro_rules! each {
    ($table:expr, $name:ident => $call:expr) => {
        match $table {
            Table::V1($name) => $call,
            Table::V2($name) => $call,
            Table::V3($name) => $call,
            Table::V4($name) => $call,
            Table::V5($name) => $call,
        }
    };
}

fn ok(code: c_int) {
    assert_eq!(code, 0, "{:?}", logged());
}

/// The profiler of one version, as NCCL has loaded it.
pub struct Calls {
    table: Table,
    pub version: u64,
}

/// A communicator, as NCCL knows it.
#[derive(Debug, Clone, Copy)]
pub struct Communicator {
    pub context: *mut c_void,
    pub mask: c_int,
    pub hash: u64,
    pub rank: i32,
}

impl Calls {
    pub fn load(path: &Path, version: u64) -> Self {
        // SAFETY: the library was built with this test, and is never closed.
        let library = Box::leak(Box::new(unsafe { libloading::Library::new(path) }.unwrap()));
        let symbol = format!("ncclProfiler_v{version}");
        macro_rules! table {
            ($type:ty) => {{
                // SAFETY: the symbol of this name is a static of this type, and the library is never closed.
                unsafe { &**library.get::<*const $type>(symbol.as_bytes()).unwrap() }
            }};
        }
        let table = match version {
            1 => Table::V1(table!(ProfilerV1)),
            2 => Table::V2(table!(ProfilerV2)),
            3 => Table::V3(table!(ProfilerV3)),
            4 => Table::V4(table!(ProfilerV4)),
            _ => Table::V5(table!(ProfilerV5)),
        };
        Self { table, version }
    }

    pub fn begin(&self, hash: u64, rank: i32, ranks: i32) -> Communicator {
        let (mut context, mut mask) = (null_mut(), -1);
        let (place, kinds, name) = (&raw mut context, &raw mut mask, c"name".as_ptr());
        // SAFETY: the log function is good for ever, and places live while a call lasts.
        ok(unsafe {
            match &self.table {
                Table::V1(table) => table.init.unwrap()(place, kinds),
                Table::V2(table) => table.init.unwrap()(place, kinds),
                Table::V3(table) => table.init.unwrap()(place, kinds),
                Table::V4(table) => table.init.unwrap()(place, kinds, name, hash, 2, ranks, rank, logger()),
                Table::V5(table) => table.init.unwrap()(place, hash, kinds, name, 2, ranks, rank, logger()),
            }
        });
        Communicator { context, mask, hash, rank }
    }

    pub fn end(&self, communicator: &Communicator) {
        // SAFETY: a number.
        ok(unsafe { each!(&self.table, table => table.finalize.unwrap()(communicator.context)) });
    }

    pub fn start(&self, communicator: &Communicator, parent: *mut c_void, what: What) -> *mut c_void {
        let mut handle = null_mut();
        let (context, place, kind) = (communicator.context, &raw mut handle, what.kind());
        // NCCL says no rank where a group begins.
        let rank = if what == What::Group { 0 } else { communicator.rank };
        macro_rules! start {
            ($table:ident, $event:ident, $payload:expr) => {{
                let mut event = $event { kind: kind.into(), parent, rank, payload: $payload };
                // SAFETY: the payload is of this kind, and places live while a call lasts.
                ok(unsafe { $table.start_event.unwrap()(context, place, &raw mut event) });
            }};
        }
        let hash = communicator.hash;
        match &self.table {
            Table::V1(table) => start!(table, EventV1, payload_v1(hash, what)),
            Table::V2(table) => start!(table, EventV2, payload_v2(hash, what)),
            Table::V3(table) => start!(table, EventV3, payload_v3(hash, what)),
            Table::V4(table) => start!(table, EventV4, payload(what)),
            Table::V5(table) => start!(table, EventV5, payload(what)),
        }
        handle
    }

    pub fn stop(&self, event: *mut c_void) {
        // SAFETY: a number.
        ok(unsafe { each!(&self.table, table => table.stop_event.unwrap()(event)) });
    }

    /// A message's state: up to v3 nothing comes with it, later a size.
    pub fn state(&self, event: *mut c_void, state: c_int, mut size: usize) {
        let (none, size) = (null_mut(), &raw mut size);
        // SAFETY: a number, and a place that lives while the call lasts.
        ok(unsafe {
            match &self.table {
                Table::V1(table) => table.record_event_state.unwrap()(event, state, none),
                Table::V2(table) => table.record_event_state.unwrap()(event, state, none),
                Table::V3(table) => table.record_event_state.unwrap()(event, state, none),
                Table::V4(table) => table.record_event_state.unwrap()(event, state, size),
                Table::V5(table) => table.record_event_state.unwrap()(event, state, size),
            }
        });
    }

    /// An operation's state, which NCCL tells up to v3 alone.
    pub fn progress(&self, event: *mut c_void, state: c_int, steps: i32, bytes: usize) {
        let mut progress = OperationProgress { bytes, steps };
        let place = &raw mut progress;
        // SAFETY: a number, and a place that lives while the call lasts.
        ok(unsafe {
            match &self.table {
                Table::V1(table) => table.record_event_state.unwrap()(event, state, place),
                Table::V2(table) => table.record_event_state.unwrap()(event, state, place),
                Table::V3(table) => table.record_event_state.unwrap()(event, state, place),
                _ => 0,
            }
        });
    }
}

fn op(what: What) -> ProxyOpEvent {
    match what {
        What::Op { pid, channel, peer, sends } => {
            ProxyOpEvent { pid, channel, peer, steps: 1, chunk: 1, sends: sends.into() }
        }
        // What is not read is anything.
        _ => ProxyOpEvent { pid: -1, channel: 255, peer: -1, steps: -1, chunk: -1, sends: -1 },
    }
}

fn payload_v1(hash: u64, what: What) -> PayloadV1 {
    let communicator = c"name".as_ptr();
    match what {
        What::Coll { sequence, function, algorithm, protocol, count } => PayloadV1 {
            coll: CollEventV1 {
                communicator,
                hash,
                sequence,
                function: function as u8,
                buffers: [null_mut(); 2],
                count,
                root: 0,
                datatype: 7,
                reduction: 0,
                traffic: 0,
                channels: 1,
                warps: 1,
                algorithm: algorithm as u8,
                protocol: protocol as u8,
                collnet: 0,
                nvls: 0,
            },
        },
        What::P2p { function, peer, count } => {
            let (function, buffer) = (function as u8, null_mut());
            PayloadV1 { p2p: P2pEventV1 { communicator, hash, function, buffer, datatype: 7, count, peer } }
        }
        What::Step(step) => PayloadV1 { proxy_step: step },
        other => PayloadV1 { proxy_op: op(other) },
    }
}

fn coll(what: What) -> Option<CollEvent> {
    let What::Coll { sequence, function, algorithm, protocol, count } = what else { return None };
    Some(CollEvent {
        sequence,
        function: FUNCTIONS[function].as_ptr(),
        buffers: [null_mut(); 2],
        count,
        root: 0,
        datatype: c"ncclFloat32".as_ptr(),
        channels: 1,
        warps: 1,
        algorithm: ALGORITHMS[algorithm].as_ptr(),
        protocol: PROTOCOLS[protocol].as_ptr(),
    })
}

fn p2p(what: What) -> Option<P2pEvent> {
    let What::P2p { function, peer, count } = what else { return None };
    let (function, datatype) = (FUNCTIONS[function].as_ptr(), c"ncclFloat32".as_ptr());
    Some(P2pEvent { function, buffer: null_mut(), datatype, count, peer })
}

fn payload_v2(hash: u64, what: What) -> PayloadV2 {
    let communicator = c"name".as_ptr();
    if let Some(CollEvent {
        sequence,
        function,
        buffers,
        count,
        root,
        datatype,
        channels,
        warps,
        algorithm,
        protocol,
    }) = coll(what)
    {
        let traffic = 0;
        return PayloadV2 {
            coll: CollEventV2 {
                communicator,
                hash,
                sequence,
                function,
                buffers,
                count,
                root,
                datatype,
                traffic,
                channels,
                warps,
                algorithm,
                protocol,
            },
        };
    }
    match (p2p(what), what) {
        (Some(p2p), _) => PayloadV2 { p2p: P2pEventV2 { communicator, hash, p2p } },
        (_, What::Step(step)) => PayloadV2 { proxy_step: step },
        _ => PayloadV2 { proxy_op: op(what) },
    }
}

fn payload_v3(hash: u64, what: What) -> PayloadV3 {
    let communicator = c"name".as_ptr();
    match (coll(what), p2p(what), what) {
        (Some(coll), ..) => PayloadV3 { coll: CollEventV3 { communicator, hash, coll } },
        (_, Some(p2p), _) => PayloadV3 { p2p: P2pEventV2 { communicator, hash, p2p } },
        (_, _, What::Step(step)) => PayloadV3 { proxy_step: step },
        _ => PayloadV3 { proxy_op: op(what) },
    }
}

fn payload(what: What) -> Payload {
    match (coll(what), p2p(what), what) {
        (Some(coll), ..) => Payload { coll },
        (_, Some(p2p), _) => Payload { p2p },
        (_, _, What::Step(step)) => Payload { proxy_step: step },
        _ => Payload { proxy_op: op(what) },
    }
}
