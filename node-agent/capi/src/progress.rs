//! The thread that completes calls nobody waits for. It is started when the first callback or the event descriptor is asked
//! for, and sleeps while there is nothing to look after.

use std::ffi::c_int;
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use node_agent_client::{Client, Error};

use crate::error::StoredError;

/// Longest sleep: calls that the engine never answers are noticed that late.
const NAP: Duration = Duration::from_millis(500);

/// A call that the thread looks after.
pub(crate) trait Watched: Send + Sync {
    /// Completes the call if its answer has come. Says whether the call is over.
    fn poll(&self) -> bool;

    /// Ends the call without its result, where it is not over yet.
    fn fail(&self, reported: StoredError);
}

/// Calls under way and who completes them.
pub(crate) struct Progress {
    pub(crate) client: Arc<Client>,
    state: Mutex<State>,
    changed: Condvar,
    /// Readable when calls are over.
    event: OnceLock<OwnedFd>,
    /// A test wants the thread to panic.
    pub(crate) panic_next: AtomicBool,
}

#[derive(Default)]
struct State {
    /// Calls that the thread looks after.
    watched: Vec<Weak<dyn Watched>>,
    thread: Option<JoinHandle<()>>,
    ended: bool,
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("client", &self.client).finish_non_exhaustive()
    }
}

impl Progress {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        let (state, changed, event) = (Mutex::default(), Condvar::new(), OnceLock::new());
        Self { client, state, changed, event, panic_next: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call was begun: the thread looks after it where an event descriptor promises a notice.
    pub(crate) fn begun(self: &Arc<Self>, call: &Arc<impl Watched + 'static>) {
        if self.event.get().is_some() {
            // The thread runs: it was started with the descriptor.
            self.add(call);
        }
    }

    /// A call is over, whoever noticed.
    pub(crate) fn over(&self) {
        if let Some(event) = self.event.get() {
            // It can only fail when nobody has read it for 2^64 times.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    /// Has the thread look after a call.
    pub(crate) fn watch(self: &Arc<Self>, call: &Arc<impl Watched + 'static>) -> Result<(), Error> {
        self.start()?;
        self.add(call);
        Ok(())
    }

    fn add(&self, call: &Arc<impl Watched + 'static>) {
        let watched = Arc::downgrade(call);
        self.lock().watched.push(watched);
        self.changed.notify_one();
        // Its answer may have come before the thread knew of it, which then sleeps until another one comes.
        call.poll();
    }

    fn start(self: &Arc<Self>) -> Result<(), Error> {
        let mut state = self.lock();
        if state.ended {
            return Err(Error::Argument("the handle was finalized".into()));
        }
        if state.thread.is_none() {
            let progress = self.clone();
            let thread =
                std::thread::Builder::new().name("rail-progress".into()).spawn(move || progress.run());
            let refused = |error| Error::Memory(format!("cannot start a thread: {error}"));
            state.thread = Some(thread.map_err(refused)?);
        }
        Ok(())
    }

    fn run(&self) {
        loop {
            let round = catch_unwind(AssertUnwindSafe(|| self.round()));
            match round {
                Ok(true) => {}
                Ok(false) => return,
                Err(cause) => {
                    let reported = StoredError::of_panic(&*cause);
                    let watched = std::mem::take(&mut self.lock().watched);
                    for call in watched.iter().filter_map(Weak::upgrade) {
                        call.fail(reported.clone());
                    }
                }
            }
        }
    }

    /// Completes what can be completed, then sleeps until something may have changed. `false` ends the thread.
    fn round(&self) -> bool {
        let seen = self.client.arrivals();
        let mut state = self.lock();
        while state.watched.is_empty() {
            if state.ended {
                return false;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let ended = state.ended;
        let mut watched = state.watched.clone();
        drop(state);
        assert!(!self.panic_next.swap(false, SeqCst), "on purpose, in the thread");
        // Callbacks run in here, with nothing locked.
        watched.retain(|call| call.upgrade().is_none_or(|call| call.poll()));
        // `watched` now holds those that are over.
        let mut state = self.lock();
        state.watched.retain(|call| !watched.iter().any(|over| over.ptr_eq(call)));
        let idle = state.watched.is_empty();
        drop(state);
        if ended {
            return false;
        }
        if !idle {
            self.client.wait_arrival(seen, Instant::now() + NAP);
        }
        true
    }

    /// Ends the thread; calls that it looked after fail. The client has left already, so the thread is awake or will be.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        let thread = state.thread.take();
        drop(state);
        self.changed.notify_all();
        // A callback may be what finalizes the handle.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        let watched = std::mem::take(&mut self.lock().watched);
        let reported =
            StoredError::of(&Error::Argument("the handle was finalized before the call was complete".into()));
        for call in watched.iter().filter_map(Weak::upgrade) {
            call.fail(reported.clone());
        }
    }

    /// The event descriptor, made when it is first asked for.
    pub(crate) fn event(self: &Arc<Self>) -> Result<c_int, Error> {
        self.start()?;
        if self.event.get().is_none() {
            let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
            let made = rustix::event::eventfd(0, flags);
            let made =
                made.map_err(|error| Error::Memory(format!("cannot make an event descriptor: {error}")))?;
            // Another thread may have been faster; its descriptor stays.
            let _ = self.event.set(made);
        }
        self.event.get().map(AsRawFd::as_raw_fd).ok_or_else(|| Error::Memory("no event descriptor".into()))
    }
}
