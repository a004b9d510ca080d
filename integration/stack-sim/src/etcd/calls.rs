//! The calls of a member: those that the store makes, and of the others that there are none.

use std::{pin::Pin, sync::Arc};

use axum::Router;
use tokio_stream::{Stream, StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, Streaming, service::Routes};

use super::{Etcd, pause, rows::Lease, rows::Refused, watch};
use crate::{
    plant::Bug,
    wire::{
        AlarmAction, AlarmMember, AlarmRequest, AlarmResponse, AlarmType, CompactionRequest,
        CompactionResponse, DefragmentRequest, DefragmentResponse, DeleteRangeRequest, DeleteRangeResponse,
        DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse, Kv,
        KvServer, Lease as Leases, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest,
        LeaseKeepAliveResponse, LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest,
        LeaseRevokeResponse, LeaseServer, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, Maintenance,
        MaintenanceServer, MoveLeaderRequest, MoveLeaderResponse, PutRequest, PutResponse, RangeRequest,
        RangeResponse, RangeStreamResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
        TxnRequest, TxnResponse, Watch, WatchRequest, WatchResponse, WatchServer,
    },
};

/// Bytes that a member says it holds, and uses while nothing is wrong.
const HELD: i64 = 1 << 20;

/// One member, for one life of its process.
#[derive(Clone)]
pub struct Member {
    etcd: Arc<Etcd>,
    at: usize,
}

/// A call that the store does not make.
fn none<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("the model has no such call"))
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Everything that a member serves.
pub fn router(etcd: Arc<Etcd>, at: usize) -> Router {
    let member = Member { etcd, at };
    Routes::new(KvServer::new(member.clone()))
        .add_service(WatchServer::new(member.clone()))
        .add_service(LeaseServer::new(member.clone()))
        .add_service(MaintenanceServer::new(member))
        .into_axum_router()
}

#[tonic::async_trait]
impl Kv for Member {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let ask = request.into_inner();
        let work = move |etcd: &Etcd| {
            let inner = etcd.inner();
            if etcd.bug == Some(Bug::StaleReads) && ask.revision == 0 {
                let revision = (inner.rows.revision - 2).max(inner.rows.compacted).max(1);
                let mut found = inner.rows.range(&RangeRequest { revision, ..ask })?;
                found.header.get_or_insert_default().revision = revision;
                return Ok(found);
            }
            inner.rows.range(&ask)
        };
        self.etcd.agreed(self.at, work).await.map(Response::new)
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let txn = request.into_inner();
        if self.etcd.bug == Some(Bug::AckWithoutStore) && self.etcd.leaderless_ms() > 0 {
            return self.etcd.pretend(&txn).map(Response::new);
        }
        self.etcd.agreed(self.at, move |etcd| etcd.apply(&txn)).await.map(Response::new)
    }

    async fn compact(
        &self,
        request: Request<CompactionRequest>,
    ) -> Result<Response<CompactionResponse>, Status> {
        let revision = request.into_inner().revision;
        let work = move |etcd: &Etcd| {
            let mut inner = etcd.inner();
            inner.rows.compact(revision)?;
            Ok(CompactionResponse { header: Some(inner.rows.header()) })
        };
        self.etcd.agreed(self.at, work).await.map(Response::new)
    }

    type RangeStreamStream = Answers<RangeStreamResponse>;

    async fn range_stream(
        &self,
        _: Request<RangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        none()
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        none()
    }

    async fn delete_range(
        &self,
        _: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        none()
    }
}

#[tonic::async_trait]
impl Watch for Member {
    type WatchStream = Answers<WatchResponse>;

    async fn watch(
        &self,
        request: Request<Streaming<WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        if self.etcd.leaderless_ms() > 0 {
            return Err(Status::unavailable("etcdserver: no leader"));
        }
        let asks = request.into_inner();
        let (to, answers) = tokio::sync::mpsc::channel(16);
        tokio::spawn(watch::run(Arc::clone(&self.etcd), asks, to));
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }
}

#[tonic::async_trait]
impl Leases for Member {
    async fn lease_grant(
        &self,
        request: Request<LeaseGrantRequest>,
    ) -> Result<Response<LeaseGrantResponse>, Status> {
        let LeaseGrantRequest { ttl, id } = request.into_inner();
        let work = move |etcd: &Etcd| {
            let now = etcd.record.now_ms();
            let mut inner = etcd.inner();
            if inner.rows.full {
                return Err(Refused::NoSpace);
            }
            if inner.rows.leases.contains_key(&id) {
                return Err(Refused::LeaseExists);
            }
            inner.rows.leases.insert(id, lease(ttl, now));
            Ok(LeaseGrantResponse { header: Some(inner.rows.header()), id, ttl, error: String::new() })
        };
        self.etcd.agreed(self.at, work).await.map(Response::new)
    }

