//! One watch on all keys, and everybody's watches on what it brought.
//!
//! The mirror knows the events of the last while, and soon after its beginning every key with its revisions but without its
//! value: a process that starts has more urgent things to read. It goes on from the revision that it has whenever the connection is lost. When etcd has compacted that revision, and when a listing
//! shows that an event never came, it starts anew from a snapshot: every watcher gets `Compacted`, reads a snapshot too,
//! and goes on from there. A watch is only a hint; no watcher can be left behind for good.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use etcd_client::{EventType, WatchResponse};
use tokio::time::Instant;

use super::{
    ask, calls,
    failure::{Failure, Kind},
    inner::Inner,
    plan,
    space::end_of,
    walk::Reading,
};
use crate::{
    error::StoreError,
    hub::Hub,
    state::{Delta, LogEntry, Overlay, State},
    store::WatchStream,
    types::{Event, KeyValue},
};

/// Revisions of the past that are fetched at the beginning, for watchers of before a restart.
const PAST: i64 = 10_000;
/// Wait before the watch is opened again.
const AGAIN_FIRST: Duration = Duration::from_millis(50);
const AGAIN_LONGEST: Duration = Duration::from_secs(2);
/// What a listing shows and the watch has not brought by then was missed.
const LATE: Duration = Duration::from_secs(5);

/// Keys are listed first so long after the mirror was made.
const SETTLED: Duration = Duration::from_secs(60);

/// Why the watch ended.
enum End {
    /// Open it again at the next revision.
    Lost(Failure),
    /// Its history is gone, up to this revision of etcd's.
    Compacted(i64),
}

impl Inner {
    pub(super) async fn watch(
        self: &Arc<Self>,
        prefix: Bytes,
        start_revision: u64,
    ) -> Result<WatchStream, StoreError> {
        let hub = self.mirror.hub.get_or_try_init(|| self.reflect()).await.map_err(Failure::into_error)?;
        // "From now on" is from what is committed now, which the mirror may not have seen yet.
        let start = match start_revision {
            0 => self.space.revision(self.newest().await.map_err(Failure::into_error)?) + 1,
            start => start,
        };
        let floor = self.mirror.floor.load(Ordering::SeqCst);
        if start <= floor {
            return Err(StoreError::Compacted { compact_revision: floor });
        }
        Ok(Box::pin(hub.watch(prefix, start)?))
    }

    /// A little of the past, and the task that follows.
    async fn reflect(self: &Arc<Self>) -> Result<Arc<Hub>, Failure> {
        let newest = self.newest().await?;
        let revision = self.space.revision(newest);
        let state = State { revision, compact_revision: revision, ..State::default() };
        let hub = Hub::new(state, self.limits, self.options.history);
        match self.past((newest - PAST).max(1), newest).await {
            Ok((floor, log)) => hub.remember(floor, log),
            Err(failure) => tracing::warn!(
                cause = failure.text,
                "the past of etcd's keys cannot be read; watchers of before start anew"
            ),
        }
        tokio::spawn(follow(Arc::clone(self), Arc::clone(&hub)));
        Ok(hub)
    }

    /// All keys without their values, as of one of etcd's revisions (0: the newest).
    async fn snapshot(&self, revision: i64) -> Result<State, Failure> {
        let mut state = State::default();
        let revision = self.list(revision, |kv| {
            let kv = bare(self.space.key_value(kv));
            state.set(kv.key.clone(), Some(kv));
        });
        state.revision = self.space.revision(revision.await?);
        state.compact_revision = state.revision;
        Ok(state)
    }

    /// Lists the keys that the mirror was made without, if that was not done yet.
    async fn make_whole(&self, hub: &Hub) -> Result<(), Failure> {
        while !self.mirror.whole.load(Ordering::SeqCst) {
            tokio::time::sleep(SETTLED.min(self.options.check_every)).await;
            let revision = hub.state().revision;
            let listed = self.snapshot(self.space.etcd_revision(revision)).await?;
            self.mirror.whole.store(hub.underlay(listed), Ordering::SeqCst);
        }
        Ok(())
    }

    /// Lists all keys at one revision (0: the newest), page by page; answers the revision.
    async fn list(&self, revision: i64, mut each: impl FnMut(etcd_client::KeyValue)) -> Result<i64, Failure> {
        let mut reading = Reading::new(self.space.inside(b""), revision, true);
        while let Some(kvs) = self.page(&mut reading).await? {
            kvs.into_iter().for_each(&mut each);
        }
        Ok(reading.revision)
    }

