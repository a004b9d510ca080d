//! Rollouts are begun, paused, taken back and looked at.

use std::{sync::Arc, time::Duration};

use controller_state::{
    CoreError, QosOrder,
    rows::rollout::Active,
    view::rollout::{ports::Cluster, show::lacks},
};
use proto_model::{Inventory, NodeName, QosPort, QosRollout, QosState, Reason, ReasonCode, Timestamp};

use crate::{
    context::Step,
    event::{QosAction, Reply},
    rollout::{
        decide::{Decision, decide},
        nics,
    },
};

/// While a rollout is under way it is looked at this often; each look goes over all NICs, so less often in a large cluster:
/// every 2.3 s with 125,000 servers.
const CHECK: Duration = Duration::from_millis(200);
const CHECK_PER_NODE: Duration = Duration::from_nanos(16_667);

impl Step<'_> {
    /// A profile is to be rolled out.
    pub(crate) fn apply_qos(&mut self, order: QosOrder) -> Result<Reply, CoreError> {
        if let Some(old) = self.state.under_way(&order) {
            return Ok(Reply::Qos { rollout: old, changed: false });
        }
        let rollout = self.state.ordered(order, self.now)?;
        Ok(self.begin_qos(rollout))
    }

    /// A rollout is paused, goes on, or goes back.
    pub(crate) fn control_rollout(
        &mut self,
        action: QosAction,
        reason: String,
        by: String,
    ) -> Result<Reply, CoreError> {
        let old = self.state.base.qos.clone().ok_or(CoreError::NoRollout)?;
        let next = QosRollout {
            generation: old.generation + 1,
            since: self.now,
            by: by.clone(),
            reason: reason.clone(),
            paused: None,
            mixed: !self.state.is_whole(&old),
            ..(*old).clone()
        };
        match action {
            QosAction::Cancel => self.cancel_qos(&old, &reason, &by),
            QosAction::Resume if old.is_cancelled() => Err(CoreError::RolloutCancelled),
            QosAction::Pause if old.paused.is_some() => Ok(Reply::Qos { rollout: old, changed: false }),
            QosAction::Pause => {
                let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                let paused =
                    Reason::new(ReasonCode::QosPaused, format!("{by} paused it{said}")).since(self.now);
                let rollout = Arc::new(QosRollout { paused: Some(paused), ..(*old).clone() });
                self.state.set_qos(Some(Arc::clone(&rollout)));
                self.check_qos();
                Ok(Reply::Qos { rollout, changed: true })
            }
            QosAction::Resume if old.paused.is_none() => Ok(Reply::Qos { rollout: old, changed: false }),
            // Another number: what failed is tried again.
            QosAction::Resume => {
                let reason = if reason.is_empty() { old.reason.clone() } else { reason };
                Ok(self.begin_qos(QosRollout { reason, ..next }))
            }
            QosAction::RollBack => {
                let document = old.before.clone().ok_or(CoreError::NoProfileBefore)?;
                let before = Some(Arc::clone(&old.document));
                Ok(self.begin_qos(QosRollout { document, before, ..next }))
            }
        }
    }

    /// A rollout ends where it is: what is on trial is taken back as by a pause, and nothing is begun any more.
    fn cancel_qos(&mut self, old: &Arc<QosRollout>, reason: &str, by: &str) -> Result<Reply, CoreError> {
        if old.is_cancelled() {
            return Ok(Reply::Qos { rollout: Arc::clone(old), changed: false });
        }
        if self.state.is_whole(old) {
            return Err(CoreError::RolloutDone);
        }
        let said = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        let why = Reason::new(ReasonCode::QosCancelled, format!("{by} cancelled it{said}")).since(self.now);
        let rollout = Arc::new(QosRollout { paused: Some(why), ..(**old).clone() });
        self.state.set_qos(Some(Arc::clone(&rollout)));
        self.check_qos();
        Ok(Reply::Qos { rollout, changed: true })
    }

    fn begin_qos(&mut self, rollout: QosRollout) -> Reply {
        let rollout = Arc::new(rollout);
        let mut run = self.state.base.qos_run.clone();
        run.begins_anew();
        let check = self.state.base.qos_check;
        self.state.set_qos_run(run, check);
        let before = self.state.switch_profile();
        self.state.set_qos(Some(Arc::clone(&rollout)));
        if before != self.state.switch_profile() {
            self.switch_plans_changed();
        }
        self.check_qos();
        Reply::Qos { rollout, changed: true }
    }

    /// Looks at the rollout, if there is one, and tells agents what follows.
    pub(crate) fn check_qos(&mut self) {
        let Some(rollout) = self.state.base.qos.clone() else { return };
        let ports = self.state.qos_ports(&rollout);
        let site = Cluster { state: self.state };
        let Decision { run, pause } =
            decide(&nics::terms(&rollout), &ports, &self.state.base.qos_run, &site, self.now);
        let open = !run.units.is_empty()
            || !run.waits.is_empty()
            || ports.iter().any(|port| port.heard && lacks(port));
        let wakes = rollout.paused.is_none() && pause.is_none() && open || !run.units.is_empty();
        self.state.set_qos_run(run, wakes.then(|| self.next_check()));
        if let Some(pause) = pause.filter(|_| rollout.paused.is_none()) {
            self.state.set_qos(Some(Arc::new(QosRollout { paused: Some(pause), ..(*rollout).clone() })));
        }
        self.refresh_drained();
    }

    /// When what goes over all NICs is looked at again.
    pub(crate) fn next_check(&self) -> Timestamp {
        let nodes = u32::try_from(self.state.base.nodes.len()).unwrap_or(u32::MAX);
        self.now.plus(CHECK + CHECK_PER_NODE * nodes)
    }

    /// A node has told something new, or has come or gone: soon the rollout is looked at again.
    pub(crate) fn qos_changed(&mut self) {
        if self.state.base.qos.is_some() && self.state.base.qos_check.is_none() {
            let run = self.state.base.qos_run.clone();
            self.state.set_qos_run(run, Some(self.next_check()));
        }
    }

    /// A server comes back with NICs on trial: they stay out of use until the rollout is looked at. (This controller may have begun
    /// since.)
    pub(crate) fn adopt_trials(&mut self, name: &NodeName, inventory: &Inventory) {
        let Some(rollout) = self.state.base.qos.clone().filter(|rollout| rollout.paused.is_none()) else {
            return;
        };
        let on_trial =
            |port: &&QosPort| port.generation == rollout.generation && port.state == QosState::Trial;
        let mut run = self.state.base.qos_run.clone();
        for port in inventory.qos.iter().filter(on_trial) {
            if let Some(nic) = inventory.nics.iter().find(|nic| nic.device == port.device) {
                run.units.entry((name.clone(), nic.rail)).or_insert_with(|| Active::on_trial(self.now));
            }
        }
        let check = self.state.base.qos_check;
        self.state.set_qos_run(run, check);
    }
}
