//! Numbers in messages: one thing is not several, and none is said as none.

use proto_model::Within;

use super::*;
use crate::{
    Group, Need, RailNeed,
    explain::{Blocker, Cause},
    reasons::{capacity, infeasible, reason},
};

fn need(nodes: u32, gpus: u32, rails: u32) -> Need {
    Need { spares: 1, ..Need::plain(nodes, gpus, RailNeed::Any(rails)) }
}

#[test]
fn a_cause_says_how_many_nodes_it_costs() {
    let said = |need: &Need, cause: Cause, lost: u32, alone: u32| {
        reason(need, &Blocker { cause, lost, alone }).message
    };
    let (one, two) = (need(1, 1, 1), need(2, 8, 4));
    let group = Group { size: 4, within: Within::Pod, required: true };
    let cases = [
        (said(&one, Cause::GpusHeld, 1, 1), "1 node has no GPU free"),
        (said(&one, Cause::GpuShape, 3, 3), "3 nodes have no GPU, even when idle"),
        (said(&two, Cause::GpusHeld, 5, 5), "5 nodes have fewer than 8 GPUs free"),
        (said(&two, Cause::NotReady, 1, 0), "1 node is not heard from; it has other causes too"),
        (said(&two, Cause::NotReady, 3, 0), "3 nodes are not heard from; each of them has other causes too"),
        (
            said(&two, Cause::NotReady, 3, 1),
            "3 nodes are not heard from; for 1 of them that is the only cause",
        ),
        (said(&one, Cause::RailMissing(None), 1, 1), "1 node has no cabled NIC"),
        (said(&two, Cause::RailMissing(Some(2)), 2, 2), "2 nodes have no cabled NIC on rail 2"),
        (said(&one, Cause::RailDown(None), 2, 2), "2 nodes have no NIC up"),
        (said(&one, Cause::RailHeld(None), 2, 2), "2 nodes have every NIC held by other jobs"),
        (said(&two, Cause::RailHeld(None), 1, 1), "1 node has fewer than 4 NICs that no job holds"),
        (
            said(&one, Cause::Aligned, 1, 1),
            "all nodes must share a rail that joins them: 1 node fewer for the gang",
        ),
        (
            said(&two, Cause::Aligned, 2, 2),
            "all nodes must share 4 rails that join them: 2 nodes fewer for the gang",
        ),
        (
            said(&two, Cause::Grouped(group), 4, 4),
            "groups of 4 nodes must stay in one pod: 4 nodes fewer for the gang",
        ),
        (said(&two, Cause::Spares, 1, 1), "1 spare is to idle beside it: 1 node fewer for the gang"),
        (said(&two, Cause::Quota, 1, 1), "1 GPU more than the tenant may take now"),
        (said(&two, Cause::Quota, 9, 9), "9 GPUs more than the tenant may take now"),
        (
            capacity(&two, 1, 1, 1).message,
            "1 of 1 node could be had now; the job needs 2 and 1 spare, 1 more must become free",
        ),
    ];
    for (said, right) in cases {
        assert_eq!(said, right);
    }
}

#[test]
fn what_can_never_be_says_how_much_there_is() {
    let small = cluster(&[0]);
    let said = |snapshot: &Snapshot, need: &Need| -> Vec<String> {
        let reasons = infeasible(snapshot, need, &mut crate::Placer::default());
        reasons.into_iter().map(|reason| reason.message).collect()
    };
    let plain = |nodes, gpus, rails| Need::plain(nodes, gpus, rails);
    assert_eq!(said(&small, &plain(2, 4, RailNeed::Any(1))), ["the job asks for 2 nodes, the cluster has 1"]);
    let five = plain(1, 5, RailNeed::Any(1));
    assert_eq!(said(&small, &five), ["the job asks for 5 GPUs per node, the largest node has 4 (n0)"]);
    let excluding = Need { exclude: vec![NodeIx::at(0)], ..plain(1, 1, RailNeed::Any(1)) };
    assert_eq!(said(&small, &excluding), ["without the node that the job excludes there are too few"]);
    let sparing = Need { spares: 1, ..plain(1, 1, RailNeed::Any(1)) };
    assert_eq!(said(&small, &sparing), ["the job asks for 1 node and 1 spare, there are not so many"]);
    // Two nodes that have no rail in common.
    let mut apart = Snapshot::new(Some(&fabric(&[0, 0], 2)));
    apart.set_node(&node(0), &inventory(4, 0b01, 0), Gate::default());
    apart.set_node(&node(1), &inventory(4, 0b10, 0), Gate::default());
    assert_eq!(said(&apart, &plain(2, 4, RailNeed::Any(1))), ["no rail is common to 2 nodes"]);
    let first = plain(2, 4, RailNeed::Exactly(RailSet::first(1)));
    assert_eq!(
        said(&apart, &first)[0],
        "the job asks for 2 nodes with a cabled NIC on rail 0, 1 of 2 nodes has that"
    );
}