    /// Events of etcd's revisions from `from` to `to`, and the revision before the first of them that is known.
    ///
    /// The newest of these revisions need not be one of ours. If it does not come soon, a key of this process is written:
    /// when the watch shows that, it has shown everything before.
    async fn past(&self, from: i64, to: i64) -> Result<(u64, Vec<(u64, LogEntry)>), Failure> {
        let mut from = from;
        for _ in 0..3 {
            match tokio::time::timeout(LATE, self.past_since(from, to)).await {
                Ok(Ok(log)) => return Ok((self.space.revision(from - 1), log)),
                Ok(Err(End::Compacted(revision))) => from = from.max(revision + 1),
                Ok(Err(End::Lost(failure))) => return Err(failure),
                Err(_) => return Err(Failure::unreachable("the past did not come in time")),
            }
        }
        Err(Failure::unreachable("the past is compacted again and again"))
    }

    async fn past_since(&self, from: i64, to: i64) -> Result<Vec<(u64, LogEntry)>, End> {
        let everything = (Bytes::from(self.space.root.clone()), end_of(self.space.root.as_bytes()));
        let mut watch = self.open_watch(everything, from).await.map_err(End::Lost)?;
        let (mut log, mut last, mut written) = (Vec::new(), to, false);
        loop {
            let answer = match tokio::time::timeout(AGAIN_FIRST * 6, self.next(&mut watch)).await {
                Ok(answer) => answer?,
                Err(_) if !written => {
                    let slot = self.slots.make(&self.link, &self.space).await.map_err(End::Lost)?;
                    last = slot.revision();
                    self.slots.put_back(slot);
                    written = true;
                    continue;
                }
                Err(_) => continue,
            };
            let newest = answer.events().last().and_then(|event| event.kv()).map(|kv| kv.mod_revision());
            let known = |(revision, _): &(u64, _)| *revision <= self.space.revision(to);
            let batches = self.batches(&answer).into_iter().filter(known);
            log.extend(batches.map(|(revision, events)| (revision, LogEntry::new(events.into()))));
            if newest.is_some_and(|newest| newest >= last) {
                return Ok(log);
            }
        }
    }

    async fn open_watch(
        &self,
        (key, range_end): (Bytes, Bytes),
        from: i64,
    ) -> Result<etcd_client::WatchStream, Failure> {
        let ask = &ask::Watch { key, range_end, start_revision: from, whole: true };
        let opened = self.link.call(|session| async move {
            let late = |_| tonic::Status::unavailable("a watch was not opened in time");
            tokio::time::timeout(LATE, session.watch(ask)).await.map_err(late)?
        });
        opened.await
    }

    async fn next(&self, answers: &mut etcd_client::WatchStream) -> Result<WatchResponse, End> {
        let lost = |error| End::Lost(Failure::of(&calls::status(error), "watch"));
        let answer = answers.message().await.map_err(lost)?;
        let answer = answer.ok_or_else(|| End::Lost(Failure::unreachable("the watch ended")))?;
        if answer.compact_revision() > 0 {
            return Err(End::Compacted(answer.compact_revision()));
        }
        if answer.canceled() {
            let cause = format!("etcd ended the watch: {}", answer.cancel_reason());
            return Err(End::Lost(Failure::unreachable(cause)));
        }
        Ok(answer)
    }

    /// The events of an answer, revision by revision. etcd never splits a revision.
    fn batches(&self, answer: &WatchResponse) -> Vec<(u64, Vec<Event>)> {
        let mut batches: Vec<(u64, Vec<Event>)> = Vec::new();
        for event in answer.events() {
            let Some(kv) = event.kv().filter(|kv| kv.key().starts_with(self.space.data.as_bytes())) else {
                continue;
            };
            let revision = self.space.revision(kv.mod_revision());
            let prev = event.prev_kv().map(|kv| self.space.key_value(kv.clone()));
            let made = match event.event_type() {
                EventType::Delete => Event::Delete { key: self.space.outside(kv.key()), revision, prev },
                EventType::Put => Event::Put { kv: self.space.key_value(kv.clone()), prev },
            };
            match batches.last_mut() {
                Some((last, events)) if *last == revision => events.push(made),
                _ => batches.push((revision, vec![made])),
            }
        }
        batches
    }

    /// Follows until the watch ends.
    async fn follow_once(&self, hub: &Hub) -> End {
        let from = self.space.etcd_revision(hub.state().revision) + 1;
        let mut watch = match self.open_watch(plan::prefix_range(&self.space, b""), from).await {
            Ok(watch) => watch,
            Err(failure) => return End::Lost(failure),
        };
        loop {
            match self.next(&mut watch).await {
                Ok(answer) => {
                    for (revision, events) in self.batches(&answer) {
                        publish(hub, revision, events);
                    }
                }
                Err(end) => return end,
            }
        }
    }

    /// Compares what the watch has brought with what etcd holds; true when something was missed.
    async fn missed(&self, hub: &Hub) -> Result<bool, Failure> {
        let begin = Instant::now();
        let odd = self.odd(hub).await?;
        if odd.is_empty() {
            return Ok(false);
        }
        // Most of it is only on its way.
        tokio::time::sleep(LATE.saturating_sub(begin.elapsed())).await;
        let still = self.odd(hub).await?;
        let missed: Vec<_> = odd.iter().filter(|(key, at)| still.get(*key) == Some(at)).collect();
        if let Some((key, _)) = missed.first() {
            tracing::error!(
                count = missed.len(),
                first = %key.escape_ascii(),
                "etcd's watch missed changes; all watchers start anew from a snapshot"
            );
        }
        Ok(!missed.is_empty())
    }

