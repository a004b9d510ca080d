//! One stream: what there is, then what changes, at its own pace. It holds a position and no queue: who reads too slowly is sent what there is
//! anew.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use controller_store::{KeyValue, RangeRequest};
use proto_rpc::RpcError;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{timeout, timeout_at},
};

use super::{
    kind::{Kind, Kinds},
    pace::{HEARTBEAT, silent},
    ring::Position,
    row::{Row, frame, job_data, node_json},
    source::{Feed, Member},
};
use crate::{
    fault, node,
    reader::{Reader, stored_node},
    watch::Change,
};

/// Bytes that go out together.
const CHUNK: usize = 64 * 1024;
/// Rows that are read of the store together.
const PAGE: usize = 256;
/// How long a stream that ends for a reason waits for a client to take that.
const FAREWELL: Duration = Duration::from_secs(1);

/// What is said of a kind whose rows are not sent.
const CHANGED: &str = r#"{"type":"CHANGED"}"#;

/// What a client asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    /// What it follows.
    pub kinds: Kinds,
    /// Of these, what it wants all of first, though it goes on with the others.
    pub fresh: Kinds,
    /// The event behind which it goes on; none: it begins.
    pub after: Option<Position>,
    /// The revision at which its tenant was made: what is older is not for it.
    pub since: u64,
}

/// Why a client is sent all anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reset {
    /// What a page has missed is not known any more, or the event that it names is none.
    Unknown,
    /// A page reads its stream more slowly than things change.
    Slow,
}

impl Reset {
    fn code(self) -> &'static str {
        match self {
            Self::Unknown => "HISTORY_GONE",
            Self::Slow => "TOO_SLOW",
        }
    }
}

/// The client has gone away, or the stream cannot go on.
enum Ended {
    Left,
    Failed(RpcError),
}

impl From<RpcError> for Ended {
    fn from(error: RpcError) -> Self {
        Self::Failed(error)
    }
}

struct Following {
    feed: Feed,
    member: Member,
    reader: Reader,
    asked: Asked,
    out: mpsc::Sender<Bytes>,
    /// When something went out last.
    sent: Option<Instant>,
}

/// Follows until the client goes away, the controller ends, or `over` says why it must not go on.
pub(crate) async fn follow(
    feed: Feed,
    reader: Reader,
    asked: Asked,
    out: mpsc::Sender<Bytes>,
    over: impl Future<Output = RpcError>,
) {
    let ending = feed.context.ending.clone();
    let run = async {
        let member = feed.join().await?;
        let mut following =
            Following { feed: feed.clone(), member, reader, asked, out: out.clone(), sent: None };
        following.run().await
    };
    let ended = tokio::select! {
        error = over => Ended::Failed(error),
        () = out.closed() => Ended::Left,
        () = ending.cancelled() => Ended::Left,
        Err(ended) = run => ended,
        else => Ended::Left,
    };
    if let Ended::Failed(error) = ended {
        let last = frame(None, "refused", &error.to_json().to_string());
        // Whoever does not read it sees a stream that has ended.
        let _ = timeout(FAREWELL, out.send(last)).await;
    }
}

impl Following {
    /// Ends only with the reason.
    async fn run(&mut self) -> Result<(), Ended> {
        let Asked { kinds, fresh, after, since } = self.asked;
        let known = after.filter(|at| at.revision >= since && self.member.shared.ring().has(*at));
        let mut at = match (known, after) {
            (Some(at), _) => self.go_on(at, fresh).await?,
            (None, Some(_)) => self.begin_anew(Reset::Unknown).await?,
            (None, None) => self.all(kinds, None).await?,
        };
        self.sent.get_or_insert_with(Instant::now);
        let mut head = self.member.shared.head.subscribe();
        loop {
            // First, and not only where nothing comes: much may come of which nothing is for it.
            if silent(self.sent, Instant::now()) {
                self.send(behind(at)).await?;
            }
            let until = self.sent.unwrap_or_else(Instant::now) + HEARTBEAT;
            let news = async { head.wait_for(|now| *now > at).await.is_ok() };
            match timeout_at(until.into(), news).await {
                Ok(true) => {}
                Ok(false) => return Err(Ended::Left),
                Err(_) => continue,
            }
            self.member.turn(self.sent).await;
            at = match self.news(at, kinds).await? {
                Some(at) => at,
                None => self.begin_anew(Reset::Slow).await?,
            };
        }
    }

    /// Goes on behind an event; what is wanted anew comes then.
    async fn go_on(&mut self, at: Position, fresh: Kinds) -> Result<Position, Ended> {
        if fresh.is_empty() {
            self.send(synced(Kinds::default(), at)).await?;
            return Ok(at);
        }
        let Some(at) = self.news(at, self.asked.kinds.without(fresh)).await? else {
            return self.begin_anew(Reset::Slow).await;
        };
        // What is not wanted anew has come up to there only, so all goes on there; what of the rest comes twice is the same.
        self.all(fresh, Some(at)).await
    }

