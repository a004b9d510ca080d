//! Reservations: made, changed and removed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proto_model::{NodeName, Reservation, ReservationName, ReservationNodes, Timestamp};

use super::{MAX_RESERVATIONS, invalid, nearest};
use crate::{error::CoreError, event::Reply, state::State, step::Step};

/// A start so long ago is still "now": the way of the request takes time.
const LATE: Duration = Duration::from_secs(60);
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
            self.state.set_reservation(&name, Some(Arc::clone(&reservation)));
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
        self.state.set_reservation(name, None);
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
            self.state.set_reservation(&name, None);
        }
    }
}

impl State {
    fn check_reservation(
        &self,
        reservation: &Reservation,
        old: Option<&Reservation>,
        now: Timestamp,
    ) -> Result<(), CoreError> {
        if reservation.end() <= now {
            return invalid("spec.start", "the reservation would be over already");
        }
        let moved = old.is_none_or(|old| old.start != reservation.start);
        if moved && reservation.start.plus(LATE) < now {
            return invalid("spec.start", "is in the past");
        }
        for tenant in &reservation.tenants {
            if !self.base.tenants.contains_key(tenant) {
                let nearest = nearest(tenant.as_str(), self.base.tenants.keys());
                return Err(CoreError::TenantUnknown { tenant: tenant.clone(), nearest });
            }
        }
        match &reservation.nodes {
            ReservationNodes::Names(names) => self.check_names(reservation, names)?,
            ReservationNodes::Count { pods_at_most, .. } => {
                let pods = self.index.snapshot.topology().pods();
                if *pods_at_most as usize > pods.max(1) {
                    let text =
                        format!("{pods_at_most} are more than the {} pods that there are", pods.max(1));
                    return invalid("spec.podsAtMost", text);
                }
            }
        }
        self.check_room(reservation)
    }

    /// The nodes are there, and no other reservation has one of them at the same time.
    fn check_names(&self, reservation: &Reservation, names: &[NodeName]) -> Result<(), CoreError> {
        for name in names {
            if !self.base.nodes.contains_key(name) {
                let near = nearest(name.as_str(), self.base.nodes.keys());
                let hint = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
                return invalid("spec.nodes", format!("there is no node '{name}'{hint}"));
            }
        }
        let mine: BTreeSet<&NodeName> = names.iter().collect();
        for other in self.meanwhile(reservation) {
            let ReservationNodes::Names(theirs) = &other.nodes else { continue };
            let both: Vec<&str> =
                theirs.iter().filter(|name| mine.contains(name)).map(NodeName::as_str).collect();
            if let Some(first) = both.first() {
                let more = match both.len() {
                    1 => String::new(),
                    count => format!(" and {} more", count - 1),
                };
                let text = format!("node '{first}'{more} is in reservation '{}' at that time", other.name);
                return invalid("spec.nodes", text);
            }
        }
        Ok(())
    }

    /// All reservations of any moment fit into the cluster.
    fn check_room(&self, reservation: &Reservation) -> Result<(), CoreError> {
        let size = |of: &Reservation| match &of.nodes {
            ReservationNodes::Names(names) => names.len() as u64,
            ReservationNodes::Count { nodes, .. } => u64::from(*nodes),
        };
        let others: Vec<&Arc<Reservation>> = self.meanwhile(reservation).collect();
        let all = self.base.nodes.len() as u64;
        // The most are kept at the start of one of them.
        let starts = others.iter().map(|other| other.start.max(reservation.start)).chain([reservation.start]);
        for start in starts {
            let then = others.iter().filter(|other| other.start <= start && start < other.end());
            let kept: u64 = then.map(|other| size(other)).sum();
            if kept + size(reservation) > all {
                let asked = size(reservation);
                let text = match kept {
                    0 => format!("{asked} nodes are more than the {all} that there are"),
                    _ => format!(
                        "{asked} nodes are more than the {all} that there are, less {kept} that other reservations keep then"
                    ),
                };
                let named = matches!(reservation.nodes, ReservationNodes::Names(_));
                return invalid(if named { "spec.nodes" } else { "spec.count" }, text);
            }
        }
        Ok(())
    }

    /// Other reservations that last at some moment of this one.
    fn meanwhile<'a>(&'a self, reservation: &'a Reservation) -> impl Iterator<Item = &'a Arc<Reservation>> {
        self.base.reservations.values().filter(move |other| {
            other.name != reservation.name
                && other.start < reservation.end()
                && reservation.start < other.end()
        })
    }
}
