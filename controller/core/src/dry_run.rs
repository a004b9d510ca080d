//! A dry run: events one after the other, each as if those before it had happened; then all of it is taken back.

use controller_state::State;

use crate::{
    context::Step,
    event::{DryRunResult, Effect, Event, Output, Reply},
};

impl Step<'_> {
    /// An event that is refused leaves nothing behind for those after it.
    pub(crate) fn dry_run(&mut self, events: Vec<Event>) -> Reply {
        let mark = self.state.journal.undo.len();
        let reported = events.into_iter().map(|event| self.dry_run_one(event)).collect();
        self.state.undo_to(mark);
        self.out = Output::default();
        self.moved.clear();
        self.quarantined.clear();
        self.later = false;
        Reply::DryRun(reported)
    }

    fn dry_run_one(&mut self, event: Event) -> DryRunResult {
        let mark = self.state.journal.undo.len();
        let there = is_there(self.state, &event);
        let reply = self.handle(event).inspect_err(|_| self.state.undo_to(mark))?;
        let effect = match self.state.journal.undo[mark..].iter().any(|undo| undo.is_change(&self.state.base))
        {
            false => Effect::Unchanged,
            true if there => Effect::Changed,
            true => Effect::Created,
        };
        Ok((reply, effect))
    }
}

/// Whether what an event applies is there already.
fn is_there(state: &State, event: &Event) -> bool {
    let base = &state.base;
    match event {
        Event::ApplyFabric { .. } => base.fabric.is_some(),
        Event::ApplyTenant { name, .. } => base.tenants.contains_key(name),
        Event::ApplyQueue { queue, .. } => state.queue(&queue.tenant, &queue.name).is_some(),
        Event::ApplyServiceClass { class, .. } => base.classes.contains_key(&class.name),
        Event::ApplyLicense(license, _) => base.licenses.contains_key(&license.name),
        Event::ApplySwitch { switch, .. } => base.switches.contains_key(&switch.name),
        Event::ApplyReservation { reservation, .. } => base.reservations.contains_key(&reservation.name),
        Event::ApplySchedule { schedule, .. } => {
            state.job_schedule(&schedule.tenant, &schedule.name).is_some()
        }
        Event::ApplyValues(values, _) => base.values.contains_key(&values.id),
        Event::ApplyWebhook(webhook, _) => state.webhook(&webhook.tenant, &webhook.name).is_some(),
        _ => false,
    }
}
