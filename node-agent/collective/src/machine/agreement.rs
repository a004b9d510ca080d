//! What a node knows of plans.

use std::collections::{BTreeMap, BTreeSet};

use crate::header::{Header, Key};
use crate::machine::burden::Burden;
use crate::machine::report::{Measured, Report};
use crate::plan::Plan;
use crate::units::{FULL, Node, Rail, Time};

/// The node that makes plans.
pub(super) const MAKER: Node = 0;
/// Rates make a plan when no node has reported anything new for this long: a change that meets all nodes, like a slow leaf, comes
/// from each at its own time, and a plan that knows half of it takes some for weak. Rails that are lost make one at once.
pub(super) const CALM: Time = Time::from_millis(250);
/// Versions that operations under way may need at once; with more, no new one is made.
pub(super) const VERSIONS: usize = 4;

/// A plan that comes in, piece by piece.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    pub(super) plan: Plan,
    pub(super) seen: BTreeSet<u16>,
}

/// What a node knows of plans.
#[derive(Debug, Clone)]
pub struct Agreement {
    /// By version; the last few.
    pub(super) plans: BTreeMap<u32, Plan>,
    /// Which version (its low byte) the maker's announcements named, by operation: of those under way and some before.
    pub(super) named: BTreeMap<u64, u8>,
    pub(super) parts: BTreeMap<u32, Parts>,
    /// What this node reported last, how often, and when it looks again.
    pub(super) notified: (Option<Report>, u64),
    pub(super) check: Time,
    /// Checks in a row at which rails of this node seemed slow.
    pub(super) slow: u32,
    /// What the rails carried between the last checks.
    pub(super) burden: Burden,
    /// What it measures for that.
    pub measured: Measured,
    /// The link that was asked last to learn it.
    pub(super) asked: (Rail, Node),
    // Of the maker only:
    pub(super) reports: Vec<(Report, u64)>,
    /// When the maker last saw what it has made a plan of, or still has to.
    pub(super) seen: (Vec<Report>, Time),
    /// The newest version that all have, and the one that some have.
    pub(super) latest: u32,
    pub(super) proposed: Option<(u32, BTreeSet<Node>)>,
}

impl Agreement {
    pub fn new(nodes: usize) -> Self {
        let healthy = Report { capacity: FULL, ..Report::default() };
        Agreement {
            plans: BTreeMap::from([(0, Plan::default())]),
            named: BTreeMap::new(),
            parts: BTreeMap::new(),
            notified: (None, 0),
            check: Time::ZERO,
            slow: 0,
            burden: Burden::default(),
            measured: Measured::default(),
            asked: (0, 0),
            reports: vec![(healthy, 0); nodes],
            seen: (Vec::new(), Time::ZERO),
            latest: 0,
            proposed: None,
        }
    }

    /// Whether the reports may be made a plan of.
    pub(super) fn is_calm(&mut self, rails: u32, now: Time) -> bool {
        let Agreement { reports, seen, .. } = self;
        if !reports.iter().map(|(report, _)| report).eq(&seen.0) {
            *seen = (reports.iter().map(|(report, _)| *report).collect(), now);
        }
        // What is left is a whole number of rails, if none of them is slow.
        let whole = |r: &Report| (u32::from(r.capacity) * rails + rails) % u32::from(FULL) <= 2 * rails;
        now >= seen.1 + CALM || seen.0.iter().all(whole)
    }

    /// The plan of version 0.
    pub fn begin_with(&mut self, plan: Plan) {
        self.plans.insert(0, Plan { version: 0, ..plan });
    }

    /// The plan that the maker's announcement of an operation named; version 0 where there was none.
    pub(super) fn named(&self, seq: Option<u64>) -> Plan {
        let code = seq.and_then(|seq| self.named.get(&seq)).copied().unwrap_or(0);
        let known = self.plans.values().rev().find(|p| p.version as u8 == code);
        known.cloned().unwrap_or_default()
    }

    /// The newest plan that this node knows.
    pub fn newest(&self) -> &Plan {
        static NONE: std::sync::LazyLock<Plan> = std::sync::LazyLock::new(Plan::default);
        self.plans.values().next_back().unwrap_or(&NONE)
    }

    /// Which plan the maker's announcement of operation `seq` named, as far as it is known.
    pub fn ahead(&self, seq: u64) -> u8 {
        self.named.get(&seq).copied().unwrap_or(0)
    }

    /// A frame that answers for the maker says what that said.
    pub fn learn_by(&mut self, answered: &[Node], header: &Header) {
        if let (Key::Collective { seq }, true) = (header.key, answered.contains(&MAKER)) {
            self.named.insert(seq, header.plan);
        }
    }

    pub(super) fn keep(&mut self, plan: Plan) {
        self.plans.insert(plan.version, plan);
        while self.plans.len() > 2 * VERSIONS {
            self.plans.pop_first();
        }
    }
}
