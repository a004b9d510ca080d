//! Leases, compaction and status: what is neither a transaction nor a read of keys.

use std::time::Duration;

use super::{
    ask, calls,
    failure::{Failure, Kind},
    inner::Inner,
    plan,
};
use crate::{
    error::StoreError,
    hub::lock,
    memory::millis,
    source::random_id,
    types::{LeaseGrant, LeaseId, Op, StoreStatus, Txn},
};

impl Inner {
    /// etcd counts whole seconds, and grants no less than its election takes.
    pub(super) async fn lease_grant(&self, ttl: Duration) -> Result<LeaseGrant, StoreError> {
        let (ttl_ms, limit_ms) = (millis(ttl), self.limits.lease_ttl_ms);
        if ttl_ms == 0 || ttl_ms > limit_ms {
            return Err(StoreError::LeaseTtl { ttl_ms, limit_ms });
        }
        // The number is ours, so that an answer that was lost leaves no second lease.
        let random = random_id(self.options.source.as_ref()).ok_or_else(super::no_random)?;
        let id = (random.as_u64_pair().0 >> 1).max(1).cast_signed();
        let asked = seconds(ttl_ms);
        let granted = self.link.call(|session| async move { session.lease_grant(id, asked).await });
        match granted.await {
            Ok(granted) => Ok(grant(id, granted)),
            Err(failure) if failure.kind == Kind::LeaseExists => Ok(grant(id, asked)),
            Err(failure) => Err(failure.into_error()),
        }
    }

    pub(super) async fn lease_keep_alive(&self, lease: LeaseId) -> Result<LeaseGrant, StoreError> {
        let id = lease.0.cast_signed();
        let kept = self.link.call(|session| async move { session.lease_keep_alive(id).await });
        let kept = kept.await.map_err(Failure::into_error)?;
        // A lease that is gone has no time left.
        if kept <= 0 { Err(StoreError::LeaseNotFound { lease }) } else { Ok(grant(id, kept)) }
    }

    pub(super) async fn lease_revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        let id = lease.0.cast_signed();
        let mut doubt = false;
        let mut trying = super::Trying::new(&self.link);
        loop {
            let revoked = self.link.once(|session| async move { session.lease_revoke(id).await });
            match revoked.await {
                Ok(()) => return Ok(()),
                // An attempt without an answer has done it.
                Err(failure) if failure.kind == Kind::NoLease && doubt => return Ok(()),
                Err(failure) if failure.kind == Kind::NoLease => {
                    return Err(StoreError::LeaseNotFound { lease });
                }
                Err(failure) => {
                    doubt |= failure.doubt;
                    trying.again(&self.link, failure).await.map_err(Failure::into_error)?;
                }
            }
        }
    }

    /// The first lease of a transaction's puts that is not there.
    pub(super) async fn missing_lease(&self, txn: &Txn) -> Result<LeaseId, Failure> {
        let of = |op: &Op| if let Op::Put { lease, .. } = op { *lease } else { None };
        let mut last = LeaseId(0);
        for lease in txn.success.iter().chain(&txn.failure).filter_map(of) {
            let id = lease.0.cast_signed();
            let left = self.link.call(|session| async move { session.lease_left(id).await });
            if left.await? < 0 {
                return Ok(lease);
            }
            last = lease;
        }
        Ok(last)
    }

    pub(super) async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        if revision <= self.space.base {
            return Ok(());
        }
        let etcds = self.space.etcd_revision(revision);
        let done = self.link.call(|session| async move { session.compact(etcds).await });
        match done.await {
            Ok(()) => {}
            Err(failure) if failure.kind == Kind::Compacted => {}
            Err(failure) if failure.kind == Kind::Future => {
                let newest = self.newest().await.map_err(Failure::into_error)?;
                let current = self.space.revision(newest);
                return Err(StoreError::FutureRevision { requested: revision, current });
            }
            Err(failure) => return Err(failure.into_error()),
        }
        self.mirror.forget(revision);
        Ok(())
    }

    /// The newest revision whose history is gone. etcd gives it only to a watch that begins before it.
    pub(super) async fn compacted(&self) -> Result<u64, StoreError> {
        let ask = &ask::Watch { key: self.space.format_key(), start_revision: 1, ..ask::Watch::default() };
        let reported = self.link.call(|session| async move {
            let mut answers = session.watch(ask).await?;
            let first_words = async {
                while let Some(answer) = answers.message().await.map_err(calls::status)? {
                    if answer.compact_revision() > 0 || (!answer.created() && !answer.canceled()) {
                        return Ok(answer.compact_revision());
                    }
                }
                Err(tonic::Status::unavailable("the watch ended"))
            };
            let late = |_| tonic::Status::unavailable("no answer to a watch");
            tokio::time::timeout(Duration::from_secs(1), first_words).await.map_err(late)?
        });
        reported.await.map(|revision| self.space.revision(revision)).map_err(Failure::into_error)
    }

    async fn counted(&self) -> Result<(i64, StoreStatus), Failure> {
        let (key, range_end) = plan::prefix_range(&self.space, b"");
        let ask = ask::Range { key, range_end, count_only: true, ..ask::Range::default() };
        let counted = self.range_of(ask).await?;
        let keys = u64::try_from(counted.count()).unwrap_or(0);
        let revision = counted.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok((revision, StoreStatus { keys, ..StoreStatus::default() }))
    }

    pub(super) async fn status(&self) -> Result<StoreStatus, StoreError> {
        let (revision, seen) = match self.mirror.status() {
            Some((seen, true)) => (self.newest().await.map_err(Failure::into_error)?, seen),
            // etcd looks at every key to count them.
            seen => {
                let (revision, counted) = self.counted().await.map_err(Failure::into_error)?;
                let seen = seen.map_or_else(StoreStatus::default, |(seen, _)| seen);
                (revision, StoreStatus { keys: counted.keys, ..seen })
            }
        };
        // Rights on a prefix need not include this; then the size stays unknown.
        let size = self.link.call(|session| async move { session.status().await }).await.ok();
        let (held, used) = size.map_or((0, 0), |size| (size.db_size(), size.raft_used_db_size()));
        let bytes = |size: i64| u64::try_from(size).unwrap_or(0);
        let full = self.full.load(std::sync::atomic::Ordering::Relaxed);
        let full = full.then(|| lock(&self.full_cause).clone()).flatten();
        Ok(StoreStatus {
            revision: self.space.revision(revision),
            bytes: bytes(used),
            file_bytes: bytes(held),
            commits: self.commits.load(std::sync::atomic::Ordering::Relaxed),
            transactions: self.transactions.load(std::sync::atomic::Ordering::Relaxed),
            write_failure: full.or_else(|| self.link.down()),
            ..seen
        })
    }
}

fn grant(id: i64, ttl: i64) -> LeaseGrant {
    let ttl = Duration::from_secs(u64::try_from(ttl).unwrap_or(0));
    LeaseGrant { id: LeaseId(id.cast_unsigned()), ttl }
}

fn seconds(ttl_ms: u64) -> i64 {
    i64::try_from(ttl_ms.div_ceil(1000)).unwrap_or(i64::MAX)
}
