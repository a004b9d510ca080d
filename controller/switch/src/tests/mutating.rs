//! Faults that are made on purpose are all caught, and what is right in another way is no fault. A bench does the same for a fabric of
//! 1,024 servers.

use proto_profile::QosProfile;

use super::rendering::rich;
use crate::{
    check::{Facts, Verdict, check},
    mutate, read,
    render::{frr, sonic},
    sample::Shape,
    state::BufferModel,
};

#[test]
fn every_fault_is_caught_and_confirmed() {
    let shape = Shape { servers: 8, rails: 4, servers_per_pod: 4, spines: 2, ..Shape::default() };
    let switches = shape.switches().unwrap();
    for (seed, profile) in (0..).zip([QosProfile::default(), rich()]) {
        for model in [BufferModel::Static, BufferModel::Dynamic] {
            let mut facts = Facts::desired(&profile, &switches, model).unwrap();
            let before = facts.clone();
            let outcome = mutate::run(&profile, &switches, &mut facts, seed, 2000).unwrap();
            assert!(outcome.missed.is_empty(), "{}\n{}", outcome.missed.len(), outcome.missed[0]);
            assert_eq!((outcome.made, outcome.caught, outcome.confirmed), (2000, 2000, 2000));
            assert!(facts == before, "something was not taken back");
        }
    }
}

#[test]
fn faults_of_other_right_fabrics_are_caught_too() {
    for seed in 0..150 {
        let variant = mutate::variant(seed).unwrap();
        let switches = variant.shape.switches().unwrap();
        let mut facts = Facts::desired(&variant.profile, &switches, variant.model).unwrap();
        let outcome = mutate::run(&variant.profile, &switches, &mut facts, seed, 20).unwrap();
        assert!(outcome.missed.is_empty(), "{seed}: {}\n{variant:?}", outcome.missed[0]);
    }
}

#[test]
fn what_is_right_in_another_way_is_no_fault() {
    for seed in 0..1000 {
        let variant = mutate::variant(seed).unwrap();
        let switches = variant.shape.switches().unwrap();
        let mut facts = Facts::desired(&variant.profile, &switches, variant.model).unwrap();
        for state in facts.switches.values_mut().take(2) {
            let json = sonic::config_db(state).to_json().unwrap();
            *state = read::sonic(&json, Some(&frr::text(state))).unwrap().state;
        }
        match check(&variant.profile, &switches, &facts).unwrap() {
            Verdict::Proof(proof) => assert!(proof.nics > 0),
            Verdict::Counterexample(found) => panic!("{seed}: {found}\n{variant:?}"),
        }
    }
}
