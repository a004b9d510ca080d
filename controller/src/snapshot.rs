//! A snapshot of a store, all its keys at one revision, as a backup in a file.

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
use controller_leader::is_of_the_process;
use controller_store::{
    RangeResult, Store, StoreError,
    backup::{BackupSummary, BackupWriter},
};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

/// Why there is no backup.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// The store cannot be read, or the file cannot be written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It was told to stop.
    #[error("it was stopped before its end")]
    Stopped,
}

/// Writes all keys of a store as they are stored, of one revision, but those that belong to a process, into the file that `out` names
/// for that revision; it appears when it is whole, durable, and read again. Files are written where this runs: in a running controller that
/// is a thread of its own. It ends early when `stop` is cancelled.
///
/// # Errors
/// [`StoreError::Compacted`] when the store has forgotten that revision before the end; others of the store, the disk's. Whatever it is,
/// there is no file.
pub async fn write(
    store: Arc<dyn Store>,
    out: &(dyn Fn(u64) -> PathBuf + Sync),
    stop: &CancellationToken,
) -> Result<(PathBuf, BackupSummary), SnapshotError> {
    let mut pages = store.pages(Bytes::new());
    let first = next(&mut pages, stop).await?;
    let path = out(first.revision);
    let mut writer = BackupWriter::create(&path, first.revision)?;
    let mut page = first;
    loop {
        for kv in page.items.iter().filter(|kv| !is_of_the_process(&kv.key)) {
            writer.push(&kv.key, &kv.value)?;
        }
        if !page.more {
            break;
        }
        page = next(&mut pages, stop).await?;
    }
    let summary = writer.finish()?;
    Ok((path, summary))
}

async fn next(
    pages: &mut controller_store::Pages,
    stop: &CancellationToken,
) -> Result<RangeResult, SnapshotError> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(SnapshotError::Stopped),
        page = pages.recv() => Ok(page.ok_or(StoreError::Closed)??),
    }
}
