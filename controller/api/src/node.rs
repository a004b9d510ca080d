//! NodeService: servers, whether they may be used, and the tokens with which they join.

use std::sync::Arc;

use controller_core::{CoreError, Event, NodeChange, Reply};
use controller_leader::{Refusal, keys};
use proto_model::{NodeName, TenantName};
use proto_rpc::{ErrorClass, RpcError, Token, TokenKind};
use proto_wire::{
    convert::{labels, taints, time_to_wire},
    v1::{self, node_service_server::NodeService},
};
use tonic::{Request, Response, Status};

use crate::{
    authz::Rpc,
    context::Context,
    credential::{self, lifetime},
    fault,
    guard::Caller,
    page,
    reader::stored_node,
    usage, views,
    watch::{self, Change, Events},
};

/// Longest reason of an administrator's, in bytes.
const MAX_REASON: usize = 1024;

/// The handlers of `NodeService`.
#[derive(Clone)]
pub struct Nodes {
    context: Context,
}

impl Nodes {
    /// Handlers over the loop.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { context }
    }

    /// Adds what the store does not hold: the last heartbeat, and what jobs hold. Others' jobs are not shown to a
    /// tenant.
    async fn complete(
        &self,
        nodes: Vec<v1::Node>,
        only: Option<TenantName>,
    ) -> Result<Vec<v1::Node>, RpcError> {
        complete(&self.context, nodes, only).await
    }

    async fn changed(&self, caller: &Caller, event: Event) -> Result<Response<v1::Node>, Status> {
        let applied = self.context.apply(caller, event).await?;
        let Reply::Node(node) = applied.reply else { return Err(crate::context::unexpected()) };
        let mut wire = v1::Node::from(node.as_ref());
        wire.metadata.get_or_insert_default().resource_version = applied.version;
        let mut nodes = self.complete(vec![wire], None).await?;
        Ok(Response::new(nodes.pop().ok_or_else(crate::context::unexpected)?))
    }
}

/// Adds what the store does not hold: the last heartbeat, and what jobs hold; as a tenant may see it.
///
/// # Errors
/// The loop is too busy, or ending.
pub(crate) async fn complete(
    context: &Context,
    nodes: Vec<v1::Node>,
    only: Option<TenantName>,
) -> Result<Vec<v1::Node>, RpcError> {
    try_complete(context, nodes, only).await.map_err(|refusal| fault::refused(&refusal))
}

/// The same for who waits where the loop is too busy.
///
/// # Errors
/// The loop is too busy, or ending.
pub(crate) async fn try_complete(
    context: &Context,
    mut nodes: Vec<v1::Node>,
    only: Option<TenantName>,
) -> Result<Vec<v1::Node>, Refusal> {
    context
        .handle
        .query(move |state, _| {
            for node in &mut nodes {
                views::add_live(state, node, only.as_ref());
            }
            nodes
        })
        .await
}

/// What of a node's spec the caller wants changed.
fn change(spec: v1::NodeSpec, parts: &[i32]) -> Result<NodeChange, RpcError> {
    use v1::update_node_request::Part;
    let parts: Vec<Part> = parts.iter().map(|part| Part::try_from(*part).unwrap_or_default()).collect();
    if parts.contains(&Part::Unspecified) {
        return Err(fault::field("parts", "must be SCHEDULING, LABELS or TAINTS"));
    }
    let asked = |part| parts.contains(&part) || (parts.is_empty() && part == Part::Scheduling);
    let unasked = [
        (Part::Labels, !spec.labels.is_empty(), "spec.labels", "LABELS"),
        (Part::Taints, !spec.taints.is_empty(), "spec.taints", "TAINTS"),
    ];
    for (part, given, field, word) in unasked {
        if given && !asked(part) {
            return Err(fault::field(field, format!("is not changed unless `parts` has {word}")));
        }
    }
    let mut change = NodeChange::default();
    if asked(Part::Scheduling) {
        change.unschedulable = Some((spec.unschedulable, spec.reason));
    }
    if asked(Part::Labels) {
        change.labels = Some(labels(spec.labels).map_err(|errors| fault::fields(errors, "spec"))?);
    }
    if asked(Part::Taints) {
        change.taints = Some(taints(spec.taints).map_err(|errors| fault::fields(errors, "spec"))?);
    }
    Ok(change)
}

fn name(text: &str) -> Result<NodeName, RpcError> {
    NodeName::new(text).map_err(|error| fault::field("name", error))
}

#[tonic::async_trait]
impl NodeService for Nodes {
    type WatchNodesStream = Events<v1::NodeEvent>;

    async fn get_node(&self, request: Request<v1::GetNodeRequest>) -> Result<Response<v1::Node>, Status> {
        let only = Caller::of(request.extensions())?.own_tenant()?;
        let node = name(&request.into_inner().name)?;
        let found = self.context.handle.store().get(keys::node(&node)).await;
        let kv = found.map_err(|error| fault::store(&error))?.ok_or_else(|| {
            let error = CoreError::NodeNotFound { node };
            RpcError::new(ErrorClass::NotFound, error.code(), error.to_string())
        })?;
        let mut nodes = self.complete(vec![stored_node(&kv, only.as_ref())?], only).await?;
        Ok(Response::new(nodes.pop().ok_or_else(crate::context::unexpected)?))
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let asked = page::Asked {
            rpc: Rpc::ListNodes,
            prefix: keys::NODES.into(),
            size: wire.page_size,
            token: &wire.page_token,
            filter: Vec::new(),
        };
        let only = caller.own_tenant()?;
        let page =
            page::list(&self.context, &caller, asked, |kv| stored_node(kv, only.as_ref()).map(Some)).await?;
        let nodes = self.complete(page.items, only).await?;
        let (next_page_token, revision) = (page.next, page.revision);
        Ok(Response::new(v1::ListNodesResponse { nodes, next_page_token, revision }))
    }

