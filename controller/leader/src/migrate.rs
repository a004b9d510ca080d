//! Bringing the rows of a store to the version of this program, by whoever leads: row after row in the order of keys, in bounded
//! transactions behind the leader's fence. Each says in the store how far it came, so that whoever comes after a killed leader goes on there.

use std::sync::Arc;

use bytes::Bytes;
use controller_rows::{
    format::{CURRENT, Format, rewrites},
    migrate,
};
use controller_store::{Compare, KeyValue, Limits, Op, RangeRequest, Store, Txn};

use crate::{
    error::{CorruptError, StartError},
    keys,
};

/// Rows that are looked at for one transaction at most.
const ROWS: usize = 256;
/// Bytes of one transaction at most, where the store takes more. A row that is larger goes alone.
const BYTES: usize = 1 << 20;
/// How often the progress is logged, in rows.
const LOG_EVERY: u64 = 10_000;

/// Who writes the version, for people.
pub(crate) fn program() -> String {
    format!("rail-controller {}", env!("CARGO_PKG_VERSION"))
}

/// What a store says of the version of its rows: the value, and what it means.
///
/// # Errors
/// The store's; and that this program must not touch it.
pub(crate) async fn read(store: &dyn Store) -> Result<(Option<Bytes>, Format), StartError> {
    let stored = store.get(keys::FORMAT.into()).await?.map(|kv| kv.value);
    let format = Format::of(stored.as_ref())?;
    Ok((stored, format))
}

/// Brings all rows to the version of this program; answers what the store says of it then. Nobody else may write meanwhile: `epoch` is of
/// this process, whose loop has not begun.
///
/// # Errors
/// A row that cannot be migrated, with its key; the store's; [`StartError::Overtaken`] if another process leads. Whatever it is, the
/// store says how far it came, and the next leader goes on from there.
pub(crate) async fn run(store: &Arc<dyn Store>, epoch: u64) -> Result<Option<Bytes>, StartError> {
    let (mut stored, mut format) = read(store.as_ref()).await?;
    while format.version() < CURRENT {
        let (from, to) = (format.version(), format.version() + 1);
        tracing::info!(from, to, rows_before = format.rows(), "the rows of the store are migrated");
        let mut step = Step { store: store.as_ref(), epoch, changed: 0, logged: format.rows() };
        // Where no row differs, the version is all there is to write; whoever has read the rows knows that it can.
        let mut batches = rewrites(from) || format.is_between();
        while batches {
            match step.batch(&format).await? {
                Some(next) => format = next,
                None => batches = false,
            }
        }
        let (rows, changed) = (format.rows(), step.changed);
        format = format.finished();
        let value = step.write(Txn::new(), &format).await?;
        stored = Some(value);
        tracing::info!(from, to, rows, changed, "the rows of the store are of the new version");
    }
    Ok(stored)
}

struct Step<'a> {
    store: &'a dyn Store,
    epoch: u64,
    /// Rows that were written.
    changed: u64,
    /// How many rows there were when that was logged last.
    logged: u64,
}

impl Step<'_> {
    /// The next rows; `None` behind the last one.
    async fn batch(&mut self, format: &Format) -> Result<Option<Format>, StartError> {
        let limits = self.store.limits();
        let request = RangeRequest {
            prefix: keys::ROOT.into(),
            after: format.done().cloned(),
            limit: ROWS.min(limits.page),
            revision: None,
        };
        let page = self.store.range(request).await?.items;
        let (mut txn, mut done, mut rows) = (Txn::new(), None, 0);
        for kv in &page {
            if let Some(op) = again(format, kv)? {
                if done.is_some() && !has_room(&txn, &op, &limits) {
                    break;
                }
                txn.success.push(op);
            }
            (done, rows) = (Some(kv.key.clone()), rows + 1);
        }
        let Some(done) = done else { return Ok(None) };
        self.changed += txn.success.len() as u64;
        let next = format.with_done(done, rows);
        self.write(txn, &next).await?;
        if next.rows() >= self.logged + LOG_EVERY {
            self.logged = next.rows();
            tracing::info!(rows = next.rows(), changed = self.changed, "the rows of the store are migrated");
        }
        Ok(Some(next))
    }

    /// Writes these rows, and how far it is with them.
    async fn write(&self, txn: Txn, format: &Format) -> Result<Bytes, StartError> {
        let value = Bytes::from(format.encode(&program()));
        // The fence of a leader.
        let txn = txn
            .when(Compare::create_revision(keys::LEADER, self.epoch))
            .then(Op::put(keys::FORMAT, value.clone()));
        let outcome = self.store.txn(txn).await?;
        if outcome.succeeded { Ok(value) } else { Err(StartError::Overtaken { epoch: self.epoch }) }
    }
}

/// The row as the next version has it, if that differs.
fn again(format: &Format, kv: &KeyValue) -> Result<Option<Op>, StartError> {
    if keys::is_of_the_process(&kv.key) || kv.key == keys::FORMAT.as_bytes() {
        return Ok(None);
    }
    let value = migrate::step(format.version(), &kv.key, &kv.value);
    let value = value.map_err(|error| CorruptError::new(&kv.key, error))?;
    Ok((value != kv.value).then(|| Op::put(kv.key.clone(), value)))
}

/// Whether there is room for an operation, and for what is said of the version.
fn has_room(txn: &Txn, op: &Op, limits: &Limits) -> bool {
    let bytes = txn.bytes() + Txn::new().then(op.clone()).bytes();
    txn.success.len() + 2 <= limits.txn_ops && bytes <= BYTES.min(limits.txn_bytes / 2)
}
