//! What is known of Kubernetes and Railyard: the last words of both, of each workload by its UID. [pure]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    decide::{Plan, Snapshot},
    hold::Hold,
    names::HoldKey,
    nodes::{Candidates, KubeNode},
    workload::Workload,
};

type Holds = BTreeMap<String, BTreeMap<(HoldKey, String), Hold>>;

/// All that is known.
#[derive(Debug, Default)]
pub struct World {
    workloads: Option<BTreeMap<String, Arc<Workload>>>,
    checks: BTreeSet<String>,
    /// Of all namespaces, the tenants that they name.
    namespaces: Option<BTreeMap<String, Option<String>>>,
    /// By UID, and by name and tenant.
    holds: Option<Holds>,
    nodes: Option<BTreeMap<String, KubeNode>>,
    /// Values of labels, by UID and node.
    labels: BTreeMap<String, BTreeMap<String, String>>,
    candidates: Candidates,
    away_since: Option<u64>,
}

/// What is known of one workload.
#[derive(Debug, Clone)]
pub struct Known {
    uid: String,
    /// It, where Kubernetes has it.
    pub workload: Option<Arc<Workload>>,
    checks: BTreeSet<String>,
    holds: Option<Vec<Hold>>,
    labels: BTreeMap<String, String>,
    candidates: Candidates,
    absent: BTreeSet<String>,
    away_since: Option<u64>,
    /// Whose it is: the tenant that its namespace names, or that of the settings; empty: that of the credentials.
    pub tenant: String,
}

impl Known {
    /// The same for a decision, with what was answered in this pass.
    #[must_use]
    pub fn snapshot<'a>(&'a self, plan: Option<&'a Plan>) -> Snapshot<'a> {
        Snapshot {
            uid: &self.uid,
            workload: self.workload.as_deref(),
            checks: &self.checks,
            tenant: &self.tenant,
            absent: &self.absent,
            holds: self.holds.as_deref(),
            labels: &self.labels,
            candidates: &self.candidates,
            plan,
            away_since: self.away_since,
        }
    }
}

impl World {
    /// What is known of a workload; none while Kubernetes has not said which there are, which nodes, and which namespaces, its own above all. Of those that
    /// name no tenant it is `default`.
    #[must_use]
    pub fn known(&self, uid: &str, default: Option<&str>) -> Option<Known> {
        let workload = self.workloads.as_ref()?.get(uid).cloned();
        let (namespaces, nodes) = (self.namespaces.as_ref()?, self.nodes.as_ref()?);
        let named = match &workload {
            Some(one) => namespaces.get(&one.metadata.namespace)?.as_deref(),
            None => None,
        };
        let holds: Option<Vec<Hold>> = self
            .holds
            .as_ref()
            .map(|all| all.get(uid).into_iter().flat_map(BTreeMap::values).cloned().collect());
        let held = holds.iter().flatten().flat_map(|hold| &hold.nodes);
        Some(Known {
            uid: uid.to_owned(),
            workload,
            checks: self.checks.clone(),
            absent: held.filter(|node| !nodes.contains_key(*node)).cloned().collect(),
            holds,
            labels: self.labels.get(uid).cloned().unwrap_or_default(),
            candidates: self.candidates.clone(),
            away_since: self.away_since,
            tenant: named.or(default).unwrap_or_default().to_owned(),
        })
    }

    /// UIDs of all workloads that there are, that something is held for, or that nodes carry labels of.
    #[must_use]
    pub fn all(&self) -> BTreeSet<String> {
        let workloads = self.workloads.iter().flat_map(BTreeMap::keys);
        let holds =
            self.holds.iter().flatten().filter(|(_, of)| of.values().any(Hold::is_live)).map(|(uid, _)| uid);
        workloads.chain(holds).chain(self.labels.keys()).cloned().collect()
    }

    /// All workloads that there are, in place of what was known.
    pub fn replace_workloads(&mut self, all: BTreeMap<String, Arc<Workload>>) {
        self.workloads = Some(all);
    }

    /// One workload, as it is now.
    pub fn put_workload(&mut self, workload: Arc<Workload>) {
        if let Some(all) = &mut self.workloads {
            all.insert(workload.metadata.uid.clone(), workload);
        }
    }

    /// One workload is no more.
    pub fn remove_workload(&mut self, uid: &str) {
        if let Some(all) = &mut self.workloads {
            all.remove(uid);
        }
    }

    /// The admission checks that are ours. True if they were others before.
    pub fn set_checks(&mut self, checks: BTreeSet<String>) -> bool {
        let differs = self.checks != checks;
        self.checks = checks;
        differs
    }

    /// All namespaces with the tenants that they name, in place of what was known.
    pub fn replace_namespaces(&mut self, all: BTreeMap<String, Option<String>>) {
        self.namespaces = Some(all);
    }

