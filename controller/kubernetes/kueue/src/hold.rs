//! The allocation that holds a workload's servers: what is asked for, and how it stands. [pure]

use std::collections::{BTreeMap, BTreeSet};

use proto_model::Names;
use proto_wire::v1::{self, job_spec::Work, job_status::Phase};

use crate::{
    names::{HoldKey, QUEUE_LABEL, UID_LABEL, WORKLOAD_LABEL},
    nodes::Candidates,
    options::WorkloadOptions,
    settings::Policy,
    shape::{Part, Shape},
    workload::Workload,
};

/// Bytes of causes that are shown.
const CAUSES: usize = 1000;

/// How an allocation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It waits in Railyard's queue, and holds nothing.
    Waiting,
    /// Its servers are held and prepare.
    Preparing,
    /// Its servers are held, and listen on every rail.
    Runs,
    /// It is being ended; its servers may not be free yet.
    Ending,
    /// It has ended, and holds nothing.
    Over,
}

/// An allocation that is held for a workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// For whom.
    pub key: HoldKey,
    /// Whose it is.
    pub tenant: String,
    /// How it stands.
    pub stage: Stage,
    /// Its servers, in rank order.
    pub nodes: Vec<String>,
    /// Causes of how it stands, for people.
    pub causes: String,
    /// When it was first seen here, in seconds since 1970 by our own clock.
    pub since: u64,
    /// That of a later state is greater.
    pub version: u64,
}

impl Hold {
    /// The hold that this job is, seen now; none where the job is another door's or a person's.
    #[must_use]
    pub fn of(prefix: &str, job: &v1::Job, now: u64) -> Option<Self> {
        let metadata = job.metadata.as_ref()?;
        let key = HoldKey::of(prefix, &metadata.name)?;
        if metadata.labels.get(UID_LABEL) != Some(&key.uid) {
            return None;
        }
        let status = job.status.clone().unwrap_or_default();
        Some(Self {
            key,
            tenant: metadata.tenant.clone(),
            stage: stage(&status),
            nodes: status.placement.as_ref().map(nodes_of).unwrap_or_default(),
            causes: causes(&status.reasons),
            since: now,
            version: metadata.resource_version,
        })
    }

    /// What it is known by: names are a tenant's own.
    #[must_use]
    pub fn id(&self) -> (HoldKey, String) {
        (self.key.clone(), self.tenant.clone())
    }

    /// Whether it holds servers, or will, until somebody ends it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.stage < Stage::Ending
    }
}

fn stage(status: &v1::JobStatus) -> Stage {
    match status.phase() {
        Phase::Unspecified | Phase::Completed | Phase::Failed | Phase::Cancelled => Stage::Over,
        _ if status.cancel_requested => Stage::Ending,
        Phase::Pending | Phase::Recovering => Stage::Waiting,
        Phase::Reserved | Phase::Preparing => Stage::Preparing,
        Phase::Running if status.start_time.is_none() => Stage::Preparing,
        Phase::Running => Stage::Runs,
    }
}

/// Servers of a placement, in rank order.
#[must_use]
pub fn nodes_of(placement: &v1::Placement) -> Vec<String> {
    let mut ranks: Vec<&v1::RankPlace> = placement.ranks.iter().collect();
    ranks.sort_by_key(|place| place.rank);
    let by_rank = ranks.into_iter().map(|place| &place.node);
    let mut seen = BTreeSet::new();
    let all = by_rank.chain(placement.nodes.iter().map(|place| &place.node));
    all.filter(|node| seen.insert((*node).clone())).cloned().collect()
}

/// Causes in one line.
#[must_use]
pub fn causes(reasons: &[v1::Reason]) -> String {
    let mut text = String::new();
    for reason in reasons {
        let next = if reason.message.is_empty() { &reason.code } else { &reason.message };
        if text.len() + next.len() + 2 > CAUSES {
            text.push_str("; and more");
            break;
        }
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(next);
    }
    text
}

