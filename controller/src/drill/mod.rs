//! `store drill`: proves a backup. It is restored into a folder of its own, as `store restore` does it, and led on as a starting controller does it: keys, rows,
//! migration, state. The folder is gone afterwards; the backup and the store that is there are only read.

mod report;

use std::{
    collections::HashMap,
    fs::Permissions,
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use aws_lc_rs::digest::{SHA256, digest};
use controller_keys::{CA_CERTIFICATE, CA_KEY, CaFolder};
use controller_leader::{LoopMetrics, Options, inspect, keys, kind_of};
use controller_store::{
    EmbeddedStore, Filling, REVISION_GAP, Store,
    backup::{BackupReader, BackupSummary},
};
use proto_model::Timestamp;
use proto_rpc::{Metrics, ca::CA_LIFETIME};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    args::{DrillOutput, Which},
    copies::{Pages, fill},
    drill::report::{Backup, Change, Led, Report},
    process::{VERSION, asked_to_stop, unix_ms},
    sealing::{self, SealingError},
    snapshot::SnapshotError,
    store_args::{Kind, StoreArgsError, embedded},
    stores::{KeepError, opened, ring, source},
};

/// Keys that people know by their names.
const NAMED: [&str; 4] = [keys::JOBS, keys::NODES, keys::TENANTS, keys::QUEUES];
/// How long a drill that is stopped may go on with what it cannot let be.
const END: Duration = Duration::from_secs(1);

/// Does it, and prints the report.
///
/// # Errors
/// [`KeepError::Worthless`] if no controller would start from the backup, also when the drill itself could not be held; [`SnapshotError::Stopped`] by a
/// signal.
pub async fn drill(which: &Which, file: &Path, output: DrillOutput) -> Result<(), KeepError> {
    let mut report = held(which, file).await?;
    report.starts = report.faults.is_empty();
    match output {
        DrillOutput::Text => print!("{report}"),
        // Made of texts and numbers, it always can be written as JSON.
        DrillOutput::Json => println!("{}", serde_json::to_string_pretty(&report).unwrap_or_default()),
    }
    if report.starts {
        return Ok(());
    }
    let faults = report.faults.join("\n  ");
    Err(KeepError::Worthless { file: report.backup.file, faults })
}

/// Holds it beside the wait for a signal, which is heard also while a file does not answer. However it ends, its folder is gone then.
async fn held(which: &Which, file: &Path) -> Result<Report, KeepError> {
    let asked = asked_to_end().map_err(KeepError::Signals)?;
    let mut report = Report::default();
    report.backup.file = file.display().to_string();
    let scratch = match scratch() {
        Ok(scratch) => scratch,
        Err(error) => {
            report.faults.push(KeepError::Scratch(error).to_string());
            return Ok(report);
        }
    };
    let (which, file, place) = (which.clone(), file.to_owned(), scratch.path().to_owned());
    let mut rehearsal = tokio::spawn(async move {
        if let Err(error) = rehearse(&which, &file, &place, &mut report).await {
            report.faults.push(error.to_string());
        }
        report
    });
    tokio::select! {
        biased;
        () = asked => {
            rehearsal.abort();
            // Its store is closed then, and writes nothing any more.
            let _ = tokio::time::timeout(END, rehearsal).await;
            Err(SnapshotError::Stopped.into())
        }
        report = &mut rehearsal => {
            report.map_err(|error| KeepError::Unsound(format!("the drill broke: {error}")))
        }
    }
}

fn scratch() -> io::Result<TempDir> {
    tempfile::Builder::new().prefix("rail-drill-").permissions(Permissions::from_mode(0o700)).tempdir()
}

/// When a signal asks this process to stop, also that of a terminal that is closed.
fn asked_to_end() -> io::Result<impl Future<Output = ()>> {
    let (asked, mut closed) = (asked_to_stop()?, signal(SignalKind::hangup())?);
    Ok(async move {
        tokio::select! {
            () = asked => {}
            _ = closed.recv() => {}
        }
    })
}

/// Everything in the order in which it would be needed; what was found so far is in the report.
async fn rehearse(which: &Which, file: &Path, place: &Path, report: &mut Report) -> Result<(), KeepError> {
    let summary = BackupReader::check(file)?;
    report.backup = facts(file, &summary, Timestamp(unix_ms()));
    // The store that is there may be the very thing that is broken: that says nothing of the backup.
    match compare(which, file).await {
        Ok(change) => report.restore = change,
        Err(error) => report.notes.push(format!("not compared with the store that is there: {error}")),
    }
    authority(which, report);
    let options = embedded(place);
    fill(Filling::embedded(options.clone(), summary.revision + REVISION_GAP, false)?, file).await?;
    let stored: Arc<dyn Store> = Arc::new(EmbeddedStore::open(options)?);
    report.sealed_with = fitting_key(which, stored.as_ref()).await?;
    let store = opened(which, stored)?;
    let found = inspect(store.as_ref(), Timestamp(unix_ms())).await?;
    (report.rows_version, report.holds, report.audit) = (found.version, found.counts, found.audit);
    report.faults.extend(found.faults);
    if found.more_faults > 0 {
        report.faults.push(format!("{} more", found.more_faults));
    }
    if report.faults.is_empty() {
        report.led = Some(lead(store).await?);
    }
    Ok(())
}