    async fn begin_anew(&mut self, why: Reset) -> Result<Position, Ended> {
        self.feed.metrics.resets.inc([why.code()]);
        let reset = frame(None, "reset", &json!({"reason": why.code()}).to_string());
        self.send(reset).await?;
        self.all(self.asked.kinds, None).await
    }

    /// What has changed behind a place; gives where that ends, none where it is not known any more.
    async fn news(&mut self, at: Position, kinds: Kinds) -> Result<Option<Position>, Ended> {
        let Some((rows, signals, to)) = self.since(at, kinds) else { return Ok(None) };
        if rows.is_empty() && signals.is_empty() {
            return Ok(Some(to));
        }
        let mut chunk = BytesMut::new();
        // Before all rows, and without ids: whoever is cut off behind a row has had what was signalled before it, and hears the rest again.
        for kind in signals {
            self.add(&mut chunk, &frame(None, kind.name(), CHANGED)).await?;
        }
        for row in rows {
            let count = || self.feed.metrics.encodings.inc([row.kind.name()]);
            let event = row.event(&self.feed.context, &self.reader, count).await?;
            self.add(&mut chunk, &event).await?;
        }
        chunk.extend_from_slice(&behind(to));
        self.send(chunk.freeze()).await?;
        Ok(Some(to))
    }

    /// Rows and kinds that have changed behind a place, and where that ends; none where that is not known any more.
    fn since(&self, at: Position, kinds: Kinds) -> Option<(Vec<Arc<Row>>, Vec<Kind>, Position)> {
        let only = self.reader.tenant();
        let ring = self.member.shared.ring();
        ring.has(at).then(|| {
            let rows = ring.after(at).filter(|row| row.is_for(kinds, only)).cloned().collect();
            let signals = kinds.iter().filter(|kind| ring.changed(*kind, at, only)).collect();
            (rows, signals, ring.head())
        })
    }

    /// All that there is of some kinds, at one revision; gives from where on changes follow: behind `at`, which is no later than that
    /// revision, or behind that revision itself.
    async fn all(&mut self, kinds: Kinds, at: Option<Position>) -> Result<Position, Ended> {
        let (revision, head) = {
            let ring = self.member.shared.ring();
            (ring.revision(), ring.head())
        };
        let at = at.unwrap_or(head);
        let mut chunk = BytesMut::new();
        for kind in kinds.iter() {
            let Some(prefix) = kind.rows(self.reader.tenant()) else { continue };
            let mut request =
                RangeRequest { limit: PAGE, revision: Some(revision), ..RangeRequest::prefix(prefix) };
            loop {
                let page = self.feed.context.handle.store().range(request.clone()).await;
                let page = page.map_err(|error| fault::store(&error))?;
                request.after = page.items.last().map(|kv| kv.key.clone());
                for event in self.page(kind, page.items).await? {
                    self.add(&mut chunk, &event).await?;
                }
                if !page.more {
                    break;
                }
            }
        }
        chunk.extend_from_slice(&synced(kinds, at));
        self.send(chunk.freeze()).await?;
        Ok(at)
    }

    /// Events of rows as they are. They have no ids: nobody can go on in the middle of them.
    async fn page(&self, kind: Kind, items: Vec<KeyValue>) -> Result<Vec<Bytes>, RpcError> {
        if kind == Kind::Jobs {
            let event = |kv: KeyValue| {
                let revision = kv.mod_revision;
                job_data(&Change::Put(kv, revision), &self.reader).map(|data| frame(None, kind.name(), &data))
            };
            return items.into_iter().map(event).collect();
        }
        let only = self.reader.tenant();
        let nodes = items.iter().map(|kv| stored_node(kv, only)).collect::<Result<_, _>>()?;
        // Nothing is asked of the loop for nothing.
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let nodes = node::complete(&self.feed.context, nodes, only.cloned()).await?;
        let events = items.iter().zip(nodes).map(|(kv, node)| {
            let event = node::put_event(node, kv.mod_revision);
            node_json(&event).map(|data| frame(None, kind.name(), &data))
        });
        events.collect()
    }

    async fn add(&mut self, chunk: &mut BytesMut, event: &Bytes) -> Result<(), Ended> {
        chunk.extend_from_slice(event);
        if chunk.len() >= CHUNK {
            self.send(chunk.split().freeze()).await?;
        }
        Ok(())
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Ended> {
        self.out.send(bytes).await.map_err(|_| Ended::Left)?;
        self.sent = Some(Instant::now());
        Ok(())
    }
}

/// Where a client may go on; no event.
fn behind(at: Position) -> Bytes {
    format!(":\nid: {at}\n\n").into()
}

/// All that there is of these kinds has come, and changes follow.
fn synced(kinds: Kinds, at: Position) -> Bytes {
    let names: Vec<_> = kinds.iter().map(Kind::name).collect();
    frame(Some(at), "synced", &json!({"kinds": names}).to_string())
}
