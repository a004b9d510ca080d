//! Backups of the store on a schedule, by the controller that leads. What is due is decided in `plan`; here it is done, on a thread where files may take
//! their time. A backup that fails is told, counted and tried again; it never keeps a controller from anything.

mod metrics;
mod plan;

use std::{
    fs, io,
    mem::{Discriminant, discriminant},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use controller_store::{Store, StoreError};
use proto_model::Timestamp;
use proto_rpc::{Authority, CaPin, Metrics};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::{
    backup_args::BackupArgs,
    backups::{
        metrics::BackupMetrics,
        plan::{Owner, Plan, Schedule, Stamp, plan},
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
/// So many hex digits of an authority's pin tell its cluster from others of the same name.
const DIGITS: usize = 8;

/// Why a backup that was due was not made, or another one is still there.
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
    /// A file that is not needed any more.
    #[error("{}: {source}", path.display())]
    Remove {
        /// Which file.
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

/// What is told once as long as it stays so: texts of the same cause may hold another path or number each time.
type Cause = (Discriminant<BackupError>, Option<Discriminant<StoreError>>, Option<io::ErrorKind>);

impl BackupError {
    fn cause(&self) -> Cause {
        let (store, system) = match self {
            Self::Snapshot(SnapshotError::Store(error)) => (Some(discriminant(error)), None),
            Self::Folder { source, .. } | Self::Remove { source, .. } => (None, Some(source.kind())),
            Self::NoRoom { .. } | Self::Snapshot(SnapshotError::Stopped) | Self::Died => (None, None),
        };
        (discriminant(self), store, system)
    }

    fn log(&self) {
        match self {
            Self::Remove { .. } => tracing::error!(cause = %self, "old backups are not removed"),
            _ => tracing::error!(cause = %self, "no backup is made"),
        }
    }
}

/// The backups of one controller.
#[derive(Debug)]
pub struct Backups {
    folder: Folder,
    authority: Arc<Authority>,
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
    schedule: Schedule,
}

impl Backups {
    /// As the options say; `None` where they ask for none. `store` is the one that seals nothing. The folder is not looked at here: it may be on a disk that
    /// does not answer, and a controller starts all the same.
    pub fn new(
        args: &BackupArgs,
        authority: &Arc<Authority>,
        store: Arc<dyn Store>,
        metrics: &Metrics,
    ) -> Option<Arc<Self>> {
        let dir = args.backup_dir.clone()?;
        let schedule = Schedule { every: args.backup_every, keep: args.backup_keep as usize };
        let metrics = BackupMetrics::new(metrics, schedule.every);
        let (folder, authority) = (Folder { dir, schedule }, Arc::clone(authority));
        Some(Arc::new(Self { folder, authority, store: Stored(store), metrics }))
    }

    /// Makes what is due until `ending`: as long as this controller leads.
    pub async fn run(self: Arc<Self>, ending: CancellationToken) {
        let mut failing: Option<Cause> = None;
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
                    if failing.replace(error.cause()) != Some(error.cause()) {
                        error.log();
                    }
                    AGAIN.min(self.folder.schedule.every)
                }
            };
        }
    }

    /// Removes what is not needed any more, which makes room, and makes a backup if one is due, also where not all could be removed. Answers when to
    /// look again.
    async fn turn(&self, stop: &CancellationToken) -> Result<Duration, BackupError> {
        let (now, owner) = (Timestamp(unix_ms()), self.owner());
        let (mut due, mut removed) = self.examine(&owner, now)?;
        if due <= now {
            let path = self.write(&owner, now, stop).await?;
            let bytes = fs::metadata(&path).map_err(|source| BackupError::Folder { path, source })?.len();
            self.metrics.made(bytes);
            (due, removed) = self.examine(&owner, Timestamp(unix_ms()).max(now))?;
        }
        removed?;
        Ok(due.since(Timestamp(unix_ms())).min(RECHECK))
    }

    /// When the next one is due, and whether what is not needed any more was removed.
    fn examine(
        &self,
        owner: &Owner,
        now: Timestamp,
    ) -> Result<(Timestamp, Result<(), BackupError>), BackupError> {
        let found = self.folder.plan(owner, now)?;
        self.metrics.newest(found.newest.map(|stamp| stamp.time));
        Ok((found.due, self.folder.prune(&found.remove)))
    }

    /// Whose backups count now: one authority may follow another while this controller runs.
    fn owner(&self) -> Owner {
        let pins = self.authority.standing().pins();
        Owner { cluster: self.authority.cluster().to_owned(), authorities: pins.iter().map(short).collect() }
    }

    async fn write(
        &self,
        owner: &Owner,
        now: Timestamp,
        stop: &CancellationToken,
    ) -> Result<PathBuf, BackupError> {
        let status = self.store.0.status().await.map_err(SnapshotError::from)?;
        self.folder.has_room(status.bytes + status.keys * BESIDE_KEY + RESERVE)?;
        let time = Timestamp(now.0 / 1000 * 1000);
        let out = |revision| self.folder.dir.join(owner.name(Stamp { time, revision }));
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
    fn failed(&self, source: io::Error) -> BackupError {
        BackupError::Folder { path: self.dir.clone(), source }
    }

    /// What is to be done. A folder that is not there is not made: where a disk is not mounted, backups would fill another one.
    fn plan(&self, owner: &Owner, now: Timestamp) -> Result<Plan, BackupError> {
        let names = names(&self.dir).map_err(|source| self.failed(source))?;
        Ok(plan(&names, owner, self.schedule, now))
    }

    fn has_room(&self, needed: u64) -> Result<(), BackupError> {
        let stat = rustix::fs::statvfs(&self.dir).map_err(|error| self.failed(error.into()))?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let dir = self.dir.clone();
        if free < needed { Err(BackupError::NoRoom { dir, free, needed }) } else { Ok(()) }
    }

    /// Removes these files, whatever becomes of others.
    ///
    /// # Errors
    /// The first one that is there still.
    fn prune(&self, names: &[String]) -> Result<(), BackupError> {
        let mut removed = Ok(());
        for name in names {
            let path = self.dir.join(name);
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    removed = removed.and(Err(BackupError::Remove { path, source }));
                }
                _ => tracing::debug!(name, "an old backup was removed"),
            }
        }
        removed
    }
}

