//! `store`: backup, restore, migrate, verify; keys and sealing are in `reseal`, the drill in `drill`. Each reads everything before it writes anything, and says what it did.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use controller_leader::{Inspection, inspect, keys};
use controller_store::{
    Filling, History, Limits, MemoryStore, Op, REVISION_GAP, RangeRequest, Store, SystemClock, Txn,
    backup::BackupReader,
};
use proto_model::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::{
    args::{StoreAction, Which},
    copies::{Digesting, Pages, content, fill, finish},
    drill,
    process::unix_ms,
    reseal, snapshot,
    store_args::{Kind, embedded},
    stores::{KeepError, opened, source},
};

/// How long what nobody waits for any more may hold the process.
const END: Duration = Duration::from_secs(1);

/// Does it.
///
/// # Errors
/// [`KeepError`]; nothing was overwritten without being asked for.
pub fn run(action: &StoreAction) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        match action {
            StoreAction::Backup { which, out } => backup(which, out).await,
            StoreAction::Restore { which, from, force } => restore(which, from, *force).await,
            StoreAction::Migrate { which, to, force } => migrate(which, *to, *force).await,
            StoreAction::Key { file, rewrap, keys, old_key_provider } => {
                reseal::key(file, *rewrap, keys, old_key_provider.as_ref())
            }
            StoreAction::Reseal { which, plain } => reseal::reseal(which, *plain).await,
            StoreAction::Verify { which, file } => verify(which, file.as_deref()).await,
            StoreAction::Drill { which, file, output } => drill::drill(which, file, *output).await,
        }
    });
    // Where it was stopped, something may still wait for a file that does not answer.
    runtime.shutdown_timeout(END);
    done.map_err(Into::into)
}

/// A store to fill, whose revisions are above `revision`.
async fn target(which: &Which, kind: Kind, revision: u64, force: bool) -> Result<Filling, KeepError> {
    match kind {
        Kind::Embedded => {
            let folder = which.data_dir.as_deref().ok_or(KeepError::NoDataDir)?;
            Ok(Filling::embedded(embedded(folder), revision, force)?)
        }
        Kind::Etcd => {
            let mut options = which.store.etcd.options()?;
            options.keep_history = None;
            Ok(Filling::etcd(options, revision, force).await?)
        }
    }
}

async fn backup(which: &Which, out: &Path) -> Result<(), KeepError> {
    let store = source(which, which.store.store).await?;
    let summary = snapshot::write(store, &|_| out.to_owned(), &CancellationToken::new()).await?.1;
    println!(
        "{}: {} keys at revision {}, SHA-256 {}",
        out.display(),
        summary.keys,
        summary.revision,
        summary.sha256
    );
    Ok(())
}

async fn restore(which: &Which, from: &Path, force: bool) -> Result<(), KeepError> {
    // All of it first: a damaged backup must not cost the store that is there.
    let summary = BackupReader::check(from)?;
    let inspection = inspect_backup(which, from).await?;
    sound(&inspection, &from.display().to_string())?;
    let filling = target(which, which.store.store, summary.revision + REVISION_GAP, force).await?;
    kept(fill(filling, from).await?);
    println!(
        "{} keys restored from {}, made at revision {}, with {}",
        summary.keys,
        from.display(),
        summary.revision,
        inspection.rows()
    );
    Ok(())
}

async fn migrate(which: &Which, to: Kind, force: bool) -> Result<(), KeepError> {
    if which.store.store == Kind::Etcd && to == Kind::Etcd {
        return Err(KeepError::BothSaid);
    }
    let from = match to {
        Kind::Embedded => Kind::Etcd,
        Kind::Etcd => Kind::Embedded,
    };
    let store = source(which, from).await?;
    let now = Timestamp(unix_ms());
    sound(&inspect(opened(which, Arc::clone(&store))?.as_ref(), now).await?, "the source")?;
    if from == Kind::Etcd {
        // A controller that still runs there cannot write any more.
        store.txn(Txn::new().then(Op::delete(keys::LEADER))).await?;
    }
    let revision = store.range(RangeRequest { limit: 1, ..RangeRequest::default() }).await?.revision;
    let mut filling = target(which, to, revision + REVISION_GAP, force).await?;
    let (mut pages, mut digesting) = (Pages::new(store.as_ref()), Digesting::new());
    while let Some((_, items)) = pages.next().await? {
        for kv in items {
            digesting.add(&kv.key, &kv.value);
            filling.put(kv.key, kv.value).await?;
        }
    }
    let copied = digesting.done();
    if content(store.as_ref()).await? != copied {
        return Err(KeepError::Differs);
    }
    kept(finish(filling, &copied).await?);
    println!(
        "{} keys migrated, compared and in place; start the controller with --store {}",
        copied.keys,
        name(to)
    );
    Ok(())
}

fn kept(former: Option<PathBuf>) {
    if let Some(former) = former {
        println!("the former store is kept as {}", former.display());
    }
}

async fn verify(which: &Which, file: Option<&Path>) -> Result<(), KeepError> {
    let (place, inspection) = match file {
        Some(file) => {
            let summary = BackupReader::check(file)?;
            println!("{}: {} keys, SHA-256 {} is right", file.display(), summary.keys, summary.sha256);
            (file.display().to_string(), inspect_backup(which, file).await?)
        }
        None => {
            let store = source(which, which.store.store).await?;
            let place = format!("the {} store", name(which.store.store));
            (place, inspect(opened(which, store)?.as_ref(), Timestamp(unix_ms())).await?)
        }
    };
    for (kind, count) in &inspection.counts {
        println!("{count:>10} {kind}");
    }
    sound(&inspection, &place)?;
    if let Some(cause) = &inspection.audit {
        return Err(KeepError::Unsound(format!("{place} is sound but for its audit log: {cause}")));
    }
    println!("{place} is sound at revision {}, with {}", inspection.revision, inspection.rows());
    Ok(())
}

/// A backup as a store in memory, so that the same eyes look at it.
async fn inspect_backup(which: &Which, from: &Path) -> Result<Inspection, KeepError> {
    let limits =
        Limits { value_bytes: usize::MAX, txn_bytes: usize::MAX, total_bytes: u64::MAX, ..Limits::default() };
    let history = History { revisions: 10, bytes: 0, ..History::default() };
    let store = MemoryStore::new(Arc::new(SystemClock::default()), limits, history);
    let mut reader = BackupReader::open(from)?;
    while let Some((key, value)) = reader.next()? {
        store.put(key, value).await?;
    }
    Ok(inspect(opened(which, Arc::new(store))?.as_ref(), Timestamp(unix_ms())).await?)
}

/// Whether a controller would start on it. A broken audit log is only reported: it must not keep anybody from a restore.
fn sound(inspection: &Inspection, place: &str) -> Result<(), KeepError> {
    if inspection.is_sound() {
        if let Some(cause) = &inspection.audit {
            eprintln!("the audit log of {place} is broken: {cause}");
        }
        return Ok(());
    }
    let count = inspection.faults.len() as u64 + inspection.more_faults;
    let list = inspection.faults.join("\n  ");
    Err(KeepError::Unsound(format!("{place} is not sound, {count} faults:\n  {list}")))
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Embedded => "embedded",
        Kind::Etcd => "etcd",
    }
}
