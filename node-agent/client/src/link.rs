//! Requests and answers over one connection, from any number of threads. Calls go by the queues, where the engine has given
//! some, and all else by the socket.
//!
//! Whoever waits first reads queue and socket for all; the others sleep until their answer, or the reader's place, is free. So a
//! single-threaded rank pays no thread switch, and there is no thread of our own in the user's process.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use node_agent_ipc::{
    Channel, Post, ProtocolError, Pushed, Queues, Received, Reply, Request, SocketError, Submitter, Taker,
    to_entry,
};

use crate::Error;
use crate::notification::Notification;
use crate::patience::Patience;

mod arrivals;
mod notify;
#[cfg(test)]
mod tests;

/// Pause between looks at a queue or a socket that is full.
const FULL: Duration = Duration::from_micros(50);
/// How long a process that is ending waits for room to say so.
const LEAVE: Duration = Duration::from_millis(200);

/// Those who map this rank's buffers themselves, beside the engine.
pub(crate) trait Neighbours: std::fmt::Debug + Send + Sync {
    /// Tells them that they need not keep a buffer mapped.
    fn note_freed(&self, buffer: u32);
}

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
    submitter: Submitter,
    /// What other ranks have notified this one of, and nobody has taken yet.
    notifications: VecDeque<Notification>,
    /// The engine says so where the job fails.
    subscribed: bool,
}

/// What has been found without waiting.
#[derive(Debug)]
enum Found {
    /// The call with this id has succeeded, says the queue.
    Done(u64),
    /// A packet, or the end of the connection.
    Packet(Result<Received, SocketError>),
}

