//! Messages to agents, and the spans that let one trace show submit, decide and push.

use controller_core::{Event, Push, State, ToNode, Transition};
use proto_model::{Assignment, DesiredState, NodeName};
use proto_rpc::trace;
use proto_wire::{
    convert::{drained_to_wire, duration_to_wire},
    v1,
};
use tracing::Span;

use crate::sessions::{Delivery, Sessions};

/// The span of deciding on one event; a submit's continues the submit's trace.
pub(crate) fn decide_span(event: &Event) -> Span {
    let event = if let Event::Attributed(by) = event { &by.event } else { event };
    let Event::Submit(submit) = event else { return Span::none() };
    if submit.trace_parent.is_empty() {
        return Span::none();
    }
    let span = tracing::info_span!("decide", tenant = %submit.tenant);
    trace::follow(&span, &submit.trace_parent);
    span
}

/// The node whose agent has caused an event.
pub(crate) fn speaker(event: &Event) -> Option<&NodeName> {
    match event {
        Event::AgentConnected(register) => Some(&register.node),
        Event::AgentInventory { node, .. }
        | Event::AgentObserved { node, .. }
        | Event::AgentEpochUntrue { node, .. } => Some(node),
        _ => None,
    }
}

/// A job's change of phase, in the trace of its submit and in the log.
pub(crate) fn record_transition(state: &State, transition: &Transition) {
    let Some(job) = state.job_by_uid(&transition.uid) else { return };
    let (tenant, name) = (&job.id.tenant, &job.id.name);
    let span = if job.status.trace_parent.is_empty() {
        Span::none()
    } else {
        let span = tracing::info_span!(
            "transition",
            %tenant, job = %name, attempt = transition.attempt, from = %transition.from, to = %transition.to,
        );
        trace::follow(&span, &job.status.trace_parent);
        span
    };
    let _inside = span.enter();
    let (from, to, attempt) = (transition.from, transition.to, transition.attempt);
    tracing::debug!(%tenant, job = %name, attempt, %from, %to, "job changed its phase");
}

/// Queues one push on its connection.
pub(crate) fn deliver(sessions: &Sessions, push: Push) -> Delivery {
    let Push { node, session, epoch, message } = push;
    let span = match &message {
        ToNode::Assignment(assignment) => push_span(assignment, node.as_str()),
        _ => Span::none(),
    };
    let _inside = span.enter();
    let body = match message {
        ToNode::Welcome { assignments, heartbeat_interval, drained, qos, proofs } => {
            v1::controller_message::Body::Welcome(v1::Welcome {
                assignments: assignments.iter().map(Into::into).collect(),
                heartbeat_interval: Some(duration_to_wire(heartbeat_interval)),
                drained: Some(drained_to_wire(&drained, qos.as_deref(), &proofs)),
            })
        }
        ToNode::Drained { rails, qos, proofs } => {
            v1::controller_message::Body::Drained(drained_to_wire(&rails, qos.as_deref(), &proofs))
        }
        ToNode::Assignment(assignment) => {
            v1::controller_message::Body::Assignment(v1::Assignment::from(assignment.as_ref()))
        }
        ToNode::Forget { uid, attempt } => {
            v1::controller_message::Body::Forget(v1::Forget { job_uid: uid.to_string(), attempt })
        }
        ToNode::Close { reason } => {
            tracing::info!(%node, session, reason, "an agent's stream is ended");
            sessions.close(&node, session);
            return Delivery::Gone;
        }
    };
    sessions.send(&node, session, v1::ControllerMessage { epoch, body: Some(body) })
}

fn push_span(assignment: &Assignment, node: &str) -> Span {
    if assignment.trace_parent.is_empty() {
        return Span::none();
    }
    let desired = match assignment.desired {
        DesiredState::Prepared { .. } => "prepared",
        DesiredState::Running { .. } => "running",
        DesiredState::Stopped { .. } => "stopped",
    };
    let id = &assignment.id;
    let span = tracing::info_span!("push", tenant = %id.tenant, job = %id.name, node, desired);
    trace::follow(&span, &assignment.trace_parent);
    span
}
