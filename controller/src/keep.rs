//! `store`: backup, restore, migrate, verify; keys and sealing are in `reseal`. Each reads everything before it writes anything, and says what it did.

use std::{
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::digest::{Context, SHA256};
use controller_leader::{Inspection, inspect, is_of_the_process, keys};
use controller_store::{
    Filling, History, KeyValue, Limits, MemoryStore, Op, REVISION_GAP, RangeRequest, Store, StoreError,
    SystemClock, Txn,
    backup::{BackupReader, BackupWriter},
};
use proto_model::Timestamp;

use crate::{
    args::{StoreAction, Which},
    reseal,
    store_args::{Kind, embedded},
    stores::{KeepError, opened, source},
};

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
        }
    });
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

/// All keys of a store at one revision, page by page, but those that belong to a process.
struct Pages<'a> {
    store: &'a dyn Store,
    request: RangeRequest,
    more: bool,
}

impl<'a> Pages<'a> {
    fn new(store: &'a dyn Store) -> Self {
        Self { store, request: RangeRequest::default(), more: true }
    }

    async fn next(&mut self) -> Result<Option<(u64, Vec<KeyValue>)>, StoreError> {
        if !self.more {
            return Ok(None);
        }
        let mut page = self.store.range(self.request.clone()).await?;
        self.more = page.more;
        self.request.revision = Some(page.revision);
        self.request.after = page.items.last().map(|kv| kv.key.clone());
        page.items.retain(|kv| !is_of_the_process(&kv.key));
        Ok(Some((page.revision, page.items)))
    }
}

/// What two stores with the same keys and values have in common.
#[derive(PartialEq, Eq)]
struct Content {
    keys: u64,
    digest: Vec<u8>,
}

struct Digesting {
    keys: u64,
    context: Context,
}

impl Digesting {
    fn new() -> Self {
        Self { keys: 0, context: Context::new(&SHA256) }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.keys += 1;
        for part in [key, value] {
            self.context.update(&(part.len() as u64).to_le_bytes());
            self.context.update(part);
        }
    }

    fn done(self) -> Content {
        Content { keys: self.keys, digest: self.context.finish().as_ref().to_vec() }
    }
}

async fn content(store: &dyn Store) -> Result<Content, StoreError> {
    let (mut pages, mut digesting) = (Pages::new(store), Digesting::new());
    while let Some((_, items)) = pages.next().await? {
        items.iter().for_each(|kv| digesting.add(&kv.key, &kv.value));
    }
    Ok(digesting.done())
}

async fn backup(which: &Which, out: &Path) -> Result<(), KeepError> {
    let store = source(which, which.store.store).await?;
    let mut pages = Pages::new(store.as_ref());
    let mut writer = None;
    while let Some((revision, items)) = pages.next().await? {
        let writer = match &mut writer {
            Some(writer) => writer,
            None => writer.insert(BackupWriter::create(out, revision)?),
        };
        for kv in items {
            writer.push(&kv.key, &kv.value)?;
        }
    }
    if let Some(writer) = writer {
        writer.finish()?;
        // What was written is read again before anybody relies on it.
        let summary = BackupReader::check(out)?;
        println!(
            "{}: {} keys at revision {}, SHA-256 {}",
            out.display(),
            summary.keys,
            summary.revision,
            summary.sha256
        );
    }
    Ok(())
}

async fn restore(which: &Which, from: &Path, force: bool) -> Result<(), KeepError> {
    // All of it first: a damaged backup must not cost the store that is there.
    let summary = BackupReader::check(from)?;
    let inspection = inspect_backup(which, from).await?;
    sound(&inspection, &from.display().to_string())?;
    let mut filling = target(which, which.store.store, summary.revision + REVISION_GAP, force).await?;
    let (mut reader, mut digesting) = (BackupReader::open(from)?, Digesting::new());
    while let Some((key, value)) = reader.next()? {
        digesting.add(&key, &value);
        filling.put(key, value).await?;
    }
    finish(filling, &digesting.done()).await?;
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
    finish(filling, &copied).await?;
    println!(
        "{} keys migrated, compared and in place; start the controller with --store {}",
        copied.keys,
        name(to)
    );
    Ok(())
}

/// Compares what was filled, and puts it in place.
async fn finish(mut filling: Filling, expected: &Content) -> Result<(), KeepError> {
    filling.flush().await?;
    if content(filling.store().as_ref()).await? != *expected {
        return Err(KeepError::Differs);
    }
    if let Some(kept) = filling.finish().await? {
        println!("the former store is kept as {}", kept.display());
    }
    Ok(())
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

fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    u64::try_from(now).unwrap_or(u64::MAX)
}
