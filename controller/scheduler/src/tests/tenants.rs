//! Never two tenants on a server that cannot keep them apart, and no job on one that gives less than it must have.

use std::{collections::BTreeMap, sync::Arc};

use proto_model::{
    Inventory, Isolation, IsolationFeature, IsolationPolicy, IsolationSet, IsolationState, Placement,
    ReasonCode,
};

use super::*;
use crate::{
    Choice, FailureScope, Flaw, Need, Placer, RailNeed, RepairRequest, Sources, Violation, choice_of, prove,
    prove_repair, repair,
};

fn named(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

/// As many nodes; those of `apart` have no user for each attempt.
fn site(apart: &[bool]) -> Snapshot {
    let mut snapshot = cluster(&vec![0; apart.len()]);
    for (at, _) in apart.iter().enumerate().filter(|(_, apart)| **apart) {
        set_isolation(&mut snapshot, at, Isolation::default());
    }
    for name in ["a", "b", "c"] {
        snapshot.set_quota(&named(name), Some(1000));
    }
    snapshot
}

fn set_isolation(snapshot: &mut Snapshot, at: usize, isolation: Isolation) {
    let had = inventory(4, 0b1111, 0);
    let inventory = Inventory { isolation, ..Inventory::clone(&had) };
    snapshot.set_node(&node(at), &Arc::new(inventory), Gate::default());
}

fn ask(snapshot: &Snapshot, who: &str, spec: &JobSpec) -> Decision {
    let id = JobId { tenant: named(who), name: JobName::new("job").unwrap() };
    solve(snapshot, &[GangRequest { key: key(0, 1), id: &id, spec, not_before: None }], Timestamp(1))
        .remove(0)
}

fn placement(decision: Decision) -> Placement {
    match decision {
        Decision::Place(placement) => *placement,
        Decision::Wait(wait) => panic!("waits: {wait:?}"),
    }
}

/// One GPU and one rail of one node.
fn small() -> JobSpec {
    spec(1, 1, 1, true)
}

#[test]
fn two_tenants_never_share_a_server_that_cannot_keep_them_apart() {
    let mut snapshot = site(&[true, true]);
    let first = placement(ask(&snapshot, "a", &small()));
    snapshot.hold(&named("a"), &first);
    // The tenant itself goes on there, the other one gets another.
    let own = placement(ask(&snapshot, "a", &small()));
    assert_eq!(own.nodes[0].node, first.nodes[0].node);
    let other = placement(ask(&snapshot, "b", &small()));
    assert_ne!(other.nodes[0].node, first.nodes[0].node);
    snapshot.hold(&named("b"), &other);
    let waits = wait(ask(&snapshot, "c", &small()));
    assert!(!waits.infeasible && waits.capacity);
    assert_eq!(codes(&waits), ["GangCapacity", "NodeNotShared"]);
    let reason = &waits.reasons[1];
    assert_eq!(reason.count, 2);
    assert_eq!(
        reason.message,
        "2 nodes have a job of another tenant and cannot keep two apart, for they give no user to each attempt; on n0: upgrade \
         rail-node-agent there, which says nothing of isolation"
    );
    let reported = format!("{:?}", waits.reasons);
    assert!(!reported.contains("'a'") && !reported.contains("'b'"), "{reported}");
    snapshot.release(&named("a"), &first);
    assert_eq!(placement(ask(&snapshot, "c", &small())).nodes[0].node, first.nodes[0].node);
}

/// Neither GPUs nor rails: it holds nothing that could be counted, and runs there all the same.
#[test]
fn a_job_without_gpus_and_rails_counts_too() {
    let mut snapshot = site(&[true]);
    let mut nothing = spec(1, 0, 1, true);
    nothing.rails.none = true;
    let first = placement(ask(&snapshot, "a", &nothing));
    snapshot.hold(&named("a"), &first);
    assert_eq!(codes(&wait(ask(&snapshot, "b", &nothing))), ["GangCapacity", "NodeNotShared"]);
    assert_eq!(codes(&wait(ask(&snapshot, "b", &small()))), ["GangCapacity", "NodeNotShared"]);
    // A node that leaves and comes back is still its.
    snapshot.remove_node(&node(0));
    set_isolation(&mut snapshot, 0, Isolation::default());
    assert_eq!(codes(&wait(ask(&snapshot, "b", &nothing))), ["GangCapacity", "NodeNotShared"]);
    snapshot.release(&named("a"), &first);
    placement(ask(&snapshot, "b", &nothing));
}

#[test]
fn a_server_that_keeps_them_apart_is_shared_until_it_does_not_any_more() {
    let mut snapshot = site(&[false]);
    for who in ["a", "b"] {
        let place = placement(ask(&snapshot, who, &small()));
        snapshot.hold(&named(who), &place);
    }
    placement(ask(&snapshot, "c", &small()));
    set_isolation(&mut snapshot, 0, Isolation::default());
    for who in ["a", "b", "c"] {
        assert_eq!(codes(&wait(ask(&snapshot, who, &small()))), ["GangCapacity", "NodeNotShared"], "{who}");
    }
}

#[test]
fn required_isolation_is_had_or_the_job_waits_and_is_told_what_mends_it() {
    let mut snapshot = site(&[false, false]);
    let states = IsolationFeature::ALL.iter().map(|feature| match feature {
        IsolationFeature::Seccomp => {
            IsolationState::absent(*feature, "the kernel has none", "boot Linux 5.10")
        }
        // Not part of what is required.
        IsolationFeature::CgroupCpuset => IsolationState::absent(*feature, "no", "mount it"),
        feature => IsolationState::active(*feature, ""),
    });
    let weak = Isolation::new(states);
    set_isolation(&mut snapshot, 0, weak.clone());
    snapshot.set_isolation(&named("a"), IsolationPolicy::Required);
    assert_eq!(placed(&ask(&snapshot, "a", &small())), ["n1"]);
    assert_eq!(placed(&ask(&snapshot, "b", &spec(2, 1, 1, true))), ["n0", "n1"]);
    let waits = wait(ask(&snapshot, "a", &spec(2, 1, 1, true)));
    assert!(!waits.infeasible, "an administrator can mend it");
    assert_eq!(codes(&waits), ["GangCapacity", "IsolationMissing"]);
    assert_eq!(
        waits.reasons[1].message,
        "1 node has no seccomp, which isolation REQUIRED asks for; on n0: boot Linux 5.10"
    );
    assert_eq!((waits.reasons[1].count, waits.reasons[1].scope.as_str()), (1, "isolation/seccomp"));
    set_isolation(&mut snapshot, 0, Isolation::with(IsolationSet::REQUIRED));
    assert_eq!(placed(&ask(&snapshot, "a", &spec(2, 1, 1, true))), ["n0", "n1"]);
}

#[test]
fn both_checkers_refuse_what_the_choice_must_not_do() {
    let mut snapshot = site(&[true]);
    let (small, empty) = (small(), snapshot.clone());
    let mine = placement(ask(&snapshot, "a", &small));
    let theirs = {
        let mut other = snapshot.clone();
        other.set_node(&node(0), &inventory(4, 0b1111, 0), Gate::default());
        other.hold(&named("a"), &mine);
        placement(ask(&other, "b", &small))
    };
    snapshot.hold(&named("a"), &mine);
    let found = check_placement(&snapshot, &named("b"), &small, &theirs).unwrap_err();
    assert_eq!(found, [Violation::Tenants(node(0))]);
    let need = Need::of(&named("b"), &small, &snapshot);
    let choice = choice_of(snapshot.topology(), &theirs).unwrap();
    let at = snapshot.topology().index(&node(0)).unwrap();
    assert_eq!(prove(&snapshot, &need, &choice).unwrap_err(), [Flaw::Tenants(at)]);
    assert!(check_placement(&empty, &named("b"), &small, &theirs).is_ok());
    let mut strict = empty.clone();
    strict.set_isolation(&named("b"), IsolationPolicy::Required);
    let found = check_placement(&strict, &named("b"), &small, &theirs).unwrap_err();
    assert_eq!(found, [Violation::Isolation { node: node(0), missing: IsolationSet::REQUIRED }]);
    let need = Need::of(&named("b"), &small, &strict);
    assert_eq!(prove(&strict, &need, &choice).unwrap_err(), [Flaw::Isolation(at)]);
}

#[test]
fn a_repair_takes_no_server_of_another_tenant() {
    let mut snapshot = site(&[true, true, true]);
    let gang = placement(ask(&snapshot, "a", &spec(1, 1, 1, true)));
    snapshot.hold(&named("a"), &gang);
    let theirs = placement(ask(&snapshot, "b", &small()));
    snapshot.hold(&named("b"), &theirs);
    let need = Need::of(&named("a"), &spec(1, 1, 1, true), &snapshot);
    let lost = BTreeMap::from([(gang.nodes[0].node.clone(), FailureScope::Node)]);
    let (sources, kept) = (Sources { spares: true, free: true }, crate::NodeSet::default());
    let request = RepairRequest { need: &need, placement: &gang, lost: &lost, sources, kept: &kept };
    let repaired = repair(&snapshot, &mut Placer::default(), &request).unwrap();
    assert_ne!(repaired.placement.nodes[0].node, theirs.nodes[0].node);
    // The proof by itself: the same on the other tenant's server.
    let mut wrong = repaired.clone();
    wrong.placement.nodes[0].node = theirs.nodes[0].node.clone();
    wrong.placement.ranks[0].node = theirs.nodes[0].node.clone();
    wrong.placement.nodes[0].gpus = vec![3];
    wrong.placement.ranks[0].gpus = vec![3];
    let flaws = prove_repair(&snapshot, &request, &wrong).unwrap_err();
    assert!(flaws.iter().any(|flaw| flaw.to_string().contains("another tenant's job")), "{flaws:?}");
    let all = snapshot.clone();
    snapshot.hold(&named("b"), &{
        let third = placement(ask(&all, "b", &spec(1, 4, 4, false)));
        assert_ne!(third.nodes[0].node, theirs.nodes[0].node);
        third
    });
    let reasons = repair(&snapshot, &mut Placer::default(), &request).unwrap_err().reasons;
    assert!(
        reasons.iter().any(|reason| reason.code == ReasonCode::NodeNotShared && reason.count == 2),
        "{reasons:?}"
    );
}

/// Who is where, by the placements alone.
fn shared(running: &[(String, Placement)], apart: &[bool]) -> Option<usize> {
    (0..apart.len()).filter(|at| apart[*at]).find(|at| {
        let here = running.iter().filter(|(_, place)| {
            place.nodes.iter().chain(&place.spares).any(|place| place.node == node(*at))
        });
        let tenants: std::collections::BTreeSet<&String> = here.map(|(who, _)| who).collect();
        tenants.len() > 1
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Jobs of three tenants come and go: no server without a user for each attempt ever has two, whatever is asked; where there
    /// would be room on servers that may be shared or are the tenant's own, the job starts; and the checkers agree.
    #[test]
    fn whoever_comes_and_goes(
        apart in proptest::collection::vec(any::<bool>(), 1..7),
        steps in proptest::collection::vec((0_usize..3, 1_u32..4, 0_u32..5, any::<bool>(), 0_usize..8), 1..40),
    ) {
        let names = ["a", "b", "c"];
        let mut snapshot = site(&apart);
        let mut running: Vec<(String, Placement)> = Vec::new();
        let mut placer = Placer::default();
        for (who, nodes, gpus, spare, gone) in steps {
            if gone < running.len() && gone % 2 == 0 {
                let (who, place) = running.swap_remove(gone);
                snapshot.release(&named(&who), &place);
            }
            let mut job = spec(nodes, gpus, 1, true);
            job.placement.spares = u32::from(spare);
            let need = Need::of(&named(names[who]), &job, &snapshot);
            let fits = (0..apart.len()).filter(|at| {
                let ix = snapshot.topology().index(&node(*at)).unwrap();
                let (free, rails) = snapshot.capacity_index().free(ix);
                let others = running.iter().any(|(other, place)| {
                    other != names[who] && place.nodes.iter().chain(&place.spares).any(|one| one.node == node(*at))
                });
                free.count_ones() >= gpus && !rails.is_empty() && !(apart[*at] && others)
            });
            let room = fits.count();
            match ask(&snapshot, names[who], &job) {
                Decision::Place(place) => {
                    prop_assert_eq!(check_placement(&snapshot, &named(names[who]), &job, &place), Ok(()));
                    let choice = choice_of(snapshot.topology(), &place).unwrap();
                    prop_assert_eq!(prove(&snapshot, &need, &choice), Ok(()));
                    snapshot.hold(&named(names[who]), &place);
                    running.push((names[who].to_owned(), *place));
                }
                Decision::Wait(_) => {
                    let one = nodes == 1 && !spare;
                    prop_assert!(!one || room == 0, "there was room on {} nodes", room);
                }
            }
            prop_assert_eq!(shared(&running, &apart), None);
            // By number as by name, and undone exactly.
            let mut choice = Choice::default();
            let rails = RailNeed::Any(1);
            let any = Need { tenant: Some(named("c")), ..Need::plain(1, 1, rails) };
            if placer.choose(snapshot.capacity_index(), &any, None, &mut choice) {
                let was = snapshot.clone();
                snapshot.hold_choice(&named("c"), &choice);
                snapshot.release_choice(&named("c"), &choice);
                prop_assert!(was == snapshot);
            }
        }
        for (who, place) in running {
            snapshot.release(&named(&who), &place);
        }
        prop_assert!(snapshot == site(&apart));
    }
}
