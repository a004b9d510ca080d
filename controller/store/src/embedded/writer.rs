//! The one thread that writes: drains the queue, stages every waiting transaction, makes them durable with one
//! sync, then shows and acknowledges them. After a disk failure it opens the file anew and carries on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::disk::Medium;
use super::tables::{Failed, Tables};
use crate::clock::Clock;
use crate::error::StoreError;
use crate::hub::{Hub, lock};
use crate::staged::{Command, Deadlines, Reply, Staged};
use crate::state::{Delta, Overlay, State};
use crate::types::LeaseId;

/// Transactions in one commit at most. More would not be faster, and the first would wait for the last.
const GROUP: usize = 512;
/// How often leases are looked at when nobody writes.
const TICK: Duration = Duration::from_millis(100);
/// Wait before the disk is tried again after a failure; doubled each time up to the longest.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(2);

/// One caller's command with the way back to it.
pub(super) struct Request {
    pub command: Command,
    pub reply: oneshot::Sender<Result<Reply, StoreError>>,
    /// Its place in the bounded queue, given back when the request is dropped.
    pub _permit: Option<OwnedSemaphorePermit>,
}

pub(super) enum Message {
    Request(Request),
    /// Look at the leases now.
    Tick(oneshot::Sender<()>),
    Close,
}

/// Figures that `status` reads while the writer works.
#[derive(Debug, Default)]
pub(super) struct Figures {
    pub commits: AtomicU64,
    pub transactions: AtomicU64,
    pub file_bytes: AtomicU64,
    pub failure: Mutex<Option<String>>,
}

struct Failure {
    error: StoreError,
    retry_at: Instant,
    wait: Duration,
}

pub(super) struct Writer {
    pub hub: Arc<Hub>,
    pub clock: Arc<dyn Clock>,
    pub medium: Arc<dyn Medium>,
    pub cache_bytes: usize,
    pub figures: Arc<Figures>,
    pub deadlines: Deadlines,
    /// Number of the last commit known to be durable.
    commits: u64,
    tables: Option<Tables>,
    failure: Option<Failure>,
}

impl Writer {
    pub fn new(
        hub: Arc<Hub>,
        clock: Arc<dyn Clock>,
        medium: Arc<dyn Medium>,
        cache_bytes: usize,
        opened: (Tables, u64),
    ) -> Self {
        let deadlines = Deadlines::restart(&hub.state(), clock.now());
        let figures = Arc::new(Figures::default());
        figures.file_bytes.store(opened.0.file_bytes(), Ordering::Relaxed);
        let (tables, commits) = (Some(opened.0), opened.1);
        Self { hub, clock, medium, cache_bytes, figures, deadlines, commits, tables, failure: None }
    }

