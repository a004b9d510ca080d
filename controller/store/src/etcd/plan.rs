//! A transaction of ours as one of etcd's, and its answer back.
//!
//! etcd takes 128 operations in a transaction by default, but counts each level of nested transactions for itself. So
//! many operations are packed into nested transactions without conditions: they are still one transaction of etcd, one
//! revision, seen whole or not at all. What remains is the limit in bytes.
//!
//! Around it stands a guard: it runs only while the writer's slot (see `slots`) is as this process left it. Beside it
//! goes a mark, written where the transaction changes something: it says which transaction it was and which branch ran.
//!
//! ```text
//! if guard and conditions: operations, mark
//! else: [ if guard: other operations, mark ]
//! ```
//! etcd's quota looks at the puts of the outermost level alone. So the mark of a branch with puts stands there: a full
//! etcd refuses it, however the rest is packed. That of a branch that only deletes stands further in: deleting is how
//! space comes back.

use bytes::Bytes;
use etcd_client::{CompareOp, ResponseHeader, TxnOpResponse, TxnResponse};

use super::ask;
use super::space::{Space, end_of};
use crate::error::StoreError;
use crate::types::{Op, OpResult, Txn};

/// Most operations or groups on one level: three levels, with the guard beside them, make 128.
const GROUP: usize = 42;
/// Most operations of one branch.
pub(crate) const MOST_OPS: usize = GROUP * (GROUP - 1);
/// The most conditions that one transaction may have.
const MOST_COMPARES: usize = GROUP - 1;
/// Up to so many deletions without a put take a revision only if they delete something; more always take one.
const EXACT_DELETES: usize = 8;
/// What etcd's own log adds to a request, generously.
const REQUEST_OVERHEAD: usize = 1024;

/// What guards and marks a transaction: the slot's key, its revision now, and the mark's values for both branches.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub key: Bytes,
    pub revision: i64,
    pub then: Bytes,
    pub otherwise: Bytes,
}

/// Whether a branch changes anything.
pub(crate) fn writes(ops: &[Op]) -> bool {
    ops.iter().any(|op| !matches!(op, Op::Get { .. }))
}

/// The transaction, guarded if it may write.
///
/// # Errors
/// [`StoreError::TooManyOps`] and [`StoreError::TxnTooLarge`].
pub(crate) fn request(
    space: &Space,
    txn: &Txn,
    guard: Option<&Guard>,
    largest: usize,
) -> Result<ask::Txn, StoreError> {
    if txn.compares.len() > MOST_COMPARES {
        let (what, count) = ("compares", txn.compares.len());
        return Err(StoreError::TooManyOps { what, count, limit: MOST_COMPARES });
    }
    let mut compare: Vec<_> = txn.compares.iter().map(|compare| space.compare(compare)).collect();
    let success = branch(space, &txn.success, guard.map(|guard| (&guard.key, &guard.then)));
    let mut failure = branch(space, &txn.failure, guard.map(|guard| (&guard.key, &guard.otherwise)));
    if let Some(guard) = guard {
        compare.push(untouched(guard));
        let inner = ask::Txn { compare: vec![untouched(guard)], success: failure, failure: Vec::new() };
        failure = vec![ask::Op::Txn(inner)];
    }
    let request = ask::Txn { compare, success, failure };
    let (len, limit) = (request.encoded_len() + REQUEST_OVERHEAD, largest);
    if len > limit { Err(StoreError::TxnTooLarge { len, limit }) } else { Ok(request) }
}

/// The slot is as this process left it.
pub(crate) fn untouched(guard: &Guard) -> ask::Compare {
    ask::Compare {
        key: guard.key.clone(),
        range_end: Bytes::new(),
        op: CompareOp::Equal,
        target: ask::Target::Mod(guard.revision),
    }
}

fn branch(space: &Space, ops: &[Op], mark: Option<(&Bytes, &Bytes)>) -> Vec<ask::Op> {
    let all: Vec<ask::Op> = ops.iter().map(|op| operation(space, op)).collect();
    let mark = mark.filter(|_| writes(ops)).map(|(key, value)| {
        let put = put(key.clone(), value.clone(), 0);
        if ops.iter().any(|op| matches!(op, Op::Put { .. })) { put } else { if_any(space, ops, put) }
    });
    let mut packed = if all.len() < GROUP { all } else { all.chunks(GROUP).map(group).collect() };
    packed.extend(mark);
    packed
}

