//! How the nodes of a job agree on a [`Plan`], while operations run.
//!
//! Every node reports to node 0 what is left of its capacity and what it measures. Node 0 makes a plan of that, sends it to
//! all, and when all have it, each of its announcements of an operation names it from then on.
//!
//! **Operation s follows the plan that node 0's announcement of operation s - 4 named** ([`MAX_ACTIVE`]). A node starts it only
//! after operation s - 4 is complete there, for which it must have heard that announcement: so it knows the plan, and nobody has
//! to wait or to ask. The first four operations follow version 0.
//!
//! Four operations of a second each would follow a plan that is seconds old. So where that plan predicts that operation s takes
//! [`LONG`] or more, all wait for node 0's announcement of s itself, and follow what it names: that costs a trip. Node 0
//! waits for nobody, so it announces s as soon as its own ranks have posted it; the others could not complete s before.

use std::collections::BTreeSet;

use crate::call::Call;
use crate::error::FrameError;
use crate::header::{Header, Key, Kind};
use crate::link::Link;
use crate::machine::Machine;
use crate::machine::agreement::{MAKER, VERSIONS};
use crate::machine::report::{Report, STEP, is_far};
use crate::plan::{Choice, Plan, choose};
use crate::units::{FULL, MAX_ACTIVE, Node, Rail, Time};

/// Pause between two checks of the measured rates.
const CHECK: Time = Time::from_millis(100);
/// Checks in a row at which a node's rails must have seemed slow before it says so: rates are rough when a job begins, and
/// the stripes follow them anyway.
const CHECKS: u32 = 4;
/// An operation that is predicted to take this long waits for a trip to learn the newest plan: four that are shorter are over
/// before the rates are looked at again.
const LONG: Time = Time::from_millis(25);
/// Weak nodes that a plan names; with more, all count as equal.
const MOST_WEAK: usize = 64;

impl Machine {
    /// The plan of the operation that is to start next, what it chooses, and whether it is long; `None` while the maker has
    /// not named the plan.
    pub(super) fn plan_of(&mut self, seq: u64, call: &Call) -> Option<(Plan, Choice, bool)> {
        if self.job.layout.node == MAKER {
            self.planning.agreement.named.insert(seq, self.planning.agreement.latest as u8);
        }
        let plan = self.planning.agreement.named(seq.checked_sub(MAX_ACTIVE));
        let choice = choose(call, &self.job.layout, &self.job.config, &plan);
        if choice.predicted().is_none_or(|ns| Time::from_nanos(ns) < LONG) {
            return Some((plan, choice, false));
        }
        // One that has left names nothing any more: the operation is to fail at once.
        if !self.planning.agreement.named.contains_key(&seq) && !self.peers[usize::from(MAKER)].left {
            return None;
        }
        let plan = self.planning.agreement.named(Some(seq));
        let choice = choose(call, &self.job.layout, &self.job.config, &plan);
        Some((plan, choice, true))
    }

    /// An operation has started here. Gives what its announcements name.
    pub(super) fn settle_plan(&mut self, seq: u64) -> u8 {
        let old = seq.saturating_sub(3 * MAX_ACTIVE);
        self.planning.agreement.named = self.planning.agreement.named.split_off(&old);
        self.planning.agreement.ahead(seq)
    }

    /// Nodes that an operation waits for before it can start: it is long, and the maker has not named its plan.
    pub(super) fn waits_for_plan(&self, seq: u64) -> Option<Node> {
        let known = self.job.layout.node == MAKER || self.planning.agreement.named.contains_key(&seq);
        (seq == self.work.next_start && !known).then_some(MAKER)
    }

    /// The maker's announcement of an operation names a plan.
    pub(super) fn learn_plan(&mut self, peer: Node, header: &Header) {
        if let Key::Collective { seq } = header.key
            && peer == MAKER
            && header.call.is_some()
            && seq < self.work.next_start + MAX_ACTIVE
        {
            self.planning.agreement.named.insert(seq, header.plan);
            if seq == self.work.next_start && !self.calls.gathering.is_empty() {
                self.start_next();
            }
        }
    }