    async fn lease_revoke(
        &self,
        request: Request<LeaseRevokeRequest>,
    ) -> Result<Response<LeaseRevokeResponse>, Status> {
        let id = request.into_inner().id;
        let work = move |etcd: &Etcd| {
            let mut inner = etcd.inner();
            if !inner.rows.leases.contains_key(&id) {
                return Err(Refused::NoLease);
            }
            inner.rows.end_lease(id);
            Ok(LeaseRevokeResponse { header: Some(inner.rows.header()) })
        };
        let done = self.etcd.agreed(self.at, work).await.map(Response::new);
        self.etcd.stir();
        done
    }

    type LeaseKeepAliveStream = Answers<LeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<LeaseKeepAliveRequest>>,
    ) -> Result<Response<Self::LeaseKeepAliveStream>, Status> {
        let member = self.clone();
        let asks = request.into_inner();
        let answers = asks.then(move |ask| {
            let member = member.clone();
            async move {
                let id = ask?.id;
                let work = move |etcd: &Etcd| {
                    let now = etcd.record.now_ms();
                    let mut inner = etcd.inner();
                    let kept = inner.rows.leases.get_mut(&id).map(|kept| {
                        *kept = lease(kept.ttl, now);
                        kept.ttl
                    });
                    let header = Some(inner.rows.header());
                    Ok(LeaseKeepAliveResponse { header, id, ttl: kept.unwrap_or(0) })
                };
                member.etcd.agreed(member.at, work).await
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<LeaseTimeToLiveRequest>,
    ) -> Result<Response<LeaseTimeToLiveResponse>, Status> {
        let id = request.into_inner().id;
        let work = move |etcd: &Etcd| {
            let inner = etcd.inner();
            let ttl = inner.rows.leases.get(&id).map_or(-1, |lease| lease.ttl);
            let header = Some(inner.rows.header());
            Ok(LeaseTimeToLiveResponse { header, id, ttl, granted_ttl: ttl, keys: Vec::new() })
        };
        self.etcd.agreed(self.at, work).await.map(Response::new)
    }

    async fn lease_leases(
        &self,
        _: Request<LeaseLeasesRequest>,
    ) -> Result<Response<LeaseLeasesResponse>, Status> {
        none()
    }
}

fn lease(ttl: i64, now_ms: u64) -> Lease {
    Lease { ttl, until_ms: now_ms + u64::try_from(ttl).unwrap_or(0) * 1000 }
}

#[tonic::async_trait]
impl Maintenance for Member {
    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let ask = request.into_inner();
        let work = move |etcd: &Etcd| {
            let mut inner = etcd.inner();
            if ask.action() == AlarmAction::Deactivate {
                inner.rows.full = false;
            }
            let raised = AlarmMember { member_id: 1, alarm: AlarmType::Nospace.into() };
            let alarms = if inner.rows.full { vec![raised] } else { Vec::new() };
            Ok(AlarmResponse { header: Some(inner.rows.header()), alarms })
        };
        self.etcd.agreed(self.at, work).await.map(Response::new)
    }

    async fn status(&self, _request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let inner = self.etcd.inner();
        let db_size_in_use = if inner.rows.full { HELD / 4 } else { HELD };
        Ok(Response::new(StatusResponse {
            header: Some(inner.rows.header()),
            db_size: HELD,
            db_size_in_use,
            ..StatusResponse::default()
        }))
    }

    async fn defragment(
        &self,
        _request: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        pause(100).await;
        Ok(Response::new(DefragmentResponse { header: Some(self.etcd.inner().rows.header()) }))
    }

    async fn hash(&self, _: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        none()
    }

    async fn hash_kv(&self, _: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        none()
    }

    type SnapshotStream = Answers<SnapshotResponse>;

    async fn snapshot(&self, _: Request<SnapshotRequest>) -> Result<Response<Self::SnapshotStream>, Status> {
        none()
    }

    async fn move_leader(
        &self,
        _: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        none()
    }

    async fn downgrade(&self, _: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        none()
    }
}
