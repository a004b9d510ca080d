//! What etcd holds: rows of bytes under one revision, their history until it is compacted, leases, and the alarm that
//! nothing more fits. No clock, no network.

use std::collections::BTreeMap;

use crate::wire::{
    Compare, CompareOp, DeleteRangeResponse, Event, EventType, KeyValue, PutRequest, PutResponse,
    RangeRequest, RangeResponse, Request, RequestOp, Response, ResponseHeader, ResponseOp, TargetUnion,
    TxnRequest, TxnResponse,
};

/// Why a request is refused, as etcd says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The history asked for is gone.
    Compacted,
    /// The revision is not there yet.
    Future,
    /// The alarm is raised.
    NoSpace,
    /// There is no lease of this number.
    NoLease,
    /// The lease is there already.
    LeaseExists,
}

impl Refused {
    /// The message with which etcd refuses it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Compacted => "etcdserver: mvcc: required revision has been compacted",
            Self::Future => "etcdserver: mvcc: required revision is a future revision",
            Self::NoSpace => "etcdserver: mvcc: database space exceeded",
            Self::NoLease => "etcdserver: requested lease not found",
            Self::LeaseExists => "etcdserver: lease already exists",
        }
    }
}

/// A lease as etcd holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The time to live that was granted, in seconds.
    pub ttl: i64,
    /// Until when it lives.
    pub until_ms: u64,
}

/// The whole of it.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Every key with its newest value.
    pub rows: BTreeMap<Vec<u8>, KeyValue>,
    /// The newest revision; an empty etcd has 1.
    pub revision: i64,
    /// History up to here is gone.
    pub compacted: i64,
    /// What each revision changed.
    pub log: BTreeMap<i64, Vec<Event>>,
    /// Live leases, by number.
    pub leases: BTreeMap<i64, Lease>,
    /// Whether the alarm is raised: puts are refused.
    pub full: bool,
    /// The next transaction that puts something is applied, and raises the alarm.
    pub brimming: bool,
}

impl Default for Rows {
    fn default() -> Self {
        let (rows, log, leases) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { rows, revision: 1, compacted: 0, log, leases, full: false, brimming: false }
    }
}

impl Rows {
    /// A header of now.
    #[must_use]
    pub fn header(&self) -> ResponseHeader {
        ResponseHeader { cluster_id: 1, member_id: 1, revision: self.revision, raft_term: 1 }
    }

