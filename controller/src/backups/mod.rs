//! Backups of the store on a schedule, by the controller that leads. What is due is decided in `plan`; here it is done, on a thread where files may take
//! their time. A backup that fails is told, counted and tried again; it never keeps a controller from anything.

mod metrics;
mod plan;

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use controller_store::{Store, StoreError};
use proto_model::Timestamp;
use proto_rpc::Metrics;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::{
    backup_args::BackupArgs,
    backups::{
        metrics::BackupMetrics,
        plan::{Plan, Schedule, Stamp, plan},
    },
    process::unix_ms,
    snapshot::{self, SnapshotError},
};

/// The longest wait before the folder and the clock are looked at again: a clock may be set, a folder mounted.
const RECHECK: Duration = Duration::from_secs(60);
/// The wait after a failure, where the schedule's is not shorter.
const AGAIN: Duration = Duration::from_secs(60);
/// How often a snapshot begins anew because the store forgot its revision before its end.
const TRIES: u32 = 3;
/// What a key costs in a backup beside its own bytes and its value's, rounded up.
const BESIDE_KEY: u64 = 16;
/// Room on the disk that no backup takes.
const RESERVE: u64 = 16 << 20;

/// Why a backup that was due was not made.
#[derive(Debug, Error)]
enum BackupError {
    /// The folder.
    #[error("{}: {source}", path.display())]
    Folder {
        /// Which folder, or file in it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It would fill the disk.
    #[error("{} has {free} bytes free, and a backup is left alone below {needed}", dir.display())]
    NoRoom {
        /// The folder.
        dir: PathBuf,
        /// Bytes that are free there.
        free: u64,
        /// What a backup takes, and the room that is left beside it.
        needed: u64,
    },
    /// The store cannot be read, or the file cannot be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// A defect of this program.
    #[error("the thread that makes it has died")]
    Died,
}

/// The backups of one controller.
#[derive(Debug)]
pub struct Backups {
    folder: Folder,
    store: Stored,
    metrics: BackupMetrics,
}

/// The store as it is stored, sealed.
struct Stored(Arc<dyn Store>);

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Stored")
    }
}

/// Where they are.
#[derive(Debug, Clone)]
struct Folder {
    dir: PathBuf,
    cluster: String,
    schedule: Schedule,
}

impl Backups {
    /// As the options say; `None` where they ask for none. `store` is the one that seals nothing.
    pub fn new(
        args: &BackupArgs,
        cluster: &str,
        store: Arc<dyn Store>,
        metrics: &Metrics,
    ) -> Option<Arc<Self>> {
        let dir = args.backup_dir.clone()?;
        let schedule = Schedule { every: args.backup_every, keep: args.backup_keep as usize };
        let folder = Folder { dir, cluster: cluster.to_owned(), schedule };
        let metrics = BackupMetrics::new(metrics, schedule.every);
        // One that cannot be read is told when a backup is due.
        if let Some(newest) = folder.plan(Timestamp(unix_ms())).ok().and_then(|plan| plan.newest) {
            metrics.newest(newest.time);
        }
        Some(Arc::new(Self { folder, store: Stored(store), metrics }))
    }

    /// Makes what is due until `ending`: as long as this controller leads.
    pub async fn run(self: Arc<Self>, ending: CancellationToken) {
        let mut failing: Option<String> = None;
        let mut wait = Duration::ZERO;
        loop {
            tokio::select! {
                biased;
                () = ending.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let (backups, runtime, stop) = (Arc::clone(&self), Handle::current(), ending.clone());
            let turn = tokio::task::spawn_blocking(move || runtime.block_on(backups.turn(&stop)));
            wait = match turn.await.unwrap_or(Err(BackupError::Died)) {
                Ok(wait) => {
                    if failing.take().is_some() {
                        tracing::info!(folder = %self.folder.dir.display(), "backups are made again");
                    }
                    wait
                }
                Err(BackupError::Snapshot(SnapshotError::Stopped)) => return,
                Err(error) => {
                    self.metrics.failed();
                    let cause = error.to_string();
                    if failing.as_ref() != Some(&cause) {
                        tracing::error!(cause, "no backup is made");
                    }
                    failing = Some(cause);
                    AGAIN.min(self.folder.schedule.every)
                }
            };
        }
    }

    /// Makes a backup if one is due. Answers when to look again.
    async fn turn(&self, stop: &CancellationToken) -> Result<Duration, BackupError> {
        let now = Timestamp(unix_ms());
        self.folder.make()?;
        let found = self.folder.plan(now)?;
        if let Some(newest) = found.newest {
            self.metrics.newest(newest.time);
        }
        if found.due > now {
            return Ok(found.due.since(now).min(RECHECK));
        }
        let path = self.write(now, stop).await?;
        let bytes = fs::metadata(&path).map_err(|source| BackupError::Folder { path, source })?.len();
        self.metrics.made(bytes);
        let after = self.folder.plan(Timestamp(unix_ms()).max(now))?;
        self.folder.prune(&after.remove)?;
        if let Some(newest) = after.newest {
            self.metrics.newest(newest.time);
        }
        Ok(after.due.since(Timestamp(unix_ms())).min(RECHECK))
    }

    async fn write(&self, now: Timestamp, stop: &CancellationToken) -> Result<PathBuf, BackupError> {
        let status = self.store.0.status().await.map_err(SnapshotError::from)?;
        self.folder.has_room(status.bytes + status.keys * BESIDE_KEY + RESERVE)?;
        let time = Timestamp(now.0 / 1000 * 1000);
        let out = |revision| self.folder.dir.join(Stamp { time, revision }.name(&self.folder.cluster));
        let mut again = 1;
        let (path, summary) = loop {
            match snapshot::write(Arc::clone(&self.store.0), &out, stop).await {
                Err(SnapshotError::Store(StoreError::Compacted { .. })) if again < TRIES => again += 1,
                written => break written?,
            }
        };
        tracing::info!(
            file = %path.display(),
            keys = summary.keys,
            revision = summary.revision,
            "a backup was made"
        );
        Ok(path)
    }
}

impl Folder {
    fn failed<'a>(&'a self, name: &'a str) -> impl FnOnce(io::Error) -> BackupError + 'a {
        move |source| BackupError::Folder { path: self.dir.join(name), source }
    }

    fn make(&self) -> Result<(), BackupError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.map_err(self.failed(""))
    }

    fn plan(&self, now: Timestamp) -> Result<Plan, BackupError> {
        let names = names(&self.dir).map_err(self.failed(""))?;
        Ok(plan(&names, &self.cluster, self.schedule, now))
    }

    fn has_room(&self, needed: u64) -> Result<(), BackupError> {
        let stat = rustix::fs::statvfs(&self.dir).map_err(|error| self.failed("")(error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let dir = self.dir.clone();
        if free < needed { Err(BackupError::NoRoom { dir, free, needed }) } else { Ok(()) }
    }

    fn prune(&self, names: &[String]) -> Result<(), BackupError> {
        for name in names {
            match fs::remove_file(self.dir.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(self.failed(name)(error));
                }
                _ => tracing::debug!(name, "an old backup was removed"),
            }
        }
        Ok(())
    }
}

/// The files of a folder; names that are no text are nobody's of ours.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    entries.filter_map(Result::transpose).collect()
}
