//! Starting one job now: where no guarantee is bound if that can be, and never where it would take from what is planned.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use controller_scheduler::{Choice, Hidden, Need, drained_reason, rankmap};
use controller_topology::NodeIx;
use proto_model::{CommandSpec, Component, Gang, JobSpec, Placement, Reason, ReasonCode, Work};

use crate::{
    defs::Act,
    entry::Entry,
    pass::Pass,
    plan::{PlanRequest, Short},
    why::{WaitCause, WaitReasons},
};

/// Smaller gangs of an elastic job that are tried.
const SIZES: usize = 8;

/// What one attempt at a start led to.
pub(crate) enum Try {
    Started,
    /// It would take from what is planned.
    Planned,
    /// Enough is free, but no gang can be placed: not near enough together, or not on the same rails.
    Scattered,
}

impl<'a> Pass<'a> {
    /// As many nodes as an elastic job can have now.
    pub(crate) fn grown(&self, entry: &Entry, desired: &PlanRequest) -> PlanRequest {
        if entry.min_nodes >= entry.need.nodes {
            return desired.clone();
        }
        let most = self.plan.most(desired).saturating_sub(entry.need.spares);
        let nodes = fitting(entry, most.min(entry.most_nodes())).max(entry.min_nodes);
        PlanRequest { nodes: nodes + entry.need.spares, ..desired.clone() }
    }

    /// Nodes that a job must not have, because it would run into what is kept for others.
    pub(crate) fn forbidden(&self, entry: &Entry, length: Duration) -> Vec<NodeIx> {
        let length = entry.limit.unwrap_or(length).max(length);
        let kept = self.kept.in_the_way(entry, self.now, length).flat_map(|(_, nodes)| nodes.iter());
        #[cfg(test)]
        let kept = kept.filter(|_| !crate::plant::is(crate::plant::Bug::Reserved));
        kept.chain(self.begun.promised.iter().copied()).collect()
    }

    /// Tries to start a job now: first where no guarantee is bound, then anywhere.
    pub(crate) fn start(
        &mut self,
        entry: &'a Arc<Entry>,
        desired: &PlanRequest,
        why: &mut WaitReasons,
    ) -> Try {
        let forbidden = self.forbidden(entry, desired.length);
        let mut nodes = desired.nodes - entry.need.spares;
        let mut last = Try::Scattered;
        for _ in 0..SIZES {
            let need = Need { nodes, ..entry.need.clone() };
            let desired = PlanRequest { nodes: nodes + need.spares, ..desired.clone() };
            // First where nothing is bound, then where nodes can change places, then anywhere.
            let rounds = if self.guarantees.bound.is_empty() { 1 } else { 3 };
            for round in 0..rounds {
                let mut hidden = forbidden.clone();
                match rounds - round {
                    3 => hidden.extend(self.guarantees.bound.iter()),
                    2 => hidden.extend(self.guarantees.privates.pods_of_others(&entry.id.tenant)),
                    _ => {}
                }
                match self.start_beside(entry, &need, &desired, hidden) {
                    Try::Started => return Try::Started,
                    other => last = other,
                }
            }
            let smaller = fitting(entry, nodes.saturating_sub(nodes.div_ceil(8)));
            if smaller < entry.min_nodes || nodes <= entry.min_nodes {
                break;
            }
            nodes = smaller.max(entry.min_nodes);
        }
        if forbidden.len() > self.begun.promised.len() {
            let in_the_way = self.kept.in_the_way(entry, self.now, desired.length);
            why.causes.extend(in_the_way.map(|(name, _)| WaitCause::Reserved(name.clone())));
        }
        last
    }