    async fn list_node_usage(
        &self,
        request: Request<v1::ListNodeUsageRequest>,
    ) -> Result<Response<v1::ListNodeUsageResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        Ok(Response::new(usage::of_nodes(&self.context, &caller, request.into_inner()).await?))
    }

    async fn watch_nodes(
        &self,
        request: Request<v1::WatchNodesRequest>,
    ) -> Result<Response<Self::WatchNodesStream>, Status> {
        let caller = Caller::of(request.extensions())?;
        let only = caller.own_tenant()?;
        let after = caller.after(request.into_inner().after_revision);
        let context = self.context.clone();
        let make = move |change| node_event(context.clone(), only.clone(), change);
        let store = Arc::clone(self.context.handle.store());
        Ok(Response::new(
            watch::follow(store, keys::NODES.into(), after, self.context.ending.clone(), make).await?,
        ))
    }

    async fn update_node(
        &self,
        request: Request<v1::UpdateNodeRequest>,
    ) -> Result<Response<v1::Node>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let spec = wire.spec.unwrap_or_default();
        if spec.reason.len() > MAX_REASON || spec.reason.chars().any(char::is_control) {
            let text = format!("must be printable and at most {MAX_REASON} bytes long");
            return Err(fault::field("spec.reason", text).into());
        }
        let change = change(spec, &wire.parts)?;
        let event =
            Event::UpdateNode { name: name(&wire.name)?, change, if_version: wire.if_resource_version };
        self.changed(&caller, event).await
    }

    async fn return_node(
        &self,
        request: Request<v1::ReturnNodeRequest>,
    ) -> Result<Response<v1::Node>, Status> {
        let caller = Caller::of(request.extensions())?;
        let event = Event::ReturnNode { name: name(&request.into_inner().name)? };
        self.changed(&caller, event).await
    }

    async fn delete_node(
        &self,
        request: Request<v1::DeleteNodeRequest>,
    ) -> Result<Response<v1::DeleteNodeResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let name = name(&wire.name)?;
        let uid = (!wire.uid.is_empty()).then_some(wire.uid);
        if wire.force && uid.is_none() {
            return Err(fault::field(
                "uid",
                "is required with force: the uid of the server that is gone for good",
            )
            .into());
        }
        let event = Event::DeleteNode { name, force: wire.force, uid };
        self.context.apply(&caller, event).await?;
        Ok(Response::new(v1::DeleteNodeResponse {}))
    }

    async fn create_join_token(
        &self,
        request: Request<v1::CreateJoinTokenRequest>,
    ) -> Result<Response<v1::CreateJoinTokenResponse>, Status> {
        let caller = Caller::of(request.extensions())?;
        let wire = request.into_inner();
        let node = NodeName::new(&wire.node).map_err(|error| fault::field("node", error))?;
        let lifetime = lifetime(wire.lifetime)?;
        let token = Token::generate(TokenKind::Join)
            .map_err(|error| RpcError::new(ErrorClass::Internal, "NO_RANDOM", error.to_string()))?;
        let hash = credential::token_digest(&token.hash());
        let event = Event::CreateToken { node: node.clone(), hash, lifetime };
        let applied = self.context.apply(&caller, event).await?;
        let Reply::Token(record) = applied.reply else { return Err(crate::context::unexpected()) };
        tracing::info!(%node, token = token.id(), by = %caller.identity, "join token made");
        Ok(Response::new(v1::CreateJoinTokenResponse {
            token: token.reveal(),
            ca_pin: self.context.ca.pin().to_string(),
            expires: Some(time_to_wire(record.expires)),
        }))
    }
}

/// What a change of a server is to a tenant, or to an administrator.
///
/// # Errors
/// The stored value cannot be read, or the loop does not answer.
pub(crate) async fn node_event(
    context: Context,
    only: Option<TenantName>,
    change: Change,
) -> Result<Option<v1::NodeEvent>, RpcError> {
    use v1::node_event::Type;
    let (kind, node, revision) = match change {
        Change::Put(kv, revision) => (
            Type::Put,
            complete(&context, vec![stored_node(&kv, only.as_ref())?], only).await?.pop(),
            revision,
        ),
        Change::Delete(key, prev, revision) => {
            let node = prev
                .as_ref()
                .map(|kv| stored_node(kv, only.as_ref()))
                .transpose()?
                .unwrap_or_else(|| named_by(&key));
            (Type::Delete, Some(node), revision)
        }
        Change::Synced(revision) => (Type::Synced, None, revision),
    };
    Ok(Some(v1::NodeEvent { r#type: kind.into(), node, revision }))
}

/// The event of a server that is gone, by its key.
pub(crate) fn gone_event(key: &[u8], revision: u64) -> v1::NodeEvent {
    let gone = v1::node_event::Type::Delete.into();
    v1::NodeEvent { r#type: gone, node: Some(named_by(key)), revision }
}

/// The event of a server that is there.
pub(crate) fn put_event(node: v1::Node, revision: u64) -> v1::NodeEvent {
    v1::NodeEvent { r#type: v1::node_event::Type::Put.into(), node: Some(node), revision }
}

fn named_by(key: &[u8]) -> v1::Node {
    let text = String::from_utf8_lossy(key);
    let name = text.strip_prefix(keys::NODES).unwrap_or_default().to_owned();
    v1::Node { metadata: Some(v1::Metadata { name, ..v1::Metadata::default() }), ..v1::Node::default() }
}
