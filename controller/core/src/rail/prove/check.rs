//! Looks at rails that are out of use, and tells agents what follows.

use std::collections::BTreeSet;

use proto_model::NodeName;

use crate::{
    context::Step,
    rail::prove::decide::{Decision, decide},
};

impl Step<'_> {
    /// Looks at all rails that are out of use, and tells agents what follows.
    pub(crate) fn check_proofs(&mut self) {
        let ports = self.state.proof_ports();
        let Decision { proving, check } = decide(&ports, &self.state.base.proving, self.now, self.rng);
        let before = self.state.base.proving.pairs.iter();
        let ends =
            before.chain(&proving.pairs).flat_map(|(port, pair)| [port.0.clone(), pair.partner.clone()]);
        let concerned: BTreeSet<NodeName> = ends.collect();
        self.state.set_proving(proving, check);
        for name in concerned {
            self.report_drained(&name);
        }
    }

    /// A node has told something new, or has come: soon its rails that are out of use are looked at.
    pub(crate) fn proofs_changed(&mut self, name: &NodeName) {
        let topology = self.state.index.snapshot.topology();
        let server = topology.index(name).and_then(|ix| topology.server(ix));
        let proving = &self.state.base.proving;
        let concerned = server.is_some_and(|server| !server.unfit.is_empty())
            || proving.trials.range((name.clone(), 0)..=(name.clone(), u32::MAX)).next().is_some();
        let soon = self.next_check();
        if concerned && self.state.base.prove_check.is_none_or(|check| check > soon) {
            let proving = proving.clone();
            self.state.set_proving(proving, Some(soon));
        }
    }
}