#[test]
fn mig_instances_go_to_who_names_their_profile() {
    let mut snapshot = cluster(&[0; 2]);
    let whole = world::of_model(8, 0b1111, 0, "NVIDIA H100 80GB HBM3");
    let parts = world::of_model(56, 0b1111, 0, "NVIDIA H100 80GB HBM3 MIG 1g.10gb");
    snapshot.set_node(&node(0), &parts, Gate::default());
    snapshot.set_node(&node(1), &whole, Gate::default());
    let none = RailRequest { none: true, ..RailRequest::default() };
    let plain = |nodes, gpus| JobSpec { rails: none, ..spec(nodes, gpus, 0, false) };
    let of = |nodes, gpus, model: &str| {
        let mut spec = plain(nodes, gpus);
        spec.placement.gpu_models = [proto_model::GpuModel::new(model).unwrap()].into();
        spec
    };
    assert_eq!(placed(&one(&snapshot, &plain(1, 4))), ["n1"], "who names no model means whole GPUs");
    assert_eq!(placed(&one(&snapshot, &of(1, 4, "H100"))), ["n1"]);
    assert_eq!(placed(&one(&snapshot, &of(1, 40, "1g.10gb"))), ["n0"]);
    assert_eq!(placed(&one(&snapshot, &of(1, 1, "MIG"))), ["n0"]);
    assert_eq!(placed(&one(&snapshot, &spec(2, 0, 1, false))).len(), 2, "who takes no GPU goes anywhere");
    let said = wait(one(&snapshot, &spec(2, 4, 1, false)));
    assert_eq!(said.never, 1, "{said:?}");
    assert_eq!(
        said.reasons[0].message,
        "the job asks for 2 nodes with whole GPUs (MIG instances go to jobs that name their profile as GPU model), 1 of 2 nodes has them; there are: NVIDIA H100 80GB HBM3 (1), NVIDIA H100 80GB HBM3 MIG 1g.10gb (1)"
    );
}

/// Four nodes: two of a model, one of another, and one that does not tell; the second has the label `fast`.
fn models() -> Snapshot {
    let mut snapshot = cluster(&[0; 4]);
    let models = ["NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", ""];
    for (at, model) in models.iter().enumerate() {
        let labels = if at == 1 { [("fast".to_owned(), String::new())].into() } else { BTreeMap::new() };
        let taints = std::collections::BTreeSet::new();
        let inventory = world::of_model(4, 0b1111, 0, model);
        snapshot.set_labelled(&node(at), &inventory, Gate::default(), &labels, &taints);
    }
    snapshot
}

#[test]
fn a_model_of_gpu_or_a_label_that_too_few_nodes_have() {
    let snapshot = models();
    let asks = |nodes, models: &[&str], terms: &[proto_model::Term]| {
        let mut spec = spec(nodes, 4, 0, false);
        spec.placement.gpu_models =
            models.iter().map(|model| proto_model::GpuModel::new(*model).unwrap()).collect();
        spec.placement.selector = terms.to_vec();
        spec
    };
    assert_eq!(placed(&one(&snapshot, &asks(2, &["h100"], &[]))), ["n0", "n1"]);
    assert_eq!(placed(&one(&snapshot, &asks(1, &["H200", "A100-SXM4"], &[]))), ["n2"]);
    assert_eq!(placed(&one(&snapshot, &asks(3, &["H100", "A100"], &[]))), ["n0", "n1", "n2"]);
    let never = wait(one(&snapshot, &asks(3, &["H100 80GB", "H200"], &[])));
    assert!(never.infeasible);
    assert_eq!(
        never.reasons[0].to_string(),
        "GpuModelShape: the job asks for 3 nodes with GPUs of model H100 80GB or H200, 2 of 4 nodes have them; there are: NVIDIA \
         A100-SXM4-80GB (1), NVIDIA H100 80GB HBM3 (2); on 1 node it is not told by the agent"
    );
    let either = |keys: &[&str]| {
        proto_model::Term::Any(keys.iter().map(|key| proto_model::Term::Exists((*key).into())).collect())
    };
    assert_eq!(placed(&one(&snapshot, &asks(1, &[], &[either(&["nvme", "fast"])]))), ["n1"]);
    let never = wait(one(&snapshot, &asks(2, &[], &[either(&["nvme", "fast"])])));
    assert_eq!((never.reasons[0].scope.as_str(), never.reasons[0].count), ("label/fast|nvme", 3));
    assert_eq!(
        never.reasons[0].message,
        "the job asks for 2 nodes with label fast or nvme, 1 of 4 nodes has it"
    );
    // Somebody is on one of the two: the others are told with what keeps them away.
    let mut held = snapshot.clone();
    let Decision::Place(first) = one(&held, &asks(1, &["H100"], &[])) else { panic!() };
    held.hold(&tenant(), &first);
    let waits = wait(one(&held, &asks(2, &["H100"], &[])));
    let reported: Vec<String> = waits.reasons.iter().map(ToString::to_string).collect();
    let said = reported.join("\n");
    assert!(said.contains("GpuModelMismatch: 1 node has not only GPUs of model H100"), "{said}");
    assert!(
        said.contains(
            "GpuModelUnknown: 1 node has GPUs of which nobody knows whether they are of model H100"
        ),
        "{said}"
    );
    // The check that shares no code with it.
    let mut bad = *first.clone();
    bad.nodes[0].node = node(2);
    let found = check_placement(&snapshot, &tenant(), &asks(1, &["H100"], &[]), &bad).unwrap_err();
    assert!(found.iter().any(|one| one.to_string().contains("of model 'NVIDIA A100")), "{found:?}");
}

#[test]
fn a_placement_says_of_how_many_nodes_it_is_the_best() {
    let said = |pods: &[u8], rails: u32| match one(&cluster(pods), &spec(1, 4, rails, false)) {
        Decision::Place(placement) => placement.reasons[0].message.clone(),
        Decision::Wait(wait) => panic!("waits: {wait:?}"),
    };
    let place = "in the fewest pods possible: p0";
    let nics = "every node has a NIC that is up on each of rails 0,1,2,3";
    assert_eq!(said(&[0, 0], 4), format!("1 of 2 free nodes, {place}; {nics}"));
    let nics = "every node has a NIC that is up on rail 0";
    assert_eq!(said(&[0], 1), format!("1 of 1 free node, {place}; {nics}"));
}