fn facts(file: &Path, summary: &BackupSummary, now: Timestamp) -> Backup {
    let made = Timestamp(summary.time_ms);
    Backup {
        file: file.display().to_string(),
        sha256: summary.sha256.clone(),
        keys: summary.keys,
        revision: summary.revision,
        made: made.utc(),
        age_seconds: now.since(made).as_secs(),
    }
}

/// The key that the values are sealed with, which must be here.
async fn fitting_key(which: &Which, stored: &dyn Store) -> Result<Option<String>, KeepError> {
    let ring = ring(which)?;
    let recorded = sealing::record(stored).await.map_err(|error| match error {
        SealingError::Store(error) => KeepError::Store(error),
        error => KeepError::Args(StoreArgsError::Sealing(error)),
    })?;
    let Some((id, _)) = recorded else { return Ok(None) };
    match ring.newest() {
        Some(_) if ring.has(id)? => Ok(Some(id.to_string())),
        Some(newest) => Err(KeepError::OtherKeys { id, there: format!("the newest key here is {newest}") }),
        None => Err(KeepError::OtherKeys { id, there: "no keys are here".to_owned() }),
    }
}

/// The authority that a controller with this data folder would have.
fn authority(which: &Which, report: &mut Report) {
    let Some(folder) = which.data_dir.as_deref() else {
        report.notes.push("the authority was not looked at: no --data-dir is given".to_owned());
        return;
    };
    let (certificate, key) = (folder.join(CA_CERTIFICATE).exists(), folder.join(CA_KEY).exists());
    if !certificate && !key {
        report.notes.push(format!(
            "there is no authority in {}: a controller would make a new one there, which no agent trusts; its ca.pem and ca.key are restored from their own copies",
            folder.display()
        ));
        return;
    }
    if !certificate {
        report.notes.push(format!(
            "there is no ca.pem in {}: a controller makes it anew for the key that is there, and is trusted as before",
            folder.display()
        ));
    }
    let pin = which.keys.guards().map_err(|error| error.to_string()).and_then(|guards| {
        let (ca, now) = (CaFolder::new(folder, guards), SystemTime::now());
        let pin = if certificate {
            ca.standing(None, now).map(|standing| standing.issuing().pin())
        } else {
            ca.certified_again(None, CA_LIFETIME, now).map(|ca| ca.pin())
        };
        pin.map_err(|error| error.to_string())
    });
    match pin {
        Ok(pin) => report.authority = Some(pin.to_string()),
        Err(error) => report.faults.push(format!("the authority in {}: {error}", folder.display())),
    }
}

/// Takes the lead as a controller does that starts, asks what it knows then, and ends it.
async fn lead(store: Arc<dyn Store>) -> Result<Led, KeepError> {
    let stop = CancellationToken::new();
    let metrics = LoopMetrics::new(&Metrics::new("rail-controller", VERSION, SystemTime::now()));
    let started = controller_leader::start(store, Options::new("drill", stop.clone()), metrics).await;
    let (handle, running) = started.map_err(|error| KeepError::Unsound(error.to_string()))?;
    let epoch = handle.epoch();
    let answer = handle.query(move |state, _| Led {
        epoch,
        jobs: state.jobs(None).count(),
        nodes: state.nodes(None).count(),
        tenants: state.tenants(None).count(),
    });
    let answer = answer.await.map_err(|error| KeepError::Unsound(error.to_string()));
    stop.cancel();
    running.await.map_err(|error| KeepError::Unsound(format!("the leader loop broke: {error}")))?;
    answer
}

/// What a restore would do to the store that is there; `None` where none is named.
async fn compare(which: &Which, file: &Path) -> Result<Option<Change>, KeepError> {
    let live = match which.store.store {
        Kind::Etcd => source(which, Kind::Etcd).await?,
        Kind::Embedded if which.data_dir.is_some() => source(which, Kind::Embedded).await?,
        Kind::Embedded => return Ok(None),
    };
    let (mut backup, mut reader) = (HashMap::new(), BackupReader::open(file)?);
    while let Some((key, value)) = reader.next()? {
        backup.insert(key, digest(&SHA256, &value).as_ref().to_vec());
    }
    let mut change = Change { store: place(which), ..Change::default() };
    let mut pages = Pages::new(live.as_ref());
    while let Some((revision, items)) = pages.next().await? {
        change.revision = revision;
        for kv in items {
            let kind = kind_of(&kv.key).unwrap_or("other keys");
            match backup.remove(&kv.key) {
                Some(found) if found == digest(&SHA256, &kv.value).as_ref() => {}
                Some(_) => change.kinds.entry(kind).or_default().set_back += 1,
                None => {
                    let named = NAMED.iter().any(|prefix| kv.key.starts_with(prefix.as_bytes()));
                    change.note_lost(kind, &kv.key, named);
                }
            }
        }
    }
    for key in backup.keys() {
        let kind = kind_of(key).unwrap_or("other keys");
        change.kinds.entry(kind).or_default().brought_back += 1;
    }
    Ok(Some(change))
}

fn place(which: &Which) -> String {
    match (which.store.store, &which.data_dir) {
        (Kind::Embedded, Some(folder)) => format!("the embedded store in {}", folder.display()),
        _ => format!("the store in etcd under {}", which.store.etcd.etcd_prefix),
    }
}