/// The connection to the engine.
#[derive(Debug)]
pub(crate) struct Link {
    channel: Channel,
    state: Mutex<State>,
    changed: Condvar,
    control_timeout: Duration,
    patience: Patience,
    /// The ranks of this server, once there is a board of theirs.
    neighbours: OnceLock<Weak<dyn Neighbours>>,
    /// The queues for calls, if the engine has given some.
    queues: OnceLock<Queues>,
    /// Locked by the reader, or under the lock of the state by whoever sees that there is none.
    taker: Mutex<Taker>,
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
            neighbours: OnceLock::new(),
            queues: OnceLock::new(),
            taker: Mutex::default(),
        }
    }

    /// Asks for queues. An engine that has none to give is served by the socket.
    pub(crate) fn open_queues(&self) -> Result<(), Error> {
        let id = self.submit(&Request::Queues)?;
        let answer = match self.wait(id, "attach", self.control_timeout) {
            Ok(answer) => answer,
            Err(Error::Failed { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (Reply::Queues, Some(file)) = (answer.reply, answer.descriptor) else {
            return Err(Error::Engine { cause: "asked for queues, got something else".into() });
        };
        // A link asks once, when it is made.
        let _ = self.queues.set(Queues::open(file)?);
        Ok(())
    }

    /// Makes those known who map buffers of this rank, to those who only know the link.
    pub(crate) fn set_neighbours(&self, neighbours: Weak<dyn Neighbours>) {
        // A link gets them once, when it is made.
        let _ = self.neighbours.set(neighbours);
    }

    /// Tells those who map buffers of this rank that one of them is given back.
    pub(crate) fn note_freed(&self, buffer: u32) {
        if let Some(neighbours) = self.neighbours.get().and_then(Weak::upgrade) {
            neighbours.note_freed(buffer);
        }
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
        self.send(&mut state, request, None)
    }

    /// Sends a request that a file descriptor goes with.
    pub(crate) fn submit_with(&self, request: &Request, file: BorrowedFd<'_>) -> Result<u64, Error> {
        let mut state = self.lock();
        self.send(&mut state, request, Some(file))
    }

    /// Submits a call; its answer is taken as that of any request. Where the queue is full it waits until the engine has taken
    /// something out, as it does at once.
    pub(crate) fn submit_post(&self, post: Post) -> Result<u64, Error> {
        let mut state = self.lock();
        let Some(queues) = self.queues.get() else {
            return self.send(&mut state, &Request::Post(post), None);
        };
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let id = state.next;
        let entry = to_entry(id, &post);
        let start = Instant::now();
        loop {
            match state.submitter.push(queues, &entry) {
                Pushed::Done => break,
                Pushed::Wake => {
                    // A full socket is not empty, so it wakes as well; one that is closed is found so by whoever waits.
                    let _ = self.channel.send(&Request::Doorbell.encode(0), None);
                    break;
                }
                Pushed::Full if start.elapsed() >= self.control_timeout => {
                    return Err(Error::EngineSilent { after: self.control_timeout });
                }
                Pushed::Full if !state.reading => self.take_waiting(&mut state),
                Pushed::Full => {}
            }
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            std::thread::sleep(FULL);
        }
        state.next += 1;
        Ok(id)
    }

    /// Sends a request whose answer nobody wants.
    pub(crate) fn submit_ignored(&self, request: &Request) {
        let mut state = self.lock();
        if let Ok(id) = self.send(&mut state, request, None) {
            state.ignored.insert(id);
        }
    }

    /// Begins to leave: nobody waits for the answer, and not for long where the socket is full.
    pub(crate) fn leave(&self) {
        let mut state = self.lock();
        if let Ok(id) = self.send_within(&mut state, &Request::Detach, None, LEAVE) {
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
            self.take_completed(&mut state);
            if !state.arrived.contains_key(&id) {
                self.take_waiting(&mut state);
            }
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
        let start = Instant::now();
        let early = self.patience.inspect(|| self.inspect());
        let waited = if early.is_some() { Ok(()) } else { self.wait_readable(deadline) };
        if early.is_none() && waited.is_ok() {
            self.patience.slept(start.elapsed());
        }
        state = self.lock();
        state.reading = false;
        match (early, waited) {
            (Some(Found::Done(id)), _) => {
                state.complete(id);
                self.take_completed(&mut state);
            }
            (Some(Found::Packet(packet)), _) => {
                self.take(&mut state, packet);
                self.take_waiting(&mut state);
            }
            (None, Ok(())) => self.take_woken(&mut state),
            (None, Err(SocketError::TimedOut)) => self.take_completed(&mut state),
            (None, Err(error)) => state.broken = Some(Error::from_socket(&error, Duration::ZERO)),
        }
        self.changed.notify_all();
        state
    }

    /// What is there already: in the queue, where there is one, for most answers come there.
    fn inspect(&self) -> Option<Found> {
        match self.queues.get() {
            Some(queues) => self.taker().take(queues).map(Found::Done),
            None => self.channel.receive().transpose().map(Found::Packet),
        }
    }

    /// Sleeps until something is in the queue or on the socket.
    fn wait_readable(&self, deadline: Instant) -> Result<(), SocketError> {
        let Some(queues) = self.queues.get() else { return self.channel.wait_readable(deadline) };
        // Only the reader takes, and this is the reader.
        let may = self.taker().may_sleep(queues);
        let waited = if may { self.channel.wait_readable(deadline) } else { Ok(()) };
        self.taker().wakes(queues);
        waited
    }

    /// Takes every completion that is in the queue.
    fn take_completed(&self, state: &mut State) {
        let Some(queues) = self.queues.get() else { return };
        let mut taker = self.taker();
        while state.broken.is_none()
            && let Some(id) = taker.take(queues)
        {
            state.complete(id);
        }
    }

    fn taker(&self) -> MutexGuard<'_, Taker> {
        self.taker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what has arrived after a sleep: most often a completion and its doorbell, and nothing else.
    fn take_woken(&self, state: &mut State) {
        let before = state.answered;
        self.take_completed(state);
        if state.answered != before {
            match self.channel.receive().transpose() {
                None => return,
                Some(Ok(received)) if Reply::decode(&received.packet) == Ok((0, Reply::Doorbell)) => return,
                Some(received) => self.take(state, received),
            }
        }
        self.take_waiting(state);
    }

    /// Takes everything that has arrived.
    fn take_waiting(&self, state: &mut State) {
        self.take_completed(state);
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
            Err(error) => {
                // What was completed before the end is complete.
                self.take_completed(state);
                state.broken = Some(Error::from_socket(&error, Duration::ZERO));
            }
        }
    }

    fn send(&self, state: &mut State, request: &Request, file: Option<BorrowedFd<'_>>) -> Result<u64, Error> {
        self.send_within(state, request, file, self.control_timeout)
    }

    /// Sends a request. Where the socket is full it waits until the engine has read something, as it does soon, and takes what has
    /// come meanwhile. Where that takes longer than `limit` this request alone has failed.
    fn send_within(
        &self,
        state: &mut State,
        request: &Request,
        file: Option<BorrowedFd<'_>>,
        limit: Duration,
    ) -> Result<u64, Error> {
        let start = Instant::now();
        loop {
            state.may_send(request)?;
            let id = state.next;
            match self.channel.send(&request.encode(id), file) {
                Ok(()) => {
                    state.next += 1;
                    return Ok(id);
                }
                Err(SocketError::Full) if start.elapsed() >= limit => {
                    return Err(Error::EngineSilent { after: limit });
                }
                Err(SocketError::Full) => {
                    if !state.reading {
                        self.take_waiting(state);
                        self.changed.notify_all();
                    }
                    std::thread::sleep(FULL);
                }
                Err(error) => {
                    // The engine may have said why before it closed.
                    self.take_waiting(state);
                    let error = Error::from_socket(&error, Duration::ZERO);
                    return Err(state.broken.get_or_insert(error).clone());
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Fails where nothing can be sent any more. Of a job that has failed a rank still takes its leave: it did not end without a word.
    fn may_send(&self, request: &Request) -> Result<(), Error> {
        let leaves = self.subscribed && *request == Request::Detach;
        match &self.broken {
            Some(error) if !(leaves && matches!(error, Error::Failed { .. })) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The queue says that a call has succeeded.
    fn complete(&mut self, id: u64) {
        self.arrive(id, Answer { reply: Reply::Done, descriptor: None });
    }

    fn arrive(&mut self, id: u64, answer: Answer) {
        let expected = answer.reply.descriptors();
        let found = usize::from(answer.descriptor.is_some());
        if let (0, Reply::Failed(failure)) = (id, &answer.reply) {
            // About the connection as a whole, which the engine closes.
            let call = if self.subscribed { "the job" } else { "attach" };
            self.broken = Some(Error::Failed { call, failure: failure.clone() });
        } else if (id, &answer.reply, found) == (0, &Reply::Doorbell, 0) {
            // It has rung: whoever reads it looks into the queue.
        } else if let (0, Reply::Notification { from, words }, 0) = (id, &answer.reply, found) {
            self.notified(Notification { from: *from, words: *words });
        } else if id == 0 || id >= self.next {
            self.broken =
                Some(Error::Engine { cause: format!("answer to request {id}, which was never made") });
        } else if found != expected {
            self.broken = Some(ProtocolError::Descriptors { found, wanted: expected }.into());
        } else {
            self.answered += 1;
            self.subscribed |= matches!(answer.reply, Reply::Subscribed { .. });
            if !self.ignored.remove(&id) {
                self.arrived.insert(id, answer);
            }
        }
    }
}
