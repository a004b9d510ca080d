//! The tables by the names under which NCCL looks for them, and how what each version says of an event is read.
#![allow(non_upper_case_globals, reason = "NCCL looks for these names")]

use std::ffi::{c_char, c_int, c_void};

use super::entry::{self, COLL, GROUP, P2P, PROXY_OP, PROXY_STEP, Said, collective, message, text};
use super::layout::{
    CollEvent, CollEventV1, CollEventV2, CollEventV3, EventV1, EventV2, EventV3, EventV4, EventV5, P2pEvent,
    P2pEventV1, P2pEventV2, ProfilerTable, ProfilerV1, ProfilerV2, ProfilerV3, ProfilerV4, ProfilerV5,
};
use crate::abi::Logger;
use crate::abi::types::{LogFunction, Out};
use crate::abi::versions::NAME;
use crate::error::Code;
use crate::profiler::{Beginning, Member};

/// What v1 has numbers for, in the words of later versions.
const FUNCTIONS: [&str; 8] =
    ["Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"];
const ALGORITHMS: [&str; 7] = ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"];
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "SIMPLE"];

macro_rules! profiler {
    ($(#[$doc:meta])* $name:ident: $type:ty, $init:ident, $start:ident, $record:ident) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub static $name: $type = ProfilerTable {
            name: NAME,
            init: Some($init),
            start_event: Some($start),
            stop_event: Some(entry::stop),
            record_event_state: Some(entry::$record),
            finalize: Some(entry::finalize),
        };
    };
}

profiler! {
    /// NCCL's interface for profilers, version 1.
    ncclProfiler_v1: ProfilerV1, init_v1, start_v1, record_v1
}
profiler! {
    /// NCCL's interface for profilers, version 2.
    ncclProfiler_v2: ProfilerV2, init_v1, start_v2, record_v1
}
profiler! {
    /// NCCL's interface for profilers, version 3: what it adds is not asked for.
    ncclProfiler_v3: ProfilerV3, init_v1, start_v3, record_v1
}
profiler! {
    /// NCCL's interface for profilers, version 4.
    ncclProfiler_v4: ProfilerV4, init_v4, start_v4, record_v4
}
profiler! {
    /// NCCL's interface for profilers, version 5.
    ncclProfiler_v5: ProfilerV5, init_v5, start_v5, record_v4
}
profiler! {
    /// NCCL's interface for profilers, version 6: what it adds is not asked for.
    ncclProfiler_v6: ProfilerV5, init_v5, start_v5, record_v4
}

/// # Safety
/// `context` and `mask` are NULL (an error) or may be written.
unsafe extern "C" fn init_v1(context: Out, mask: *mut c_int) -> c_int {
    // SAFETY: passed on to the caller.
    unsafe { entry::init((context, mask), None, None) }
}

/// # Safety
/// `log` is NULL or NCCL's log function, `context` and `mask` are NULL (an error) or may be written.
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
    unsafe { entry::init((context, mask), Some((communicator, rank)), Some(Logger::new(log))) }
}

/// # Safety
/// As for [`init_v4`].
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
    unsafe { entry::init((context, mask), Some((communicator, rank)), Some(Logger::new(log))) }
}

/// How a collective of one version is read, and a message between two ranks; the rank is the descriptor's.
trait Call {
    /// # Safety
    /// Texts are NULL or end with a NUL.
    unsafe fn said(&self, rank: c_int) -> (Beginning, Option<Member>);
}

impl Call for CollEventV1 {
    unsafe fn said(&self, rank: c_int) -> (Beginning, Option<Member>) {
        let choice = [of(&ALGORITHMS, self.algorithm, "Unknown"), of(&PROTOCOLS, self.protocol, "Unknown")];
        let function = of(&FUNCTIONS, self.function, "Invalid");
        (collective(function, self.sequence, choice, self.count), Some((self.hash, rank)))
    }
}

impl Call for CollEventV2 {
    unsafe fn said(&self, rank: c_int) -> (Beginning, Option<Member>) {
        // SAFETY: passed on to the caller.
        let [function, algorithm, protocol] =
            unsafe { texts([self.function, self.algorithm, self.protocol]) };
        let choice = [algorithm.as_str(), protocol.as_str()];
        (collective(&function, self.sequence, choice, self.count), Some((self.hash, rank)))
    }
}

impl Call for CollEventV3 {
    unsafe fn said(&self, rank: c_int) -> (Beginning, Option<Member>) {
        // SAFETY: passed on to the caller.
        (unsafe { self.coll.said(rank) }.0, Some((self.hash, rank)))
    }
}

impl Call for CollEvent {
    unsafe fn said(&self, _rank: c_int) -> (Beginning, Option<Member>) {
        // SAFETY: passed on to the caller.
        let [function, algorithm, protocol] =
            unsafe { texts([self.function, self.algorithm, self.protocol]) };
        (collective(&function, self.sequence, [&algorithm, &protocol], self.count), None)
    }
}

impl Call for P2pEventV1 {
    unsafe fn said(&self, rank: c_int) -> (Beginning, Option<Member>) {
        let function = of(&FUNCTIONS, self.function, "Invalid");
        (message(function, self.peer, self.count), Some((self.hash, rank)))
    }
}

impl Call for P2pEventV2 {
    unsafe fn said(&self, rank: c_int) -> (Beginning, Option<Member>) {
        // SAFETY: passed on to the caller.
        (unsafe { self.p2p.said(rank) }.0, Some((self.hash, rank)))
    }
}

impl Call for P2pEvent {
    unsafe fn said(&self, _rank: c_int) -> (Beginning, Option<Member>) {
        // SAFETY: passed on to the caller.
        (message(&unsafe { text(self.function) }, self.peer, self.count), None)
    }
}

/// The word for a number.
fn of(words: &[&'static str], number: u8, other: &'static str) -> &'static str {
    words.get(usize::from(number)).copied().unwrap_or(other)
}

/// # Safety
/// Each is NULL or ends with a NUL.
unsafe fn texts<const N: usize>(texts: [*const c_char; N]) -> [String; N] {
    // SAFETY: passed on to the caller.
    texts.map(|each| unsafe { text(each) })
}

macro_rules! start {
    ($name:ident, $event:ty) => {
        /// # Safety
        /// `event` is NULL (an error) or an event as NCCL describes it; `handle` is NULL (an error) or may be written.
        unsafe extern "C" fn $name(context: *mut c_void, handle: Out, event: *mut $event) -> c_int {
            if event.is_null() {
                return Code::Internal as c_int;
            }
            // SAFETY: not null, and the caller vouches for it; of the payload the fields of the event's kind are there, and no others are read.
            unsafe {
                let (kind, parent, rank) = (u64::from((*event).kind), (*event).parent, (*event).rank);
                let payload = &(*event).payload;
                let call = |(beginning, member)| Said::Begins(beginning, member);
                entry::start(context, handle, || match kind {
                    GROUP => Said::Group,
                    COLL => call(payload.coll.said(rank)),
                    P2P => call(payload.p2p.said(rank)),
                    PROXY_OP => entry::operation(&payload.proxy_op),
                    PROXY_STEP => entry::step(parent, payload.proxy_step),
                    _ => Said::Nothing,
                })
            }
        }
    };
}

start!(start_v1, EventV1);
start!(start_v2, EventV2);
start!(start_v3, EventV3);
start!(start_v4, EventV4);
start!(start_v5, EventV5);
