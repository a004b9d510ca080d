//! Keeps Nodes as their servers' rails are: asks the controller every so often, and writes what differs.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value as Json, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    kind::MANAGER,
    leader::now,
    nodes::{self, CONDITION, Location, NodeAction, Server},
    reconcile::Shared,
};

/// Where servers are is asked for no more often: the answer is of the whole fabric.
const PLACES_EVERY: Duration = Duration::from_secs(300);
/// Nodes in a page of a list.
const PAGE: u32 = 500;
/// A list that is longer than this is none.
const MAX_PAGES: usize = 1_000;

/// Keeps all Nodes, until it is told to stop.
pub async fn keep(shared: Arc<Shared>, every: Duration, stop: CancellationToken) {
    let mut known: Option<(BTreeMap<String, Location>, Instant)> = None;
    let mut failures = 0_u32;
    loop {
        let pass = tokio::select! {
            pass = one_pass(&shared, &mut known) => pass,
            () = stop.cancelled() => return,
        };
        match pass {
            Ok(()) => failures = 0,
            Err(error) => {
                failures = failures.saturating_add(1);
                if failures.is_power_of_two() {
                    tracing::warn!(
                        error,
                        failures,
                        "Nodes are not kept as their rails are; what was written stands"
                    );
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(every) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn one_pass(
    shared: &Shared,
    known: &mut Option<(BTreeMap<String, Location>, Instant)>,
) -> Result<(), String> {
    let said = |error: proto_rpc::RpcError| format!("the controller: {error}");
    let (servers, drains) = shared.railyard.servers().await.map_err(said)?;
    if known.as_ref().is_none_or(|(_, since)| since.elapsed() >= PLACES_EVERY) {
        let topology = shared.railyard.topology().await.map_err(said)?;
        *known = Some((nodes::places(&topology), Instant::now()));
    }
    let nowhere = Location::default();
    let place = |name: &str| known.as_ref().and_then(|(places, _)| places.get(name)).unwrap_or(&nowhere);
    let servers: BTreeMap<String, Server> = servers
        .iter()
        .filter_map(|server| server.metadata.as_ref().map(|metadata| (metadata.name.clone(), server)))
        .map(|(name, server)| (name.clone(), nodes::server(server, &drains, place(&name))))
        .collect();
    let api = Api::<Node>::all(shared.client.clone());
    let mut failed: Option<kube::Error> = None;
    let mut list = ListParams::default().limit(PAGE);
    for _ in 0..MAX_PAGES {
        let page = api.list(&list).await.map_err(|error| format!("the API server: {error}"))?;
        for node in page.items {
            let server = node.metadata.name.as_ref().and_then(|name| servers.get(name));
            if let Err(error) = bring(shared, &api, node, server).await {
                failed.get_or_insert(error);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => list.continue_token = Some(token),
            None => break,
        }
    }
    failed.map_or(Ok(()), |error| Err(format!("the API server: {error}")))
}

async fn bring(
    shared: &Shared,
    api: &Api<Node>,
    mut node: Node,
    server: Option<&Server>,
) -> Result<(), kube::Error> {
    let name = node.metadata.name.clone().unwrap_or_default();
    for action in nodes::decide(&node, server) {
        let uid = node.metadata.uid.clone();
        node = match action {
            NodeAction::Taints(taints) => {
                // The list is of all that taint Nodes: written only if nobody has changed the Node meanwhile.
                let version = &node.metadata.resource_version;
                let patch =
                    json!({"metadata": {"uid": uid, "resourceVersion": version}, "spec": {"taints": taints}});
                let parameters =
                    PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
                shared.metrics.writes.inc(["Node", "taint"]);
                api.patch(&name, &parameters, &Patch::Merge(patch)).await?
            }
            NodeAction::Labels(labels) => {
                let patch = json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid, "labels": labels},
                });
                shared.metrics.writes.inc(["Node", "labels"]);
                api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(patch)).await?
            }
            NodeAction::Condition { status, reason, message, turns } => {
                let now = now();
                let since = if turns {
                    Json::from(now.clone())
                } else {
                    turned(&node).map_or(Json::from(now.clone()), Json::from)
                };
                let condition = json!({
                    "type": CONDITION, "status": status, "reason": reason, "message": message,
                    "lastHeartbeatTime": now, "lastTransitionTime": since,
                });
                let patch = json!({
                    "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": uid},
                    "status": {"conditions": [condition]},
                });
                shared.metrics.writes.inc(["Node", "condition"]);
                api.patch_subresource(
                    "status",
                    &name,
                    &PatchParams::apply(MANAGER).force(),
                    &Patch::Apply(patch),
                )
                .await?
            }
        };
    }
    Ok(())
}

/// When the condition turned last.
fn turned(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ours = conditions.iter().find(|one| one.type_ == CONDITION)?;
    serde_json::to_value(ours.last_transition_time.as_ref()?).ok()?.as_str().map(str::to_owned)
}
