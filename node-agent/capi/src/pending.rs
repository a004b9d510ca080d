//! A call under way that its caller and the completing thread share.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use crate::error::{OK, PENDING, StoredError};
use crate::progress::{Progress, Watched};
use crate::under_way::UnderWay;

/// What `rail.h` calls `rail_callback_t`.
pub type Callback = unsafe extern "C" fn(status: c_int, context: *mut c_void);

/// A callback with its argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    pub(crate) callback: Callback,
    pub(crate) context: *mut c_void,
}

// SAFETY: `rail.h` says that callbacks run on any thread; what the context points to is the caller's affair.
unsafe impl Send for Notice {}

/// The shared part of a request: the caller and the completing thread have one each.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) progress: Arc<Progress>,
    state: Mutex<State>,
    pub(crate) outcome: OnceLock<Result<(), StoredError>>,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) call: Option<UnderWay>,
    pub(crate) notice: Option<Notice>,
}

impl Watched for Inner {
    /// Completes the call if its answer has come: delivers the result, then notifies whoever waits. Says whether the
    /// call is over.
    fn poll(&self) -> bool {
        if self.outcome.get().is_some() {
            return true;
        }
        let mut state = self.lock();
        let Some(call) = &mut state.call else { return true };
        let outcome = match call.begun.wait_until(Instant::now()) {
            None => return false,
            Some(Ok(())) => call.deliver(),
            Some(Err(error)) => Err(error),
        };
        self.end(state, outcome.map_err(|error| StoredError::of(&error)));
        true
    }

    /// Ends the call without its result, where it is not over yet.
    fn fail(&self, reported: StoredError) {
        let state = self.lock();
        if state.call.is_some() {
            self.end(state, Err(reported));
        }
    }
}

impl Inner {
    /// A call that was begun.
    pub(crate) fn new(progress: Arc<Progress>, call: UnderWay) -> Self {
        let state = Mutex::new(State { call: Some(call), notice: None });
        Self { progress, state, outcome: OnceLock::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, mut state: MutexGuard<'_, State>, outcome: Result<(), StoredError>) {
        let status = outcome.as_ref().map_or_else(|reported| reported.status, |()| OK);
        let _ = self.outcome.set(outcome);
        // Gives staging memory back.
        state.call = None;
        let notice = state.notice.take();
        drop(state);
        self.progress.over();
        if let Some(Notice { callback, context }) = notice {
            // SAFETY: the caller of `rail_request_on_done` vouched for callback and context, and nothing of ours is locked.
            unsafe { callback(status, context) };
        }
    }

    /// Waits until the call is over, at the latest until `until`. Says whether it is over.
    pub(crate) fn wait(&self, until: Option<Instant>) -> bool {
        loop {
            let seen = self.progress.client.arrivals();
            if self.poll() {
                // Another thread may still be at it: its end is not far.
                drop(self.lock());
                return true;
            }
            let limit = self.lock().call.as_ref().map(|call| call.begun.deadline());
            let Some(limit) = limit else { continue };
            let until = match until {
                Some(until) if until <= Instant::now() => return false,
                Some(until) => until.min(limit),
                None => limit,
            };
            self.progress.client.wait_arrival(seen, until);
        }
    }

    /// The status of a call, which becomes this thread's latest failure if it is one.
    pub(crate) fn status(&self) -> c_int {
        match self.outcome.get() {
            None => PENDING,
            Some(Ok(())) => OK,
            Some(Err(reported)) => reported.clone().remember(),
        }
    }
}