/// Operations without a condition, one level further in.
pub(crate) fn group(ops: &[ask::Op]) -> ask::Op {
    ask::Op::Txn(ask::Txn { compare: Vec::new(), success: ops.to_vec(), failure: Vec::new() })
}

/// The mark where there is nothing but deletions: only if one of them finds something, so that deleting nothing takes no
/// revision. Conditions are looked at before anything is done, so the order does not matter.
fn if_any(space: &Space, ops: &[Op], put: ask::Op) -> ask::Op {
    if ops.len() > EXACT_DELETES {
        return group(&[put]);
    }
    let mut last = None;
    for op in ops.iter().rev() {
        let (key, range_end) = match op {
            Op::Delete { key } => (space.inside(key), Bytes::new()),
            Op::DeletePrefix { prefix } => prefix_range(space, prefix),
            Op::Put { .. } | Op::Get { .. } => continue,
        };
        let exists = ask::Compare { key, range_end, op: CompareOp::Greater, target: ask::Target::Create(0) };
        let failure = last.take().into_iter().collect();
        last = Some(ask::Op::Txn(ask::Txn { compare: vec![exists], success: vec![put.clone()], failure }));
    }
    last.unwrap_or(put)
}

/// Where the keys under a prefix of ours begin and end in etcd.
pub(crate) fn prefix_range(space: &Space, prefix: &[u8]) -> (Bytes, Bytes) {
    let begin = space.inside(prefix);
    let end = end_of(&begin);
    (begin, end)
}

pub(crate) fn put(key: Bytes, value: Bytes, lease: i64) -> ask::Op {
    ask::Op::Put { key, value, lease }
}

pub(crate) fn delete(key: Bytes, range_end: Bytes) -> ask::Op {
    ask::Op::Delete { key, range_end }
}

pub(crate) fn get(key: Bytes) -> ask::Op {
    ask::Op::Range(ask::Range { key, ..ask::Range::default() })
}

fn operation(space: &Space, op: &Op) -> ask::Op {
    match op {
        Op::Put { key, value, lease } => {
            put(space.inside(key), value.clone(), lease.map_or(0, |lease| lease.0.cast_signed()))
        }
        Op::Delete { key } => delete(space.inside(key), Bytes::new()),
        Op::DeletePrefix { prefix } => {
            let (key, end) = prefix_range(space, prefix);
            delete(key, end)
        }
        Op::Get { key } => get(space.inside(key)),
    }
}

/// The answer of etcd to a planned transaction.
#[derive(Debug)]
pub(crate) struct Answer {
    /// etcd's revision: of the transaction, or the newest if it changed nothing.
    pub revision: i64,
    pub succeeded: bool,
    pub results: Vec<OpResult>,
    /// The mark was written, at `revision`.
    pub marked: bool,
}

/// The answer to a guarded or unguarded transaction; `None` when the guard did not hold, so that nothing ran.
pub(crate) fn answer(space: &Space, txn: &Txn, guarded: bool, response: &TxnResponse) -> Option<Answer> {
    let revision = response.header().map_or(0, ResponseHeader::revision);
    let succeeded = response.succeeded();
    let mut responses = response.op_responses();
    if guarded && !succeeded {
        // Either the conditions did not hold, or the guard did not.
        responses = match responses.first()? {
            TxnOpResponse::Txn(inner) if inner.succeeded() => inner.op_responses(),
            _ => return None,
        };
    }
    let ops = if succeeded { &txn.success } else { &txn.failure };
    let marked = guarded && writes(ops) && responses.last().is_some_and(holds_put);
    let results = unpack(responses, ops.len()).into_iter().map(|response| result(space, response)).collect();
    Some(Answer { revision, succeeded, results, marked })
}

/// Undoes the packing of so many operations; what follows them is the mark.
fn unpack(responses: Vec<TxnOpResponse>, count: usize) -> Vec<TxnOpResponse> {
    if count < GROUP {
        return responses.into_iter().take(count).collect();
    }
    let group = |response: TxnOpResponse| match response {
        TxnOpResponse::Txn(group) => group.op_responses(),
        _ => Vec::new(),
    };
    responses.into_iter().take(count.div_ceil(GROUP)).flat_map(group).collect()
}