    /// One namespace, as it is now. Gives the UIDs of its workloads, if it was another one before or is new.
    pub fn put_namespace(&mut self, name: &str, tenant: Option<String>) -> BTreeSet<String> {
        let Some(all) = &mut self.namespaces else { return BTreeSet::new() };
        if all.get(name) == Some(&tenant) {
            return BTreeSet::new();
        }
        all.insert(name.to_owned(), tenant);
        let workloads = self.workloads.iter().flatten();
        workloads.filter(|(_, one)| one.metadata.namespace == name).map(|(uid, _)| uid.clone()).collect()
    }

    /// One namespace is no more.
    pub fn remove_namespace(&mut self, name: &str) {
        if let Some(all) = &mut self.namespaces {
            all.remove(name);
        }
    }

    /// All holds at a revision of Railyard's store, in place of what was known. A hold that was made since stays.
    pub fn replace_holds(&mut self, all: Vec<Hold>, revision: u64) {
        let before = self.holds.take().unwrap_or_default();
        self.holds = Some(BTreeMap::new());
        all.into_iter().for_each(|hold| self.put_hold_over(hold, &before));
        let later = before.values().flat_map(BTreeMap::values).filter(|hold| hold.version > revision);
        later.for_each(|hold| self.put_hold(hold.clone()));
    }

    fn put_hold_over(&mut self, hold: Hold, before: &Holds) {
        let known = before.get(&hold.key.uid).and_then(|of| of.get(&hold.id()));
        let since = known.map_or(hold.since, |known| known.since.min(hold.since));
        let newer = known.filter(|known| known.version > hold.version).cloned();
        self.put_hold(newer.unwrap_or(Hold { since, ..hold }));
    }

    /// A hold as it is now; what is older than what is known changes nothing.
    pub fn put_hold(&mut self, hold: Hold) {
        let Some(all) = &mut self.holds else { return };
        let of = all.entry(hold.key.uid.clone()).or_default();
        match of.get(&hold.id()) {
            Some(known) if known.version > hold.version => {}
            Some(known) => {
                let since = known.since.min(hold.since);
                of.insert(hold.id(), Hold { since, ..hold });
            }
            None => {
                of.insert(hold.id(), hold);
            }
        }
    }

    /// A hold is no more.
    pub fn remove_hold(&mut self, key: &HoldKey, tenant: &str) {
        if let Some(all) = &mut self.holds
            && let Some(of) = all.get_mut(&key.uid)
        {
            of.remove(&(key.clone(), tenant.to_owned()));
            if of.is_empty() {
                all.remove(&key.uid);
            }
        }
    }

    /// All nodes, in place of what was known.
    pub fn replace_nodes(&mut self, all: Vec<KubeNode>) {
        let before = self.nodes.take().unwrap_or_default();
        self.nodes = Some(BTreeMap::new());
        self.labels.clear();
        for node in all {
            let newer = before.get(&node.name).filter(|known| known.version > node.version).cloned();
            self.put_node(newer.unwrap_or(node));
        }
        self.count();
    }

    /// A node as it is now. Gives the UIDs of workloads whose labels are others than were known; what is older than what is known changes nothing.
    pub fn put_node(&mut self, node: KubeNode) -> BTreeSet<String> {
        let Some(all) = &mut self.nodes else { return BTreeSet::new() };
        let known = all.get(&node.name);
        if known.is_some_and(|known| known.version > node.version) {
            return BTreeSet::new();
        }
        let before = known.map(|known| known.labels.clone()).unwrap_or_default();
        let counts = known.is_none_or(|known| (known.is_ours, known.is_open) != (node.is_ours, node.is_open));
        let uids: BTreeSet<String> = before.keys().chain(node.labels.keys()).cloned().collect();
        let changed: BTreeSet<String> =
            uids.into_iter().filter(|uid| before.get(uid) != node.labels.get(uid)).collect();
        for uid in &changed {
            let of = self.labels.entry(uid.clone()).or_default();
            match node.labels.get(uid) {
                Some(value) => of.insert(node.name.clone(), value.clone()),
                None => of.remove(&node.name),
            };
            if of.is_empty() {
                self.labels.remove(uid);
            }
        }
        all.insert(node.name.clone(), node);
        if counts {
            self.count();
        }
        changed
    }

    /// A node is no more.
    pub fn remove_node(&mut self, name: &str) {
        let Some(gone) = self.nodes.as_mut().and_then(|all| all.remove(name)) else { return };
        for uid in gone.labels.keys() {
            if let Some(of) = self.labels.get_mut(uid) {
                of.remove(name);
                if of.is_empty() {
                    self.labels.remove(uid);
                }
            }
        }
        self.count();
    }

    fn count(&mut self) {
        self.candidates = Candidates::of(self.nodes.iter().flat_map(BTreeMap::values));
    }

    /// Nobody answers, since this time at the latest. True if that is new.
    pub fn away(&mut self, now: u64) -> bool {
        let is_new = self.away_since.is_none();
        self.away_since.get_or_insert(now);
        is_new
    }

    /// Somebody answers. True if nobody did before.
    pub fn answers(&mut self) -> bool {
        self.away_since.take().is_some()
    }

