//! AuditService: who changed what, and who was refused.

use std::sync::Arc;

use bytes::Bytes;
use controller_leader::{codec, keys};
use controller_store::{KeyValue, RangeRequest, RangeResult, Store};
use prost::Message;
use proto_audit::{Content, Log, Record};
use proto_model::Timestamp;
use proto_rpc::RpcError;
use proto_wire::{
    convert::time_from_wire,
    v1::{self, audit_service_server::AuditService},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::{
    authz::Rpc,
    context::Context,
    fault,
    guard::Caller,
    page::{Asked, Tokens},
    watch::Events,
};

/// Records of a page where the caller does not say, and most.
const DEFAULT: usize = 100;
const LARGEST: usize = 1000;
/// Stored rows that one answer looks through.
const ROWS: usize = 512;
/// Stored rows that an export reads at once.
const PAGE: usize = 64;
/// Records that wait for one reader of an export.
const WAITING: usize = 64;

/// The handlers of `AuditService`.
#[derive(Clone)]
pub struct Audit {
    context: Context,
}

impl Audit {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    async fn row(&self, log: Log, first: u64) -> Result<Option<KeyValue>, RpcError> {
        let found = self.context.handle.store().get(keys::audit(log, first)).await;
        found.map_err(|error| fault::store(&error))
    }

    /// Of each log the record that the page is before.
    async fn before(&self, caller: &Caller, asked: &Asked<'_>) -> Result<[u64; 2], RpcError> {
        if asked.token.is_empty() {
            return Ok([u64::MAX; 2]);
        }
        let (_, after) = Tokens::of(&self.context, caller, asked).await?.open(asked.token)?;
        let half = |from: usize| after.get(from..from + 8).and_then(|half| half.try_into().ok());
        let both = half(0).zip(half(8)).map(|(one, other)| [one, other].map(u64::from_be_bytes));
        both.ok_or_else(|| fault::field("pageToken", "is of no list of records"))
    }

    async fn token(&self, caller: &Caller, asked: &Asked<'_>, before: [u64; 2]) -> Result<String, RpcError> {
        // Records never change: a list of them needs no revision.
        Tokens::of(&self.context, caller, asked).await?.seal(u64::MAX, &before.map(u64::to_be_bytes).concat())
    }

    /// Where a list goes on in a log. Rows of before `from` are of an earlier tenant of the caller's.
    async fn side(&self, log: Log, filter: &Filter, from: u64) -> Result<Side, RpcError> {
        let (before, since, until) = (filter.before[log as usize], filter.since, filter.until);
        let rows = self.context.query(move |state, _| {
            state.audit_rows(log, before, since, until).take(ROWS + 1).collect::<Vec<u64>>()
        });
        Ok(Side { log, before, from, rows: rows.await?.into_iter(), records: Vec::new(), revision: 0 })
    }
}

/// One log of a list, the newest record at the end.
struct Side {
    log: Log,
    /// The last record that was looked at.
    before: u64,
    /// The revision that the list begins with.
    from: u64,
    rows: std::vec::IntoIter<u64>,
    records: Vec<Arc<Record>>,
    revision: u64,
}

impl Side {
    /// Reads rows until there is a record, or none is left; false if no more rows may be read.
    async fn fill(&mut self, audit: &Audit, budget: &mut usize) -> Result<bool, RpcError> {
        while self.records.is_empty() {
            if *budget == 0 {
                return Ok(false);
            }
            let Some(first) = self.rows.next() else { break };
            *budget -= 1;
            // Dropped meanwhile, or not readable: that is for `verify` to say.
            let Some(kv) = audit.row(self.log, first).await? else { continue };
            if kv.mod_revision < self.from {
                self.rows = Vec::new().into_iter();
                break;
            }
            let Ok(row) = codec::audit(&kv) else { continue };
            let before = self.before;
            self.records = row.records.into_iter().filter(|record| record.seq < before).collect();
            self.revision = kv.mod_revision;
        }
        Ok(true)
    }

    fn newest(&self) -> Option<u64> {
        self.records.last().map(|record| record.time_ms)
    }
}

/// What of the records is wanted.
struct Filter {
    tenant: Option<String>,
    who: String,
    rpc: String,
    denied: Option<bool>,
    since: Timestamp,
    until: Timestamp,
    /// Of each log only records before this one.
    before: [u64; 2],
}

impl Filter {
    fn new(
        wire: &v1::ListAuditRecordsRequest,
        tenant: Option<String>,
        before: [u64; 2],
    ) -> Result<Self, RpcError> {
        let time = |field: &str, time: Option<prost_types::Timestamp>, absent| {
            let time = time.map_or(Ok(Timestamp(absent)), time_from_wire);
            time.map_err(|errors| fault::fields(errors, field))
        };
        let denied = match wire.decision.as_str() {
            "" => None,
            "allowed" => Some(false),
            "denied" => Some(true),
            other => {
                return Err(fault::field("decision", format!("'{other}' is neither allowed nor denied")));
            }
        };
        Ok(Self {
            tenant,
            who: wire.who.clone(),
            rpc: wire.rpc.clone(),
            denied,
            since: time("since", wire.since, 0)?,
            until: time("until", wire.until, u64::MAX)?,
            before,
        })
    }

    fn takes(&self, record: &Record) -> bool {
        let denied = match &record.content {
            Content::Change(_) => Some(false),
            Content::Denial(_) => Some(true),
            Content::Checkpoint(_) | Content::Resumed { .. } => None,
        };
        let by = |record: &Record| record.actor().map(|actor| (actor.who.clone(), actor.rpc.clone()));
        let (who, rpc) = by(record).unwrap_or_default();
        let named = |who: &str| who.strip_suffix(self.who.as_str()).is_some_and(|rest| rest.ends_with('/'));
        (self.since.0..=self.until.0).contains(&record.time_ms)
            && self.tenant.as_deref().is_none_or(|tenant| record.tenant() == tenant)
            && (self.denied.is_none() || self.denied == denied)
            && (self.who.is_empty() || who == self.who || named(&who))
            && (self.rpc.is_empty() || rpc == self.rpc)
    }
}

#[tonic::async_trait]
impl AuditService for Audit {
    type ExportAuditRecordsStream = Events<v1::AuditRecord>;

    async fn list_audit_records(
        &self,
        request: Request<v1::ListAuditRecordsRequest>,
    ) -> Result<Response<v1::ListAuditRecordsResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let noted = |error| self.context.guard.note(Rpc::ListAuditRecords, &caller, error);
        let tenant = caller.scope("tenant", &wire.tenant).map_err(noted)?;
        let asked = v1::ListAuditRecordsRequest { page_token: String::new(), page_size: 0, ..wire.clone() };
        let asked = Asked {
            rpc: Rpc::ListAuditRecords,
            prefix: keys::AUDIT.into(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: asked.encode_to_vec(),
        };
        let before = self.before(&caller, &asked).await?;
        let filter = Filter::new(&wire, tenant.map(|tenant| tenant.to_string()), before)?;
        let size = match wire.page_size as usize {
            0 => DEFAULT,
            size => size.min(LARGEST),
        };
        let from = caller.since();
        let changes = self.side(Log::Changes, &filter, from).await?;
        let mut sides = [changes, self.side(Log::Denials, &filter, from).await?];
        let (mut records, mut budget): (Vec<v1::AuditRecord>, usize) = (Vec::new(), ROWS);
        let more = 'page: loop {
            for side in &mut sides {
                if !side.fill(self, &mut budget).await? {
                    break 'page true;
                }
            }
            // Of the same time first what was changed.
            let [changes, denials] = &mut sides;
            let side = if denials.newest() > changes.newest() { denials } else { changes };
            let Some(record) = side.records.last() else { break false };
            if filter.takes(record) {
                if records.len() == size {
                    break true;
                }
                let revision = side.revision;
                records.push(v1::AuditRecord { revision, ..v1::AuditRecord::from(record.as_ref()) });
            }
            side.before = record.seq;
            side.records.pop();
        };
        let next_page_token = if more {
            self.token(&caller, &asked, sides.each_ref().map(|side| side.before)).await?
        } else {
            String::new()
        };
        Ok(Response::new(v1::ListAuditRecordsResponse { records, next_page_token }))
    }

    async fn export_audit_records(
        &self,
        _: Request<v1::ExportAuditRecordsRequest>,
    ) -> Result<Response<Self::ExportAuditRecordsStream>, Status> {
        self.context.handle.seal().await.map_err(|refusal| fault::refused(&refusal))?;
        let store = Arc::clone(self.context.handle.store());
        let first = page(store.as_ref(), Log::Changes, None).await?;
        let (sender, receiver) = tokio::sync::mpsc::channel(WAITING);
        let ending = self.context.ending.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ending.cancelled() => {}
                () = send(store.as_ref(), first, &sender) => {}
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// The next rows of a log, behind a key; all of one revision.
async fn page(store: &dyn Store, log: Log, behind: Option<(u64, Bytes)>) -> Result<RangeResult, RpcError> {
    let mut request = RangeRequest::prefix(keys::audit_of(log));
    request.limit = PAGE;
    if let Some((revision, key)) = behind {
        request.revision = Some(revision);
        request.after = Some(key);
    }
    store.range(request).await.map_err(|error| fault::store(&error))
}

type Sender = tokio::sync::mpsc::Sender<Result<v1::AuditRecord, Status>>;

/// All pages of both logs, of one revision; ends early where the reader went away.
async fn send(store: &dyn Store, first: RangeResult, sender: &Sender) {
    let (mut log, mut found) = (Log::Changes, first);
    loop {
        for kv in &found.items {
            let row = codec::audit(kv).map_err(|error| fault::refused(&error.into()));
            let records = match row {
                Ok(row) => row.records,
                Err(error) => return drop(sender.send(Err(error.into())).await),
            };
            for record in records {
                if sender.send(Ok(record.as_ref().into())).await.is_err() {
                    return;
                }
            }
        }
        let last = found.items.last().map(|kv| kv.key.clone()).filter(|_| found.more);
        let after = match (last, log) {
            (Some(last), _) => last,
            (None, Log::Changes) => {
                log = Log::Denials;
                Bytes::from_static(keys::DENIALS.as_bytes())
            }
            (None, Log::Denials) => return,
        };
        found = match page(store, log, Some((found.revision, after))).await {
            Ok(found) => found,
            Err(error) => return drop(sender.send(Err(error.into())).await),
        };
    }
}
