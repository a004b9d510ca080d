//! A cluster for tests: Kueue's workloads, Railyard's allocations and nodes' labels, and what each does with a step.

use std::collections::{BTreeMap, BTreeSet};

use controller_kubernetes_kueue::{
    Policy,
    check::{Report, State},
    decide::{Decision, Plan, Snapshot, Step, decide},
    hold::{Hold, Stage},
    names::HoldKey,
    nodes::Candidates,
    workload::{Admission, CheckState, Condition, PodSet, Workload},
};
use proto_wire::v1;
use serde_json::json;

/// Name of the check that is ours.
pub const CHECK: &str = "railyard";
/// Servers of the cluster.
pub const NODES: usize = 8;

/// All of it.
pub struct Cluster {
    pub now: u64,
    pub workloads: BTreeMap<String, Workload>,
    pub holds: BTreeMap<HoldKey, Hold>,
    /// By node and UID.
    pub labels: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether Railyard has said what is held.
    pub known: bool,
    pub away_since: Option<u64>,
    pub policy: Policy,
    /// Whose the workloads are.
    pub tenant: String,
    /// Servers that Kubernetes has no node of.
    pub absent: BTreeSet<String>,
    pub checks: BTreeSet<String>,
    pub candidates: Candidates,
}

/// A UID of a number.
pub fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// A workload of so many pods with a server each, without quota.
pub fn workload(uid: &str, pods: u32) -> Workload {
    let set = json!({"name": "main", "count": pods, "template": {"spec": {"containers": [
        {"resources": {"requests": {"nvidia.com/gpu": "8"}}}]}}});
    let mut workload = Workload::default();
    workload.metadata.uid = uid.to_owned();
    workload.metadata.name = format!("w-{}", &uid[30..]);
    workload.metadata.namespace = "ml".to_owned();
    workload.spec.pod_sets = vec![serde_json::from_value::<PodSet>(set).unwrap()];
    workload
}

/// Gives it quota at this time.
pub fn reserve(workload: &mut Workload, now: u64) {
    set(workload, "QuotaReserved", true, now);
    set(workload, "Evicted", false, now);
    workload.status.admission = Some(Admission { cluster_queue: "cq".to_owned(), ..Admission::default() });
    let retry_count = workload.status.admission_checks.first().and_then(|check| check.retry_count);
    let check = CheckState {
        name: CHECK.to_owned(),
        state: "Pending".to_owned(),
        retry_count,
        ..CheckState::default()
    };
    workload.status.admission_checks = vec![check];
}

/// Takes its quota back, and its check is as before.
pub fn unreserve(workload: &mut Workload, now: u64) {
    set(workload, "QuotaReserved", false, now);
    set(workload, "Admitted", false, now);
    workload.status.admission = None;
    if let Some(check) = workload.status.admission_checks.first_mut() {
        if check.state == "Retry" {
            check.retry_count = Some(check.retry_count.unwrap_or(0) + 1);
        }
        "Pending".clone_into(&mut check.state);
        // As with server-side apply: what the check has added is not Kueue's to take away.
    }
}

/// Sets a condition.
pub fn set(workload: &mut Workload, kind: &str, is: bool, now: u64) {
    let status = if is { "True" } else { "False" }.to_owned();
    let last_transition_time = controller_kubernetes_kueue::check::time(now);
    workload.status.conditions.retain(|one| one.kind != kind);
    workload.status.conditions.push(Condition { kind: kind.to_owned(), status, last_transition_time });
}

impl Cluster {
    pub fn new() -> Self {
        Self {
            now: 1_800_000_000,
            workloads: BTreeMap::new(),
            holds: BTreeMap::new(),
            labels: BTreeMap::new(),
            known: true,
            away_since: None,
            policy: Policy::default(),
            tenant: "t".to_owned(),
            absent: BTreeSet::new(),
            checks: [CHECK.to_owned()].into(),
            candidates: Candidates { list: format!("n[0-{}]", NODES - 1), open: NODES, closed: 0 },
        }
    }

    /// Servers that nobody holds.
    pub fn free(&self) -> Vec<String> {
        let used: BTreeSet<&String> = self
            .holds
            .values()
            .filter(|hold| hold.stage != Stage::Over)
            .flat_map(|hold| &hold.nodes)
            .collect();
        (0..NODES).map(|at| format!("n{at}")).filter(|node| !used.contains(node)).collect()
    }

    /// Nodes with the label of a workload.
    pub fn labelled(&self, uid: &str) -> BTreeMap<String, String> {
        let of = |(node, labels): (&String, &BTreeMap<String, String>)| {
            Some((node.clone(), labels.get(uid)?.clone()))
        };
        self.labels.iter().filter_map(of).collect()
    }

    pub fn holds_of(&self, uid: &str) -> Vec<Hold> {
        self.holds.values().filter(|hold| hold.key.uid == uid).cloned().collect()
    }

    /// What is to be done for a workload, by what is known of it.
    pub fn decide(&self, uid: &str, plan: Option<&Plan>) -> Decision {
        let holds = self.holds_of(uid);
        let snapshot = Snapshot {
            uid,
            workload: self.workloads.get(uid),
            checks: &self.checks,
            tenant: &self.tenant,
            absent: &self.absent,
            holds: self.known.then_some(&holds[..]),
            labels: &self.labelled(uid),
            candidates: &self.candidates,
            plan,
            away_since: self.away_since,
        };
        decide(&snapshot, &self.policy, self.now)
    }

