//! NICs as units of a rollout: a canary's rails one by one, then one rail of its pod, the rest of the pod, and pod after pod; of one
//! server never two rails at a time.

use std::collections::BTreeMap;

use controller_state::{
    rows::rollout::{NicKey, Run},
    view::rollout::ports::{Cluster, Port, Stage},
};
use proto_model::{NodeName, QosRollout, QosState, ReasonCode};

use crate::rollout::decide::{Codes, Site, Terms, Unit};

/// What a rollout to NICs goes by.
pub(super) fn terms(rollout: &QosRollout) -> Terms {
    Terms {
        paused: rollout.paused.is_some(),
        confirm_within: rollout.confirm_within,
        soak: rollout.soak,
        at_once: rollout.at_once as usize,
        force: rollout.force,
    }
}

impl Unit for Port {
    type Key = NicKey;
    type Stage = Stage;
    const CODES: Codes =
        Codes { failed: ReasonCode::QosFailed, silent: ReasonCode::QosSilent, unwell: ReasonCode::QosUnwell };

    fn key(&self) -> NicKey {
        (self.node.clone(), self.rail)
    }

    fn stage(&self) -> Stage {
        self.stage
    }

    fn alone(stage: Stage) -> bool {
        matches!(stage, Stage::Canary(_))
    }

    fn heard(&self) -> bool {
        self.heard
    }

    fn state(&self) -> Option<QosState> {
        Self::state(self)
    }

    fn said(&self) -> &str {
        Self::said(self)
    }

    fn done(&self) -> bool {
        self.done
    }

    fn unwell(&self) -> Option<&str> {
        self.unwell.as_deref()
    }

    /// NICs are judged by what their agents say alone.
    fn unread(&self) -> bool {
        false
    }

    fn name(&self) -> String {
        format!("{} of node '{}'", self.device, self.node)
    }

    fn agent(&self) -> (String, String) {
        (format!("node '{}'", self.node), self.device.clone())
    }

    fn scope(&self) -> String {
        format!("node/{}:{}", self.node, self.rail)
    }
}

impl Site<Port> for Cluster<'_> {
    fn user(&self, port: &Port) -> Option<String> {
        self.state.rail_user(&port.node, port.rail)
    }

    fn strands(&self, ports: &[&Port]) -> BTreeMap<NicKey, String> {
        let keys: Vec<NicKey> = ports.iter().map(|port| port.key()).collect();
        let by_node = self.stranded_by(&keys);
        let of = |key: NicKey| by_node.get(&key.0).map(|job| (key, job.clone()));
        keys.into_iter().filter_map(of).collect()
    }

    fn conflicts(&self, port: &Port, run: &Run<NicKey>, _: &[&Port]) -> bool {
        // A stage has one rail of each server; others of it may be under way from before, and so may its leaves be.
        busy(run, &port.node) || !self.state.switch_rails(&port.node).is_empty()
    }
}

/// Whether a rail of the server is out of use for the rollout.
pub(super) fn busy(run: &Run<NicKey>, node: &NodeName) -> bool {
    run.units.range((node.clone(), 0)..=(node.clone(), u32::MAX)).next().is_some()
}
