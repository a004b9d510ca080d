//! What servers and running jobs use now: what their agents have reported to this controller, which leads.

use controller_leader::keys;
use proto_model::{JobUid, NodeName};
use proto_rpc::RpcError;
use proto_wire::{
    convert::time_to_wire,
    v1::{self, job_status::Phase},
};

use crate::{
    authz::Rpc,
    context::Context,
    guard::Caller,
    page,
    reader::{self, Reader},
};

/// The use of the servers whose agents report it.
pub(crate) async fn of_nodes(
    context: &Context,
    caller: &Caller,
    wire: v1::ListNodeUsageRequest,
) -> Result<v1::ListNodeUsageResponse, RpcError> {
    let asked = page::Asked {
        rpc: Rpc::ListNodeUsage,
        prefix: keys::NODES.into(),
        size: wire.page_size,
        token: &wire.page_token,
        filter: Vec::new(),
    };
    let only = caller.own_tenant()?;
    let sessions = context.handle.sessions();
    let listed = page::list(context, caller, asked, |kv| {
        let node = reader::stored_node(kv, only.as_ref())?;
        let name = node.metadata.as_ref().map_or("", |metadata| metadata.name.as_str());
        let reported = NodeName::new(name).ok().and_then(|name| sessions.usage(&name));
        let gpus =
            node.status.and_then(|status| status.inventory).map_or(0, |inventory| inventory.gpus.len());
        Ok(reported.map(|reported| v1::NodeUsage {
            node: name.to_owned(),
            time: Some(time_to_wire(reported.time)),
            cpu_millis: reported.cpu_millis,
            cpus: reported.cpus,
            memory_used_bytes: reported.memory_used,
            memory_bytes: reported.memory,
            gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
            gpus_held: 0,
        }))
    });
    let page::Listed { items: mut nodes, next, .. } = listed.await?;
    nodes = context
        .query(move |state, _| {
            for node in &mut nodes {
                let held = NodeName::new(&node.node).map(|name| state.holds(&name)).unwrap_or_default();
                let gpus: usize = held.iter().map(|hold| hold.gpus.len()).sum();
                node.gpus_held = u32::try_from(gpus).unwrap_or(u32::MAX);
            }
            nodes
        })
        .await?;
    Ok(v1::ListNodeUsageResponse { nodes, next_page_token: next })
}

/// Jobs that run. What a server tells counts only where the job's placement names it.
pub(crate) async fn of_jobs(
    context: &Context,
    caller: &Caller,
    wire: v1::ListJobUsageRequest,
) -> Result<v1::ListJobUsageResponse, RpcError> {
    let scope = caller.scope("tenant", &wire.tenant);
    let tenant = scope.map_err(|error| context.guard.note(Rpc::ListJobUsage, caller, error))?;
    let asked = page::Asked {
        rpc: Rpc::ListJobUsage,
        prefix: keys::jobs_of(tenant.as_ref()),
        size: wire.page_size,
        token: &wire.page_token,
        filter: wire.tenant.as_bytes().to_vec(),
    };
    let reader = Reader::of(caller)?;
    let listed = page::list(context, caller, asked, |kv| {
        let job = reader::stored_job(kv, &reader)?;
        let runs = job.status.as_ref().is_some_and(|status| status.phase() == Phase::Running);
        Ok(runs.then(|| used(context, &job)))
    });
    let page::Listed { items: jobs, next, .. } = listed.await?;
    Ok(v1::ListJobUsageResponse { jobs, next_page_token: next })
}

fn used(context: &Context, job: &v1::Job) -> v1::JobUsage {
    let metadata = job.metadata.clone().unwrap_or_default();
    let status = job.status.clone().unwrap_or_default();
    let places = status.placement.map(|placement| placement.nodes).unwrap_or_default();
    let uid = metadata.uid.parse::<JobUid>().ok();
    let mut usage = v1::JobUsage {
        tenant: metadata.tenant,
        job: metadata.name,
        user: status.submitter.map(|submitter| submitter.user).unwrap_or_default(),
        nodes: u32::try_from(places.len()).unwrap_or(u32::MAX),
        ..v1::JobUsage::default()
    };
    let mut oldest = None;
    for place in &places {
        usage.gpus = usage.gpus.saturating_add(u32::try_from(place.gpus.len()).unwrap_or(u32::MAX));
        usage.cpus = usage.cpus.saturating_add(u64::from(place.cpus));
        usage.memory_held_bytes = usage.memory_held_bytes.saturating_add(place.memory_bytes);
        let reported =
            NodeName::new(&place.node).ok().and_then(|node| context.handle.sessions().usage(&node));
        let own = reported
            .as_ref()
            .and_then(|reported| Some((reported.time, reported.attempts.get(&(uid?, status.attempt))?)));
        let Some((time, own)) = own else { continue };
        usage.nodes_reported += 1;
        usage.cpu_millis = usage.cpu_millis.saturating_add(own.cpu_millis);
        usage.memory_bytes = usage.memory_bytes.saturating_add(own.memory);
        usage.processes = usage.processes.saturating_add(own.processes);
        oldest = Some(oldest.map_or(time, |oldest: proto_model::Timestamp| oldest.min(time)));
    }
    usage.time = oldest.map(time_to_wire);
    usage
}