/// The job that holds what a workload needs; none where it needs nothing.
#[must_use]
pub fn job(
    workload: &Workload,
    key: &HoldKey,
    shape: &Shape,
    options: &WorkloadOptions,
    candidates: &Candidates,
    policy: &Policy,
) -> Option<v1::Job> {
    let ranks = options.rail.ranks.unwrap_or(1);
    let nodes = match shape {
        Shape::Nothing => return None,
        Shape::Anywhere(_) => candidates.said(),
        Shape::Chosen(chosen) => vec![Names::of(&chosen.nodes).to_string()],
    };
    let exclusive = policy.exclusive;
    let mut spec = v1::JobSpec {
        work: Some(Work::Allocation(v1::Allocation::default())),
        placement: Some(v1::PlacementRequest { exclusive, nodes, ..v1::PlacementRequest::default() }),
        queue: policy.queue.clone().unwrap_or_default(),
        ..v1::JobSpec::default()
    };
    match shape {
        Shape::Nothing => return None,
        Shape::Anywhere(parts) if parts.len() > 1 => {
            spec.components = parts.iter().map(|part| component(part, ranks)).collect();
        }
        Shape::Anywhere(parts) => {
            let part = parts.first()?;
            spec.gang = Some(gang(part.nodes, part.gpus, ranks));
        }
        Shape::Chosen(chosen) => {
            let count = u32::try_from(chosen.nodes.len()).ok()?;
            spec.gang = Some(gang(count, chosen.gpus, ranks));
        }
    }
    if let Some(seconds) = workload.spec.maximum_execution_time_seconds {
        // Kueue ends it then. The allocation has no limit of its own, lest it end before.
        let seconds = i64::from(seconds.clamp(1, 31_622_400));
        spec.expected_duration = Some(duration(seconds));
    }
    options.apply(&mut spec);
    let queue = workload.status.admission.as_ref().map_or("", |admission| admission.cluster_queue.as_str());
    let path = workload.path();
    let labels = [(UID_LABEL, key.uid.as_str()), (WORKLOAD_LABEL, path.as_str()), (QUEUE_LABEL, queue)]
        .map(|(name, value)| (name.to_owned(), value.chars().take(253).collect::<String>()));
    Some(v1::Job {
        metadata: Some(v1::Metadata {
            name: key.name(&policy.prefix),
            labels: labels.into(),
            ..v1::Metadata::default()
        }),
        spec: Some(spec),
        ..v1::Job::default()
    })
}

fn duration(seconds: i64) -> prost_types::Duration {
    prost_types::Duration { seconds, nanos: 0 }
}

fn gang(nodes: u32, gpus_per_node: u32, ranks_per_node: u32) -> v1::Gang {
    // The ranks that hold the places do nothing.
    v1::Gang { nodes, gpus_per_node, ranks_per_node, ..v1::Gang::default() }
}

fn component(part: &Part, ranks_per_node: u32) -> v1::Component {
    v1::Component {
        name: part.pod_set.clone(),
        nodes: part.nodes,
        gpus_per_node: part.gpus,
        ranks_per_node,
        ..v1::Component::default()
    }
}

