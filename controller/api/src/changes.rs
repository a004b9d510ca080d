//! What is asked of jobs that are there, into the domain: holds, releases, suspensions, updates.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use controller_core::{Asked, JobChange, JobOrder, JobUpdate};
use prost::Message;
use proto_model::{ArraySpec, Authority, JobId, JobSpec, QueueName, RequestId, Role};
use proto_rpc::{ErrorClass, Identity, RpcError};
use proto_wire::{
    convert::{LIMITS, duration_from_wire, job_labels},
    v1,
};

use crate::{authz::Rpc, fault, guard::Caller};

/// Labels that one request takes away at most.
const REMOVED_MAX: usize = 64;

/// By which authority a caller asks for changes of jobs.
///
/// # Errors
/// The caller is nobody who could.
pub fn authority(caller: &Caller) -> Result<Authority, RpcError> {
    let role = caller.identity.roles().into_iter().next();
    let role = role.and_then(|role| role.as_str().parse::<Role>().ok());
    match (role, &caller.identity) {
        (Some(role), Identity::User { user, .. } | Identity::Admin { user }) => {
            Ok(Authority { role, user: user.clone() })
        }
        _ => {
            let text = format!("{} is neither a user nor an administrator", caller.identity);
            Err(RpcError::new(ErrorClass::Denied, "NOT_A_PERSON", text))
        }
    }
}

/// Which jobs, and who asks. The request's id, if there is one, stands for all that is asked.
///
/// # Errors
/// A field that is wrong.
pub fn order(
    (rpc, caller): (Rpc, &Caller),
    id: JobId,
    meant: &str,
    request: &str,
    body: &impl Message,
) -> Result<JobOrder, RpcError> {
    let asked = request_id(request)?.map(|request| {
        let mut context = digest::Context::new(&digest::SHA256);
        context.update(rpc.path().as_bytes());
        context.update(&[0]);
        context.update(&body.encode_to_vec());
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Asked { request, digest }
    });
    Ok(JobOrder { id, indices: elements(meant)?, by: authority(caller)?, asked })
}

/// Labels that are set or taken away.
fn labels(wire: &v1::UpdateJobRequest) -> Result<BTreeMap<String, Option<String>>, RpcError> {
    let set = job_labels(wire.set_labels.clone()).map_err(|errors| fault::fields(errors, "setLabels"))?;
    let mut labels: BTreeMap<String, Option<String>> =
        set.into_iter().map(|(key, value)| (key, Some(value))).collect();
    for (index, key) in wire.remove_labels.iter().enumerate() {
        let field = format!("removeLabels[{index}]");
        if index >= REMOVED_MAX {
            return Err(fault::field("removeLabels", format!("has more than {REMOVED_MAX} entries")));
        }
        if labels.insert(key.clone(), None).is_some() {
            return Err(fault::field(
                &field,
                format!("'{}' is named twice, or also set", key.escape_debug()),
            ));
        }
    }
    Ok(labels)
}

/// What is to be changed.
///
/// # Errors
/// A field that is wrong.
pub fn update(order: JobOrder, wire: &v1::UpdateJobRequest) -> Result<JobUpdate, RpcError> {
    let limit = wire.time_limit.map(duration_from_wire).transpose();
    let limit = limit.map_err(|errors| fault::fields(errors, "timeLimit"))?;
    let time_limit = match (limit, wire.no_time_limit) {
        (Some(_), true) => return Err(fault::field("noTimeLimit", "goes without `timeLimit`")),
        (None, true) => Some(None),
        (Some(limit), false) if limit > JobSpec::LONGEST => {
            return Err(fault::field("timeLimit", "is longer than 366 days"));
        }
        (limit, false) => limit.map(Some),
    };
    let queue = match wire.queue.as_deref() {
        None => None,
        Some("") => Some(None),
        Some(name) => Some(Some(QueueName::new(name).map_err(|error| fault::field("queue", error))?)),
    };
    for (field, nodes) in [("nodes", wire.nodes), ("minNodes", wire.min_nodes)] {
        if let Some(wrong) = nodes.filter(|nodes| !(1..=LIMITS.nodes).contains(nodes)) {
            let text = format!("{wrong} is out of range; it must be from 1 to {}", LIMITS.nodes);
            return Err(fault::field(field, text));
        }
    }
    let change = JobChange {
        priority: wire.priority,
        time_limit,
        queue,
        nodes: wire.nodes,
        min_nodes: wire.min_nodes,
        labels: labels(wire)?,
    };
    Ok(JobUpdate { order, change, if_version: wire.if_version })
}

/// Elements of an array, for example `3,7-9`.
pub(crate) fn elements(text: &str) -> Result<Vec<u32>, RpcError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match ArraySpec::new(text) {
        Ok(ArraySpec { indices, at_once: 0 }) => Ok(indices),
        Ok(_) => Err(fault::field("elements", "'%' belongs to a submit")),
        Err(error) => Err(fault::field("elements", error)),
    }
}

/// The id that a caller gave its request, if it gave one.
pub(crate) fn request_id(text: &str) -> Result<Option<RequestId>, RpcError> {
    if text.is_empty() {
        return Ok(None);
    }
    let wrong =
        || fault::field("requestId", "must be 1 to 128 printable ASCII characters without space or '/'");
    RequestId::new(text).map(Some).ok_or_else(wrong)
}
