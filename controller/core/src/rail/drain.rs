//! Taking rails, leaves and ports out of use, and back. What is drained is desired state per node, told as a whole: engines
//! that run move off it, engines that start later begin without it.
//!
//! For jobs that come they are the last choice: one that asks for all rails still gets them all where nothing else is left, and
//! uses those that are not drained; one that says `avoidDrained: REQUIRED` waits.

use std::{collections::BTreeMap, sync::Arc};

use controller_state::{CoreError, Link, view::rail::drain::NodeDirectives};
use controller_topology::RailSet;
use proto_model::{Drain, DrainTarget, JobId, NodeName, RailState};

use crate::{
    context::Step,
    event::{Reply, ToNode},
};

impl Step<'_> {
    pub(crate) fn drain_rail(
        &mut self,
        text: &str,
        reason: String,
        by: String,
        force: bool,
    ) -> Result<Reply, CoreError> {
        let target = self.state.target(text)?;
        if let Some(old) = self.state.base.drains.get(&target).cloned() {
            if reason.is_empty() || reason == old.reason {
                return Ok(Reply::Drained { drain: old, changed: false });
            }
            let drain = Arc::new(Drain { reason, by, ..(*old).clone() });
            self.state.put(Arc::clone(&drain));
            return Ok(Reply::Drained { drain, changed: true });
        }
        let limit = self.state.config.max_drains;
        if self.state.base.drains.len() >= limit {
            return Err(CoreError::Full { what: "drains", limit, remedy: "undrain what is used again" });
        }
        let before = if force { BTreeMap::new() } else { self.state.stranded(&BTreeMap::new()) };
        let drain = Arc::new(Drain { target: target.clone(), reason, by, since: self.now });
        self.state.put(Arc::clone(&drain));
        if !force {
            // The step undoes what it has changed when it refuses.
            let after = self.state.stranded(&BTreeMap::new());
            let jobs: Vec<JobId> =
                after.into_iter().filter(|(uid, _)| !before.contains_key(uid)).map(|(_, id)| id).collect();
            if !jobs.is_empty() {
                return Err(CoreError::LastRail { target, jobs });
            }
        }
        self.refresh_drained();
        Ok(Reply::Drained { drain, changed: true })
    }

    pub(crate) fn undrain_rail(&mut self, text: &str) -> Result<Reply, CoreError> {
        let target = self.state.drained_target(text)?;
        let changed = self.state.base.drains.contains_key(&target);
        if changed {
            let ports = self.state.ports_of(&target);
            self.state.remove::<Drain>(&target);
            self.doubt(&ports);
            self.refresh_drained();
            ports.keys().for_each(|node| self.proofs_changed(node));
        }
        let remaining = self.state.drains_upon(&target);
        Ok(Reply::Undrained { target, changed, remaining })
    }

    /// What was heard of these ports may be older than what follows: nobody shall take it for an answer.
    fn doubt(&mut self, ports: &BTreeMap<NodeName, RailSet>) {
        for (node, rails) in ports {
            for (uid, position) in self.state.index.holds.get(node).cloned().unwrap_or_default() {
                let Some(mut view) = self.state.base.views.get(&(uid, position)).cloned() else { continue };
                for report in view.reports.iter_mut().filter(|report| rails.has(report.rail)) {
                    report.state = report.state.filter(|state| *state != RailState::Drained);
                }
                self.state.set_view((uid, position), Some(view));
            }
        }
    }

    /// A node is gone, and what was drained of it alone.
    pub(crate) fn forget_drains_of(&mut self, name: &NodeName) {
        let of = |rail| DrainTarget::Port { node: name.clone(), rail };
        let range = self.state.base.drains.range(of(0)..=of(u32::MAX));
        for target in range.map(|(target, _)| target.clone()).collect::<Vec<_>>() {
            self.state.remove::<Drain>(&target);
        }
    }

    /// Tells every connected node whose drained rails are no longer as it was told.
    pub(crate) fn refresh_drained(&mut self) {
        let names: Vec<NodeName> = self.state.base.links.keys().cloned().collect();
        for name in names {
            self.report_drained(&name);
        }
        self.request_scheduling_pass();
    }

    /// For the Welcome: the node's drained rails, the desired state of its class of service, and the probes that it takes part in, which it
    /// counts as told from then on.
    pub(crate) fn drained_now(&mut self, name: &NodeName) -> NodeDirectives {
        let reported = self.state.reported_of(name, self.now);
        self.note_reported(name, &reported);
        reported
    }

    /// Tells one node what is drained there, what its class of service should be, and what it is to probe, if any of it is news.
    pub(crate) fn report_drained(&mut self, name: &NodeName) {
        if self.state.session(name).is_none() {
            return;
        }
        let reported = self.state.reported_of(name, self.now);
        if self.note_reported(name, &reported) {
            let (rails, qos, proofs) = reported;
            self.push(name, ToNode::Drained { rails, qos, proofs });
        }
    }

    /// True if it is news to the node.
    fn note_reported(&mut self, name: &NodeName, (rails, qos, proofs): &NodeDirectives) -> bool {
        let drained: RailSet = rails.iter().copied().collect();
        let news = |link: &&Link| link.drained != drained || link.qos != *qos || link.proofs != *proofs;
        let Some(link) = self.state.base.links.get(name).filter(news).cloned() else { return false };
        let (qos, proofs) = (qos.clone(), proofs.clone());
        let qos_number = qos.as_ref().map_or(link.qos_number, |desired| desired.number);
        self.state.set_link(name, Some(Link { drained, qos, qos_number, proofs, ..link }));
        true
    }
}
