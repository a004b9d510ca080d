//! Hardware that only one node can have: rail addresses, GIDs, GPUs.
//!
//! The rule: a thing belongs to the node that reported it first, until that node reports without it or is deleted. While that node
//! is not heard, another one that comes with it has it provisionally, for hardware may have moved; if the first one comes back with
//! it, it is the first one's. Who reports what another node has is quarantined, and no longer for that once the other one reports
//! without it: two nodes whose addresses are exchanged need nobody's help. A quarantined node holds nothing.

use std::{collections::BTreeSet, sync::Arc};

use proto_model::{Claim, Health, Inventory, Node, NodeName, Reason, ReasonCode};

use crate::{context::Step, node::claims::untruth::Untruth};

impl Step<'_> {
    /// A node reports its hardware: whose is what. Called before its record says so. Answers what it has provisionally, and, of what it
    /// may not have, the evidence; of others, what they had provisionally and have no more.
    fn claim(&self, name: &NodeName, known: &Node, reported: &Inventory) -> Claimed {
        let before = known.inventory.claims();
        let mut claimed = Claimed::default();
        for claim in reported.claims() {
            let others = self.state.others(name, &claim);
            if others.is_empty() {
                continue;
            }
            let first = before.binary_search(&claim).is_ok() && !known.provisional.contains(&claim);
            if first && !known.is_quarantined() {
                // Who came with it meanwhile had it provisionally.
                for other in others {
                    let untruth = Untruth::Hardware { claim: claim.clone(), holder: name.clone() };
                    claimed.refuted.push((other.name.clone(), untruth));
                }
                continue;
            }
            let heard = |node: &&&Arc<Node>| node.health == Health::Ready;
            // Of several that report it, the one that is not there provisionally has it.
            let holds = |node: &&&Arc<Node>| !node.provisional.contains(&claim);
            let present = others.iter().filter(heard);
            match present.clone().find(holds).or_else(|| present.clone().next()) {
                Some(holder) => {
                    claimed.untruths.push(Untruth::Hardware { claim, holder: holder.name.clone() });
                }
                None => drop(claimed.provisional.insert(claim)),
            }
        }
        claimed
    }

    /// Takes a node's report of its hardware into its record, and draws the conclusions: see the rule above.
    pub(crate) fn take_hardware(&mut self, name: &NodeName, wanted: Node) {
        let Some(known) = self.state.base.nodes.get(name).cloned() else { return };
        let claimed = if Arc::ptr_eq(&known.inventory, &wanted.inventory) && !known.is_quarantined() {
            // What was judged before; who came meanwhile was judged then.
            match known.health {
                Health::Ready => Claimed { provisional: known.provisional.clone(), ..Claimed::default() },
                Health::NotReady => self.claim(name, &known, &wanted.inventory),
            }
        } else {
            self.claim(name, &known, &wanted.inventory)
        };
        let wanted = Node { provisional: claimed.provisional, ..wanted };
        if wanted != *known {
            self.state.put(Arc::new(wanted));
        }
        for untruth in &claimed.untruths {
            self.quarantine(name, untruth);
        }
        for (other, untruth) in &claimed.refuted {
            self.quarantine(other, untruth);
        }
        self.release_claims(name, &known);
    }

    /// What a node had and reports no more is whose it was provisionally.
    pub(crate) fn release_claims(&mut self, name: &NodeName, before: &Node) {
        let now = self.state.base.nodes.get(name).map(|node| node.inventory.claims()).unwrap_or_default();
        for claim in before.inventory.claims() {
            if now.binary_search(&claim).is_ok() {
                continue;
            }
            let others: Vec<Arc<Node>> = self.state.others(name, &claim).into_iter().cloned().collect();
            // Who is quarantined had nothing to give up.
            if others.is_empty() && !before.is_quarantined() {
                self.acquit(name, &claim);
                continue;
            }
            let [only] = others.as_slice() else { continue };
            if only.provisional.contains(&claim) {
                let mut node = (**only).clone();
                node.provisional.remove(&claim);
                self.state.put(Arc::new(node));
            }
        }
    }

    /// Who had the thing has it no more: who was quarantined for reporting it was early, no more than that. Of several nobody is.
    fn acquit(&mut self, holder: &NodeName, claim: &Claim) {
        let nodes = self.state.index.claims.nodes(claim.digest()).filter(|other| *other != holder);
        let nodes = nodes.filter_map(|other| self.state.base.nodes.get(other));
        let about = claim.to_string();
        let of_it =
            |evidence: &Reason| evidence.code == ReasonCode::HardwareClaimed && evidence.scope == about;
        let accused: Vec<Arc<Node>> =
            nodes.filter(|node| node.quarantine.iter().any(of_it)).cloned().collect();
        let [only] = accused.as_slice() else { return };
        let mut wanted = (**only).clone();
        wanted.quarantine.retain(|evidence| !of_it(evidence));
        if !wanted.is_quarantined() {
            wanted.quarantined = wanted.quarantined.filter(|reason| reason.code != ReasonCode::Quarantined);
        }
        self.state.put(Arc::new(wanted));
        self.request_scheduling_pass();
    }

    /// What a node that an administrator takes back still reports of others' hardware.
    pub(crate) fn claims_again(&mut self, name: &NodeName) {
        let Some(node) = self.state.base.nodes.get(name).cloned() else { return };
        // Whatever it had, others may have got meanwhile.
        let none = Node { inventory: Arc::default(), ..(*node).clone() };
        let claimed = self.claim(name, &none, &node.inventory);
        if claimed.provisional != node.provisional {
            let node = Node { provisional: claimed.provisional, ..(*node).clone() };
            self.state.put(Arc::new(node));
        }
        for untruth in &claimed.untruths {
            self.quarantine(name, untruth);
        }
    }
}

/// What comes of a report of hardware.
#[derive(Debug, Default)]
struct Claimed {
    provisional: BTreeSet<Claim>,
    untruths: Vec<Untruth>,
    refuted: Vec<(NodeName, Untruth)>,
}
