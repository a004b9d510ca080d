//! `ncclProfiler_v4` to `ncclProfiler_v6`, written from the facts of NCCL's interface for profilers.
#![allow(non_upper_case_globals, reason = "NCCL looks for these names")]

use std::ffi::{CStr, c_char, c_int, c_void};

use super::entry::{Kind, name, number, put};
use super::log::Logger;
use super::types::{LogFunction, Out, Text};
use super::versions::NAME;
use crate::error::Code;
use crate::process::attempt;
use crate::profiler::{self, Beginning, Event, State};

/// NCCL's kinds of events: collectives, messages between two ranks, what the proxy does for one, and its messages.
const COLL: u64 = 1 << 1;
const P2P: u64 = 1 << 2;
const PROXY_OP: u64 = 1 << 3;
const PROXY_STEP: u64 = 1 << 4;
/// Bytes of a name that are read at most.
const NAME_BYTES: usize = 64;

/// Of a collective: the fields of its descriptor that are read.
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

/// Of a message between two ranks.
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

/// What an event is of; which field counts is said by its kind.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Payload {
    /// A collective.
    pub coll: CollEvent,
    /// A message between two ranks.
    pub p2p: P2pEvent,
    /// What the proxy does.
    pub proxy_op: ProxyOpEvent,
}

macro_rules! descriptor {
    ($(#[$doc:meta])* $name:ident: $kind:ty) => {
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
            pub payload: Payload,
        }
    };
}

descriptor! {
    /// An event, v4.
    EventV4: u8
}
descriptor! {
    /// An event, v5 and v6.
    EventV5: u64
}

type InitV4 = unsafe extern "C" fn(
    Out,
    *mut c_int,
    *const c_char,
    u64,
    c_int,
    c_int,
    c_int,
    Option<LogFunction>,
) -> c_int;
type InitV5 = unsafe extern "C" fn(
    Out,
    u64,
    *mut c_int,
    *const c_char,
    c_int,
    c_int,
    c_int,
    Option<LogFunction>,
) -> c_int;

macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $init:ty, $event:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[repr(C)]
        pub struct $name {
            /// The profiler's name, for logs.
            pub name: Text,
            /// A communicator begins.
            pub init: Option<$init>,
            /// An event begins.
            pub start_event: Option<unsafe extern "C" fn(*mut c_void, Out, *mut $event) -> c_int>,
            /// An event ends.
            pub stop_event: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
            /// An event is in another state.
            pub record_event_state: Option<unsafe extern "C" fn(*mut c_void, c_int, *mut usize) -> c_int>,
            /// A communicator ends.
            pub finalize: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
        }
    };
}

table! {
    /// The profiler's table, v4.
    ProfilerV4, InitV4, EventV4
}
table! {
    /// The profiler's table, v5 and v6.
    ProfilerV5, InitV5, EventV5
}

/// NCCL's interface for profilers, version 4.
#[unsafe(no_mangle)]
pub static ncclProfiler_v4: ProfilerV4 = ProfilerV4 {
    name: NAME,
    init: Some(init_v4),
    start_event: Some(start_v4),
    stop_event: Some(stop),
    record_event_state: Some(record),
    finalize: Some(finalize),
};
/// NCCL's interface for profilers, version 5.
#[unsafe(no_mangle)]
pub static ncclProfiler_v5: ProfilerV5 = ProfilerV5 {
    name: NAME,
    init: Some(init_v5),
    start_event: Some(start_v5),
    stop_event: Some(stop),
    record_event_state: Some(record),
    finalize: Some(finalize),
};
/// NCCL's interface for profilers, version 6: what it adds is not asked for.
#[unsafe(no_mangle)]
pub static ncclProfiler_v6: ProfilerV5 = ProfilerV5 {
    name: NAME,
    init: Some(init_v5),
    start_event: Some(start_v5),
    stop_event: Some(stop),
    record_event_state: Some(record),
    finalize: Some(finalize),
};

/// # Safety
/// `log` is NULL or NCCL's log function, `context` and `mask` are NULL (an error) or may be written.
unsafe fn init(
    (context, mask): (Out, *mut c_int),
    (communicator, rank): (u64, c_int),
    log: Option<LogFunction>,
) -> c_int {
    // SAFETY: passed on to the caller.
    let logger = unsafe { Logger::new(log) };
    attempt("profiler init", Some(logger), || {
        // SAFETY: passed on to the caller.
        unsafe { put(context, std::ptr::null_mut()) }?;
        // NCCL asks for nothing of which it was not told.
        let kinds = if profiler::is_asked() { COLL | P2P | PROXY_OP | PROXY_STEP } else { 0 };
        // SAFETY: passed on to the caller.
        unsafe { put(mask, c_int::try_from(kinds).unwrap_or(0)) }?;
        if kinds == 0 {
            return Ok(());
        }
        let made = profiler::begin(communicator, rank, logger)?;
        // SAFETY: passed on to the caller.
        unsafe { put(context, name(Kind::Profiler, made)) }
    })
}

/// # Safety
/// As for [`init`].
unsafe extern "C" fn init_v4(
    context: Out,
    mask: *mut c_int,
    _name: *const c_char,
    communicator: u64,
    _nodes: c_int,
    _ranks: c_int,
    rank: c_int,
    log: Option<LogFunction>,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { init((context, mask), (communicator, rank), log) }
}

