//! What the store does beside its calls: compacts history, frees space when etcd is full, reads certificates again,
//! removes slots of processes that are gone.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::time::Instant;

use super::{failure::Failure, inner::Inner};

/// How often it looks.
const ROUND: Duration = Duration::from_secs(1);
/// How often certificates are read again.
const RELOAD: Duration = Duration::from_secs(60);
/// How often forgotten slots are removed.
const SWEEP: Duration = Duration::from_secs(24 * 3600);
/// Wait between two attempts to free space in a full etcd.
const FREE_FIRST: Duration = Duration::from_secs(2);
const FREE_LONGEST: Duration = Duration::from_secs(60);
/// A member that uses so much less than it holds is worth defragmenting: a tenth.
const WORTH: i64 = 10;

/// When what is due.
struct Due {
    compact: Instant,
    reload: Instant,
    sweep: Instant,
    free: Instant,
    free_wait: Duration,
    /// No space was freed by this process yet: an alarm may be left over from one that ended while it did that.
    first: bool,
    /// etcd's newest revision one interval ago: history before it is old enough.
    seen: Option<i64>,
}

/// Runs until the store is dropped.
pub(super) async fn run(inner: Arc<Inner>) {
    let now = Instant::now();
    let mut due = Due {
        compact: now,
        reload: now + RELOAD,
        sweep: now,
        free: now,
        free_wait: FREE_FIRST,
        first: true,
        seen: None,
    };
    let stop = inner.stop.clone();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND) => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = round(&inner, &mut due) => {}
        }
    }
}

async fn round(inner: &Inner, due: &mut Due) {
    let now = Instant::now();
    if now >= due.reload {
        due.reload = now + RELOAD;
        inner.link.reload();
    }
    if inner.link.down().is_some() {
        return;
    }
    if now >= due.sweep {
        due.sweep = now + SWEEP;
        match inner.slots.sweep(&inner.link, &inner.space).await {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "records of writers that are gone were removed from etcd"),
            Err(failure) => tracing::debug!(cause = failure.text, "records of writers could not be swept"),
        }
    }
    if let Some(keep) = inner.options.keep_history.filter(|_| now >= due.compact) {
        due.compact = now + keep;
        compact(inner, due).await;
    }
    if !inner.full.load(Ordering::Relaxed) {
        due.free_wait = FREE_FIRST;
    } else if now >= due.free {
        if let Err(failure) = free(inner, std::mem::take(&mut due.first)).await {
            tracing::warn!(cause = failure.text, "no space could be freed in etcd");
        }
        due.free = Instant::now() + due.free_wait;
        due.free_wait = (due.free_wait * 2).min(FREE_LONGEST);
    }
}

/// Compacts what was history one interval ago. Several controllers may do so: each leaves a whole interval.
async fn compact(inner: &Inner, due: &mut Due) {
    let newest = match inner.newest().await {
        Ok(newest) => newest,
        Err(failure) => {
            tracing::warn!(
                cause = failure.text,
                "etcd's revision cannot be read; its history is not compacted"
            );
            return;
        }
    };
    let Some(old) = due.seen.replace(newest).filter(|old| *old > 1) else { return };
    match inner.compact(inner.space.revision(old)).await {
        Ok(()) => tracing::debug!(revision = old, "etcd's history was compacted"),
        Err(error) => tracing::warn!(%error, "etcd's history could not be compacted"),
    }
}

/// Frees what can be freed: history, then the holes that it leaves, member by member; then says that there is space. A user
/// with rights on a prefix alone may not defragment; then somebody else has to, and writes work again after that.
async fn free(inner: &Inner, first: bool) -> Result<(), Failure> {
    let newest = inner.newest().await?;
    if let Err(error) = inner.compact(inner.space.revision(newest)).await {
        tracing::warn!(%error, "etcd is full and its history could not be compacted");
    }
    // Compacted pages are free a moment later.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut freed = first;
    for at in 0..inner.link.count() {
        freed |= defragment(inner, at).await?;
    }
    if freed {
        disarm(inner).await?;
        tracing::info!("space was freed in etcd and its alarm taken back");
    }
    Ok(())
}

async fn defragment(inner: &Inner, at: usize) -> Result<bool, Failure> {
    let session = inner.link.session_of(at);
    let failed = |status: tonic::Status| Failure::of(&status, inner.link.name_of(at));
    let before = session.status().await.map_err(failed)?;
    let (held, used) = (before.db_size(), before.raft_used_db_size());
    if held - used < held / WORTH {
        return Ok(false);
    }
    session.defragment().await.map_err(failed)?;
    tracing::info!(
        member = inner.link.name_of(at),
        bytes_before = held,
        bytes_in_use = used,
        "a member of etcd was defragmented"
    );
    Ok(true)
}

/// Takes back the alarms of all members. If there is still no space, the next write raises them again.
async fn disarm(inner: &Inner) -> Result<(), Failure> {
    let raised = inner.link.call(|session| async move { session.alarms().await });
    for member in raised.await? {
        inner.link.call(|session| async move { session.disarm(member).await }).await?;
    }
    Ok(())
}