    /// Tries to start a job that the plan has too little for as far as it can count: what the placer has a gang for is not kept
    /// waiting by that, if it takes nothing from what is planned.
    pub(crate) fn start_on_shared_nodes(&mut self, entry: &'a Arc<Entry>, desired: &PlanRequest) -> bool {
        if !self.may_start()
            || !self.plan.may_fit_on_shared_nodes(&entry.need, desired.nodes)
            || !self.plan.quota_through(desired)
        {
            return false;
        }
        let asked = entry.need.as_asked(self.snapshot.capacity_index());
        if self.search.passed_over.contains(&asked) {
            return false;
        }
        let desired = PlanRequest { on_shared_nodes: true, ..desired.clone() };
        let started = matches!(self.start(entry, &desired, &mut WaitReasons::default()), Try::Started);
        if !started {
            self.search.passed_over.insert(asked);
        }
        started
    }

    /// Tries to start a job beside some nodes.
    pub(crate) fn start_beside(
        &mut self,
        entry: &'a Arc<Entry>,
        need: &Need,
        desired: &PlanRequest,
        hidden: Vec<NodeIx>,
    ) -> Try {
        let key = (need.as_asked(self.snapshot.capacity_index()), hidden.len());
        let mut hidden = hidden;
        if self.search.failed.contains(&key) {
            return Try::Scattered;
        }
        for round in 0..4 {
            let nodes = Hidden::of(self.snapshot.capacity_index(), hidden.iter().copied());
            if !self.search.placer.choose(
                self.snapshot.capacity_index(),
                need,
                Some(&nodes),
                &mut self.search.choice,
            ) {
                if round == 0 {
                    self.search.failed.insert(key);
                    return Try::Scattered;
                }
                return Try::Planned;
            }
            let picks = picks(&self.search.choice);
            // Whole nodes are counted for it, and what it takes of others' is counted too.
            if desired.on_shared_nodes || desired.whole && !desired.alone {
                if self.plan.allows_on_shared_nodes(&picks, desired, self.ground) {
                    self.begin(entry, desired, &picks);
                    return Try::Started;
                }
                if desired.on_shared_nodes || round > 0 {
                    return Try::Planned;
                }
                hidden.extend(self.plan.used_nodes());
                continue;
            }
            match self.plan.allows(&picks, desired) {
                Ok(()) => {
                    self.begin(entry, desired, &picks);
                    return Try::Started;
                }
                // A node would be broken into that is planned for somebody: rather one that is broken into already.
                Err(Short::Nodes) if !desired.whole && round == 0 => {
                    let idle = |(_, node): &(usize, &crate::plan::Node)| node.whole_at == 0;
                    let nodes = self.plan.nodes.iter().enumerate().filter(idle);
                    hidden.extend(nodes.map(|(at, _)| NodeIx::at(at)));
                }
                Err(Short::Nodes) => return Try::Planned,
                Err(short) => hidden.extend(self.plan.nodes_of(short)),
            }
        }
        Try::Planned
    }

    /// The job starts on what was chosen.
    pub(crate) fn begin(&mut self, entry: &'a Arc<Entry>, desired: &PlanRequest, picks: &[(NodeIx, u32)]) {
        let nodes = u32::try_from(self.search.choice.nodes.len()).unwrap_or(u32::MAX);
        let gang = match &entry.components[..] {
            [] => Gang::new(nodes, entry.need.gpus, entry.ranks_per_node),
            components => Component::gang(components),
        };
        let work = CommandSpec {
            argv: Vec::new(),
            env: BTreeMap::new(),
            env_from: Vec::new(),
            working_dir: String::new(),
        };
        let components = entry.components.to_vec();
        let spec = JobSpec { components, ..JobSpec::new(gang, Work::Command(work)) };
        let mut placement = rankmap::placement(self.snapshot, &spec, &self.search.choice);
        placement.reasons = vec![self.why_here(&placement)];
        placement.reasons.extend(drained_reason(self.snapshot, &placement));
        self.snapshot.hold_choice(&entry.id.tenant, &self.search.choice);
        self.plan.occupy(picks, desired);
        self.begun.starts += 1;
        self.begun.jobs.push(entry);
        for queue in self.queue_state.path(entry).into_iter().flatten() {
            let own = self.holdings.more.entry(entry.id.tenant.clone()).or_default();
            *own.entry(queue).or_default() += entry.gpus(nodes);
        }
        self.begun.held.push((entry.id.tenant.clone(), self.search.choice.clone()));
        self.outcome.acts.push(Act::Start { uid: entry.uid, placement });
    }

