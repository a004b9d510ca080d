//! A workload that has quota, with those of its checks that are ours and what its pods were told. [pure]

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    hold::{Hold, Stage},
    names::{HOLD, HoldKey, NODES, node_label},
    workload::{CheckState, Workload},
};

/// A workload that has quota, or had it until its pods are gone.
pub(crate) struct Present<'a> {
    pub(crate) workload: &'a Workload,
    /// Of its reservation.
    pub(crate) key: HoldKey,
    /// Our checks, by name; none where its ClusterQueue has none of ours (any more).
    pub(crate) checks: Vec<&'a CheckState>,
}

impl<'a> Present<'a> {
    /// The workload of this UID, if it has quota.
    pub(crate) fn of(uid: &str, workload: Option<&'a Workload>, ours: &BTreeSet<String>) -> Option<Self> {
        let workload = workload.filter(|one| one.metadata.uid == uid && one.is_present())?;
        let key = HoldKey { uid: uid.to_owned(), reserved: workload.reserved()? };
        let all = workload.status.admission_checks.iter();
        let mut checks: Vec<&CheckState> = all.filter(|check| ours.contains(&check.name)).collect();
        checks.sort_by(|a, b| a.name.cmp(&b.name));
        Some(Self { workload, key, checks })
    }

    fn is_refused(&self) -> bool {
        self.checks.iter().any(|check| matches!(check.state.as_str(), "Retry" | "Rejected"))
    }

    /// It has been said that it cannot run before it ran, and Kueue is about to take its quota back. One that was admitted may have pods until that is done.
    pub(crate) fn is_given_up(&self) -> bool {
        self.is_refused() && !self.workload.is("Admitted")
    }

    /// Why it is about to lose its quota, as soon as its pods are gone.
    pub(crate) fn ending(&self) -> Option<&'static str> {
        if self.workload.is("Evicted") || self.workload.spec.active == Some(false) {
            return Some("it is evicted, and its pods may still be there");
        }
        if self.workload.metadata.deletion_timestamp.is_some() {
            return Some("it is being deleted, and its pods may still be there");
        }
        self.is_refused().then_some("Kueue takes its quota back, and its pods may still be there")
    }

    /// All of our checks say that it may run.
    pub(crate) fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.state == "Ready")
    }

    /// How often it was tried again.
    pub(crate) fn retries(&self) -> u32 {
        self.checks.iter().filter_map(|check| check.retry_count).max().unwrap_or_default()
    }

    /// Whether all of our checks say this already.
    pub(crate) fn says(&self, message: &str) -> bool {
        self.checks.iter().all(|check| check.message == message)
    }

    /// What its pods were told of the allocation of this name; nothing where they run without it.
    pub(crate) fn said(&self, name: &str) -> Option<Said> {
        let updates = self.checks.iter().flat_map(|check| &check.pod_set_updates);
        let label = node_label(&self.key.uid);
        let mut said: Option<Said> = None;
        for update in updates.filter(|update| update.annotations.get(HOLD).is_some_and(|of| of == name)) {
            let said = said.get_or_insert_default();
            let Some(nodes) = update.annotations.get(NODES) else {
                said.is_short = true;
                continue;
            };
            let nodes: BTreeSet<String> =
                nodes.split(',').filter(|node| !node.is_empty()).map(str::to_owned).collect();
            if let Some(value) = update.node_selector.get(&label) {
                said.labels.extend(nodes.iter().map(|node| (node.clone(), value.clone())));
            }
            said.nodes.extend(nodes);
        }
        said
    }
}

/// What pods were told of an allocation. It stays so however the workload changes from then on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    nodes: BTreeSet<String>,
    /// Of its servers, the label that pods ask for.
    pub(crate) labels: BTreeMap<String, String>,
    /// The list of servers was too long to tell.
    pub(crate) is_short: bool,
}

impl Said {
    /// Why this allocation is not any more what pods were told; nothing while it is.
    pub(crate) fn lost(&self, hold: Option<&Hold>) -> Option<String> {
        let Some(hold) = hold else { return Some("it is not there any more".to_owned()) };
        match hold.stage {
            Stage::Waiting => Some(format!("it waits for servers again: {}", hold.causes)),
            Stage::Ending | Stage::Over => Some(hold.causes.clone()),
            Stage::Preparing | Stage::Runs => {
                let held: BTreeSet<&String> = hold.nodes.iter().collect();
                let differs = !self.is_short && !held.into_iter().eq(&self.nodes);
                differs.then(|| format!("it holds {} now", list(&hold.nodes)))
            }
        }
    }
}

/// Names of servers, for people.
pub(crate) fn list(nodes: &[String]) -> String {
    const SHOWN: usize = 16;
    let shown = nodes.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(",");
    match nodes.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
