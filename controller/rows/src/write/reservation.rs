//! Reservations.

use proto_model::{Reservation, ReservationNodes};

use super::{duration_to_row, request::names_to_row, time_to_row};
use crate::v1;

impl From<&Reservation> for v1::Reservation {
    /// Whether it has begun follows from the time, and is not stored.
    fn from(reservation: &Reservation) -> Self {
        let (nodes, count, pods_at_most) = match &reservation.nodes {
            ReservationNodes::Names(names) => (names_to_row(names), 0, 0),
            ReservationNodes::Count { nodes, pods_at_most } => (Vec::new(), *nodes, *pods_at_most),
        };
        Self {
            metadata: Some(v1::Metadata {
                name: reservation.name.to_string(),
                uid: reservation.uid.clone(),
                generation: reservation.generation,
                create_time: Some(time_to_row(reservation.created)),
                ..v1::Metadata::default()
            }),
            spec: Some(v1::ReservationSpec {
                nodes,
                count,
                pods_at_most,
                start: Some(time_to_row(reservation.start)),
                duration: Some(duration_to_row(reservation.duration)),
                tenants: reservation.tenants.iter().map(ToString::to_string).collect(),
                maintenance: reservation.maintenance,
                reason: reservation.reason.clone(),
            }),
        }
    }
}