    /// Time has passed: reports and plans what is due.
    pub(super) fn tend_plan(&mut self, now: Time) {
        #[cfg(test)]
        if self.planless {
            return;
        }
        if self.job.layout.nodes() < 2 || self.failure.is_some() {
            return;
        }
        let changed = std::mem::take(&mut self.planning.rails_changed);
        let checks = now >= self.planning.agreement.check && !self.work.ops.is_empty();
        if checks {
            self.planning.agreement.check = now + CHECK;
            let carried = |rail, peer| self.rails.links.get(rail, peer).carried();
            self.planning.agreement.burden.check(self.job.config.rails, self.job.layout.nodes(), carried);
            let slow = self.capacity(true) < self.capacity(false);
            self.planning.agreement.slow =
                if slow { self.planning.agreement.slow.saturating_add(1) } else { 0 };
        }
        if checks || !self.planning.agreement.measured.knows_trips() && !self.work.ops.is_empty() {
            self.time_a_trip(now);
        }
        if changed || checks {
            self.report(now);
        }
        if self.job.layout.node == MAKER && self.planning.agreement.is_calm(self.job.config.rails as u32, now)
        {
            self.propose();
        }
    }

    fn report(&mut self, now: Time) {
        let report = Report {
            capacity: self.capacity(self.planning.agreement.slow >= CHECKS),
            alpha_ns: self
                .planning
                .agreement
                .measured
                .alpha_ns(self.planning.agreement.named(None).overhead_ns),
            beta_ps: self.beta(now),
        };
        let last = self.planning.agreement.notified.0;
        if last.is_some_and(|last| !report.differs(last)) {
            return;
        }
        self.planning.agreement.notified = (Some(report), self.planning.agreement.notified.1 + 1);
        let value = self.planning.agreement.notified.1;
        if self.job.layout.node == MAKER {
            self.planning.agreement.reports[usize::from(MAKER)] = (report, value);
            return;
        }
        let kind =
            Kind::Report { capacity: report.capacity, alpha_ns: report.alpha_ns, beta_ps: report.beta_ps };
        let header = Header { value, ..self.control(kind, Key::Link, None) };
        self.peers[usize::from(MAKER)].control.push_back(header);
    }

    /// Asks a peer over a link that is idle, so that the answer shows the time of a trip and not of a queue.
    fn time_a_trip(&mut self, now: Time) {
        let (rail, peer) = self.planning.agreement.asked;
        let link = self.rails.links.get(rail, peer);
        if link.is_up() && link.proof.number != 0 && now < link.proof.since + CHECK {
            return;
        }
        let idle = |(_, _, link): &(Rail, Node, &Link)| link.is_up() && link.is_idle();
        let Some((rail, peer, _)) = self.rails.links.iter().find(idle) else { return };
        self.planning.agreement.asked = (rail, peer);
        self.rails.probes += 1;
        let number = self.rails.probes;
        let proof = &mut self.rails.links.get_mut(rail, peer).proof;
        (proof.number, proof.since) = (number, now);
        self.urge(rail, peer, Kind::Probe { number });
    }

    /// What is left of this node's capacity, of 1024: its rails, in full for one that reaches a peer and (if rates are to
    /// count) is as fast as the others.
    fn capacity(&self, by_rate: bool) -> u16 {
        let rails = self.job.config.rails;
        let mut sum = 0.0;
        for rail in 0..rails as Rail {
            let weight = if by_rate { self.planning.agreement.burden.weight(rail) } else { 1.0 };
            let carries = |peer: Node| {
                let link = self.rails.links.get(rail, peer);
                // One that is still to come up for the first time is not lost.
                (link.is_up() || link.generation() == 0) && !link.is_drained()
            };
            // A rail that still reaches anybody can be filled with what goes there.
            sum += if self.job.layout.peers().any(carries) { weight } else { 0.0 };
        }
        (sum / rails as f64 * f64::from(FULL)).round() as u16
    }