    /// Does a step. Gives what was answered to a plan; an error where nobody answers.
    pub fn apply(&mut self, uid: &str, step: Step) -> Result<Option<Plan>, ()> {
        let is_rail = matches!(step, Step::Plan(_) | Step::Create { .. } | Step::Release { .. });
        if is_rail && self.away_since.is_some() {
            return Err(());
        }
        match step {
            Step::Wait(_) => {}
            Step::Plan(job) => return Ok(Some(self.plan(&job))),
            Step::Create { key, job } => self.create(key, &job),
            Step::Release { key, .. } => {
                if let Some(hold) = self.holds.get_mut(&key).filter(|hold| hold.is_live()) {
                    hold.stage = Stage::Ending;
                    hold.version += 1;
                }
            }
            Step::Label(nodes) => {
                for (node, value) in nodes {
                    self.labels.entry(node).or_default().insert(uid.to_owned(), value);
                }
            }
            Step::Unlabel(nodes) => {
                for node in nodes {
                    self.labels.entry(node).or_default().remove(uid);
                }
            }
            Step::Report(report) => self.report(uid, &report),
        }
        Ok(None)
    }

    fn plan(&self, job: &v1::Job) -> Plan {
        let nodes = nodes_of(job);
        if nodes > NODES {
            Plan::Infeasible { causes: format!("{nodes} servers are more than there are") }
        } else if self.free().len() < nodes {
            Plan::Waits { causes: "others hold them".to_owned(), start: None }
        } else {
            Plan::Fits
        }
    }

    fn create(&mut self, key: HoldKey, job: &v1::Job) {
        let others: Vec<_> = self
            .holds_of(&key.uid)
            .into_iter()
            .filter(|hold| hold.key != key && hold.stage != Stage::Over)
            .collect();
        assert!(others.is_empty(), "a second allocation for {key:?}: {others:?}");
        let hold = Hold {
            key: key.clone(),
            tenant: "t".to_owned(),
            stage: Stage::Waiting,
            nodes: Vec::new(),
            causes: nodes_of(job).to_string(),
            since: self.now,
            version: 1,
        };
        // Its name is that of the request: once.
        self.holds.entry(key).or_insert(hold);
    }

    fn report(&mut self, uid: &str, report: &Report) {
        let Some(workload) = self.workloads.get_mut(uid) else { return };
        let patch = report.patch();
        let entry = patch["status"]["admissionChecks"][0].clone();
        let mut written: CheckState = serde_json::from_value(entry).unwrap();
        let check = workload.status.admission_checks.first_mut().unwrap();
        assert_ne!(
            (&check.state, &check.message),
            (&written.state, &written.message),
            "the same is written again"
        );
        written.retry_count = check.retry_count;
        if (&written.state, &check.state) == (&"Ready".to_owned(), &"Ready".to_owned()) {
            assert_eq!(written.pod_set_updates, check.pod_set_updates, "Kueue refuses that");
        }
        *check = written;
        if report.state == State::Ready {
            // What a second allocation would be held for is not there any more.
            assert!(workload.is_present());
            set(workload, "Admitted", true, self.now);
        }
    }

    /// A hold goes on: it gets servers, prepares them, runs, or ends.
    pub fn progress(&mut self, key: &HoldKey) {
        let free = self.free();
        let Some(hold) = self.holds.get_mut(key) else { return };
        let wanted: usize = hold.causes.parse().unwrap_or(1);
        hold.version += 1;
        match hold.stage {
            Stage::Waiting if free.len() >= wanted => {
                (hold.stage, hold.nodes) = (Stage::Preparing, free.into_iter().take(wanted).collect());
            }
            Stage::Preparing => hold.stage = Stage::Runs,
            Stage::Ending => (hold.stage, hold.nodes) = (Stage::Over, Vec::new()),
            Stage::Waiting | Stage::Runs | Stage::Over => {}
        }
    }

    /// An allocation goes back to the queue: somebody else goes first, or a server has failed.
    pub fn requeue(&mut self, key: &HoldKey) {
        if let Some(hold) = self.holds.get_mut(key).filter(|hold| hold.is_live()) {
            hold.version += 1;
            (hold.stage, hold.nodes) = (Stage::Waiting, Vec::new());
        }
    }

    /// Kueue does what a check's state asks of it.
    pub fn kueue(&mut self, uid: &str) {
        let now = self.now;
        let Some(workload) = self.workloads.get_mut(uid) else { return };
        match workload.status.admission_checks.first().map(|check| check.state.as_str()) {
            Some("Retry") if workload.is("Admitted") => {
                // Its pods are ended first.
                set(workload, "Evicted", true, now);
                let check = &mut workload.status.admission_checks[0];
                "Pending".clone_into(&mut check.state);
                check.retry_count = Some(check.retry_count.unwrap_or(0) + 1);
            }
            Some("Retry") => {
                set(workload, "Evicted", true, now);
                unreserve(workload, now);
            }
            Some("Rejected") => {
                workload.spec.active = Some(false);
                unreserve(workload, now);
            }
            _ => {}
        }
    }
}

fn nodes_of(job: &v1::Job) -> usize {
    let nodes = job.spec.as_ref().and_then(|spec| spec.gang.as_ref()).map_or(0, |gang| gang.nodes);
    usize::try_from(nodes).unwrap()
}
