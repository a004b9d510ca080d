//! Layouts of NCCL's interface for profilers: what each version says of an event. A test has a C compiler measure each of them.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::types::{LogFunction, Out, Text};

/// Of a collective, v1: functions, algorithms and protocols are numbers.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollEventV1 {
    /// The communicator's name, and its number, which names it on all its ranks.
    pub communicator: *const c_char,
    /// The communicator's number.
    pub hash: u64,
    /// Number of the collective in its communicator.
    pub sequence: u64,
    /// Number of the function.
    pub function: u8,
    /// Where it reads and writes.
    pub buffers: [*mut c_void; 2],
    /// Number of elements.
    pub count: usize,
    /// The root, where it has one.
    pub root: c_int,
    /// Number of the elements' type.
    pub datatype: u8,
    /// Number of the reduction.
    pub reduction: u32,
    /// Bytes that it moves.
    pub traffic: usize,
    /// Channels.
    pub channels: u8,
    /// Warps of each channel.
    pub warps: u8,
    /// Number of the algorithm.
    pub algorithm: u8,
    /// Number of the protocol.
    pub protocol: u8,
    /// Whether CollNet is used.
    pub collnet: c_int,
    /// Whether NVLS is used.
    pub nvls: c_int,
}

/// Of a collective, v2.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollEventV2 {
    /// The communicator's name.
    pub communicator: *const c_char,
    /// The communicator's number.
    pub hash: u64,
    /// Number of the collective in its communicator.
    pub sequence: u64,
    /// Its name.
    pub function: *const c_char,
    /// Where it reads and writes.
    pub buffers: [*mut c_void; 2],
    /// Number of elements.
    pub count: usize,
    /// The root, where it has one.
    pub root: c_int,
    /// The elements' type.
    pub datatype: *const c_char,
    /// Bytes that it moves.
    pub traffic: usize,
    /// Channels.
    pub channels: u8,
    /// Warps of each channel.
    pub warps: u8,
    /// Name of the algorithm.
    pub algorithm: *const c_char,
    /// Name of the protocol.
    pub protocol: *const c_char,
}

/// Of a collective, v3.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollEventV3 {
    /// The communicator's name.
    pub communicator: *const c_char,
    /// The communicator's number.
    pub hash: u64,
    /// The rest, as later versions have it.
    pub coll: CollEvent,
}

/// Of a collective, v4 to v6: the fields of its descriptor that are read.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct CollEvent {
    /// Number of the collective in its communicator.
    pub sequence: u64,
    /// Its name.
    pub function: *const c_char,
    /// Where it reads and writes.
    pub buffers: [*mut c_void; 2],
    /// Number of elements.
    pub count: usize,
    /// The root, where it has one.
    pub root: c_int,
    /// The elements' type.
    pub datatype: *const c_char,
    /// Channels and warps.
    pub channels: u8,
    /// Warps of each channel.
    pub warps: u8,
    /// Name of the algorithm.
    pub algorithm: *const c_char,
    /// Name of the protocol.
    pub protocol: *const c_char,
}

/// Of a message between two ranks, v1.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct P2pEventV1 {
    /// The communicator's name.
    pub communicator: *const c_char,
    /// The communicator's number.
    pub hash: u64,
    /// Number of the function.
    pub function: u8,
    /// Where it reads or writes.
    pub buffer: *mut c_void,
    /// Number of the elements' type.
    pub datatype: u8,
    /// Number of elements.
    pub count: usize,
    /// The other rank.
    pub peer: c_int,
}

/// Of a message between two ranks, v2 and v3.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct P2pEventV2 {
    /// The communicator's name.
    pub communicator: *const c_char,
    /// The communicator's number.
    pub hash: u64,
    /// The rest, as later versions have it.
    pub p2p: P2pEvent,
}

/// Of a message between two ranks, v4 to v6.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct P2pEvent {
    /// Its name.
    pub function: *const c_char,
    /// Where it reads or writes.
    pub buffer: *mut c_void,
    /// The elements' type.
    pub datatype: *const c_char,
    /// Number of elements.
    pub count: usize,
    /// The other rank.
    pub peer: c_int,
}

