//! The step: one event, one time, one source of randomness; what follows is in the output.

use std::{collections::BTreeSet, sync::Arc};

use controller_state::{CoreError, Write};
use proto_model::{Timestamp, TokenHolder};

use crate::{
    audit::{About, unwrap},
    context::{Rng, Step},
    event::{Event, Output, Reply},
    state::State,
};

/// What follows from `event`. Total: no event in any state panics; a refused event changes nothing.
pub fn step(state: &mut State, event: Event, now: Timestamp, rng: &mut Rng<'_>) -> Output {
    let state = &mut state.0;
    let mark = state.journal.undo.len();
    let mut step = Step {
        state,
        now,
        rng,
        out: Output::default(),
        hold_back: None,
        moved: BTreeSet::new(),
        later: false,
        quarantined: Vec::new(),
        who: String::new(),
    };
    let (about, beside, event) = unwrap(step.state, event);
    if let Ok(About::Change { actor, .. }) = &about {
        step.who.clone_from(&actor.who);
    }
    let asked = !matches!(
        event,
        Event::AgentHeartbeat { .. }
            | Event::AgentInventory { .. }
            | Event::AgentObserved { .. }
            | Event::AgentEpochUntrue { .. }
            | Event::AgentDisconnected { .. }
            | Event::Tick
    );
    let by_agent = matches!(about, Ok(About::Nothing));
    let reply = match about {
        Ok(mut about) => step.handle(event).inspect(|reply| step.audit(mark, &mut about, reply)),
        Err(error) => Err(error),
    };
    if reply.is_ok() {
        if by_agent {
            step.note_quarantines();
        }
        step.wake_dependents();
        step.schedule();
        step.report_renamed(mark);
        step.log_decisions(mark);
        step.note_deliveries(mark);
    } else {
        step.state.undo_to(mark);
        step.out = Output::default();
    }
    let mut out = step.out;
    out.writes = state.writes_since(mark);
    if reply.is_ok() {
        out.writes.extend(beside.into_iter().map(Write::AttachedWrite));
    }
    state.journal.written.extend(out.writes.iter().map(|write| (write.key(), write.is_delete())));
    // A reply shows the job as it is after the whole step: it may have been placed already.
    let fresh = |reply: Reply| match reply {
        Reply::Job { job, existed } => {
            let job = state.base.jobs.get(&job.uid).map_or(job, |entry| Arc::clone(&entry.job));
            Reply::Job { job, existed }
        }
        other => other,
    };
    out.reply = (asked || reply.is_err()).then(|| reply.map(fresh));
    out
}

