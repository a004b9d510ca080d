//! Queues and reservations that a job may name, and what the cluster has for guarantees.

use std::{collections::BTreeMap, sync::Arc};

use controller_topology::{PodIx, Topology};
use proto_model::{
    JobSpec, Queue, QueueName, Reservation, ReservationName, ReservationNodes, Shape, TenantName, Timestamp,
};

use crate::{
    error::{
        nearest::{invalid, nearest},
        refusal::CoreError,
    },
    tables::state::State,
};

/// Queues above one another at most.
pub const MAX_DEPTH: usize = 8;

/// What the servers that are known make together, and what the smallest pod and the smallest server hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// All together.
    pub all: Shape,
    pub(crate) nodes_per_pod: u32,
    /// GPUs of the smallest server.
    pub gpus_per_node: u32,
}

impl Sizes {
    /// Counted from servers that have joined.
    pub fn of(topology: &Topology) -> Self {
        let mut pods: BTreeMap<PodIx, u32> = BTreeMap::new();
        let (mut loose, mut gpus) = (0, None::<u32>);
        for (_, server) in topology.servers() {
            let count = u32::try_from(server.inventory.gpus.len()).unwrap_or(u32::MAX);
            gpus = Some(gpus.map_or(count, |least| least.min(count)));
            match server.pod {
                Some(pod) => *pods.entry(pod).or_default() += 1,
                None => loose += 1,
            }
        }
        let all = Shape { pods: u32::try_from(pods.len()).unwrap_or(u32::MAX), nodes: loose, gpus: 0 };
        let nodes_per_pod = pods.values().copied().min().unwrap_or(0);
        Self { all, nodes_per_pod, gpus_per_node: gpus.unwrap_or(0) }
    }

    /// Whether `parts` together fit into `whole`: what is left of pods serves as nodes, what is left of nodes as GPUs.
    pub fn fits(self, parts: impl IntoIterator<Item = Shape>, whole: Shape) -> bool {
        let (mut pods, mut nodes, mut gpus) = (0_u64, 0_u64, 0_u64);
        for part in parts {
            pods += u64::from(part.pods);
            nodes += u64::from(part.nodes);
            gpus += u64::from(part.gpus);
        }
        let left = |have: u64, asked: u64| have.checked_sub(asked);
        let Some(pods) = left(u64::from(whole.pods), pods) else { return false };
        let have = u64::from(whole.nodes) + pods * u64::from(self.nodes_per_pod);
        let Some(nodes) = left(have, nodes) else { return false };
        left(u64::from(whole.gpus) + nodes * u64::from(self.gpus_per_node), gpus).is_some()
    }

    /// GPUs of a shape.
    pub fn gpus(self, shape: Shape) -> u64 {
        let nodes = u64::from(shape.nodes) + u64::from(shape.pods) * u64::from(self.nodes_per_pod);
        u64::from(shape.gpus) + nodes * u64::from(self.gpus_per_node)
    }
}

/// A shape in words.
pub fn in_words(shape: Shape) -> String {
    let parts = [(shape.pods, "pods"), (shape.nodes, "nodes"), (shape.gpus, "GPUs")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(" and ") }
}

impl State {
    /// A queue.
    #[must_use]
    pub fn queue(&self, tenant: &TenantName, name: &QueueName) -> Option<&Arc<Queue>> {
        self.base.queues.get(&(tenant.clone(), name.clone()))
    }

    /// The queues of a tenant, in name order.
    pub fn queues_of<'a>(&'a self, tenant: &'a TenantName) -> impl Iterator<Item = &'a Arc<Queue>> {
        self.base.queues.iter().filter(move |((owner, _), _)| owner == tenant).map(|(_, queue)| queue)
    }

    /// A reservation.
    #[must_use]
    pub fn reservation(&self, name: &ReservationName) -> Option<&Arc<Reservation>> {
        self.base.reservations.get(name)
    }

    /// Whether the queue and the reservation that a job names are there for it.
    ///
    /// # Errors
    /// The queue or the reservation is not there for this job, or has no room for it.
    pub fn check_documents(
        &self,
        tenant: &TenantName,
        spec: &JobSpec,
        now: Timestamp,
    ) -> Result<(), CoreError> {
        if let Some(queue) = spec.queue.as_ref().filter(|queue| self.queue(tenant, queue).is_none()) {
            return Err(self.no_queue(tenant, queue));
        }
        let Some(name) = &spec.reservation else { return Ok(()) };
        // One that is for others only is none: neither its name nor that it is there is told.
        let seen = |found: &Arc<Reservation>| found.maintenance || found.tenants.contains(tenant);
        let Some(reservation) = self.reservation(name).filter(|found| seen(found)) else {
            let names = self.base.reservations.values().filter(|found| seen(found)).map(|found| &found.name);
            let nearest = nearest(name.as_str(), names);
            return Err(CoreError::ReservationNotFound { reservation: name.clone(), nearest });
        };
        let field = "spec.reservation";
        if reservation.maintenance {
            return invalid(field, format!("'{name}' is a maintenance; no job runs in it"));
        }
        if reservation.end() <= now {
            return invalid(field, format!("'{name}' is over"));
        }
        if spec.begin.is_some_and(|begin| begin >= reservation.end()) {
            return invalid("spec.beginTime", format!("is after the end of reservation '{name}'"));
        }
        let nodes = match &reservation.nodes {
            ReservationNodes::Names(names) => u32::try_from(names.len()).unwrap_or(u32::MAX),
            ReservationNodes::Count { nodes, .. } => *nodes,
        };
        let asked = spec.gang.min_nodes.saturating_add(spec.placement.spares);
        if asked > nodes {
            let spares = if spec.placement.spares > 0 { " with its spares" } else { "" };
            let text = format!("'{name}' has {nodes} nodes, and the job needs {asked}{spares}");
            return invalid(field, text);
        }
        Ok(())
    }

    /// The refusal for a queue that is not there, with the name that may have been meant.
    pub fn no_queue(&self, tenant: &TenantName, queue: &QueueName) -> CoreError {
        let names: Vec<&QueueName> = self.queues_of(tenant).map(|queue| &queue.name).collect();
        let nearest = nearest(queue.as_str(), names.into_iter());
        CoreError::QueueNotFound { tenant: tenant.clone(), queue: queue.clone(), nearest }
    }

    /// The refusal for a reservation that is not there, with the name that may have been meant.
    pub fn no_reservation(&self, name: &ReservationName) -> CoreError {
        let nearest = nearest(name.as_str(), self.base.reservations.keys());
        CoreError::ReservationNotFound { reservation: name.clone(), nearest }
    }
}