    /// Keys of a range as of a revision; 0 is the newest.
    ///
    /// # Errors
    /// The revision is gone, or not there yet.
    pub fn range(&self, ask: &RangeRequest) -> Result<RangeResponse, Refused> {
        if ask.revision > self.revision {
            return Err(Refused::Future);
        }
        let past;
        let rows = if ask.revision <= 0 || ask.revision == self.revision {
            &self.rows
        } else if ask.revision < self.compacted {
            return Err(Refused::Compacted);
        } else {
            past = self.at(ask.revision);
            &past
        };
        let found = rows.range(ask.key.clone()..).map(|(_, kv)| kv);
        let found = found.take_while(|kv| within(&kv.key, &ask.key, &ask.range_end));
        let count = found.clone().count();
        let limit = usize::try_from(ask.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let taken = if ask.count_only { 0 } else { limit };
        let kvs = found.take(taken).map(|kv| {
            let value = if ask.keys_only { Vec::new() } else { kv.value.clone() };
            KeyValue { value, ..kv.clone() }
        });
        Ok(RangeResponse {
            header: Some(self.header()),
            kvs: kvs.collect(),
            more: !ask.count_only && count > limit,
            count: i64::try_from(count).unwrap_or(i64::MAX),
        })
    }

    /// The rows as they were.
    fn at(&self, revision: i64) -> BTreeMap<Vec<u8>, KeyValue> {
        let mut rows = self.rows.clone();
        for events in self.log.range(revision + 1..).rev().map(|(_, events)| events) {
            for event in events.iter().rev() {
                let Some(kv) = &event.kv else { continue };
                match &event.prev_kv {
                    Some(before) => _ = rows.insert(kv.key.clone(), before.clone()),
                    None => _ = rows.remove(&kv.key),
                }
            }
        }
        rows
    }

    /// Runs a transaction; all of it is one revision.
    ///
    /// # Errors
    /// Nothing was done then, except by [`Refused::NoSpace`] of the one that raises the alarm.
    pub fn txn(&mut self, txn: &TxnRequest) -> Result<TxnResponse, Refused> {
        let puts = txn.success.iter().chain(&txn.failure).any(is_put);
        if puts && self.full {
            return Err(Refused::NoSpace);
        }
        if self.lacks_lease(txn) {
            return Err(Refused::NoLease);
        }
        let path = self.decide(txn);
        let mut events = Vec::new();
        let mut response = self.run(txn, &path, &mut events);
        if !events.is_empty() {
            self.revision += 1;
            self.log.insert(self.revision, events);
        }
        response.header = Some(self.header());
        if puts && std::mem::take(&mut self.brimming) {
            self.full = true;
            return Err(Refused::NoSpace);
        }
        Ok(response)
    }

    fn lacks_lease(&self, txn: &TxnRequest) -> bool {
        txn.success.iter().chain(&txn.failure).any(|op| match &op.request {
            Some(Request::RequestPut(put)) => put.lease != 0 && !self.leases.contains_key(&put.lease),
            Some(Request::RequestTxn(txn)) => self.lacks_lease(txn),
            _ => false,
        })
    }

    /// All conditions are looked at before anything is done.
    fn decide(&self, txn: &TxnRequest) -> Path {
        let holds = txn.compare.iter().all(|compare| self.holds(compare));
        let ops = if holds { &txn.success } else { &txn.failure };
        let inner = ops.iter().filter_map(|op| match &op.request {
            Some(Request::RequestTxn(txn)) => Some(self.decide(txn)),
            _ => None,
        });
        Path { holds, inner: inner.collect() }
    }

    fn holds(&self, compare: &Compare) -> bool {
        let kv = self.rows.get(&compare.key);
        let number = |pick: fn(&KeyValue) -> i64| kv.map_or(0, pick);
        let ordering = match &compare.target_union {
            Some(TargetUnion::Version(given)) => number(|kv| kv.version).cmp(given),
            Some(TargetUnion::CreateRevision(given)) => number(|kv| kv.create_revision).cmp(given),
            Some(TargetUnion::ModRevision(given)) => number(|kv| kv.mod_revision).cmp(given),
            Some(TargetUnion::Value(given)) => match kv {
                Some(kv) => kv.value.cmp(given),
                None => return false,
            },
            Some(TargetUnion::Lease(given)) => number(|kv| kv.lease).cmp(given),
            None => return false,
        };
        match compare.result() {
            CompareOp::Equal => ordering.is_eq(),
            CompareOp::NotEqual => ordering.is_ne(),
            CompareOp::Greater => ordering.is_gt(),
            CompareOp::Less => ordering.is_lt(),
        }
    }

    fn run(&mut self, txn: &TxnRequest, path: &Path, events: &mut Vec<Event>) -> TxnResponse {
        let ops = if path.holds { &txn.success } else { &txn.failure };
        let mut inner = path.inner.iter();
        let mut responses = Vec::with_capacity(ops.len());
        for op in ops {
            let response = match &op.request {
                Some(Request::RequestRange(ask)) => {
                    let found = self.range(ask).unwrap_or_default();
                    Response::ResponseRange(RangeResponse { header: Some(self.header()), ..found })
                }
                Some(Request::RequestPut(put)) => {
                    self.put(put, events);
                    Response::ResponsePut(PutResponse { header: Some(self.header()), prev_kv: None })
                }
                Some(Request::RequestDeleteRange(delete)) => {
                    let deleted = self.delete(&delete.key, &delete.range_end, events);
                    let header = Some(self.header());
                    Response::ResponseDeleteRange(DeleteRangeResponse {
                        header,
                        deleted,
                        prev_kvs: Vec::new(),
                    })
                }
                Some(Request::RequestTxn(txn)) => {
                    let Some(path) = inner.next() else { continue };
                    Response::ResponseTxn(self.run(txn, path, events))
                }
                None => continue,
            };
            responses.push(ResponseOp { response: Some(response) });
        }
        TxnResponse { header: Some(self.header()), succeeded: path.holds, responses }
    }

    fn put(&mut self, put: &PutRequest, events: &mut Vec<Event>) {
        let revision = self.revision + 1;
        let before = self.rows.get(&put.key).cloned();
        let kv = KeyValue {
            key: put.key.clone(),
            create_revision: before.as_ref().map_or(revision, |kv| kv.create_revision),
            mod_revision: revision,
            version: before.as_ref().map_or(0, |kv| kv.version) + 1,
            value: put.value.clone(),
            lease: put.lease,
        };
        self.rows.insert(put.key.clone(), kv.clone());
        events.push(Event { r#type: EventType::Put.into(), kv: Some(kv), prev_kv: before });
    }

    fn delete(&mut self, key: &[u8], end: &[u8], events: &mut Vec<Event>) -> i64 {
        let found = self.rows.range(key.to_vec()..).map(|(key, _)| key);
        let gone: Vec<Vec<u8>> = found.take_while(|one| within(one, key, end)).cloned().collect();
        for key in &gone {
            let prev_kv = self.rows.remove(key);
            let kv = KeyValue { key: key.clone(), mod_revision: self.revision + 1, ..KeyValue::default() };
            events.push(Event { r#type: EventType::Delete.into(), kv: Some(kv), prev_kv });
        }
        i64::try_from(gone.len()).unwrap_or(i64::MAX)
    }

    /// Forgets the history up to a revision.
    ///
    /// # Errors
    /// It is gone already, or not there yet.
    pub fn compact(&mut self, revision: i64) -> Result<(), Refused> {
        if revision <= self.compacted {
            return Err(Refused::Compacted);
        }
        if revision > self.revision {
            return Err(Refused::Future);
        }
        self.compacted = revision;
        self.log = self.log.split_off(&(revision + 1));
        Ok(())
    }

    /// Ends leases whose time is over, with their keys.
    pub fn expire(&mut self, now_ms: u64) {
        let over: Vec<i64> =
            self.leases.iter().filter(|(_, lease)| lease.until_ms <= now_ms).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.end_lease(id));
    }

    /// Ends a lease and deletes its keys in one revision.
    pub fn end_lease(&mut self, id: i64) {
        self.leases.remove(&id);
        let held: Vec<Vec<u8>> =
            self.rows.values().filter(|kv| kv.lease == id).map(|kv| kv.key.clone()).collect();
        let mut events = Vec::new();
        for key in held {
            self.delete(&key, &[], &mut events);
        }
        if !events.is_empty() {
            self.revision += 1;
            self.log.insert(self.revision, events);
        }
    }
}

/// Which branches a transaction takes.
struct Path {
    holds: bool,
    inner: Vec<Path>,
}

fn is_put(op: &RequestOp) -> bool {
    matches!(op.request, Some(Request::RequestPut(_)))
}

/// Whether a key is of a range as etcd writes it: no end is one key, an end of one zero byte is all that follow.
#[must_use]
pub fn within(key: &[u8], from: &[u8], end: &[u8]) -> bool {
    if end.is_empty() { key == from } else { key >= from && (end == [0] || key < end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::DeleteRangeRequest;

    fn put(key: &str, value: &str) -> RequestOp {
        let (key, value) = (key.into(), value.into());
        RequestOp { request: Some(Request::RequestPut(PutRequest { key, value, ..PutRequest::default() })) }
    }

    fn all(revision: i64) -> RangeRequest {
        let (key, range_end) = (b"a".to_vec(), b"z".to_vec());
        RangeRequest { key, range_end, revision, ..RangeRequest::default() }
    }

    #[test]
    fn the_past_is_read_until_it_is_compacted_and_a_full_etcd_only_deletes() {
        let mut etcd = Rows::default();
        let txn = |ops| TxnRequest { success: ops, ..TxnRequest::default() };
        etcd.txn(&txn(vec![put("b", "1"), put("c", "1")])).unwrap();
        etcd.txn(&txn(vec![put("b", "2")])).unwrap();
        assert_eq!(etcd.revision, 3);
        let before = etcd.range(&all(2)).unwrap();
        assert_eq!((before.count, &before.kvs[0].value[..]), (2, &b"1"[..]));
        assert_eq!(etcd.range(&all(4)), Err(Refused::Future));
        etcd.compact(3).unwrap();
        assert_eq!(etcd.range(&all(2)), Err(Refused::Compacted));
        etcd.brimming = true;
        assert_eq!(etcd.txn(&txn(vec![put("d", "1")])), Err(Refused::NoSpace));
        assert_eq!((etcd.revision, etcd.full), (4, true), "the one that crosses the quota is applied");
        assert_eq!(etcd.txn(&txn(vec![put("e", "1")])), Err(Refused::NoSpace));
        assert_eq!(etcd.revision, 4);
        let delete = DeleteRangeRequest { key: b"b".to_vec(), ..DeleteRangeRequest::default() };
        let delete = RequestOp { request: Some(Request::RequestDeleteRange(delete)) };
        etcd.txn(&txn(vec![delete])).unwrap();
        assert_eq!((etcd.revision, etcd.range(&all(0)).unwrap().count), (5, 2));
    }

    #[test]
    fn conditions_of_inner_transactions_are_of_before_the_outer_one() {
        let mut etcd = Rows::default();
        let absent = Compare {
            result: CompareOp::Equal.into(),
            key: b"b".to_vec(),
            target_union: Some(TargetUnion::CreateRevision(0)),
            ..Compare::default()
        };
        let inner = TxnRequest { compare: vec![absent], success: vec![put("c", "1")], failure: Vec::new() };
        let nested = RequestOp { request: Some(Request::RequestTxn(inner)) };
        let outer = TxnRequest { success: vec![put("b", "1"), nested], ..TxnRequest::default() };
        assert!(etcd.txn(&outer).unwrap().succeeded);
        assert_eq!(etcd.range(&all(0)).unwrap().count, 2);
        let again = etcd.txn(&outer).unwrap();
        let Some(Response::ResponseTxn(inner)) = &again.responses[1].response else { panic!("no inner") };
        assert!(!inner.succeeded);
    }
}
