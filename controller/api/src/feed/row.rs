//! One change as pages see it, and its encodings: each is made once, by the first stream that sends it, and given to all that may see the same.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bytes::Bytes;
use controller_leader::codec;
use controller_store::KeyValue;
use prost::Message;
use prost_reflect::DynamicMessage;
use proto_manifest::to_json;
use proto_model::TenantName;
use proto_rpc::{ErrorClass, RpcError};
use proto_wire::v1;
use tokio::sync::OnceCell;

use super::{
    kind::{Kind, Kinds},
    ring::Position,
};
use crate::{
    fault, job, node,
    reader::{Reader, View, stored_node},
    watch::Change,
};

/// Rows that a stream holds at most, to send them.
const ROWS: usize = 128;
/// Bytes of keys and values that it holds at most, and one row more.
const WEIGHT: usize = 256 * 1024;

/// What streams of equal rights see of one change, once one of them has made it.
pub(crate) type Encoding = Arc<OnceCell<Bytes>>;

#[derive(Default)]
struct Encodings {
    /// No more are kept.
    forgotten: bool,
    by_view: BTreeMap<View, Encoding>,
}

/// A change of a job or of a server.
pub(crate) struct Row {
    /// Its place among all changes.
    pub at: Position,
    /// What it is of.
    pub kind: Kind,
    /// Whose it is; none for what everybody may see.
    pub tenant: Option<TenantName>,
    key: Bytes,
    /// None: it is gone.
    value: Option<KeyValue>,
    owner: OnceLock<Option<v1::Submitter>>,
    encodings: Mutex<Encodings>,
}

/// The first of some rows, as many as a stream may hold, and where they end: `head` where they are all.
pub(crate) fn some<'a>(
    rows: impl Iterator<Item = &'a Arc<Row>>,
    head: Position,
) -> (Vec<Arc<Row>>, Position) {
    let (mut taken, mut weight) = (Vec::<Arc<Row>>::new(), 0);
    for row in rows {
        if let Some(last) = taken.last().filter(|_| taken.len() == ROWS || weight >= WEIGHT) {
            let end = last.at;
            return (taken, end);
        }
        weight += row.key.len() + row.value.as_ref().map_or(0, |kv| kv.value.len());
        taken.push(Arc::clone(row));
    }
    (taken, head)
}

impl Row {
    /// A change of a key, which has this value now.
    pub(crate) fn new(
        (at, kind, tenant): (Position, Kind, Option<TenantName>),
        key: Bytes,
        value: Option<KeyValue>,
    ) -> Self {
        Self { at, kind, tenant, key, value, owner: OnceLock::new(), encodings: Mutex::default() }
    }

    /// Whether somebody who follows these kinds is to see it.
    pub(crate) fn is_for(&self, kinds: Kinds, only: Option<&TenantName>) -> bool {
        let own = || self.tenant.as_ref().is_none_or(|tenant| only.is_none_or(|only| only == tenant));
        kinds.contains(self.kind) && own()
    }

    /// Lets go of encodings, and keeps no more: who comes late makes its own.
    pub(crate) fn forget(&self) {
        let mut all = self.encodings.lock().unwrap_or_else(PoisonError::into_inner);
        *all = Encodings { forgotten: true, ..Encodings::default() };
    }

    /// The encoding for a reader, made or not: that of all readers with the same view, or its own where no more are kept.
    ///
    /// # Errors
    /// The stored value cannot be read.
    pub(crate) fn encoding(&self, reader: &Reader) -> Result<Encoding, RpcError> {
        let view = match self.kind {
            Kind::Jobs => reader.view(self.owner()?),
            _ => reader.view_without_owner(),
        };
        let mut all = self.encodings.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(if all.forgotten { Encoding::default() } else { Arc::clone(all.by_view.entry(view).or_default()) })
    }

    /// The server that it is of, without what the loop knows of it; none where it is of none, or that is gone.
    pub(crate) fn node(&self, reader: &Reader) -> Option<Result<v1::Node, RpcError>> {
        let value = self.value.as_ref().filter(|_| self.kind == Kind::Nodes)?;
        Some(stored_node(value, reader.tenant()))
    }

    /// The event of a server, with what the loop knows of it.
    ///
    /// # Errors
    /// A defect: it is none of the schema.
    pub(crate) fn node_event(&self, node: v1::Node) -> Result<Bytes, RpcError> {
        let data = node_json(&node::put_event(node, self.at.revision))?;
        Ok(frame(Some(self.at), self.kind.name(), &data))
    }

