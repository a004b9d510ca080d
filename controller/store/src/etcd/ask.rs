//! What is asked of etcd, as values: cheap to repeat, of a known size, and converted to etcd-client's types.

use bytes::Bytes;
use etcd_client::{CompareOp, DeleteOptions, GetOptions, PutOptions, TxnOp, WatchOptions};

/// Keys to be read.
#[derive(Debug, Clone, Default)]
pub(crate) struct Range {
    pub key: Bytes,
    /// Behind the last key; empty: `key` alone.
    pub range_end: Bytes,
    /// Most keys in the answer; 0: all.
    pub limit: i64,
    /// As of then; 0: now.
    pub revision: i64,
    pub keys_only: bool,
    pub count_only: bool,
}

impl Range {
    pub fn options(&self) -> GetOptions {
        let mut options = GetOptions::new()
            .with_range(self.range_end.to_vec())
            .with_limit(self.limit)
            .with_revision(self.revision);
        if self.keys_only {
            options = options.with_keys_only();
        }
        if self.count_only {
            options = options.with_count_only();
        }
        options
    }

    fn encoded_len(&self) -> usize {
        bytes_len(&self.key)
            + bytes_len(&self.range_end)
            + number_len(self.limit)
            + number_len(self.revision)
            + 2 * (usize::from(self.keys_only) + usize::from(self.count_only))
    }
}

/// A watch of changes from a revision on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Watch {
    pub key: Bytes,
    /// Behind the last key; empty: `key` alone.
    pub range_end: Bytes,
    pub start_revision: i64,
    /// What was there before each change, and where etcd is while nothing changes.
    pub whole: bool,
}

impl Watch {
    pub fn options(&self) -> WatchOptions {
        let options =
            WatchOptions::new().with_range(self.range_end.to_vec()).with_start_revision(self.start_revision);
        if self.whole { options.with_progress_notify().with_prev_key() } else { options }
    }
}

/// A condition on a key, or on all keys of a range.
#[derive(Debug, Clone)]
pub(crate) struct Compare {
    pub key: Bytes,
    /// Behind the last key; empty: `key` alone.
    pub range_end: Bytes,
    pub op: CompareOp,
    pub target: Target,
}

/// What is compared, and with what.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Version(i64),
    Create(i64),
    Mod(i64),
    Value(Bytes),
}

impl Compare {
    fn words(&self) -> etcd_client::Compare {
        let (key, op) = (self.key.to_vec(), self.op);
        let compare = match &self.target {
            Target::Version(given) => etcd_client::Compare::version(key, op, *given),
            Target::Create(given) => etcd_client::Compare::create_revision(key, op, *given),
            Target::Mod(given) => etcd_client::Compare::mod_revision(key, op, *given),
            Target::Value(given) => etcd_client::Compare::value(key, op, given.to_vec()),
        };
        compare.with_range(self.range_end.to_vec())
    }

    fn encoded_len(&self) -> usize {
        let target = match &self.target {
            Target::Version(_) => 0,
            Target::Create(_) | Target::Mod(_) | Target::Value(_) => 2,
        };
        let union = match &self.target {
            Target::Version(given) | Target::Create(given) | Target::Mod(given) => 1 + varint_len(*given),
            Target::Value(given) => field_len(given.len()),
        };
        // The range's end has a number of two bytes.
        let end = if self.range_end.is_empty() { 0 } else { 1 + field_len(self.range_end.len()) };
        let result = if self.op == CompareOp::Equal { 0 } else { 2 };
        result + target + bytes_len(&self.key) + union + end
    }
}

/// One operation of a transaction.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Range(Range),
    Put { key: Bytes, value: Bytes, lease: i64 },
    Delete { key: Bytes, range_end: Bytes },
    Txn(Txn),
}

impl Op {
    fn words(&self) -> TxnOp {
        match self {
            Op::Range(range) => TxnOp::get(range.key.to_vec(), Some(range.options())),
            Op::Put { key, value, lease } => {
                TxnOp::put(key.to_vec(), value.to_vec(), Some(PutOptions::new().with_lease(*lease)))
            }
            Op::Delete { key, range_end } => {
                TxnOp::delete(key.to_vec(), Some(DeleteOptions::new().with_range(range_end.to_vec())))
            }
            Op::Txn(txn) => TxnOp::txn(txn.words()),
        }
    }