    /// Keys that differ, with the revision that etcd has (0: none).
    async fn odd(&self, hub: &Hub) -> Result<BTreeMap<Bytes, u64>, Failure> {
        let mut listed = BTreeMap::new();
        let revision = self.list(0, |kv| {
            listed.insert(self.space.outside(kv.key()), self.space.revision(kv.mod_revision()));
        });
        let revision = self.space.revision(revision.await?);
        let state = hub.state();
        let mut odd = BTreeMap::new();
        for (key, at) in &listed {
            let ours = state.kv.get(key).map(|kv| kv.mod_revision);
            // Ours may be newer, or gone after the listing.
            let newer = |ours: u64| ours > revision;
            let gone = || ours.is_none() && changed_after(&state, revision, key);
            if ours != Some(*at) && !ours.is_some_and(newer) && !gone() {
                odd.insert(key.clone(), *at);
            }
        }
        for (key, kv) in &state.kv {
            if kv.mod_revision <= revision && !listed.contains_key(key) {
                odd.insert(key.clone(), 0);
            }
        }
        Ok(odd)
    }

    /// A new snapshot takes the place of the mirror; every watcher gets `Compacted`.
    async fn start_anew(&self, hub: &Hub) -> Result<(), Failure> {
        let state = self.snapshot(0).await?;
        self.mirror.whole.store(true, Ordering::SeqCst);
        self.mirror.mended.fetch_add(1, Ordering::Relaxed);
        hub.replace(state);
        Ok(())
    }
}

/// Whether the mirror has seen a change of the key after a revision.
fn changed_after(state: &State, revision: u64, key: &Bytes) -> bool {
    state.log.range(revision + 1..).any(|(_, entry)| entry.events.iter().any(|event| event.key() == key))
}

/// Values are not kept.
fn bare(kv: KeyValue) -> KeyValue {
    KeyValue { value: Bytes::new(), ..kv }
}

fn publish(hub: &Hub, revision: u64, events: Vec<Event>) {
    let mut kv = Overlay::new();
    for event in &events {
        let now = match event {
            Event::Put { kv, .. } => Some(bare(kv.clone())),
            Event::Delete { .. } => None,
        };
        kv.insert(event.key().clone(), now);
    }
    let log = vec![(revision, LogEntry::new(events.into()))];
    let (floor, next_lease, known) = {
        let state = hub.state();
        (state.history_floor(&log, &hub.history), state.next_lease, state.revision)
    };
    if revision <= known {
        // Said twice; the first time counted.
        return;
    }
    let leases = BTreeMap::new();
    hub.publish(Delta { kv, log, leases, revision, compact_revision: floor, next_lease });
}

/// Follows etcd for as long as the store is open.
async fn follow(inner: Arc<Inner>, hub: Arc<Hub>) {
    let mut wait = AGAIN_FIRST;
    let mut checked = Instant::now();
    loop {
        let begin = Instant::now();
        let followed = tokio::select! {
            biased;
            () = inner.stop.cancelled() => return hub.close(),
            followed = follow_and_check(&inner, &hub, &mut checked) => followed,
        };
        if begin.elapsed() > AGAIN_LONGEST {
            wait = AGAIN_FIRST;
        }
        if let Err(failure) = followed {
            tracing::warn!(cause = failure.text, "the watch on etcd was lost; it is opened again");
        }
        tokio::select! {
            biased;
            () = inner.stop.cancelled() => return hub.close(),
            () = tokio::time::sleep(wait) => {}
        }
        wait = (wait * 2).min(AGAIN_LONGEST);
    }
}

/// Follows and checks until the watch ends or starts anew.
async fn follow_and_check(inner: &Arc<Inner>, hub: &Hub, checked: &mut Instant) -> Result<(), Failure> {
    let check_every = inner.options.check_every;
    let following = inner.follow_once(hub);
    let checking = async {
        inner.make_whole(hub).await?;
        loop {
            tokio::time::sleep(check_every.saturating_sub(checked.elapsed())).await;
            *checked = Instant::now();
            if inner.missed(hub).await? {
                return Ok::<(), Failure>(());
            }
        }
    };
    tokio::select! {
            biased;
        end = following => match end {
            End::Lost(failure) if failure.kind == Kind::Compacted => inner.start_anew(hub).await,
            End::Lost(failure) => Err(failure),
            End::Compacted(revision) => {
                tracing::warn!(revision, "etcd has compacted what the watch had not seen; it starts anew");
                inner.start_anew(hub).await
            }
        },
        found = checking => {
            found?;
            inner.start_anew(hub).await
        }
    }
}
