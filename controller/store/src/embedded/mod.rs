//! The embedded store: everything in memory for reading, everything on disk before it is acknowledged.

// Public for the fuzz target only.
#[doc(hidden)]
pub mod codec;
pub(crate) mod disk;
pub mod lock;
pub(crate) mod tables;
mod writer;

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use self::disk::{FileMedium, Medium};
use self::lock::{Lock, at};
use self::tables::Tables;
use self::writer::{Figures, Message, Request, Writer};
use crate::clock::{Clock, SystemClock};
use crate::error::StoreError;
use crate::hub::{Hub, lock as locked};
use crate::memory::{expect_lease, expect_txn, millis};
use crate::staged::{Command, Reply, check_key, check_txn};
use crate::state::FIRST_REVISION;
use crate::store::{Store, WatchStream};
use crate::types::{
    History, KeyValue, LeaseGrant, LeaseId, Limits, RangeRequest, RangeResult, StoreStatus, Txn, TxnOutcome,
};

pub(crate) const FILE: &str = "state.db";
const NEW_FILE: &str = "state.db.new";
pub(crate) const LOCK_FILE: &str = "lock";
/// Granule of the queue's byte budget: also a small request takes this much, which bounds their number.
const GRANULE: usize = 16 * 1024;

/// How to open an [`EmbeddedStore`].
#[derive(Debug, Clone)]
pub struct EmbeddedOptions {
    /// Directory of the store; made (mode 0700) when absent.
    pub dir: PathBuf,
    /// Limits on keys, values, transactions and leases that the store enforces.
    pub limits: Limits,
    /// How much history to keep.
    pub history: History,
    /// The clock of the leases.
    pub clock: Arc<dyn Clock>,
    /// Most bytes of waiting writes.
    pub queue_bytes: usize,
    /// Longest wait for room in the queue; then [`StoreError::Overloaded`].
    pub queue_timeout: Duration,
    /// Page cache of the database in bytes. Reads do not use it.
    pub cache_bytes: usize,
}

impl EmbeddedOptions {
    /// Defaults for a store in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            limits: Limits::default(),
            history: History::default(),
            clock: Arc::new(SystemClock::default()),
            queue_bytes: 64 * 1024 * 1024,
            queue_timeout: Duration::from_secs(5),
            cache_bytes: 64 * 1024 * 1024,
        }
    }
}

/// A durable store in one directory, for one process.
///
/// All live keys and the kept history are in memory too, so reads never wait for the disk and go on when it fails.
/// One thread writes; all transactions that wait while it syncs share the next sync.
#[derive(Debug)]
pub struct EmbeddedStore {
    hub: Arc<Hub>,
    figures: Arc<Figures>,
    room: Arc<Semaphore>,
    queue: mpsc::Sender<Message>,
    queue_timeout: Duration,
    writer: Mutex<Option<JoinHandle<()>>>,
    // Released last, when nothing of this process touches the file any more.
    _lock: Option<Lock>,
}

impl EmbeddedStore {
    /// Opens or creates the store. Reads the whole file, so it blocks for as long as that takes.
    ///
    /// # Errors
    /// [`StoreError::InUse`], [`StoreError::Foreign`], [`StoreError::NewerFormat`], [`StoreError::Corrupt`],
    /// [`StoreError::Full`], [`StoreError::Io`]; in every case the file is left as it was.
    pub fn open(options: EmbeddedOptions) -> Result<Self, StoreError> {
        Self::open_at(options, FIRST_REVISION)
    }

    /// Opens the store; one that is created stands at `revision`, so that it goes on where another one ended.
    ///
    /// # Errors
    /// As for [`EmbeddedStore::open`].
    pub fn open_at(options: EmbeddedOptions, revision: u64) -> Result<Self, StoreError> {
        let dir = &options.dir;
        let make = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
        make.map_err(|error| at(dir, &error))?;
        let lock = lock::acquire(&dir.join(LOCK_FILE))?;
        let path = dir.join(FILE);
        if !path.try_exists().map_err(|error| at(&path, &error))? {
            create(dir, options.cache_bytes, revision)?;
        }
        Self::start(Arc::new(FileMedium { path }), Some(lock), &options)
    }

