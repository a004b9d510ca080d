//! Whether a reservation fits beside the others.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use proto_model::{NodeName, Reservation, ReservationNodes, Timestamp};

use crate::{
    error::{
        nearest::{invalid, nearest},
        refusal::CoreError,
    },
    tables::state::State,
};

/// A start so long ago is still "now": the way of the request takes time.
const LATE: Duration = Duration::from_secs(60);

impl State {
    /// Whether a reservation may be as it is asked for, in place of `old`.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check_reservation(
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
