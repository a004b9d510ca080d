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
    context::Context,
    fault, job, node,
    reader::{Reader, View},
    watch::Change,
};

/// What streams of equal rights see of one change.
type Encodings = BTreeMap<View, Arc<OnceCell<Bytes>>>;

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

    /// Lets go of encodings, which are made again for who comes late.
    pub(crate) fn forget(&self) {
        self.encodings.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The event for a reader; `count` is called by the one of all readers with the same view for whom it is made.
    ///
    /// # Errors
    /// The stored value cannot be read, or the loop does not answer.
    pub(crate) async fn event(
        &self,
        context: &Context,
        reader: &Reader,
        count: impl FnOnce(),
    ) -> Result<Bytes, RpcError> {
        let view = match self.kind {
            Kind::Jobs => reader.view(self.owner()?),
            _ => reader.view_without_owner(),
        };
        let cell = {
            let mut all = self.encodings.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(all.entry(view).or_default())
        };
        let made = cell.get_or_try_init(|| async {
            count();
            let change = match &self.value {
                Some(kv) => Change::Put(kv.clone(), self.at.revision),
                None => Change::Delete(self.key.clone(), None, self.at.revision),
            };
            let data = match self.kind {
                Kind::Jobs => job_data(&change, reader)?,
                _ => node_data(context, change, reader).await?,
            };
            Ok(frame(Some(self.at), self.kind.name(), &data))
        });
        made.await.cloned()
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

async fn node_data(context: &Context, change: Change, reader: &Reader) -> Result<String, RpcError> {
    let event = node::node_event(context.clone(), reader.tenant().cloned(), change).await?;
    event.map_or_else(|| Ok(String::new()), |event| node_json(&event))
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