    pub(crate) fn why_here(&self, placement: &Placement) -> Reason {
        let (nodes, pods, cut) = (placement.nodes.len(), placement.pods, placement.cut);
        let place = if pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        let rails: Vec<String> = placement.rails.iter().map(u32::to_string).collect();
        let rails = if rails.is_empty() {
            "the job asks for no rails".to_owned()
        } else {
            format!("every node has a NIC that is up on each of rails {}", rails.join(","))
        };
        let what = if nodes == 1 { "node" } else { "nodes" };
        let message = format!(
            "{nodes} {what} in {place}, the best fit of those that are free; a cut of {cut}; {rails}"
        );
        Reason::new(ReasonCode::BestFit, message).count(nodes)
    }

    /// A job of a reservation: on its nodes only, and only while it lasts.
    pub(crate) fn reserved(
        &mut self,
        entry: &'a Arc<Entry>,
        desired: &PlanRequest,
        why: &mut WaitReasons,
    ) -> bool {
        let row = entry.reservation.as_ref().and_then(|name| self.kept.rows.get(name));
        let Some((def, nodes)) = row else {
            let known = entry
                .reservation
                .as_ref()
                .is_some_and(|name| self.queue_state.reservations.contains_key(name));
            why.causes.push(if known { WaitCause::ReservationClosed } else { WaitCause::ReservationUnknown });
            return false;
        };
        if def.maintenance || !def.tenants.contains(&entry.id.tenant) {
            why.causes.push(WaitCause::ReservationClosed);
            return false;
        }
        why.eta = Some(self.eta(entry, def.start.max(self.now)));
        if def.start > self.now {
            why.causes.push(WaitCause::ReservationAhead(def.start));
        }
        if !why.causes.is_empty() {
            return false;
        }
        let inside = |at: &NodeIx| !nodes.has(*at);
        let hidden: Vec<NodeIx> = (0..self.plan.nodes.len()).map(NodeIx::at).filter(inside).collect();
        if !self.plan.has_licenses(desired) {
            self.say_licenses(entry, desired, why);
            self.plan.plan_licenses(desired);
            return false;
        }
        let (quota, _) = self.plan.room(desired);
        if quota && self.may_start() {
            let hidden = Hidden::of(self.snapshot.capacity_index(), hidden.iter().copied());
            let need = Need { nodes: desired.nodes - entry.need.spares, ..entry.need.clone() };
            if self.search.placer.choose(
                self.snapshot.capacity_index(),
                &need,
                Some(&hidden),
                &mut self.search.choice,
            ) {
                let picks = picks(&self.search.choice);
                self.begin(entry, desired, &picks);
                return true;
            }
        }
        let free = nodes.iter().filter(|ix| self.plan.nodes[ix.index()].whole_at == 0).count();
        why.causes.push(WaitCause::Capacity { nodes: u32::try_from(free).unwrap_or(u32::MAX), gpus: 0 });
        false
    }
}

/// The nodes of a choice with their GPUs.
pub(crate) fn picks(choice: &Choice) -> Vec<(NodeIx, u32)> {
    choice.nodes.iter().chain(&choice.spares).map(|pick| (pick.node, pick.gpus.count_ones())).collect()
}

/// The most nodes up to some that an elastic job can run on: whole groups of all sizes.
pub(crate) fn fitting(entry: &Entry, nodes: u32) -> u32 {
    let unit = entry.need.groups.iter().map(|group| group.size.max(1)).max().unwrap_or(1);
    nodes - nodes % unit
}
