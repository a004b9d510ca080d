//! A dry run: events one after the other, each as if those before it had happened; then all of it is taken back.

use crate::{
    audit::changed,
    error::CoreError,
    event::{Event, Output, Reply},
    state::State,
    step::Step,
};

/// What an event would bring about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// What it names was not there.
    Created,
    /// It was there, and would be another.
    Changed,
    /// Nothing that is stored.
    Unchanged,
}

/// What one event would be answered.
pub type DryRunResult = Result<(Reply, Effect), CoreError>;

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
        let there = self.state.is_there(&event);
        let reply = self.handle(event).inspect_err(|_| self.state.undo_to(mark))?;
        let effect = match self.state.journal.undo[mark..].iter().any(|undo| changed(self.state, undo)) {
            false => Effect::Unchanged,
            true if there => Effect::Changed,
            true => Effect::Created,
        };
        Ok((reply, effect))
    }
}

impl State {
    /// Whether what an event applies is there already.
    fn is_there(&self, event: &Event) -> bool {
        let base = &self.base;
        match event {
            Event::ApplyFabric { .. } => base.fabric.is_some(),
            Event::ApplyTenant { name, .. } => base.tenants.contains_key(name),
            Event::ApplyQueue { queue, .. } => self.queue(&queue.tenant, &queue.name).is_some(),
            Event::ApplyServiceClass { class, .. } => base.classes.contains_key(&class.name),
            Event::ApplyLicense(license, _) => base.licenses.contains_key(&license.name),
            Event::ApplyReservation { reservation, .. } => base.reservations.contains_key(&reservation.name),
            Event::ApplySchedule { schedule, .. } => {
                self.job_schedule(&schedule.tenant, &schedule.name).is_some()
            }
            Event::ApplyValues(values, _) => base.values.contains_key(&values.id),
            Event::ApplyWebhook(webhook, _) => self.webhook(&webhook.tenant, &webhook.name).is_some(),
            _ => false,
        }
    }
}