    /// Time of a byte on the best rail of this node, in picoseconds; 0 if no rate is known.
    fn beta(&self, now: Time) -> u32 {
        let rate = |rail: Rail| -> f64 {
            self.job
                .layout
                .peers()
                .filter_map(|peer| self.rails.links.get(rail, peer).lasting_rate(now))
                .sum()
        };
        let best = (0..self.job.config.rails as Rail).map(rate).fold(0.0, f64::max);
        if best > 0.0 { (1e12 / best) as u32 } else { 0 }
    }

    /// Makes a new plan if the reports ask for one and the last one has gone its way.
    fn propose(&mut self) {
        let agreement = &self.planning.agreement;
        let mut needed: BTreeSet<u8> = agreement.named.values().copied().collect();
        needed.insert(agreement.latest as u8);
        let Some(base) = agreement.plans.get(&agreement.latest) else { return };
        if agreement.proposed.is_some() || needed.len() >= VERSIONS {
            return;
        }
        let wanted = self.wanted(base);
        let nodes = self.job.layout.nodes();
        let weaker =
            base.capacities(nodes).iter().zip(wanted.capacities(nodes)).any(|(a, b)| a.abs_diff(b) > STEP);
        if !weaker
            && !is_far(wanted.alpha_ns, base.alpha_ns)
            && !is_far(wanted.beta_ps_per_byte, base.beta_ps_per_byte)
        {
            return;
        }
        let version = self.planning.agreement.latest + 1;
        let plan = Plan { version, ..wanted };
        for header in self.parts(&plan) {
            for peer in self.job.layout.peers() {
                self.peers[usize::from(peer)].control.push_back(header);
            }
        }
        self.planning.agreement.keep(plan);
        self.planning.agreement.proposed = Some((version, self.job.layout.peers().collect()));
    }

    /// The plan that the reports ask for.
    fn wanted(&self, base: &Plan) -> Plan {
        let reports = || self.planning.agreement.reports.iter().map(|(r, _)| *r);
        let strongest = reports().map(|r| r.capacity).max().unwrap_or(FULL).max(1);
        // Only how the nodes compare matters: if all have lost the same, none is weak.
        let scaled = |r: Report| (u32::from(r.capacity) * u32::from(FULL) / u32::from(strongest)) as u16;
        let even = |c: u16| if FULL - c <= STEP { FULL } else { c };
        let mut capacity: Vec<u16> = reports().map(|r| even(scaled(r))).collect();
        let weak = capacity.iter().filter(|&&c| c < FULL).count();
        if weak == 0 || weak > MOST_WEAK {
            capacity.clear();
        }
        let most = |of: fn(Report) -> u32, old: u32| match reports().map(of).max().unwrap_or(0) {
            0 => old,
            new => new,
        };
        Plan {
            capacity,
            alpha_ns: most(|r| r.alpha_ns, base.alpha_ns),
            beta_ps_per_byte: most(|r| r.beta_ps, base.beta_ps_per_byte),
            ..base.clone()
        }
    }

    /// A plan as frames: one for each weak node, or one.
    fn parts(&self, plan: &Plan) -> Vec<Header> {
        let weak = (0..).zip(&plan.capacity).filter(|&(_, &c)| c < FULL);
        let mut weak: Vec<(Node, u16)> = weak.map(|(n, &c)| (n, c)).collect();
        if weak.is_empty() {
            weak.push((MAKER, FULL));
        }
        let of = weak.len() as u16;
        let part = |(index, (node, capacity)): (u16, (Node, u16))| {
            let kind = Kind::PlanPart {
                version: plan.version,
                index,
                of,
                node,
                capacity,
                alpha_ns: plan.alpha_ns,
                beta_ps: plan.beta_ps_per_byte,
            };
            self.control(kind, Key::Link, None)
        };
        (0..).zip(weak).map(part).collect()
    }

    /// A node says what is left of it.
    pub(super) fn reported(&mut self, peer: Node, report: Report, value: u64) {
        let known = &mut self.planning.agreement.reports[usize::from(peer)];
        if value > known.1 {
            *known = (report, value);
        }
    }

