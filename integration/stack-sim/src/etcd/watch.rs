//! A watch of a member: every revision that touches its keys, in order; or that its history is gone.

use std::sync::Arc;

use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{Etcd, Inner, pause, rows::within};
use crate::{
    plant::Bug,
    wire::{Event, WatchAsk, WatchRequest, WatchResponse},
};

type To = mpsc::Sender<Result<WatchResponse, Status>>;

/// The keys and the first revision that a client asked to watch.
struct Asked {
    key: Vec<u8>,
    range_end: Vec<u8>,
    start_revision: i64,
    prev_kv: bool,
}

/// Serves one stream, which is one watch, until its client ends it or there is no leader.
pub async fn run(etcd: Arc<Etcd>, mut asks: Streaming<WatchRequest>, to: To) {
    let Ok(Some(WatchRequest { request_union: Some(WatchAsk::CreateRequest(ask)) })) = asks.message().await
    else {
        return;
    };
    let (start_revision, prev_kv) = (ask.start_revision, ask.prev_kv);
    let ask = Asked { key: ask.key, range_end: ask.range_end, start_revision, prev_kv };
    let follow = follow(&etcd, ask, &to);
    tokio::select! {
        biased;
        () = follow => {}
        // Nothing else is asked on it: its end, or its loss.
        _ = asks.message() => {}
    }
}

async fn follow(etcd: &Etcd, ask: Asked, to: &To) {
    let (header, newest) = {
        let inner = etcd.inner();
        (inner.rows.header(), inner.rows.revision)
    };
    let mut next = if ask.start_revision > 0 { ask.start_revision } else { newest + 1 };
    if etcd.bug == Some(Bug::WatchOneTooFar) && ask.start_revision > 1 {
        next += 1;
    }
    let created = WatchResponse { header: Some(header), created: true, ..WatchResponse::default() };
    if to.send(Ok(created)).await.is_err() {
        return;
    }
    loop {
        let changed = etcd.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let lag = {
            let mut inner = etcd.inner();
            let most = inner.watch_lag_ms;
            if most > 0 { inner.rng.range(0..most) } else { 0 }
        };
        pause(lag).await;
        if etcd.leaderless_ms() > 0 {
            let _ = to.send(Err(Status::unavailable("etcdserver: no leader"))).await;
            return;
        }
        let answer = answer(etcd, &etcd.inner(), &ask, &mut next);
        if let Some(answer) = answer {
            let over = answer.canceled;
            if to.send(Ok(answer)).await.is_err() || over {
                return;
            }
        }
        changed.await;
    }
}

/// What there is to be delivered now.
fn answer(etcd: &Etcd, inner: &Inner, ask: &Asked, next: &mut i64) -> Option<WatchResponse> {
    let rows = &inner.rows;
    let header = Some(rows.header());
    if *next <= rows.compacted && etcd.bug != Some(Bug::ForgetCompaction) {
        let (canceled, compact_revision) = (true, rows.compacted);
        return Some(WatchResponse { header, canceled, compact_revision, ..WatchResponse::default() });
    }
    let since = rows.log.range(*next..).flat_map(|(_, events)| events);
    let ours = |event: &&Event| event.kv.as_ref().is_some_and(|kv| within(&kv.key, &ask.key, &ask.range_end));
    let reported = since.filter(ours).map(|event| {
        let prev_kv = event.prev_kv.clone().filter(|_| ask.prev_kv);
        Event { prev_kv, ..event.clone() }
    });
    let events: Vec<Event> = reported.collect();
    *next = (*next).max(rows.revision + 1);
    (!events.is_empty()).then(|| WatchResponse { header, events, ..WatchResponse::default() })
}