fn holds_put(response: &TxnOpResponse) -> bool {
    match response {
        TxnOpResponse::Put(_) => true,
        TxnOpResponse::Txn(txn) => txn.op_responses().iter().any(holds_put),
        _ => false,
    }
}

fn result(space: &Space, response: TxnOpResponse) -> OpResult {
    match response {
        TxnOpResponse::Get(mut range) => {
            OpResult::Got(range.take_kvs().into_iter().next().map(|kv| space.key_value(kv)))
        }
        TxnOpResponse::Delete(deleted) => OpResult::Deleted(u64::try_from(deleted.deleted()).unwrap_or(0)),
        _ => OpResult::Put,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard {
            key: "/a/meta/writers/w-0".into(),
            revision: 7,
            then: "1 then".into(),
            otherwise: "1 else".into(),
        }
    }

    /// What etcd checks (`checkTxnRequest`): the widest list of each level, less what the levels above it used.
    fn fits(txn: &ask::Txn, left: usize) -> bool {
        let width = txn.compare.len().max(txn.success.len()).max(txn.failure.len());
        let inner = |op: &ask::Op| match op {
            ask::Op::Txn(txn) => fits(txn, left - width),
            _ => true,
        };
        width <= left && txn.success.iter().chain(&txn.failure).all(inner)
    }

    #[test]
    fn every_size_fits_into_what_etcd_takes_by_default() {
        let space = Space::new("/a", 0).unwrap();
        for count in [0, 1, 8, 9, 41, 42, 43, 84, 127, 128, 1000, MOST_OPS] {
            for compares in [0, 1, MOST_COMPARES] {
                let mut txn = Txn::new();
                txn.compares = vec![crate::Compare::absent("k"); compares];
                txn.success = (0..count).map(|n| Op::put(format!("k{n}"), "")).collect();
                txn.failure = (0..count).map(|n| Op::delete(format!("k{n}"))).collect();
                let request = request(&space, &txn, Some(&guard()), usize::MAX).unwrap();
                assert!(fits(&request, 128), "{count} operations, {compares} compares");
            }
        }
        let mut wide = Txn::new();
        wide.compares = vec![crate::Compare::absent("k"); MOST_COMPARES + 1];
        assert!(matches!(request(&space, &wide, None, usize::MAX), Err(StoreError::TooManyOps { .. })));
        let large = Txn::new().then(Op::put("k", vec![0; 2000]));
        assert!(matches!(request(&space, &large, None, 2000), Err(StoreError::TxnTooLarge { .. })));
    }

    /// etcd's quota looks at the puts of the outermost level (`costTxn`).
    #[test]
    fn a_full_etcd_refuses_every_put_and_no_deletion() {
        let space = Space::new("/a", 0).unwrap();
        let costs = |ops: Vec<Op>| {
            let txn = Txn { success: ops, ..Txn::new() };
            let request = request(&space, &txn, Some(&guard()), usize::MAX).unwrap();
            request.success.iter().any(|op| matches!(op, ask::Op::Put { .. }))
        };
        for count in [1, 8, 9, 41, 42, 1000] {
            assert!(costs((0..count).map(|n| Op::put(format!("k{n}"), "")).collect()), "{count}");
            assert!(!costs((0..count).map(|n| Op::delete(format!("k{n}"))).collect()), "{count}");
        }
    }

    #[test]
    fn only_what_changes_something_is_marked() {
        let space = Space::new("/a", 0).unwrap();
        let marks = |ops: Vec<Op>| {
            let made = branch(&space, &ops, Some((&guard().key, &guard().then)));
            made.len() - ops.len()
        };
        assert_eq!(marks(vec![Op::get("k")]), 0);
        assert_eq!(marks(vec![Op::put("k", "v")]), 1);
        assert_eq!(marks(vec![Op::delete("k")]), 1);
        let only_deletes =
            branch(&space, &[Op::delete("k"), Op::delete_prefix("l")], Some((&guard().key, &guard().then)));
        let ask::Op::Txn(chain) = &only_deletes[2] else { panic!("no chain") };
        assert_eq!((chain.compare.len(), chain.success.len(), chain.failure.len()), (1, 1, 1));
    }
}