/// Of what the proxy does for one channel.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ProxyOpEvent {
    /// The process that asked for it.
    pub pid: c_int,
    /// The channel.
    pub channel: u8,
    /// The other rank.
    pub peer: c_int,
    /// Messages.
    pub steps: c_int,
    /// Bytes of each.
    pub chunk: c_int,
    /// Whether this rank sends.
    pub sends: c_int,
}

macro_rules! payload {
    ($(#[$doc:meta])* $name:ident: $coll:ty, $p2p:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub union $name {
            /// A collective.
            pub coll: $coll,
            /// A message between two ranks.
            pub p2p: $p2p,
            /// What the proxy does.
            pub proxy_op: ProxyOpEvent,
            /// The number of one of its messages.
            pub proxy_step: c_int,
        }
    };
}

payload! {
    /// What an event is of, v1; which field counts is said by its kind.
    PayloadV1: CollEventV1, P2pEventV1
}
payload! {
    /// What an event is of, v2.
    PayloadV2: CollEventV2, P2pEventV2
}
payload! {
    /// What an event is of, v3.
    PayloadV3: CollEventV3, P2pEventV2
}
payload! {
    /// What an event is of, v4 to v6.
    Payload: CollEvent, P2pEvent
}

macro_rules! descriptor {
    ($(#[$doc:meta])* $name:ident: $kind:ty, $payload:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        #[repr(C)]
        pub struct $name {
            /// The event's kind, one bit.
            pub kind: $kind,
            /// The event that it is part of.
            pub parent: *mut c_void,
            /// The rank.
            pub rank: c_int,
            /// What it is of.
            pub payload: $payload,
        }
    };
}

descriptor! {
    /// An event, v1.
    EventV1: u8, PayloadV1
}
descriptor! {
    /// An event, v2.
    EventV2: u8, PayloadV2
}
descriptor! {
    /// An event, v3.
    EventV3: u8, PayloadV3
}
descriptor! {
    /// An event, v4.
    EventV4: u8, Payload
}
descriptor! {
    /// An event, v5 and v6.
    EventV5: u64, Payload
}

/// How far one of the proxy's operations is, v1 to v3: what its states come with.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct OperationProgress {
    /// Bytes of all its messages so far.
    pub bytes: usize,
    /// Number of the steps that have come so far.
    pub steps: c_int,
}

/// What a state comes with, v4 to v6: the size of a message, for states of messages.
pub type StepProgress = usize;

/// A communicator begins, v1 to v3: NCCL says nothing of it before its first event.
pub type InitV1 = unsafe extern "C" fn(Out, *mut c_int) -> c_int;
/// A communicator begins, v4.
pub type InitV4 = unsafe extern "C" fn(
    Out,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Option<LogFunction>,
) -> c_int;
/// A communicator begins, v5 and v6.
pub type InitV5 = unsafe extern "C" fn(
    Out,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Option<LogFunction>,
) -> c_int;

/// What the profiler gives to NCCL: its entries.
#[derive(Debug)]
#[repr(C)]
pub struct ProfilerTable<Init, Event, Progress> {
    /// The profiler's name, for logs.
    pub name: Text,
    /// A communicator begins.
    pub init: Option<Init>,
    /// An event begins.
    pub start_event: Option<unsafe extern "C" fn(*mut c_void, Out, *mut Event) -> c_int>,
    /// An event ends.
    pub stop_event: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// An event is in another state.
    pub record_event_state: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut Progress) -> c_int>,
    /// A communicator ends.
    pub finalize: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
}

/// The profiler's table, v1.
pub type ProfilerV1 = ProfilerTable<InitV1, EventV1, OperationProgress>;
/// The profiler's table, v2.
pub type ProfilerV2 = ProfilerTable<InitV1, EventV2, OperationProgress>;
/// The profiler's table, v3.
pub type ProfilerV3 = ProfilerTable<InitV1, EventV3, OperationProgress>;
/// The profiler's table, v4.
pub type ProfilerV4 = ProfilerTable<InitV4, EventV4, StepProgress>;
/// The profiler's table, v5 and v6.
pub type ProfilerV5 = ProfilerTable<InitV5, EventV5, StepProgress>;
