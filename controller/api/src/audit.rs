//! AuditService: who changed what, and who was refused.

use std::sync::Arc;

use bytes::Bytes;
use controller_reconciler::{codec, keys};
use controller_store::{KeyValue, Store};
use proto_audit::{Content, Record};
use proto_model::Timestamp;
use proto_rpc::RpcError;
use proto_wire::{
    convert::time_from_wire,
    v1::{self, audit_service_server::AuditService},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::{authz::Rpc, context::Context, fault, guard::Caller, page, watch::Events};

/// Records of a page where the caller does not say, and most.
const DEFAULT: usize = 100;
const LARGEST: usize = 1000;
/// Stored rows that one answer looks through.
const ROWS: usize = 512;
/// Records that wait for one reader of an export.
const WAITING: usize = 64;

/// The handlers.
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

    async fn row(&self, first: u64) -> Result<Option<KeyValue>, RpcError> {
        let found = self.context.handle.store().get(keys::audit(first)).await;
        found.map_err(|error| fault::store(&error))
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
    before: u64,
}

impl Filter {
    fn new(wire: &v1::ListAuditRecordsRequest, tenant: Option<String>) -> Result<Self, RpcError> {
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
        let before = match wire.page_token.as_str() {
            "" => Ok(u64::MAX),
            token => token.parse().map_err(|_| fault::field("pageToken", "was not given by this call")),
        };
        Ok(Self {
            tenant,
            who: wire.who.clone(),
            rpc: wire.rpc.clone(),
            denied,
            since: time("since", wire.since, 0)?,
            until: time("until", wire.until, u64::MAX)?,
            before: before?,
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
        record.seq < self.before
            && (self.since.0..=self.until.0).contains(&record.time_ms)
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
        let filter = Filter::new(&wire, tenant.map(|tenant| tenant.to_string()))?;
        let size = match wire.page_size as usize {
            0 => DEFAULT,
            size => size.min(LARGEST),
        };
        let (before, since, until) = (filter.before, filter.since, filter.until);
        let rows = self.context.query(move |state, _| {
            state.audit_rows(before, since, until).take(ROWS + 1).collect::<Vec<u64>>()
        });
        let rows = rows.await?;
        let mut next = rows.get(ROWS).map_or_else(String::new, |_| rows[ROWS - 1].to_string());
        let mut records: Vec<v1::AuditRecord> = Vec::new();
        for first in rows.into_iter().take(ROWS) {
            // Dropped meanwhile, or not readable: that is for `verify` to say.
            let Some(kv) = self.row(first).await? else { continue };
            let Ok(row) = codec::audit(&kv) else { continue };
            for record in row.records.iter().rev().filter(|record| filter.takes(record)) {
                if records.len() == size {
                    next = records.last().map_or_else(String::new, |last| last.seq.to_string());
                    return Ok(Response::new(v1::ListAuditRecordsResponse {
                        records,
                        next_page_token: next,
                    }));
                }
                let revision = kv.mod_revision;
                records.push(v1::AuditRecord { revision, ..v1::AuditRecord::from(record.as_ref()) });
            }
        }
        Ok(Response::new(v1::ListAuditRecordsResponse { records, next_page_token: next }))
    }

    async fn export_audit_records(
        &self,
        _: Request<v1::ExportAuditRecordsRequest>,
    ) -> Result<Response<Self::ExportAuditRecordsStream>, Status> {
        self.context.handle.seal().await.map_err(|refusal| fault::refused(&refusal))?;
        let store = Arc::clone(self.context.handle.store());
        let first = page(store.as_ref(), "").await?;
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

async fn page(store: &dyn Store, token: &str) -> Result<page::Page, RpcError> {
    page::read(store, Bytes::from_static(keys::AUDIT.as_bytes()), 0, token).await
}

type Sender = tokio::sync::mpsc::Sender<Result<v1::AuditRecord, Status>>;

/// All pages, of one revision; ends early where the reader went away.
async fn send(store: &dyn Store, mut found: page::Page, sender: &Sender) {
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
        if found.next.is_empty() {
            return;
        }
        found = match page(store, &found.next).await {
            Ok(found) => found,
            Err(error) => return drop(sender.send(Err(error.into())).await),
        };
    }
}