impl Step<'_> {
    pub(crate) fn handle(&mut self, event: Event) -> Result<Reply, CoreError> {
        match event {
            Event::Submit(submit) => self.submit(*submit),
            Event::Cancel { id, indices, grace, by } => self.cancel(&id, &indices, grace, by.as_ref()),
            Event::DeleteJob { id, indices, by } => self.delete_job(&id, &indices, by.as_ref()),
            Event::HoldJob { order, reason } => self.hold_job(&order, &reason),
            Event::SuspendJob { order, reason } => self.suspend_job(&order, &reason),
            Event::RequeueJob { order, reason } => self.requeue_job(&order, &reason),
            Event::ReleaseJob(order) => self.release_job(&order),
            Event::UpdateJob(update) => self.update_job(&update),
            Event::ApplyTenant { name, description, quota, isolation, dry_run } => {
                self.apply_tenant(name, description, quota, isolation, dry_run)
            }
            Event::DeleteTenant { name, uid, dry_run } => self.delete_tenant(&name, uid.as_deref(), dry_run),
            Event::Undelete { key, dry_run } => self.undelete(&key, dry_run),
            Event::ReleaseTenantName { name } => Ok(self.release_name(&name)),
            Event::ApplyQueue { queue, dry_run } => self.apply_queue(*queue, dry_run),
            Event::DeleteQueue { tenant, name } => self.delete_queue(&tenant, &name),
            Event::ApplyServiceClass { class, dry_run } => self.apply_class(*class, dry_run),
            Event::DeleteServiceClass { name } => self.delete_class(&name),
            Event::ApplyLicense(license, dry_run) => self.apply_license(*license, dry_run),
            Event::DeleteLicense(name) => self.delete_license(&name),
            Event::ApplySwitch { switch, if_version, dry_run } => {
                self.apply_switch(*switch, if_version, dry_run)
            }
            Event::DeleteSwitch(name) => self.delete_switch(&name),
            Event::ApplySchedule { schedule, by, dry_run } => self.apply_schedule(*schedule, by, dry_run),
            Event::DeleteSchedule { tenant, name, by } => self.delete_schedule(&tenant, &name, by.as_ref()),
            Event::ApplyValues(values, dry_run) => self.apply_values(*values, dry_run),
            Event::DeleteValues(id) => self.delete_values(&id),
            Event::ApplyWebhook(webhook, dry_run) => self.apply_webhook(*webhook, dry_run),
            Event::DeleteWebhook(tenant, name) => self.delete_webhook(&tenant, &name),
            Event::CountDeliveries(reported) => Ok(self.count_deliveries(reported)),
            Event::SuspendSchedules(tenant, user) => Ok(self.suspend_schedules(tenant.as_ref(), &user)),
            Event::ApplyReservation { reservation, dry_run } => self.apply_reservation(*reservation, dry_run),
            Event::DeleteReservation { name } => self.delete_reservation(&name),
            Event::ApplyFabric { fabric, allow_shrink, dry_run } => {
                self.apply_fabric(*fabric, allow_shrink, dry_run)
            }
            Event::DeleteFabric { name, if_version, dry_run } => {
                self.delete_fabric(&name, if_version, dry_run)
            }
            Event::UpdateNode { name, change, if_version } => self.update_node(&name, change, if_version),
            Event::ReturnNode { name } => self.return_node(&name),
            Event::DeleteNode { name, force, uid } => self.delete_node(&name, force, uid.as_deref()),
            Event::DrainRail { target, reason, by, force } => self.drain_rail(&target, reason, by, force),
            Event::UndrainRail { target } => self.undrain_rail(&target),
            Event::ApplyQos(order) => self.apply_qos(*order),
            Event::ControlRollout { action, reason, by } => self.control_rollout(action, reason, by),
            Event::CreateToken { node, hash, lifetime } => {
                self.create_token(TokenHolder::Node(node), hash, lifetime)
            }
            Event::WithdrawTokens { node } => Ok(self.withdraw_tokens(&TokenHolder::Node(node))),
            Event::Join { node, hash, csr } => self.join(node, hash, csr),
            Event::Switch(event) => self.handle_switch(event),
            Event::AgentConnected(register) => self.connected(*register),
            Event::AgentHeartbeat { node, session } => self.on_report(&node, session),
            Event::AgentInventory { node, session, inventory } => self.inventory(&node, session, inventory),
            Event::AgentObserved { node, session, observation } => {
                self.observed(&node, session, *observation)
            }
            Event::AgentRefusedEpoch { node, current } => self.refused_epoch(node, current),
            Event::AgentEpochUntrue { node, seen } => Ok(self.untrue_epoch(&node, seen)),
            Event::AgentDisconnected { node, session } => self.disconnected(&node, session),
            Event::DryRun(events) => Ok(self.dry_run(events)),
            Event::Tick => self.tick(),
            // Taken off by `unwrap`; one within another has nobody who may ask so.
            Event::Attributed(_) => Err(CoreError::Unattributed),
            Event::AuditNote(_) | Event::DenialRecord(_) => Ok(Reply::Done),
            Event::Sealed(_, sealed) => Ok(self.sealed(sealed)),
            Event::AuditResumed => Ok(self.audit_resumed()),
        }
    }
}