    /// The event for a reader, of all but servers that are there.
    ///
    /// # Errors
    /// The stored value cannot be read.
    pub(crate) fn event(&self, reader: &Reader) -> Result<Bytes, RpcError> {
        let data = match (self.kind, &self.value) {
            (Kind::Jobs, Some(kv)) => job_data(&Change::Put(kv.clone(), self.at.revision), reader)?,
            (Kind::Jobs, None) => {
                job_data(&Change::Delete(self.key.clone(), None, self.at.revision), reader)?
            }
            _ => node_json(&node::gone_event(&self.key, self.at.revision))?,
        };
        Ok(frame(Some(self.at), self.kind.name(), &data))
    }

    fn owner(&self) -> Result<Option<&v1::Submitter>, RpcError> {
        if let Some(owner) = self.owner.get() {
            return Ok(owner.as_ref());
        }
        let job = self.value.as_ref().map(codec::job).transpose();
        let job = job.map_err(|error| fault::refused(&error.into()))?;
        let owner = job.and_then(|job| v1::Job::from(&job).status?.submitter);
        Ok(self.owner.get_or_init(|| owner).as_ref())
    }
}

/// The data of an event of a job, as a line of `/v1/jobs:watch`.
pub(crate) fn job_data(change: &Change, reader: &Reader) -> Result<String, RpcError> {
    let event = job::job_event(change, None, reader)?;
    event.map_or_else(|| Ok(String::new()), |event| json(&event, "rail.v1.JobEvent"))
}

/// The data of an event of a server, as a line of `/v1/nodes:watch`.
pub(crate) fn node_json(event: &v1::NodeEvent) -> Result<String, RpcError> {
    json(event, "rail.v1.NodeEvent")
}

fn json(message: &impl Message, name: &str) -> Result<String, RpcError> {
    let broken = |cause: String| RpcError::new(ErrorClass::Internal, "NO_JSON", cause);
    let of = proto_wire::descriptor_pool().get_message_by_name(name);
    let of = of.ok_or_else(|| broken(format!("the schema has no {name}")))?;
    let message = DynamicMessage::decode(of, message.encode_to_vec().as_slice());
    let message = message.map_err(|error| broken(error.to_string()))?;
    Ok(to_json(&message).map_err(|error| broken(error.to_string()))?.to_string())
}

/// One event as it is written; `data` is one line. With an id a client goes on behind it.
pub(crate) fn frame(id: Option<Position>, event: &str, data: &str) -> Bytes {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {event}\ndata: {data}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(index: u32, bytes: usize) -> Arc<Row> {
        let at = Position { revision: 7, index };
        Arc::new(Row::new((at, Kind::Nodes, None), vec![b'x'; bytes].into(), None))
    }

    #[test]
    fn what_was_forgotten_is_kept_no_more() {
        let reader = Reader::of_tenant(TenantName::new("nlp").unwrap());
        let row = row(1, 1);
        let made = row.encoding(&reader).unwrap();
        assert!(Arc::ptr_eq(&made, &row.encoding(&reader).unwrap()), "all have the same");
        let kept = Arc::downgrade(&made);
        row.forget();
        let late = row.encoding(&reader).unwrap();
        assert!(!Arc::ptr_eq(&late, &row.encoding(&reader).unwrap()), "who comes late has its own");
        assert_eq!(Arc::strong_count(&late), 1);
        drop(made);
        assert!(kept.upgrade().is_none());
    }

    #[test]
    fn a_stream_takes_some_rows_at_a_time_and_all_in_the_end() {
        let head = Position { revision: 9, index: 1 };
        for (bytes, most) in [(1, ROWS), (WEIGHT / 4, 4), (WEIGHT / 4 - 1, 5), (WEIGHT * 2, 1)] {
            let rows: Vec<_> = (1..=300).map(|index| row(index, bytes)).collect();
            let (mut at, mut count) = (Position::default(), 0);
            while at < head {
                let (taken, to) = some(rows.iter().filter(|row| row.at > at), head);
                assert!((1..=most).contains(&taken.len()), "{} of {bytes} bytes", taken.len());
                assert!(to == head || to == taken[taken.len() - 1].at);
                count += taken.len();
                at = to;
            }
            assert_eq!(count, rows.len());
        }
        assert_eq!(some([].iter(), head).1, head);
    }
}