/// # Safety
/// As for [`init`].
unsafe extern "C" fn init_v5(
    context: Out,
    communicator: u64,
    mask: *mut c_int,
    _name: *const c_char,
    _nodes: c_int,
    _ranks: c_int,
    rank: c_int,
    log: Option<LogFunction>,
) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { init((context, mask), (communicator, rank), log) }
}

/// # Safety
/// `handle` is NULL (an error) or may be written; `payload` is of this kind.
unsafe fn start(
    context: *mut c_void,
    handle: Out,
    (kind, parent): (u64, *mut c_void),
    payload: &Payload,
) -> c_int {
    attempt("startEvent", None, || {
        // SAFETY: passed on to the caller.
        unsafe { put(handle, std::ptr::null_mut()) }?;
        // SAFETY: passed on to the caller.
        let beginning = unsafe { beginning(kind, parent, payload) };
        let begun = number(Kind::Profiler, context).zip(beginning);
        if let Some(event) = begun.and_then(|(context, beginning)| profiler::start(context, beginning)) {
            // SAFETY: passed on to the caller.
            unsafe { put(handle, name(Kind::Event, event)) }?;
        }
        Ok(())
    })
}

/// What begins; `None` where nothing is recorded of it.
///
/// # Safety
/// `payload` is of this kind.
unsafe fn beginning(kind: u64, parent: *mut c_void, payload: &Payload) -> Option<Beginning> {
    let whole = match kind {
        COLL => {
            // SAFETY: a collective's, as the caller vouches; names are NULL or end with a NUL.
            let (coll, names) = unsafe {
                let coll = payload.coll;
                (coll, [text(coll.function), text(coll.algorithm), text(coll.protocol)])
            };
            let [function, algorithm, protocol] = names;
            let name = format!("{function} #{} ({algorithm}, {protocol})", coll.sequence);
            Event::Call { name, count: coll.count as u64 }
        }
        P2P => {
            // SAFETY: a message's, as the caller vouches; its name is NULL or ends with a NUL.
            let (p2p, name) = unsafe { (payload.p2p, text(payload.p2p.function)) };
            Event::Call { name: format!("{name}, rank {}", p2p.peer), count: p2p.count as u64 }
        }
        PROXY_OP => {
            // SAFETY: the proxy's, as the caller vouches.
            let op = unsafe { payload.proxy_op };
            // Of a rank of another process for which this one sends (PXN): its communicator is not known here.
            if i64::from(op.pid) != i64::from(std::process::id()) {
                return None;
            }
            Event::Operation { channel: op.channel, peer: op.peer, sends: op.sends != 0 }
        }
        PROXY_STEP => return number(Kind::Event, parent).map(Beginning::Step),
        _ => return None,
    };
    Some(Beginning::Whole(whole))
}

/// # Safety
/// `text` is NULL or ends with a NUL.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "-".to_owned();
    }
    // SAFETY: not null, and it ends with a NUL, as the caller vouches.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().chars().take(NAME_BYTES).collect()
}

/// # Safety
/// `event` is NULL (nothing begins) or an event as NCCL describes it; `handle` is NULL (an error) or may be written.
unsafe extern "C" fn start_v4(context: *mut c_void, handle: Out, event: *mut EventV4) -> c_int {
    if event.is_null() {
        return Code::Internal as c_int;
    }
    // SAFETY: not null, and the caller vouches for it; of the payload the fields of the event's kind are there, and no others are read.
    unsafe { start(context, handle, ((*event).kind.into(), (*event).parent), &(*event).payload) }
}

/// # Safety
/// As for [`start_v4`].
unsafe extern "C" fn start_v5(context: *mut c_void, handle: Out, event: *mut EventV5) -> c_int {
    if event.is_null() {
        return Code::Internal as c_int;
    }
    // SAFETY: as in `start_v4`.
    unsafe { start(context, handle, ((*event).kind, (*event).parent), &(*event).payload) }
}

/// # Safety
/// None beyond its type.
unsafe extern "C" fn stop(event: *mut c_void) -> c_int {
    attempt("stopEvent", None, || {
        if let Some(event) = number(Kind::Event, event) {
            profiler::stop(event);
        }
        Ok(())
    })
}

/// # Safety
/// `size` is NULL or, for states of the proxy's messages, the size of the message.
unsafe extern "C" fn record(event: *mut c_void, state: c_int, size: *mut usize) -> c_int {
    attempt("recordEventState", None, || {
        if let Some((event, state)) = number(Kind::Event, event).zip(State::from_number(state)) {
            // SAFETY: not null, and for these states NCCL gives a size there.
            let bytes = if size.is_null() { 0 } else { unsafe { size.read() } };
            profiler::record(event, state, bytes as u64);
        }
        Ok(())
    })
}

/// # Safety
/// None beyond its type.
unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    attempt("profiler finalize", None, || {
        let Some(context) = number(Kind::Profiler, context) else { return Ok(()) };
        if let Some(path) = profiler::end(context)? {
            crate::process::inform(&format!("profiler: {} is written", path.display()));
        }
        Ok(())
    })
}