    /// Opens the store on any medium that holds one.
    pub(crate) fn start(
        medium: Arc<dyn Medium>,
        lock: Option<Lock>,
        options: &EmbeddedOptions,
    ) -> Result<Self, StoreError> {
        let disk = medium.open().map_err(|error| at(medium.path(), &error))?;
        disk::check_header(disk.as_ref(), medium.path())?;
        let tables = Tables::open(disk, options.cache_bytes)?;
        let (state, commits) = tables.load()?;
        let hub = Hub::new(state, options.limits, options.history);
        let opened = (tables, commits);
        let writer = Writer::new(hub.clone(), options.clock.clone(), medium, options.cache_bytes, opened);
        let figures = writer.figures.clone();
        let (queue, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("store-writer".to_owned());
        let thread = thread.spawn(move || writer.run(&receiver)).map_err(|error| disk::io_failure(&error))?;
        Ok(Self {
            hub,
            figures,
            room: Arc::new(Semaphore::new(options.queue_bytes.div_ceil(GRANULE))),
            queue,
            queue_timeout: options.queue_timeout,
            writer: Mutex::new(Some(thread)),
            _lock: lock,
        })
    }

    /// Ends the leases whose time is over by the injected clock; done when they are gone.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the store is closed or its writer has ended.
    pub async fn tick(&self) -> Result<(), StoreError> {
        let (done, ticked) = oneshot::channel();
        self.queue.send(Message::Tick(done)).map_err(|_| StoreError::Closed)?;
        ticked.await.map_err(|_| StoreError::Closed)
    }

    /// Finishes what is queued, ends all watches and closes the file. Later writes answer [`StoreError::Closed`].
    pub fn close(&self) {
        // A writer that is gone already needs no message.
        let _ = self.queue.send(Message::Close);
        if let Some(thread) = locked(&self.writer).take()
            && thread.join().is_err()
        {
            tracing::error!("the store's writer panicked");
        }
    }

    async fn command(&self, command: Command, bytes: usize) -> Result<Reply, StoreError> {
        let granules = u32::try_from(bytes.div_ceil(GRANULE).max(1)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(granules);
        let permit = match tokio::time::timeout(self.queue_timeout, room).await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(StoreError::Closed),
            Err(_) => return Err(StoreError::Overloaded { waited_ms: millis(self.queue_timeout) }),
        };
        let (reply, answer) = oneshot::channel();
        let request = Request { command, reply, _permit: Some(permit) };
        self.queue.send(Message::Request(request)).map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

/// Makes an empty store under another name and moves it into place whole.
fn create(dir: &Path, cache_bytes: usize, revision: u64) -> Result<(), StoreError> {
    let new = dir.join(NEW_FILE);
    let failed = |error: std::io::Error| at(&new, &error);
    match fs::remove_file(&new) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let disk = disk::create_file(&new).map_err(failed)?;
    disk::write_header(disk.as_ref()).map_err(failed)?;
    Tables::open(disk, cache_bytes)?.initialise(revision)?;
    fs::rename(&new, dir.join(FILE)).map_err(failed)?;
    // The name itself is durable only when its directory is.
    fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed)
}

#[async_trait]
impl Store for EmbeddedStore {
    async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        check_key(&key, &self.hub.limits)?;
        Ok(self.hub.get(&key))
    }

    async fn range(&self, request: RangeRequest) -> Result<RangeResult, StoreError> {
        self.hub.range(&request)
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        check_txn(&txn, &self.hub.limits)?;
        let bytes = txn.bytes();
        expect_txn(self.command(Command::Txn(txn), bytes).await?)
    }

    async fn watch(&self, prefix: Bytes, start_revision: u64) -> Result<WatchStream, StoreError> {
        Ok(Box::pin(self.hub.watch(prefix, start_revision)?))
    }

    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.command(Command::Compact(revision), 0).await.map(|_| ())
    }

    async fn lease_grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        expect_lease(self.command(Command::Grant { ttl_ms: millis(ttl) }, 0).await?)
    }

    async fn lease_keep_alive(&self, lease: LeaseId) -> Result<LeaseGrant, StoreError> {
        expect_lease(self.command(Command::KeepAlive(lease), 0).await?)
    }

    async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.command(Command::Revoke(lease), 0).await.map(|_| ())
    }

    async fn status(&self) -> Result<StoreStatus, StoreError> {
        Ok(StoreStatus {
            file_bytes: self.figures.file_bytes.load(Ordering::Relaxed),
            commits: self.figures.commits.load(Ordering::Relaxed),
            transactions: self.figures.transactions.load(Ordering::Relaxed),
            write_failure: locked(&self.figures.failure).clone(),
            ..self.hub.status()
        })
    }

    fn limits(&self) -> Limits {
        self.hub.limits
    }
}

/// A header page of any format, for tests of formats that do not exist yet.
#[cfg(test)]
pub(crate) fn header_of_format(format: u32) -> Vec<u8> {
    codec::encode_header(format)
}
