//! Which servers a workload needs: pod sets become parts of a gang. [pure]

use std::collections::BTreeMap;

use serde_json::Value;

use crate::{
    names::{HOLD, NODES},
    options::{self, WorkloadOptions},
    workload::{Container, PodSet, PodSpec, Workload},
};

/// Servers of a gang, at most (`rail.v1.Gang`).
const NODES_MAX: u32 = 1024;
/// Parts of a gang, at most (`rail.v1.JobSpec.components`).
const PARTS_MAX: usize = 8;
/// GPUs of a server, at most (`rail.v1.Gang`).
const GPUS_MAX: u32 = 64;

/// What a workload needs of Railyard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// Nothing: no pod of it has GPUs, or asks for rails.
    Nothing,
    /// Servers that Railyard chooses.
    Anywhere(Vec<Part>),
    /// The servers that topology-aware scheduling has chosen.
    Chosen(Chosen),
}

/// Servers of one pod set, all alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The pod set.
    pub pod_set: String,
    /// Servers.
    pub nodes: u32,
    /// GPUs of each.
    pub gpus: u32,
}

/// Servers that somebody else has chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Them, each once, in rank order.
    pub nodes: Vec<String>,
    /// GPUs of each; where pods are not evenly spread, the most that one of them needs.
    pub gpus: u32,
    /// Of each pod set, its servers in rank order.
    pub pod_sets: BTreeMap<String, Vec<String>>,
}

/// What the workload needs, and how.
///
/// # Errors
/// Why it can never be placed, for people.
pub fn of(workload: &Workload, gpu_resources: &[String]) -> Result<(Shape, WorkloadOptions), String> {
    let options = options_of(workload)?;
    let assigned = |name: &str| {
        let admission = workload.status.admission.as_ref()?;
        admission.pod_set_assignments.iter().find(|one| one.name == name)
    };
    let mut taking = Vec::new();
    for pod_set in &workload.spec.pod_sets {
        let assignment = assigned(&pod_set.name);
        let count = assignment.and_then(|one| one.count).unwrap_or(pod_set.count);
        let gpus = gpus_of(&pod_set.template.spec, gpu_resources)
            .map_err(|error| format!("pod set {}: {error}", pod_set.name))?;
        let asks = options::asks_for_rails(|name| pod_set.template.metadata.annotations.get(name).cloned());
        if count == 0 || (gpus == 0 && !asks) {
            continue;
        }
        let topology = assignment.and_then(|one| one.topology_assignment.as_ref());
        taking.push(Taking { pod_set, count, gpus, nodes: topology.map(|one| one.nodes()).transpose()? });
    }
    if taking.is_empty() {
        return Ok((Shape::Nothing, options));
    }
    taking.iter().try_for_each(|one| unclaimed(one.pod_set))?;
    // Where Kueue chooses nodes only once it is Ready (`delayedTopologyRequest`), it does so among those that are held.
    let (placed, free): (Vec<&Taking<'_>>, Vec<_>) = taking.iter().partition(|one| one.nodes.is_some());
    let shape = match (placed.first(), free.first()) {
        (Some(placed), Some(free)) => {
            return Err(format!(
                "Kueue has chosen nodes for pod set {} and none for pod set {}: give both flavors that have a topology, or none that has one",
                placed.pod_set.name, free.pod_set.name
            ));
        }
        (_, None) => Shape::Chosen(chosen(&taking)?),
        (None, _) => Shape::Anywhere(anywhere(&taking, options.pods_per_node.unwrap_or(1))?),
    };
    Ok((shape, options))
}

/// A pod set that needs servers.
struct Taking<'a> {
    pod_set: &'a PodSet,
    count: u32,
    gpus: u32,
    nodes: Option<Vec<(String, u32)>>,
}

/// Options hold for the workload: the first pod set that says one says it for all, and another must not contradict.
fn options_of(workload: &Workload) -> Result<WorkloadOptions, String> {
    let mut all: BTreeMap<&str, &str> = BTreeMap::new();
    let sets = workload.spec.pod_sets.iter().map(|one| &one.template.metadata.annotations);
    let said = std::iter::once(&workload.metadata.annotations).chain(sets).flatten();
    for (name, value) in said.filter(|(name, _)| name.starts_with("railyard.io/")) {
        let first = *all.entry(name).or_insert(value);
        if first != value {
            return Err(format!(
                "annotation {name} is {first:?} and {value:?} in one workload: it is one for all pods"
            ));
        }
    }
    options::of(|name| all.get(name).map(|value| (*value).to_owned()))
}

/// Kueue gives up a workload whose pods have already what a check adds.
fn unclaimed(pod_set: &PodSet) -> Result<(), String> {
    let annotations = &pod_set.template.metadata.annotations;
    match [HOLD, NODES].into_iter().find(|name| annotations.contains_key(*name)) {
        Some(name) => Err(format!(
            "pod set {} has the annotation {name}, which is given to it: take it away",
            pod_set.name
        )),
        None => Ok(()),
    }
}