    /// Works until the store is closed.
    pub fn run(mut self, queue: &Receiver<Message>) {
        let mut open = true;
        while open {
            let mut requests = Vec::new();
            let mut ticks = Vec::new();
            let mut next = match queue.recv_timeout(TICK) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Message::Close),
            };
            while let Some(message) = next {
                match message {
                    Message::Request(request) => requests.push(request),
                    Message::Tick(done) => ticks.push(done),
                    Message::Close => open = false,
                }
                let more = open && requests.len() < GROUP;
                next = if more { queue.try_recv().ok() } else { None };
            }
            self.group(requests);
            // A caller that went away needs no answer.
            for done in ticks {
                let _ = done.send(());
            }
        }
        self.hub.close();
    }

    fn group(&mut self, requests: Vec<Request>) {
        let now = self.clock.now();
        let expired = self.deadlines.due(now);
        if requests.is_empty() && expired.is_empty() {
            return self.probe(now);
        }
        let hub = self.hub.clone();
        let state = hub.state();
        let mut staged = Staged::new(&state, &hub.limits);
        for lease in expired {
            // The only refusal is "no such lease", and then there is nothing to end.
            let _ = staged.apply(&Command::Revoke(lease));
        }
        let replies: Vec<_> = requests.iter().map(|request| staged.apply(&request.command)).collect();
        let dirty = staged.is_dirty();
        let (delta, kept) = staged.finish(&hub.history);
        drop(state);
        let outcome = if dirty { self.commit(delta, now) } else { Ok(()) };
        match outcome {
            Ok(()) => {
                self.keep_alive(&kept, now);
                for (request, reply) in requests.into_iter().zip(replies) {
                    drop(request.reply.send(reply));
                }
            }
            Err(error) => self.answer_failed(requests, &error, now),
        }
    }

    /// While writes fail and nobody writes, tries the disk with a commit that changes nothing, so that the status
    /// tells the truth again when the disk is well.
    fn probe(&mut self, now: Duration) {
        if self.failure.is_some() {
            let delta = unchanged(&self.hub.state());
            // A failure is recorded like any other, and nobody waits for an answer.
            let _ = self.commit(delta, now);
        }
    }

    fn keep_alive(&mut self, kept: &[LeaseId], now: Duration) {
        let hub = self.hub.clone();
        self.deadlines.keep_alive(kept, &hub.state(), now);
    }

    /// Nothing of the group is stored. What needs no storing is answered from the committed state, everything else
    /// gets the cause.
    fn answer_failed(&mut self, requests: Vec<Request>, error: &StoreError, now: Duration) {
        let hub = self.hub.clone();
        for request in requests {
            let state = hub.state();
            let mut alone = Staged::new(&state, &hub.limits);
            let mut reply = alone.apply(&request.command);
            if reply.is_ok() && alone.is_dirty() {
                reply = Err(error.clone());
            } else {
                let (_, kept) = alone.finish(&hub.history);
                self.deadlines.keep_alive(&kept, &state, now);
            }
            drop(request.reply.send(reply));
        }
    }

    /// Durable first, then visible. On an error the committed state is as before, in memory and on disk.
    fn commit(&mut self, delta: Delta, now: Duration) -> Result<(), StoreError> {
        if let Some(failure) = &self.failure
            && Instant::now() < failure.retry_at
        {
            return Err(failure.error.clone());
        }
        let transactions = delta.log.len() as u64;
        match self.commit_once(&delta) {
            Ok(file_bytes) => {
                self.commits += 1;
                self.figures.file_bytes.store(file_bytes, Ordering::Relaxed);
                self.figures.commits.fetch_add(1, Ordering::Relaxed);
                self.figures.transactions.fetch_add(transactions, Ordering::Relaxed);
                if self.failure.take().is_some() {
                    *lock(&self.figures.failure) = None;
                    tracing::info!("the store writes again");
                }
                self.deadlines.absorb(&delta.leases, now);
                self.hub.publish(delta);
                Ok(())
            }
            Err(failed) => Err(self.failed(failed)),
        }
    }

    fn commit_once(&mut self, delta: &Delta) -> Result<u64, Failed> {
        if self.tables.is_none() {
            self.reopen().map_err(|error| Failed { error, nothing_stored: true })?;
        }
        match &self.tables {
            Some(tables) => tables.commit(delta, self.commits + 1).map(|()| tables.file_bytes()),
            None => Err(Failed { error: StoreError::Closed, nothing_stored: true }),
        }
    }

    /// After a failed commit the database refuses to go on. It is opened anew, and what the failed commit may have
    /// left behind is taken back, so that the answer "nothing was stored" is true.
    fn failed(&mut self, failed: Failed) -> StoreError {
        let wait = self.failure.as_ref().map_or(FIRST_RETRY, |failure| (failure.wait * 2).min(LONGEST_RETRY));
        if self.failure.is_none() {
            tracing::error!(cause = %failed.error, "the store cannot write; reads go on, writes are refused");
        }
        *lock(&self.figures.failure) = Some(failed.error.to_string());
        self.tables = None;
        let undone = self.reopen().is_ok();
        self.failure = Some(Failure { error: failed.error.clone(), retry_at: Instant::now() + wait, wait });
        match failed.error {
            StoreError::Full { cause } | StoreError::Io { cause } if !undone && !failed.nothing_stored => {
                StoreError::Unknown { cause }
            }
            definite => definite,
        }
    }

    fn reopen(&mut self) -> Result<(), StoreError> {
        let disk = self.medium.open().map_err(|error| super::disk::io_failure(&error))?;
        super::disk::check_header(disk.as_ref(), self.medium.path())?;
        let tables = Tables::open(disk, self.cache_bytes)?;
        let on_disk = tables.commits()?;
        if on_disk < self.commits {
            return Err(StoreError::Corrupt {
                place: self.medium.path().display().to_string(),
                key: format!("commit {}", self.commits),
                reason: format!("the file has only {on_disk} commits"),
            });
        }
        if on_disk > self.commits {
            let hub = self.hub.clone();
            let state = hub.state();
            let compact_revision = tables.undo(&state, on_disk + 1)?;
            let delta = Delta { compact_revision, ..unchanged(&state) };
            drop(state);
            self.commits = on_disk + 1;
            hub.publish(delta);
        }
        self.tables = Some(tables);
        Ok(())
    }
}

/// A commit that changes nothing.
fn unchanged(state: &State) -> Delta {
    Delta {
        kv: Overlay::new(),
        log: Vec::new(),
        leases: BTreeMap::new(),
        revision: state.revision,
        compact_revision: state.compact_revision,
        next_lease: state.next_lease,
    }
}
