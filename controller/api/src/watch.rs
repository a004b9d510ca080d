//! Watches: the present state, SYNCED, then every change once and in order; or from a revision on.

use bytes::Bytes;
use controller_store::{Event, KeyValue, Store, StoreError};
use proto_rpc::RpcError;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt, wrappers::ReceiverStream};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use std::{future::Future, pin::Pin, sync::Arc};

use crate::fault;

/// Events that wait for one reader; behind it the store's own bounded history waits, then the watch ends as lagged.
const QUEUE: usize = 256;

/// One event as a client will see it.
pub enum Change {
    /// A value was written, or is there.
    Put(KeyValue, u64),
    /// A key is gone; with its last value where the store knows it.
    Delete(Bytes, Option<KeyValue>, u64),
    /// All of the present state has been sent.
    Synced(u64),
}

/// The stream that a handler answers with.
pub type Events<E> = Pin<Box<dyn Stream<Item = Result<E, Status>> + Send>>;

/// Follows a prefix. `make` turns a change into the client's message; `None` leaves it out.
///
/// # Errors
/// A revision that is gone or does not exist yet.
pub async fn follow<E, F, Fut>(
    store: Arc<dyn Store>,
    prefix: Bytes,
    after_revision: u64,
    ending: CancellationToken,
    make: F,
) -> Result<Events<E>, RpcError>
where
    E: Send + 'static,
    F: Fn(Change) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<E>, RpcError>> + Send,
{
    let (start, snapshot) = if after_revision == 0 {
        let all = store.range_all(prefix.clone()).await.map_err(|error| fault::store(&error))?;
        (all.revision + 1, Some(all))
    } else {
        let newest = store.status().await.map_err(|error| fault::store(&error))?.revision;
        if after_revision > newest {
            let (requested, current) = (after_revision, newest);
            return Err(fault::store(&StoreError::FutureRevision { requested, current }));
        }
        (after_revision + 1, None)
    };
    let mut batches = store.watch(prefix, start).await.map_err(|error| fault::store(&error))?;
    let (sender, receiver) = mpsc::channel(QUEUE);
    let deliver = async move {
        let out = Out { sender: &sender, make: &make };
        let revision = snapshot.as_ref().map_or(after_revision, |all| all.revision);
        for kv in snapshot.into_iter().flat_map(|all| all.items) {
            let at = kv.mod_revision;
            out.send(Change::Put(kv, at)).await?;
        }
        out.send(Change::Synced(revision)).await?;
        loop {
            let batch = tokio::select! {
                batch = batches.next() => batch,
                // The client went away: nothing must be held for it until the next change.
                () = sender.closed() => return None,
                () = ending.cancelled() => return None,
            };
            match batch? {
                Ok(batch) => {
                    for event in batch.events {
                        out.send(changed(event, batch.revision)).await?;
                    }
                }
                Err(error) => {
                    // The client may have gone away; then nobody needs to know.
                    let _ = sender.send(Err(fault::store(&error).into())).await;
                    return None::<()>;
                }
            }
        }
    };
    tokio::spawn(deliver);
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

fn changed(event: Event, revision: u64) -> Change {
    match event {
        Event::Put { kv, .. } => Change::Put(kv, revision),
        Event::Delete { key, prev, .. } => Change::Delete(key, prev, revision),
    }
}

struct Out<'a, E, F> {
    sender: &'a mpsc::Sender<Result<E, Status>>,
    make: &'a F,
}

impl<E, F, Fut> Out<'_, E, F>
where
    F: Fn(Change) -> Fut,
    Fut: Future<Output = Result<Option<E>, RpcError>>,
{
    /// `None` ends the watch: the client went away, or a value cannot be shown.
    async fn send(&self, change: Change) -> Option<()> {
        match (self.make)(change).await {
            Ok(None) => Some(()),
            Ok(Some(event)) => self.sender.send(Ok(event)).await.ok(),
            Err(error) => {
                // As above.
                let _ = self.sender.send(Err(error.into())).await;
                None
            }
        }
    }
}