fn anywhere(taking: &[Taking<'_>], per_node: u32) -> Result<Vec<Part>, String> {
    if taking.len() > PARTS_MAX {
        return Err(format!("{} of its pod sets need servers: at most {PARTS_MAX} can", taking.len()));
    }
    let mut parts = Vec::new();
    for one in taking {
        let name = &one.pod_set.name;
        // A set that is smaller than a server's share is one server's.
        let share = per_node.min(one.count);
        if one.count % share != 0 {
            return Err(format!(
                "pod set {name} has {} pods, which are no multiple of railyard.io/pods-per-node {per_node}",
                one.count
            ));
        }
        let gpus = one.gpus.checked_mul(share).filter(|gpus| *gpus <= GPUS_MAX);
        let gpus =
            gpus.ok_or_else(|| format!("pod set {name} needs more than {GPUS_MAX} GPUs of one server"))?;
        parts.push(Part { pod_set: name.clone(), nodes: one.count / share, gpus });
    }
    let nodes: u64 = parts.iter().map(|part| u64::from(part.nodes)).sum();
    within_bound(nodes)?;
    Ok(parts)
}

fn chosen(taking: &[Taking<'_>]) -> Result<Chosen, String> {
    let mut nodes: Vec<String> = Vec::new();
    let mut gpus: BTreeMap<String, u32> = BTreeMap::new();
    let mut pod_sets = BTreeMap::new();
    for one in taking {
        let mut own: Vec<String> = Vec::new();
        for (node, pods) in one.nodes.iter().flatten() {
            if !gpus.contains_key(node) {
                nodes.push(node.clone());
            }
            if !own.contains(node) {
                own.push(node.clone());
            }
            let needed = gpus.entry(node.clone()).or_default();
            *needed = needed.saturating_add(one.gpus.saturating_mul(*pods));
        }
        pod_sets.insert(one.pod_set.name.clone(), own);
    }
    within_bound(u64::try_from(nodes.len()).unwrap_or(u64::MAX))?;
    let gpus = gpus.into_values().max().unwrap_or_default();
    if gpus > GPUS_MAX {
        return Err(format!("it needs {gpus} GPUs of one server: at most {GPUS_MAX} can be held"));
    }
    Ok(Chosen { nodes, gpus, pod_sets })
}

fn within_bound(nodes: u64) -> Result<(), String> {
    if nodes > u64::from(NODES_MAX) {
        return Err(format!("it needs {nodes} servers: a gang has at most {NODES_MAX}"));
    }
    Ok(())
}

/// GPUs of one pod: containers run beside one another, and init containers before them, but for those that stay.
fn gpus_of(pod: &PodSpec, resources: &[String]) -> Result<u32, String> {
    let of = |container: &Container| -> Result<u32, String> {
        resources.iter().try_fold(0_u32, |sum, name| {
            let given =
                container.resources.requests.get(name).or_else(|| container.resources.limits.get(name));
            let number = given.map_or(Some(0), whole).ok_or_else(|| {
                format!("{name} is {}: it is a whole number", given.map(Value::to_string).unwrap_or_default())
            })?;
            Ok(sum.saturating_add(number))
        })
    };
    let mut staying = 0_u32;
    let mut most = 0_u32;
    for container in &pod.init_containers {
        let needed = of(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            staying = staying.saturating_add(needed);
            most = most.max(staying);
        } else {
            most = most.max(staying.saturating_add(needed));
        }
    }
    let mut together = staying;
    for container in &pod.containers {
        together = together.saturating_add(of(container)?);
    }
    Ok(together.max(most))
}

fn whole(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(pod_sets: Value, admission: Value) -> Workload {
        let object = json!({"metadata": {"name": "a", "namespace": "b", "uid": "u"}, "spec": {"podSets": pod_sets}, "status": {"admission": admission}});
        Workload::read(object).unwrap()
    }

    fn pods(name: &str, count: u32, gpus: u32) -> Value {
        json!({"name": name, "count": count, "template": {"spec": {"containers": [
            {"name": "sidecar"}, {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}}}]}}})
    }

    fn shape(workload: &Workload) -> Result<Shape, String> {
        of(workload, &["nvidia.com/gpu".into()]).map(|(shape, _)| shape)
    }

    fn part(pod_set: &str, nodes: u32, gpus: u32) -> Part {
        Part { pod_set: pod_set.into(), nodes, gpus }
    }

    #[test]
    fn pods_with_gpus_get_a_server_each_and_others_none() {
        let two = json!([pods("launcher", 1, 0), pods("worker", 4, 8)]);
        assert_eq!(shape(&workload(two, Value::Null)), Ok(Shape::Anywhere(vec![part("worker", 4, 8)])));
        assert_eq!(shape(&workload(json!([pods("a", 3, 0)]), Value::Null)), Ok(Shape::Nothing));
        let fewer = json!({"podSetAssignments": [{"name": "worker", "count": 2}]});
        let partial = workload(json!([pods("worker", 4, 8)]), fewer);
        assert_eq!(shape(&partial), Ok(Shape::Anywhere(vec![part("worker", 2, 8)])));
    }

    #[test]
    fn pods_that_share_servers_are_counted_together() {
        let with = |count: u32, per_node: &str| {
            let mut set = pods("w", count, 1);
            set["template"]["metadata"] = json!({"annotations": {"railyard.io/pods-per-node": per_node}});
            shape(&workload(json!([set]), Value::Null))
        };
        assert_eq!(with(16, "8"), Ok(Shape::Anywhere(vec![part("w", 2, 8)])));
        assert_eq!(with(4, "8"), Ok(Shape::Anywhere(vec![part("w", 1, 4)])));
        assert!(with(12, "8").unwrap_err().contains("no multiple"));
        assert!(with(12, "x").unwrap_err().contains("pods-per-node"));
    }

    #[test]
    fn servers_that_kueue_has_chosen_are_taken_as_they_are() {
        let on = |name: &str, roots: Value, counts: Value| {
            json!({"name": name, "topologyAssignment": {"levels": ["kubernetes.io/hostname"], "slices": [
                {"domainCount": roots.as_array().unwrap().len(),
                 "valuesPerLevel": [{"individual": {"prefix": "n", "roots": roots}}], "podCounts": {"individual": counts}}]}})
        };
        let admission = json!({"podSetAssignments": [on("a", json!(["2", "0"]), json!([1, 1])), on("b", json!(["0", "3"]), json!([2, 1]))]});
        let Ok(Shape::Chosen(chosen)) =
            shape(&workload(json!([pods("a", 2, 4), pods("b", 3, 1)]), admission))
        else {
            panic!()
        };
        assert_eq!((chosen.nodes, chosen.gpus), (vec!["n2".to_owned(), "n0".into(), "n3".into()], 6));
        assert_eq!(chosen.pod_sets["b"], ["n0", "n3"]);
        let mixed = json!({"podSetAssignments": [on("a", json!(["2", "0"]), json!([1, 1])), {"name": "b"}]});
        let mixed = workload(json!([pods("a", 2, 4), pods("b", 3, 1)]), mixed);
        let why = shape(&mixed).unwrap_err();
        assert!(why.contains("for pod set a and none for pod set b"), "{why}");
        // A pod set that needs no server may be anywhere.
        let launcher =
            json!({"podSetAssignments": [on("a", json!(["2", "0"]), json!([1, 1])), {"name": "b"}]});
        let launcher = workload(json!([pods("a", 2, 4), pods("b", 1, 0)]), launcher);
        assert!(matches!(shape(&launcher), Ok(Shape::Chosen(_))));
    }

    #[test]
    fn what_can_never_be_placed_says_why() {
        let large = workload(json!([pods("a", 2000, 8)]), Value::Null);
        assert!(shape(&large).unwrap_err().contains("2000 servers"));
        let many: Vec<Value> = (0..9).map(|at| pods(&format!("p{at}"), 1, 1)).collect();
        assert!(shape(&workload(json!(many), Value::Null)).unwrap_err().contains("9 of its pod sets"));
        let mut odd = pods("a", 1, 1);
        odd["template"]["spec"]["containers"][1]["resources"]["limits"]["nvidia.com/gpu"] = json!("500m");
        assert!(shape(&workload(json!([odd]), Value::Null)).unwrap_err().contains("500m"));
        let mut taken = pods("a", 1, 1);
        taken["template"]["metadata"] = json!({"annotations": {"railyard.io/nodes": "n1"}});
        assert!(shape(&workload(json!([taken]), Value::Null)).unwrap_err().contains("railyard.io/nodes"));
        let (mut first, mut second) = (pods("a", 1, 1), pods("b", 1, 1));
        first["template"]["metadata"] = json!({"annotations": {"railyard.io/within": "pod"}});
        second["template"]["metadata"] = json!({"annotations": {"railyard.io/within": "leaves"}});
        assert!(
            shape(&workload(json!([first, second]), Value::Null)).unwrap_err().contains("one for all pods")
        );
    }

    #[test]
    fn init_containers_count_as_kubernetes_counts_them() {
        let container = |gpus: u32, policy: Value| json!({"resources": {"requests": {"nvidia.com/gpu": gpus}}, "restartPolicy": policy});
        let spec = json!({"containers": [container(2, Value::Null), container(1, Value::Null)],
            "initContainers": [container(1, json!("Always")), container(6, Value::Null)]});
        let spec: PodSpec = serde_json::from_value(spec).unwrap();
        assert_eq!(gpus_of(&spec, &["nvidia.com/gpu".into()]), Ok(7));
        assert_eq!(gpus_of(&spec, &["amd.com/gpu".into()]), Ok(0));
    }
}
