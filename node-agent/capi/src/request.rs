//! Requests: calls under way, as the caller holds them.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_client::Error;

use crate::asked::Asked;
use crate::error::{OK, guard};
use crate::gpu::way_text;
use crate::handle::{Rail, handle};
use crate::pending::{Callback, Inner, Notice};
use crate::progress::Watched;

/// A call that was begun, opaque to C (`rail_request_t`).
#[derive(Debug)]
pub struct Request {
    inner: Arc<Inner>,
    /// Which way the bytes of operands on GPUs take.
    way: Option<CString>,
}

impl Request {
    pub(crate) fn way(&self) -> Option<&CStr> {
        self.way.as_deref()
    }
}

/// Begins a call and stores its request.
///
/// # Safety
/// As for the entry that calls it.
pub(crate) unsafe fn start(rail: *const Rail, asked: &Asked, request: *mut *mut Request) -> c_int {
    guard(|| {
        // SAFETY: the caller vouches that a pointer that is not null may be written.
        let Some(place) = (unsafe { request.as_mut() }) else {
            return Err(Error::Argument("there is no place for the request".into()));
        };
        *place = std::ptr::null_mut();
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        // SAFETY: passed on to the caller.
        let call = unsafe { asked.begin(rail) }?;
        let way = call.begun.way().map(way_text);
        let inner = Arc::new(Inner::new(rail.progress.clone(), call));
        rail.progress.begun(&inner);
        *place = Box::into_raw(Box::new(Request { inner, way }));
        Ok(OK)
    })
}

/// # Safety
/// `request` is null or came from an entry that begins a call and was not freed; it stays so while the result is used.
unsafe fn live<'a>(request: *const Request) -> Result<&'a Arc<Inner>, Error> {
    // SAFETY: the caller vouches for it; null gives `None`.
    match unsafe { request.as_ref() } {
        Some(request) => Ok(&request.inner),
        None => Err(Error::Argument("the request is NULL".into())),
    }
}

/// Whether the call is complete, without waiting: 0 if it is, 1 if not yet, else why it failed.
///
/// # Safety
/// `request` is null (an error) or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_request_test(request: *const Request) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let inner = unsafe { live(request) }?;
        inner.poll();
        Ok(inner.status())
    })
}

/// As `rail_request_test`, after waiting for the call for at most `milliseconds`; 0 waits until it is over.
///
/// # Safety
/// `request` is null (an error) or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_request_wait(request: *const Request, milliseconds: u32) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let inner = unsafe { live(request) }?;
        let limit = (milliseconds > 0).then(|| Instant::now() + Duration::from_millis(milliseconds.into()));
        inner.wait(limit);
        Ok(inner.status())
    })
}

/// Why the call failed; "" if it did not, or not yet. Valid until the request is freed.
///
/// # Safety
/// `request` is null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_request_error(request: *const Request) -> *const c_char {
    // SAFETY: passed on to the caller.
    let outcome = unsafe { request.as_ref() }.and_then(|request| request.inner.outcome.get());
    let text: &CStr = match outcome {
        Some(Err(reported)) => &reported.text,
        _ => c"",
    };
    text.as_ptr()
}

/// Has `callback(status, context)` called once when the call is over: on a thread of the library, on one that waits for or
/// tests the request, or at once where it is over already.
///
/// # Safety
/// `request` is null (an error) or live; `callback` may be called on any thread with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_request_on_done(
    request: *const Request,
    callback: Option<Callback>,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let inner = unsafe { live(request) }?;
        let Some(callback) = callback else {
            return Err(Error::Argument("the callback is NULL".into()));
        };
        let mut state = inner.lock();
        if state.notice.is_some() {
            return Err(Error::Argument("the request has a callback already".into()));
        }
        if state.call.is_some() {
            state.notice = Some(Notice { callback, context });
            drop(state);
            return inner.progress.watch(inner).map(|()| OK);
        }
        drop(state);
        let status = inner.status();
        // SAFETY: the caller vouches for callback and context.
        unsafe { callback(status, context) };
        Ok(OK)
    })
}

/// Frees the request. A call that is not over goes on, but its result is not delivered to ordinary memory any more, and its
/// callback is not called. Null does nothing.
///
/// # Safety
/// `request` is null or live, and nobody uses it afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_request_free(request: *mut Request) -> c_int {
    guard(|| {
        if request.is_null() {
            return Ok(OK);
        }
        // SAFETY: the request came from `Box::into_raw`, and the caller gives it up.
        let request = unsafe { Box::from_raw(request) };
        let mut state = request.inner.lock();
        let abandoned = state.call.take();
        state.notice = None;
        drop(state);
        if abandoned.is_some() {
            request.inner.progress.over();
        }
        Ok(OK)
    })
}

/// A descriptor for `poll` that becomes readable when calls begun after this are over; reading 8 bytes from it resets it.
/// It belongs to the handle.
///
/// # Safety
/// `rail` is null (an error) or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rail_event_fd(rail: *const Rail) -> c_int {
    guard(|| {
        // SAFETY: passed on to the caller.
        let rail = unsafe { handle(rail) }?;
        rail.progress.event()
    })
}
