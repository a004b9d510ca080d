//! Reservations: made, changed and removed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use controller_state::CoreError;
use proto_model::{Reservation, ReservationName};

use crate::{context::Step, event::Reply};

/// Reservations at most.
const MAX_RESERVATIONS: usize = 4096;

/// Reservations are kept so long after their end.
const KEPT: Duration = Duration::from_secs(7 * 86_400);

impl Step<'_> {
    pub(crate) fn apply_reservation(
        &mut self,
        reservation: Reservation,
        dry_run: bool,
    ) -> Result<Reply, CoreError> {
        let name = reservation.name.clone();
        let old = self.state.base.reservations.get(&name).cloned();
        self.state.check_reservation(&reservation, old.as_deref(), self.now)?;
        if !dry_run && old.is_none() {
            self.forget_reservations();
        }
        let wanted = match &old {
            Some(old) => Reservation {
                uid: old.uid.clone(),
                generation: old.generation,
                created: old.created,
                ..reservation
            },
            None if self.state.base.reservations.len() >= MAX_RESERVATIONS => {
                let remedy = "delete those that are over";
                return Err(CoreError::Full { what: "reservations", limit: MAX_RESERVATIONS, remedy });
            }
            None => Reservation { uid: self.random_uid(), generation: 0, created: self.now, ..reservation },
        };
        if let Some(old) = old.filter(|old| **old == wanted) {
            return Ok(Reply::Reservation(old));
        }
        let reservation = Arc::new(Reservation { generation: wanted.generation + 1, ..wanted });
        if !dry_run {
            self.state.put(Arc::clone(&reservation));
            self.request_scheduling_pass();
        }
        Ok(Reply::Reservation(reservation))
    }

    pub(crate) fn delete_reservation(&mut self, name: &ReservationName) -> Result<Reply, CoreError> {
        if self.state.reservation(name).is_none() {
            return Err(self.state.no_reservation(name));
        }
        let waits = |job: &proto_model::Job| {
            job.spec.reservation.as_ref() == Some(name) && !job.status.phase.is_terminal()
        };
        let jobs = self.state.base.jobs.values().filter(|entry| waits(&entry.job)).count();
        if jobs > 0 {
            return Err(CoreError::ReservationBusy { reservation: name.clone(), jobs });
        }
        self.state.remove::<Reservation>(name);
        self.request_scheduling_pass();
        Ok(Reply::Done)
    }

    /// Those that were over long ago go when a new one comes.
    fn forget_reservations(&mut self) {
        let now = self.now;
        let over = |reservation: &&Arc<Reservation>| reservation.end().plus(KEPT) < now;
        let names: Vec<ReservationName> =
            self.state.base.reservations.values().filter(over).map(|old| old.name.clone()).collect();
        let used: BTreeSet<&ReservationName> =
            self.state.base.jobs.values().filter_map(|entry| entry.job.spec.reservation.as_ref()).collect();
        let names: Vec<ReservationName> = names.into_iter().filter(|name| !used.contains(name)).collect();
        for name in names {
            self.state.remove::<Reservation>(&name);
        }
    }
}