    /// A piece of a plan comes from the maker.
    pub(super) fn plan_part(&mut self, peer: Node, kind: Kind) -> Result<(), FrameError> {
        let Kind::PlanPart { version, index, of, node, capacity, alpha_ns, beta_ps } = kind else {
            return Ok(());
        };
        let refused = |field, value: u64| Err(FrameError::Field { field, value });
        if peer != MAKER {
            return refused("plan of node", peer.into());
        }
        if usize::from(node) >= self.job.layout.nodes() || usize::from(of) > MOST_WEAK || index >= of {
            return refused("part of a plan", u64::from(node) << 32 | u64::from(of) << 16 | u64::from(index));
        }
        if self.planning.agreement.plans.contains_key(&version) {
            return Ok(());
        }
        let base = self.planning.agreement.plans.values().next().cloned().unwrap_or_default();
        // The maker has one plan on its way at a time.
        self.planning.agreement.parts.retain(|v, _| *v == version);
        let parts = self.planning.agreement.parts.entry(version).or_default();
        if parts.seen.is_empty() {
            parts.plan = Plan { version, alpha_ns, beta_ps_per_byte: beta_ps, capacity: Vec::new(), ..base };
        }
        if capacity < FULL {
            let nodes = self.job.layout.nodes();
            parts.plan.capacity.resize(nodes, FULL);
            parts.plan.capacity[usize::from(node)] = capacity;
        }
        parts.seen.insert(index);
        if parts.seen.len() == usize::from(of)
            && let Some(parts) = self.planning.agreement.parts.remove(&version)
        {
            self.planning.agreement.keep(parts.plan);
            let header = self.control(Kind::PlanTaken { version }, Key::Link, None);
            self.peers[usize::from(MAKER)].control.push_back(header);
        }
        Ok(())
    }

    /// A node has a plan.
    pub(super) fn plan_taken(&mut self, peer: Node, version: u32) {
        if let Some((proposed, missing)) = &mut self.planning.agreement.proposed
            && *proposed == version
        {
            missing.remove(&peer);
            if missing.is_empty() {
                self.planning.agreement.latest = version;
                self.planning.agreement.proposed = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::agreement::Agreement;

    fn says(agreement: &mut Agreement, node: usize, capacity: u16) {
        agreement.reports[node].0.capacity = capacity;
    }

    #[test]
    fn rates_make_a_plan_when_all_are_quiet_and_lost_rails_at_once() {
        let ms = Time::from_millis;
        let mut agreement = Agreement::new(3);
        assert!(agreement.is_calm(4, ms(1)), "all are whole");
        // Node 1 has lost a rail of four, then two: no reason to wait.
        for capacity in [768, 512] {
            says(&mut agreement, 1, capacity);
            assert!(agreement.is_calm(4, ms(10)), "{capacity}");
        }
        // A slow rail of four counts as a quarter of a rail: others may be about to say the same.
        says(&mut agreement, 0, 832);
        assert!(!agreement.is_calm(4, ms(1000)));
        assert!(!agreement.is_calm(4, ms(1249)));
        says(&mut agreement, 2, 830);
        assert!(!agreement.is_calm(4, ms(1250)), "a new report begins the calm anew");
        assert!(!agreement.is_calm(4, ms(1499)));
        assert!(agreement.is_calm(4, ms(1500)));
        // All are well again: at once.
        (0..3).for_each(|node| says(&mut agreement, node, FULL));
        assert!(agreement.is_calm(4, ms(1501)));
    }

    #[test]
    fn a_share_of_rails_that_was_rounded_is_still_whole() {
        let mut agreement = Agreement::new(1);
        for rails in 1..=16u32 {
            for left in 0..=rails {
                let capacity = (f64::from(left) / f64::from(rails) * f64::from(FULL)).round() as u16;
                says(&mut agreement, 0, capacity);
                assert!(agreement.is_calm(rails, Time::ZERO), "{left} of {rails}: {capacity}");
            }
        }
    }
}
