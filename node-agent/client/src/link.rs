//! Requests and answers over one connection, from any number of threads.
//!
//! Whoever waits first reads the socket for all; the others sleep until their answer, or the reader's place, is free. So a
//! single-threaded rank pays no thread switch, and there is no thread of our own in the user's process.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use node_agent_local::{Channel, ProtocolError, Received, Reply, Request, SocketError};

use crate::Error;
use crate::board::Local;
use crate::patience::Patience;

mod arrivals;

/// An answer that has arrived.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) descriptor: Option<OwnedFd>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// Answers nobody has taken yet.
    arrived: BTreeMap<u64, Answer>,
    /// Requests whose answer nobody wants.
    ignored: BTreeSet<u64>,
    /// Answers that have come, wanted or not.
    answered: u64,
    /// Somebody reads the socket at this moment.
    reading: bool,
    /// Why nothing will arrive any more.
    broken: Option<Error>,
}

/// The connection to the engine.
#[derive(Debug)]
pub(crate) struct Link {
    channel: Channel,
    state: Mutex<State>,
    changed: Condvar,
    control_timeout: Duration,
    patience: Patience,
    /// The board of this server's ranks, once there is one.
    local: OnceLock<Weak<Local>>,
}

impl Link {
    pub(crate) fn new(channel: Channel, control_timeout: Duration) -> Self {
        let state = State { next: 1, ..State::default() };
        Self {
            channel,
            state: Mutex::new(state),
            changed: Condvar::new(),
            control_timeout,
            patience: Patience::offering(),
            local: OnceLock::new(),
        }
    }

    /// Makes the board known to those who only know the link.
    pub(crate) fn set_local(&self, local: &Arc<Local>) {
        // A link gets one board, when it is made.
        let _ = self.local.set(Arc::downgrade(local));
    }

    /// The board of this server's ranks, where they have one.
    pub(crate) fn local(&self) -> Option<Arc<Local>> {
        self.local.get()?.upgrade()
    }

    /// Takes what has arrived; fails where nothing will arrive any more.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut state = self.lock();
        if !state.reading {
            self.take_waiting(&mut state);
            self.changed.notify_all();
        }
        state.broken.clone().map_or(Ok(()), Err)
    }

    /// How long requests may take that wait for nobody but the engine.
    pub(crate) fn control_timeout(&self) -> Duration {
        self.control_timeout
    }

    /// Sends a request; its answer is taken with [`Link::wait`].
    pub(crate) fn submit(&self, request: &Request) -> Result<u64, Error> {
        let mut state = self.lock();
        self.send(&mut state, request)
    }

    /// Sends a request whose answer nobody wants.
    pub(crate) fn submit_ignored(&self, request: &Request) {
        let mut state = self.lock();
        if let Ok(id) = self.send(&mut state, request) {
            state.ignored.insert(id);
        }
    }

    /// The answer to `id`, which nobody wants any more.
    pub(crate) fn ignore(&self, id: u64) {
        let mut state = self.lock();
        if state.arrived.remove(&id).is_none() {
            state.ignored.insert(id);
        }
    }

    /// Whether the answer to `id` is here (or will never be), without waiting.
    pub(crate) fn is_ready(&self, id: u64) -> bool {
        let mut state = self.lock();
        // Somebody who sleeps on the socket would not notice that his answer was taken from under him.
        if !state.reading {
            self.take_waiting(&mut state);
            self.changed.notify_all();
        }
        state.broken.is_some() || state.arrived.contains_key(&id)
    }

    /// Waits for the answer to `id`; a refusal becomes an error in the name of `call`.
    pub(crate) fn wait(&self, id: u64, call: &'static str, limit: Duration) -> Result<Answer, Error> {
        let answer = self.wait_answer(id, limit)?;
        match answer.reply {
            Reply::Failed(failure) => Err(Error::Failed { call, failure }),
            _ => Ok(answer),
        }
    }

    fn wait_answer(&self, id: u64, limit: Duration) -> Result<Answer, Error> {
        let deadline = Instant::now() + limit;
        let mut state = self.lock();
        loop {
            if let Some(answer) = state.arrived.remove(&id) {
                return Ok(answer);
            }
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            if deadline <= Instant::now() {
                state.ignored.insert(id);
                return Err(Error::EngineSilent { after: limit });
            }
            state = self.sleep(state, deadline);
        }
    }

    /// Sleeps until something may have arrived, at the latest until the deadline: as the reader of the socket, or until
    /// the reader has read.
    fn sleep<'a>(&'a self, mut state: MutexGuard<'a, State>, deadline: Instant) -> MutexGuard<'a, State> {
        if state.reading {
            let left = deadline.saturating_duration_since(Instant::now());
            return self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.reading = true;
        drop(state);
        // Most answers come soon: to be woken would cost more than to look for them.
        let early = self.patience.look(|| self.channel.receive().transpose());
        let waited = if early.is_some() { Ok(()) } else { self.channel.wait_readable(deadline) };
        state = self.lock();
        state.reading = false;
        if let Some(early) = early {
            self.take(&mut state, early);
        }
        match waited {
            Ok(()) => self.take_waiting(&mut state),
            Err(SocketError::TimedOut) => {}
            Err(error) => state.broken = Some(Error::from_socket(&error, Duration::ZERO)),
        }
        self.changed.notify_all();
        state
    }

    /// Takes every packet that has arrived.
    fn take_waiting(&self, state: &mut State) {
        while state.broken.is_none() {
            match self.channel.receive().transpose() {
                None => return,
                Some(received) => self.take(state, received),
            }
        }
    }

    /// Takes one packet, or the end of the connection.
    fn take(&self, state: &mut State, received: Result<Received, SocketError>) {
        match received {
            Ok(received) => match Reply::decode(&received.packet) {
                Ok((id, reply)) => state.arrive(id, Answer { reply, descriptor: received.descriptor }),
                Err(error) => state.broken = Some(error.into()),
            },
            Err(error) => state.broken = Some(Error::from_socket(&error, Duration::ZERO)),
        }
    }

    fn send(&self, state: &mut State, request: &Request) -> Result<u64, Error> {
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let id = state.next;
        match self.channel.send(&request.encode(id), None) {
            Ok(()) => {
                state.next += 1;
                Ok(id)
            }
            Err(error) => {
                // The engine may have said why before it closed.
                self.take_waiting(state);
                let error = Error::from_socket(&error, Duration::ZERO);
                Err(state.broken.get_or_insert(error).clone())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn arrive(&mut self, id: u64, answer: Answer) {
        let expected = answer.reply.descriptors();
        let found = usize::from(answer.descriptor.is_some());
        if let (0, Reply::Failed(failure)) = (id, &answer.reply) {
            // About the connection as a whole, which the engine closes.
            self.broken = Some(Error::Failed { call: "attach", failure: failure.clone() });
        } else if id == 0 || id >= self.next {
            self.broken =
                Some(Error::Engine { cause: format!("answer to request {id}, which was never made") });
        } else if found != expected {
            self.broken = Some(ProtocolError::Descriptors { found, wanted: expected }.into());
        } else {
            self.answered += 1;
            if !self.ignored.remove(&id) {
                self.arrived.insert(id, answer);
            }
        }
    }
}
