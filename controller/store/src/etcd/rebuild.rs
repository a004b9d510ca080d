//! What a transaction answered whose answer was lost: read from etcd's history at its revision and the one before.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{ask, failure::Failure, inner::Inner, space::end_of};
use crate::types::{Op, OpResult};

/// The results of `ops`, which ran at etcd's `revision`; `None` when they are not known any more.
pub(super) async fn results(inner: &Inner, ops: &[Op], revision: i64) -> Option<Vec<OpResult>> {
    let mut gone: BTreeSet<Bytes> = BTreeSet::new();
    let mut written: BTreeSet<Bytes> = BTreeSet::new();
    let mut results = Vec::with_capacity(ops.len());
    for op in ops {
        let result = match op {
            Op::Put { key, .. } => {
                written.insert(key.clone());
                OpResult::Put
            }
            Op::Delete { key } => {
                let before = at(inner, key, None, revision - 1).await.ok()?;
                let count = before.len() - before.iter().filter(|kv| gone.contains(kv.key())).count();
                gone.extend(before.iter().map(|kv| Bytes::copy_from_slice(kv.key())));
                OpResult::Deleted(count as u64)
            }
            Op::DeletePrefix { prefix } => {
                let end = end_of(&inner.space.inside(prefix));
                let before = at(inner, prefix, Some(end), revision - 1).await.ok()?;
                let count = before.len() - before.iter().filter(|kv| gone.contains(kv.key())).count();
                gone.extend(before.iter().map(|kv| Bytes::copy_from_slice(kv.key())));
                OpResult::Deleted(count as u64)
            }
            Op::Get { key } if gone.contains(&inner.space.inside(key)) => OpResult::Got(None),
            Op::Get { key } => {
                let when = if written.contains(key) { revision } else { revision - 1 };
                let found = at(inner, key, None, when).await.ok()?;
                OpResult::Got(found.into_iter().next().map(|kv| inner.space.key_value(kv)))
            }
        };
        results.push(result);
    }
    Some(results)
}

/// Keys as they were at a revision; for a range without their values.
async fn at(
    inner: &Inner,
    key: &Bytes,
    range_end: Option<Bytes>,
    revision: i64,
) -> Result<Vec<etcd_client::KeyValue>, Failure> {
    let ask = &ask::Range {
        key: inner.space.inside(key),
        keys_only: range_end.is_some(),
        range_end: range_end.unwrap_or_default(),
        // etcd's first revision is 1; 0 would mean the newest.
        revision: revision.max(1),
        ..ask::Range::default()
    };
    let answer = inner.link.call(|session| async move { session.range(ask).await });
    Ok(answer.await?.take_kvs())
}
