//! The loop's part in the audit log: denials are gathered, the head is signed. What a record says is the core's.

use std::time::Duration;

use controller_core::Event;
use proto_audit::Log;
use proto_model::Timestamp;

use crate::{
    error::Refusal,
    loop_state::Loop,
    request::{Answer, Refused, Request},
};

/// When a head that could not be signed is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Told to those whose denials cannot be recorded for their number.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl Loop {
    /// Takes a denial in: it becomes an event, or waits for others alike.
    pub(crate) fn denied(&mut self, refused: Refused, round: &mut Vec<Request>) {
        let (actor, denied, answer) = refused;
        match self.audit.flood.take(actor, denied, answer, self.clock.now()) {
            Ok(Some(due)) => {
                let event = Event::DenialRecord(due.denied).by(&due.actor);
                round.push(Request::Event(Box::new(event), Some(Answer::all(due.waiting))));
            }
            Ok(None) => {}
            Err(answer) => {
                self.metrics.refused.inc(["denials-full"]);
                answer.send(&Err(Refusal::Busy {
                    waiting: self.inbox.denials.len(),
                    retry_after: RETRY_AFTER,
                }));
            }
        }
    }

    /// Takes what waits in the queue, and what has waited for others long enough.
    pub(crate) fn gather_denials(&mut self, most: usize, round: &mut Vec<Request>) {
        for _ in 0..most {
            let Ok(refused) = self.inbox.denials.try_recv() else { break };
            self.denied(refused, round);
        }
        for due in self.audit.flood.ripe(self.clock.now()) {
            let event = Event::DenialRecord(due.denied).by(&due.actor);
            round.push(Request::Event(Box::new(event), Some(Answer::all(due.waiting))));
        }
    }

    /// Nothing will be recorded any more.
    pub(crate) fn refuse_denials(&mut self, refused: &Refusal) {
        self.inbox.denials.close();
        let waiting = std::iter::from_fn(|| self.inbox.denials.try_recv().ok()).map(|(_, _, answer)| answer);
        let waiting: Vec<Answer> = waiting.collect();
        for answer in waiting.into_iter().chain(self.audit.flood.give_up()) {
            answer.send(&Err(refused.clone()));
        }
    }

    /// When a head is to be signed next.
    pub(crate) fn next_seal(&self) -> Option<Timestamp> {
        Log::ALL.into_iter().filter_map(|log| self.next_seal_of(log)).min()
    }

    fn next_seal_of(&self, log: Log) -> Option<Timestamp> {
        self.audit.seal.as_ref()?;
        self.state.seal_due(log).map(|due| due.max(self.audit.seal_after))
    }

    /// What the log itself needs now.
    pub(crate) fn audit_due(&mut self, now: Timestamp) -> impl Iterator<Item = Event> + use<> {
        let broken = self.state.audit_fault().map(|cause| {
            tracing::error!(cause, "the stored audit log is broken; it goes on with a record that says so");
            Event::AuditResumed
        });
        let due = |log: &Log| self.next_seal_of(*log).is_some_and(|due| due <= now);
        let seals: Vec<Event> =
            Log::ALL.into_iter().filter(due).map(|log| Event::Sealed(log, None)).collect();
        broken.into_iter().chain(seals)
    }

    /// A checkpoint gets its claim and signature in its turn: they are of the head as it is then.
    pub(crate) fn signed(&mut self, event: Event, now: Timestamp) -> Event {
        let Event::Sealed(log, _) = event else { return event };
        let (Some(seal), Some(claim)) = (&self.audit.seal, self.state.claim(log, now)) else {
            return Event::Sealed(log, None);
        };
        let signature = (seal.0)(&claim.message());
        if signature.is_none() {
            tracing::error!("the head of the audit log cannot be signed");
            self.audit.seal_after = now.plus(AGAIN);
        }
        Event::Sealed(log, signature.map(|signature| Box::new((claim, signature))))
    }
}