    fn encoded_len(&self) -> usize {
        field_len(match self {
            Op::Range(range) => range.encoded_len(),
            Op::Put { key, value, lease } => bytes_len(key) + bytes_len(value) + number_len(*lease),
            Op::Delete { key, range_end } => bytes_len(key) + bytes_len(range_end),
            Op::Txn(txn) => txn.encoded_len(),
        })
    }
}

/// A transaction: if all conditions hold the one, else the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Txn {
    pub compare: Vec<Compare>,
    pub success: Vec<Op>,
    pub failure: Vec<Op>,
}

impl Txn {
    pub fn words(&self) -> etcd_client::Txn {
        let ops = |ops: &[Op]| ops.iter().map(Op::words).collect::<Vec<_>>();
        let compare: Vec<_> = self.compare.iter().map(Compare::words).collect();
        etcd_client::Txn::new().when(compare).and_then(ops(&self.success)).or_else(ops(&self.failure))
    }

    /// Bytes of it on the wire.
    pub fn encoded_len(&self) -> usize {
        let compares = self.compare.iter().map(|compare| field_len(compare.encoded_len()));
        let ops = self.success.iter().chain(&self.failure).map(|op| field_len(op.encoded_len()));
        compares.chain(ops).sum()
    }
}

/// Bytes of a number as protobuf writes it.
fn varint_len(number: i64) -> usize {
    let bits = 64 - (number.cast_unsigned() | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// Bytes of a field of so many bytes, with its number (below 16) and its length.
fn field_len(len: usize) -> usize {
    1 + varint_len(i64::try_from(len).unwrap_or(i64::MAX)) + len
}

/// Bytes of a field that is left out when it is empty.
fn bytes_len(bytes: &[u8]) -> usize {
    if bytes.is_empty() { 0 } else { field_len(bytes.len()) }
}

/// Bytes of a number that is left out when it is 0.
fn number_len(number: i64) -> usize {
    if number == 0 { 0 } else { 1 + varint_len(number) }
}

#[cfg(test)]
mod tests {
    use etcd_client::proto::PbTxnRequest;
    use prost::Message;

    use super::*;

    /// Every kind of operation and condition, with a key of `size` bytes and numbers of many lengths.
    fn every_kind(size: usize, number: i64) -> Txn {
        let key = Bytes::from(vec![b'k'; size]);
        let (empty, end) = (Bytes::new(), Bytes::from_static(b"\0"));
        let range = Range { key: key.clone(), range_end: end.clone(), limit: number, ..Range::default() };
        let count = Range { revision: number, keys_only: true, count_only: true, ..range.clone() };
        let targets = [
            Target::Version(number),
            Target::Create(number),
            Target::Mod(number),
            Target::Value(key.clone()),
        ];
        let ops = [CompareOp::Equal, CompareOp::NotEqual, CompareOp::Greater, CompareOp::Less];
        let compare = targets.into_iter().zip(ops).flat_map(|(target, op)| {
            [empty.clone(), end.clone()].map(|range_end| Compare {
                key: key.clone(),
                range_end,
                op,
                target: target.clone(),
            })
        });
        let compare: Vec<_> = compare.collect();
        let all = vec![
            Op::Range(range),
            Op::Range(count),
            Op::Put { key: key.clone(), value: key.clone(), lease: number },
            Op::Delete { key: key.clone(), range_end: end },
            Op::Delete { key, range_end: empty },
        ];
        let inner = Txn { compare, success: all.clone(), failure: Vec::new() };
        let outer = Txn { success: vec![Op::Txn(inner.clone())], ..Txn::default() };
        Txn { compare: inner.compare.clone(), success: vec![Op::Txn(outer), Op::Txn(inner)], failure: all }
    }

    #[test]
    fn the_size_of_a_transaction_is_what_is_sent() {
        for size in [0, 1, 127, 128, 16_383, 16_384, 200_000] {
            for number in [0, 1, 127, 128, 1 << 35, i64::MAX, -1, i64::MIN] {
                let txn = every_kind(size, number);
                let sent = PbTxnRequest::from(txn.words()).encoded_len();
                assert_eq!(txn.encoded_len(), sent, "{size} bytes, {number}");
            }
        }
        assert_eq!(Txn::default().encoded_len(), 0);
    }
}
