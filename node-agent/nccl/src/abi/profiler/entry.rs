//! The entries that all versions of the profiler stand on: what was said, as values, in; one call of the profiler; a number out.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::layout::{OperationProgress, ProxyOpEvent, StepProgress};
use crate::abi::Logger;
use crate::abi::entry::{Kind, name, number, put};
use crate::abi::types::Out;
use crate::process::attempt;
use crate::profiler::{self, Beginning, Event, Member, Progress, State};

/// NCCL's kinds of events: groups of calls, collectives, messages between two ranks, what the proxy does for one, and its messages.
pub(super) const GROUP: u64 = 1;
pub(super) const COLL: u64 = 1 << 1;
pub(super) const P2P: u64 = 1 << 2;
pub(super) const PROXY_OP: u64 = 1 << 3;
pub(super) const PROXY_STEP: u64 = 1 << 4;
/// Bytes of a name that are read at most.
const NAME_BYTES: usize = 64;

/// What NCCL says of an event that begins.
#[derive(Debug)]
pub(super) enum Said {
    /// Calls that were made together. Nothing is recorded of it, but NCCL says nothing of the calls of a group without a handle (up to v4).
    Group,
    /// Something to record. Before v4 a call says whose it is, which `init` did not.
    Begins(Beginning, Option<Member>),
    /// Nothing that is recorded.
    Nothing,
}

/// # Safety
/// `context` and `mask` are NULL (an error) or may be written.
pub(super) unsafe fn init(
    (context, mask): (Out, *mut c_int),
    member: Option<Member>,
    logger: Option<Logger>,
) -> c_int {
    attempt("profiler init", logger, || {
        // SAFETY: passed on to the caller.
        unsafe { put(context, std::ptr::null_mut()) }?;
        // NCCL asks for nothing of which it was not told.
        let kinds = if profiler::is_asked() { COLL | P2P | PROXY_OP | PROXY_STEP } else { 0 };
        // SAFETY: passed on to the caller.
        unsafe { put(mask, c_int::try_from(kinds).unwrap_or(0)) }?;
        if kinds == 0 {
            return Ok(());
        }
        let made = profiler::begin(member, logger)?;
        // SAFETY: passed on to the caller.
        unsafe { put(context, name(Kind::Profiler, made)) }
    })
}

/// # Safety
/// `handle` is NULL (an error) or may be written.
pub(super) unsafe fn start(context: *mut c_void, handle: Out, said: impl FnOnce() -> Said) -> c_int {
    attempt("startEvent", None, || {
        // SAFETY: passed on to the caller.
        unsafe { put(handle, std::ptr::null_mut()) }?;
        let Some(context) = number(Kind::Profiler, context) else { return Ok(()) };
        let made = match said() {
            Said::Group => Some(name(Kind::Group, context)),
            Said::Begins(beginning, member) => {
                profiler::start(context, beginning, member).map(|event| name(Kind::Event, event))
            }
            Said::Nothing => None,
        };
        // SAFETY: passed on to the caller.
        made.map_or(Ok(()), |made| unsafe { put(handle, made) })
    })
}

/// A collective, by name.
pub(super) fn collective(function: &str, sequence: u64, choice: [&str; 2], count: usize) -> Beginning {
    let [algorithm, protocol] = choice;
    let name = format!("{function} #{sequence} ({algorithm}, {protocol})");
    Beginning::Whole(Event::Call { name, count: count as u64 })
}

/// A message between two ranks, by name.
pub(super) fn message(function: &str, peer: c_int, count: usize) -> Beginning {
    Beginning::Whole(Event::Call { name: format!("{function}, rank {peer}"), count: count as u64 })
}

/// What the proxy does.
pub(super) fn operation(op: &ProxyOpEvent) -> Said {
    // Of a rank of another process for which this one sends (PXN): its communicator is not known here.
    if i64::from(op.pid) != i64::from(std::process::id()) {
        return Said::Nothing;
    }
    let event = Event::Operation { channel: op.channel, peer: op.peer, sends: op.sends != 0 };
    Said::Begins(Beginning::Whole(event), None)
}

/// One of its messages.
pub(super) fn step(operation: *mut c_void, step: c_int) -> Said {
    match number(Kind::Event, operation) {
        Some(operation) => Said::Begins(Beginning::Step { operation, step }, None),
        None => Said::Nothing,
    }
}

/// # Safety
/// `text` is NULL or ends with a NUL.
pub(super) unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return "-".to_owned();
    }
    // SAFETY: not null, and it ends with a NUL, as the caller vouches.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().chars().take(NAME_BYTES).collect()
}

/// # Safety
/// None beyond its type.
pub(super) unsafe extern "C" fn stop(event: *mut c_void) -> c_int {
    attempt("stopEvent", None, || {
        if let Some(event) = number(Kind::Event, event) {
            profiler::stop(event);
        }
        Ok(())
    })
}

/// A state, v1 to v3: those of the proxy's operations say how far its messages are, those of messages no size.
///
/// # Safety
/// `progress` is NULL or, for states of the proxy's operations, how far it is.
pub(super) unsafe extern "C" fn record_v1(
    event: *mut c_void,
    state: c_int,
    progress: *mut OperationProgress,
) -> c_int {
    attempt("recordEventState", None, || {
        let Some(event) = number(Kind::Event, event) else { return Ok(()) };
        if let Some(what) = Progress::from_number(state).filter(|_| !progress.is_null()) {
            // SAFETY: not null, and for these states NCCL gives that.
            let found = unsafe { progress.read() };
            profiler::progress(event, what, found.steps, found.bytes as u64);
        } else if let Some(state) = State::from_number(state) {
            profiler::record(event, state, 0);
        }
        Ok(())
    })
}

/// A state, v4 to v6.
///
/// # Safety
/// `size` is NULL or, for states of the proxy's messages, the size of the message.
pub(super) unsafe extern "C" fn record_v4(
    event: *mut c_void,
    state: c_int,
    size: *mut StepProgress,
) -> c_int {
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
pub(super) unsafe extern "C" fn finalize(context: *mut c_void) -> c_int {
    attempt("profiler finalize", None, || {
        let Some(context) = number(Kind::Profiler, context) else { return Ok(()) };
        if let Some(path) = profiler::end(context)? {
            crate::process::inform(&format!("profiler: {} is written", path.display()));
        }
        Ok(())
    })
}