/// Of each pod set, its servers in rank order, where the hold has these; none where it has not as many as are needed.
#[must_use]
pub fn shares(shape: &Shape, nodes: &[String]) -> Option<BTreeMap<String, Vec<String>>> {
    match shape {
        Shape::Nothing => Some(BTreeMap::new()),
        Shape::Chosen(chosen) => {
            let (mut wanted, mut found): (Vec<_>, Vec<_>) =
                (chosen.nodes.iter().collect(), nodes.iter().collect());
            wanted.sort();
            found.sort();
            (wanted == found).then(|| chosen.pod_sets.clone())
        }
        Shape::Anywhere(parts) => {
            let mut rest = nodes.iter();
            let mut all = BTreeMap::new();
            for part in parts {
                let count = usize::try_from(part.nodes).ok()?;
                let own: Vec<String> = rest.by_ref().take(count).cloned().collect();
                if own.len() != count {
                    return None;
                }
                all.insert(part.pod_set.clone(), own);
            }
            rest.next().is_none().then_some(all)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{shape::Chosen, workload::Admission};

    const UID: &str = "3f2504e0-4f89-41d3-9a0c-0305e82c3301";

    fn key() -> HoldKey {
        HoldKey { uid: UID.into(), reserved: 7 }
    }

    fn part(pod_set: &str, nodes: u32) -> Part {
        Part { pod_set: pod_set.into(), nodes, gpus: 8 }
    }

    fn made(shape: &Shape, policy: &Policy) -> v1::Job {
        let mut workload = Workload::default();
        (workload.metadata.namespace, workload.metadata.name) = ("ml".into(), "a".into());
        workload.spec.maximum_execution_time_seconds = Some(60);
        workload.status.admission = Some(Admission { cluster_queue: "cq".into(), ..Admission::default() });
        let candidates = Candidates { list: "n[0-9]".into(), open: 10, closed: 0 };
        job(&workload, &key(), shape, &WorkloadOptions::default(), &candidates, policy).unwrap()
    }

    #[test]
    fn pod_sets_become_a_gang_or_its_components() {
        let one =
            made(&Shape::Anywhere(vec![part("main", 4)]), &Policy { exclusive: true, ..Policy::default() });
        let (metadata, spec) = (one.metadata.unwrap(), one.spec.unwrap());
        assert_eq!(metadata.name, key().name("kueue-"));
        assert_eq!(
            (metadata.labels[UID_LABEL].as_str(), metadata.labels[WORKLOAD_LABEL].as_str()),
            (UID, "ml/a")
        );
        let gang = spec.gang.unwrap();
        assert_eq!((gang.nodes, gang.gpus_per_node, gang.ranks_per_node), (4, 8, 1));
        let place = spec.placement.unwrap();
        assert!(place.exclusive && place.nodes == ["n[0-9]"] && spec.components.is_empty());
        assert_eq!(spec.expected_duration.unwrap().seconds, 60);
        let two = made(&Shape::Anywhere(vec![part("a", 1), part("b", 2)]), &Policy::default()).spec.unwrap();
        let names: Vec<_> = two.components.iter().map(|one| (one.name.as_str(), one.nodes)).collect();
        assert_eq!((names, two.gang), (vec![("a", 1), ("b", 2)], None));
        let nodes = vec!["n2".to_owned(), "n1".into()];
        let chosen = Chosen { nodes: nodes.clone(), gpus: 4, pod_sets: BTreeMap::new() };
        let chosen = made(&Shape::Chosen(chosen), &Policy::default()).spec.unwrap();
        assert_eq!(
            (chosen.placement.unwrap().nodes, chosen.gang.unwrap().nodes),
            (vec![Names::of(["n2", "n1"]).to_string()], 2)
        );
    }

    #[test]
    fn servers_go_to_pod_sets_in_rank_order() {
        let place =
            |rank: u32, node: &str| v1::RankPlace { rank, node: node.into(), ..v1::RankPlace::default() };
        let placement = v1::Placement {
            ranks: vec![place(2, "c"), place(0, "b"), place(1, "a")],
            nodes: ["a", "b", "c"]
                .map(|node| v1::NodePlace { node: node.into(), ..v1::NodePlace::default() })
                .into(),
            ..v1::Placement::default()
        };
        let nodes = nodes_of(&placement);
        assert_eq!(nodes, ["b", "a", "c"]);
        let shape = Shape::Anywhere(vec![part("x", 1), part("y", 2)]);
        let shared = shares(&shape, &nodes).unwrap();
        assert_eq!((&shared["x"], &shared["y"]), (&vec!["b".to_owned()], &vec!["a".to_owned(), "c".into()]));
        assert_eq!(shares(&shape, &nodes[..2]), None);
        assert_eq!(shares(&Shape::Anywhere(vec![part("x", 1)]), &nodes), None);
    }

    #[test]
    fn a_hold_is_read_from_its_job_and_others_are_not() {
        let mut job = made(&Shape::Anywhere(vec![part("main", 1)]), &Policy::default());
        let stage = |job: &v1::Job| Hold::of("kueue-", job, 5).unwrap().stage;
        assert_eq!(stage(&job), Stage::Over);
        job.status = Some(v1::JobStatus { phase: Phase::Pending.into(), ..v1::JobStatus::default() });
        assert_eq!(stage(&job), Stage::Waiting);
        let status = job.status.as_mut().unwrap();
        status.set_phase(Phase::Running);
        assert_eq!(stage(&job), Stage::Preparing);
        job.status.as_mut().unwrap().start_time = Some(prost_types::Timestamp::default());
        assert_eq!(stage(&job), Stage::Runs);
        job.status.as_mut().unwrap().cancel_requested = true;
        assert_eq!(stage(&job), Stage::Ending);
        job.status.as_mut().unwrap().set_phase(Phase::Cancelled);
        assert_eq!(stage(&job), Stage::Over);
        assert_eq!(Hold::of("slurm-", &job, 5), None);
        job.metadata.as_mut().unwrap().labels.clear();
        assert_eq!(Hold::of("kueue-", &job, 5), None);
    }

    #[test]
    fn causes_are_bounded() {
        let reason = |message: &str| v1::Reason {
            message: message.into(),
            code: "Code".into(),
            ..v1::Reason::default()
        };
        assert_eq!(causes(&[reason("no GPUs"), reason("")]), "no GPUs; Code");
        let text = causes(&vec![reason(&"x".repeat(300)); 9]);
        assert!(text.len() < 1020 && text.ends_with("; and more"), "{text}");
    }
}