    /// Whether somebody has said what is held.
    #[must_use]
    pub fn holds_are_known(&self) -> bool {
        self.holds.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::Stage;

    fn hold(uid: &str, version: u64, stage: Stage) -> Hold {
        let key = HoldKey { uid: uid.into(), reserved: 1 };
        Hold {
            key,
            tenant: String::new(),
            stage,
            nodes: Vec::new(),
            causes: String::new(),
            since: version,
            version,
        }
    }

    fn node(name: &str, version: u64, labels: &[(&str, &str)]) -> KubeNode {
        let labels = labels.iter().map(|(uid, value)| ((*uid).to_owned(), (*value).to_owned())).collect();
        KubeNode { name: name.into(), version, is_ours: true, is_open: true, labels }
    }

    #[test]
    fn a_late_word_changes_nothing_and_a_new_list_forgets_what_is_gone() {
        let mut world = World::default();
        world.put_hold(hold("a", 5, Stage::Runs));
        assert!(!world.holds_are_known());
        world.replace_holds(vec![hold("a", 5, Stage::Runs), hold("b", 6, Stage::Waiting)], 6);
        world.put_hold(hold("a", 4, Stage::Waiting));
        world.put_hold(hold("c", 9, Stage::Runs));
        // The list is of a time before c was made.
        world.replace_holds(vec![hold("a", 7, Stage::Over)], 8);
        let of =
            |uid: &str| world.holds.as_ref().unwrap().get(uid).map(|of| of.values().next().unwrap().stage);
        assert_eq!((of("a"), of("b"), of("c")), (Some(Stage::Over), None, Some(Stage::Runs)));
        assert_eq!(world.holds.as_ref().unwrap()["a"].values().next().unwrap().since, 5);
        assert_eq!(world.all(), ["c".to_owned()].into());
    }

    #[test]
    fn nothing_is_known_of_a_workload_before_all_is() {
        let mut world = World::default();
        world.replace_workloads(BTreeMap::new());
        world.replace_namespaces(BTreeMap::new());
        assert!(world.known("a", None).is_none());
        world.replace_nodes(vec![node("n", 3, &[("a", "x")])]);
        assert!(world.known("a", None).is_some_and(|known| known.holds.is_none() && known.labels.len() == 1));
        // What is late changes nothing.
        assert!(world.put_node(node("n", 2, &[])).is_empty());
        assert_eq!(world.all(), ["a".to_owned()].into());
        assert_eq!(world.put_node(node("n", 4, &[("b", "x")])), ["a".to_owned(), "b".into()].into());
        assert_eq!((world.candidates.open, world.all()), (1, ["b".to_owned()].into()));
        world.remove_node("n");
        assert!(world.all().is_empty() && world.candidates.open == 0);
    }

    #[test]
    fn a_workload_waits_for_the_word_of_its_namespace() {
        let mut world = World::default();
        let mut workload = Workload::default();
        (workload.metadata.uid, workload.metadata.namespace) = ("a".into(), "new".into());
        world.replace_workloads([("a".to_owned(), Arc::new(workload))].into());
        world.replace_namespaces([("old".to_owned(), None)].into());
        world.replace_nodes(Vec::new());
        assert!(world.known("a", Some("platform")).is_none());
        assert!(world.put_namespace("other", None).is_empty());
        assert_eq!(world.put_namespace("new", Some("research".into())), ["a".to_owned()].into());
        assert!(world.put_namespace("new", Some("research".into())).is_empty());
        assert_eq!(world.known("a", Some("platform")).unwrap().tenant, "research");
        assert_eq!(world.put_namespace("new", None), ["a".to_owned()].into());
        assert_eq!(world.known("a", Some("platform")).unwrap().tenant, "platform");
        assert_eq!(world.known("a", None).unwrap().tenant, "");
        world.remove_namespace("new");
        assert!(world.known("a", None).is_none());
    }

    #[test]
    fn holds_of_one_name_are_each_its_tenants_and_servers_without_a_node_are_named() {
        let mut world = World::default();
        world.replace_workloads(BTreeMap::new());
        world.replace_namespaces(BTreeMap::new());
        world.replace_nodes(vec![node("n", 1, &[])]);
        let of =
            |tenant: &str, version: u64| Hold { tenant: tenant.into(), ..hold("a", version, Stage::Runs) };
        let nodes = vec!["n".to_owned(), "m".into()];
        world.replace_holds(vec![Hold { nodes, ..of("a", 5) }, of("b", 6)], 6);
        let known = world.known("a", None).unwrap();
        assert_eq!((known.holds.unwrap().len(), known.absent), (2, ["m".to_owned()].into()));
        world.remove_hold(&of("b", 6).key, "b");
        let rest = world.known("a", None).unwrap().holds.unwrap();
        assert_eq!(rest.iter().map(|hold| hold.tenant.as_str()).collect::<Vec<_>>(), ["a"]);
    }

    #[test]
    fn the_first_time_that_nobody_answers_counts() {
        let mut world = World::default();
        assert!(world.away(3) && !world.away(9));
        assert_eq!(world.away_since, Some(3));
        assert!(world.answers() && !world.answers());
    }
}
