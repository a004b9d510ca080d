//! Reservations.

use std::{collections::BTreeSet, time::Duration};

use proto_model::{Reservation, ReservationName, ReservationNodes, TenantName};

use super::{common::duration, metadata, request::node_names, time_from_row};
use crate::v1;
use proto_model::fields::{FieldErrors, Fields, bounded};

/// Servers of one reservation at most.
const MAX_NODES: usize = 131_072;

/// Tenants of one reservation at most.
const MAX_TENANTS: usize = 1024;

fn nodes(fields: &mut Fields, spec: &v1::ReservationSpec) -> ReservationNodes {
    let names = node_names(fields, "spec.nodes", &spec.nodes, MAX_NODES);
    if spec.count as usize > MAX_NODES {
        fields.fail("spec.count", format!("{} is more than {MAX_NODES}", spec.count));
    }
    match (spec.nodes.is_empty(), spec.count) {
        (true, 0) => fields.fail("spec.nodes", "name the nodes, or give `count`"),
        (false, 1..) => fields.fail("spec.count", "give either `nodes` or `count`"),
        _ => {}
    }
    if spec.pods_at_most > 0 && spec.count == 0 {
        fields.fail("spec.podsAtMost", "goes with `count` only");
    }
    if spec.count > 0 {
        return ReservationNodes::Count { nodes: spec.count, pods_at_most: spec.pods_at_most };
    }
    ReservationNodes::Names(names)
}

fn tenants(fields: &mut Fields, spec: &v1::ReservationSpec) -> Vec<TenantName> {
    let mut tenants = Vec::new();
    if !bounded(fields, "spec.tenants", &spec.tenants, MAX_TENANTS) {
        return tenants;
    }
    let mut seen = BTreeSet::new();
    for (index, text) in spec.tenants.iter().enumerate() {
        let field = format!("spec.tenants[{index}]");
        let Some(tenant) = fields.take(&field, TenantName::new(text)) else { continue };
        if !seen.insert(tenant.clone()) {
            fields.fail(&field, format!("'{tenant}' is given twice"));
        }
        tenants.push(tenant);
    }
    match (spec.maintenance, spec.tenants.is_empty()) {
        (true, false) => fields.fail("spec.tenants", "no job runs in a maintenance; leave them out"),
        (false, true) => {
            fields.fail("spec.tenants", "whose jobs run in it? Name a tenant, or write maintenance")
        }
        _ => {}
    }
    tenants
}

impl TryFrom<v1::Reservation> for Reservation {
    type Error = FieldErrors;

    fn try_from(row: v1::Reservation) -> Result<Self, FieldErrors> {
        let mut fields = Fields::default();
        let metadata = metadata::metadata(&mut fields, row.metadata);
        metadata::unowned(&mut fields, &metadata);
        let spec = fields.present("spec", row.spec).unwrap_or_default();
        let name = fields.take("metadata.name", ReservationName::new(&metadata.name));
        let nodes = nodes(&mut fields, &spec);
        let tenants = tenants(&mut fields, &spec);
        let start = fields.present("spec.start", spec.start);
        let start = start.and_then(|time| fields.nest("spec.start", time_from_row(time)));
        let row = fields.present("spec.duration", spec.duration);
        let duration = duration(&mut fields, "spec.duration", row).unwrap_or_default();
        if row.is_some() && duration < Duration::from_secs(1) && !fields.has("spec.duration") {
            fields.fail("spec.duration", "must be 1s at least");
        }
        if spec.reason.len() > 1024 {
            fields.fail("spec.reason", "must be at most 1024 bytes long");
        }
        let created =
            fields.nest("metadata.createTime", time_from_row(metadata.create_time.unwrap_or_default()));
        let reservation = match (name, start, created) {
            (Some(name), Some(start), Some(created)) => Some(Self {
                name,
                uid: metadata.uid,
                generation: metadata.generation,
                created,
                nodes,
                start,
                duration,
                tenants,
                maintenance: spec.maintenance,
                reason: spec.reason,
            }),
            _ => None,
        };
        fields.finish(reservation)
    }
}