/// An authority in the name of a backup: the first digits of the pin, which is written `sha256:<64 hex digits>`.
fn short(pin: &CaPin) -> String {
    let text = pin.to_string();
    text.split(':').next_back().unwrap_or_default().chars().take(DIGITS).collect()
}

/// The files of a folder; names that are no text are nobody's of ours.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    entries.filter_map(Result::transpose).collect()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use controller_store::{History, Limits, MemoryStore, SystemClock};
    use proto_rpc::{Ca, Standing, exposition::Exposition};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Backups of a store that is as good as empty, and the metrics that show them.
    fn made(dir: &Path, keep: u32) -> (Arc<Backups>, Metrics) {
        let args = BackupArgs { backup_dir: Some(dir.to_owned()), backup_every: HOUR, backup_keep: keep };
        let now = SystemTime::now();
        let authority = Authority::new(Standing::alone(Ca::create("rail", now, 24 * HOUR).unwrap())).unwrap();
        let store = MemoryStore::new(Arc::new(SystemClock::default()), Limits::default(), History::default());
        let metrics = Metrics::new("rail-controller", "1", now);
        (Backups::new(&args, &Arc::new(authority), Arc::new(store), &metrics).unwrap(), metrics)
    }

    fn shown(metrics: &Metrics, series: &str) -> String {
        let text = metrics.encode(Exposition::Text);
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{series} in {text}")).to_owned()
    }

    async fn turn(backups: &Backups) -> Result<Duration, BackupError> {
        backups.turn(&CancellationToken::new()).await
    }

    #[tokio::test]
    async fn a_folder_that_is_missing_is_told_and_not_made() {
        let keep = tempfile::tempdir().unwrap();
        let dir = keep.path().join("backups");
        let (backups, _) = made(&dir, 2);
        let error = turn(&backups).await.unwrap_err();
        assert!(matches!(&error, BackupError::Folder { path, .. } if *path == dir), "{error}");
        assert!(!dir.exists());
        fs::create_dir(&dir).unwrap();
        turn(&backups).await.unwrap();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn what_is_too_much_is_removed_although_no_backup_is_due() {
        let dir = tempfile::tempdir().unwrap();
        let (backups, metrics) = made(dir.path(), 1);
        let (owner, now) = (backups.owner(), Timestamp(unix_ms() / 1000 * 1000));
        let name = |ago: u64| owner.name(Stamp { time: Timestamp(now.0 - ago * 60_000), revision: 7 });
        for ago in [20, 30, 40] {
            fs::write(dir.path().join(name(ago)), "").unwrap();
        }
        // Something that is no file cannot be removed: the others go all the same.
        fs::create_dir(dir.path().join(name(35))).unwrap();
        let error = turn(&backups).await.unwrap_err();
        assert!(matches!(&error, BackupError::Remove { path, .. } if path.ends_with(name(35))), "{error}");
        let mut left = names(dir.path()).unwrap();
        left.sort();
        assert_eq!(left, [name(35), name(20)]);
        assert_ne!(shown(&metrics, "rail_backup_last_success_timestamp_seconds"), "0");
    }

    #[tokio::test]
    async fn a_backup_is_made_although_an_old_one_cannot_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (backups, metrics) = made(dir.path(), 1);
        let (owner, now) = (backups.owner(), Timestamp(unix_ms() / 1000 * 1000));
        let name = |ago: u64| owner.name(Stamp { time: Timestamp(now.0 - ago * 60_000), revision: 7 });
        fs::write(dir.path().join(name(80)), "").unwrap();
        fs::create_dir(dir.path().join(name(90))).unwrap();
        let error = turn(&backups).await.unwrap_err();
        assert!(matches!(error, BackupError::Remove { .. }), "{error}");
        let left = names(dir.path()).unwrap();
        assert!(left.len() == 2 && !left.contains(&name(80)), "{left:?}");
        // Where all are gone, there is no newest one any more.
        for name in left {
            let path = dir.path().join(name);
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
        }
        let (due, removed) = backups.examine(&owner, now).unwrap();
        assert!(removed.is_ok() && due == now);
        assert_eq!(shown(&metrics, "rail_backup_last_success_timestamp_seconds"), "0");
    }

    #[test]
    fn the_same_cause_with_another_path_or_number_is_told_once() {
        let remove = |path: &str, kind: io::ErrorKind| {
            BackupError::Remove { path: path.into(), source: kind.into() }.cause()
        };
        let denied = io::ErrorKind::PermissionDenied;
        assert_eq!(remove("a", denied), remove("b", denied));
        assert_ne!(remove("a", denied), remove("a", io::ErrorKind::ReadOnlyFilesystem));
        let room = |free| BackupError::NoRoom { dir: "a".into(), free, needed: 9 }.cause();
        assert_eq!(room(1), room(2));
        let store = |error| BackupError::Snapshot(SnapshotError::Store(error)).cause();
        let io = |cause: &str| StoreError::Io { cause: cause.to_owned() };
        assert_eq!(store(io("a")), store(io("b")));
        assert_ne!(store(io("a")), store(StoreError::Closed));
    }
}
