//! One stream: what there is, then what changes, at its own pace. It holds a position and no queue: who reads too slowly is sent what there is
//! anew.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use controller_leader::Refusal;
use controller_store::{KeyValue, RangeRequest};
use proto_rpc::RpcError;
use proto_wire::v1;
use serde_json::json;
use tokio::{
    sync::mpsc,
    time::{sleep, timeout, timeout_at},
};

use super::{
    kind::{Kind, Kinds},
    pace::{HEARTBEAT, silent},
    ring::Position,
    row::{Encoding, Row, frame, job_data, node_json, some},
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
const PAGE: usize = 64;
/// How often the loop is asked again where it is too busy, before the stream ends with that.
const TRIES: u32 = 300;
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
    /// Up to where all that kinds have changed has been said.
    signalled: Position,
}

/// What goes out together.
struct News {
    rows: Vec<Arc<Row>>,
    signals: Vec<Kind>,
    /// Where it ends.
    to: Position,
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
        let mut following = Following {
            feed: feed.clone(),
            member,
            reader,
            asked,
            out: out.clone(),
            sent: None,
            signalled: Position::default(),
        };
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
        // What has changed of what is wanted anew was not said.
        self.signalled = Position::default();
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
        let Some(News { rows, signals, to }) = self.since(at, kinds) else { return Ok(None) };
        if rows.is_empty() && signals.is_empty() {
            return Ok(Some(to));
        }
        let mut chunk = BytesMut::new();
        // Before all rows, and without ids: whoever is cut off behind a row has had what was signalled before it, and hears the rest again.
        for kind in signals {
            self.add(&mut chunk, &frame(None, kind.name(), CHANGED)).await?;
        }
        let made = |row: Arc<Row>| Ok((row.encoding(&self.reader)?, row));
        let rows = rows.into_iter().map(made).collect::<Result<Vec<_>, RpcError>>()?;
        let mut tries = 0;
        while let Err(refusal) = self.make_nodes(&rows).await? {
            self.wait(refusal, &mut tries).await?;
        }
        for (encoding, row) in rows {
            let count = || self.feed.metrics.encodings.inc([row.kind.name()]);
            let event = encoding.get_or_try_init(|| async {
                count();
                row.event(&self.reader)
            });
            let event = event.await?.clone();
            self.add(&mut chunk, &event).await?;
        }
        chunk.extend_from_slice(&behind(to));
        self.send(chunk.freeze()).await?;
        Ok(Some(to))
    }

    /// Encodes servers that nobody has encoded yet: the loop is asked once of all of them, and by one stream at a time.
    async fn make_nodes(&self, rows: &[(Encoding, Arc<Row>)]) -> Result<Result<(), Refusal>, RpcError> {
        let lacks =
            |(made, row): &&(Encoding, Arc<Row>)| !made.initialized() && row.node(&self.reader).is_some();
        if !rows.iter().any(|one| lacks(&one)) {
            return Ok(Ok(()));
        }
        let _asking = self.member.shared.asking.lock().await;
        let lacking: Vec<_> = rows.iter().filter(lacks).collect();
        let nodes = lacking.iter().filter_map(|(_, row)| row.node(&self.reader)).collect::<Result<_, _>>()?;
        let nodes = match node::try_complete(&self.feed.context, nodes, self.reader.tenant().cloned()).await {
            Ok(nodes) => nodes,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for ((made, row), node) in lacking.into_iter().zip(nodes) {
            self.feed.metrics.encodings.inc([row.kind.name()]);
            // Nobody else makes those of servers.
            let _ = made.set(row.node_event(node)?);
        }
        Ok(Ok(()))
    }

    /// Waits where the loop is too busy; all other refusals end the stream, and so do too many of these.
    async fn wait(&mut self, refusal: Refusal, tries: &mut u32) -> Result<(), Ended> {
        let Refusal::Busy { retry_after, .. } = &refusal else { return Err(fault::refused(&refusal).into()) };
        if *tries == TRIES {
            return Err(fault::refused(&refusal).into());
        }
        *tries += 1;
        if silent(self.sent, Instant::now()) {
            self.send(Bytes::from_static(b":\n\n")).await?;
        }
        sleep(*retry_after).await;
        Ok(())
    }

    /// What has changed behind a place, as much as goes out together; none where it is not known any more.
    fn since(&mut self, at: Position, kinds: Kinds) -> Option<News> {
        let only = self.reader.tenant();
        let ring = self.member.shared.ring();
        if !ring.has(at) {
            return None;
        }
        let (rows, to) = some(ring.after(at).filter(|row| row.is_for(kinds, only)), ring.head());
        let said = at.max(self.signalled);
        let signals = kinds.iter().filter(|kind| ring.changed(*kind, said, only)).collect();
        self.signalled = ring.head();
        Some(News { rows, signals, to })
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
                self.page(&mut chunk, kind, page.items).await?;
                if !page.more {
                    break;
                }
            }
        }
        chunk.extend_from_slice(&synced(kinds, at));
        self.send(chunk.freeze()).await?;
        Ok(at)
    }

    /// Sends rows as they are, one after the other. They have no ids: nobody can go on in the middle of them.
    async fn page(&mut self, chunk: &mut BytesMut, kind: Kind, items: Vec<KeyValue>) -> Result<(), Ended> {
        if kind == Kind::Jobs {
            for kv in items {
                let revision = kv.mod_revision;
                let data = job_data(&Change::Put(kv, revision), &self.reader)?;
                self.add(chunk, &frame(None, kind.name(), &data)).await?;
            }
            return Ok(());
        }
        let nodes = self.complete(&items).await?;
        for (kv, node) in items.iter().zip(nodes) {
            let data = node_json(&node::put_event(node, kv.mod_revision))?;
            self.add(chunk, &frame(None, kind.name(), &data)).await?;
        }
        Ok(())
    }

    /// Servers with what the loop knows of them.
    async fn complete(&mut self, items: &[KeyValue]) -> Result<Vec<v1::Node>, Ended> {
        let only = self.reader.tenant().cloned();
        let nodes = items.iter().map(|kv| stored_node(kv, only.as_ref())).collect::<Result<Vec<_>, _>>()?;
        // Nothing is asked of the loop for nothing.
        if nodes.is_empty() {
            return Ok(nodes);
        }
        let mut tries = 0;
        loop {
            match node::try_complete(&self.feed.context, nodes.clone(), only.clone()).await {
                Ok(nodes) => return Ok(nodes),
                Err(refusal) => self.wait(refusal, &mut tries).await?,
            }
        }
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
